#include "nanny/node/cache_rules.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	/* limit for the legacy table raw; one rule takes about 250 bytes */
	LEGACY_BYTES = 4 * 1024 * 1024,
	DUMP_BYTES = 32 * 1024, /* largest message of a netlink dump */
};

static const char comment[] = "NodeLocal DNS Cache: skip conntrack", table[] = "raw";

/* The legacy iptables interface of one address family. */
struct legacy {
	int socket; /* -1: the kernel does not support the family */
	FILE *names;
};

struct node_cache_rules {
	struct mnl_socket *netlink;
	struct legacy legacy[2];
};

/* The constants of the legacy interfaces of IPv4 and IPv6. The two interfaces differ only in these
 * numbers. */
static const struct {
	int family, level, get_info, get_entries;
	const char *names;
} families[] = {
	{ AF_INET, IPPROTO_IP, IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES, "/proc/net/ip_tables_names" },
	{ AF_INET6, IPPROTO_IPV6, IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES,
	    "/proc/net/ip6_tables_names" },
};

_Static_assert(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo), "one struct for both");
_Static_assert(offsetof(struct ipt_getinfo, size) == offsetof(struct ip6t_getinfo, size),
    "one struct for both");
_Static_assert(
    offsetof(struct ipt_get_entries, entrytable) == offsetof(struct ip6t_get_entries, entrytable),
    "one struct for both");

static int
count_comments(const void *bytes, size_t len)
{
	const char *at = bytes, *end = at + len;
	int count = 0;

	while ((at = memmem(at, (size_t)(end - at), comment, sizeof comment - 1)) != NULL) {
		at += sizeof comment - 1;
		count++;
	}
	return count;
}

struct node_cache_rules *
node_cache_rules_open(void)
{
	const struct timeval patience = { .tv_sec = 1 }; /* the kernel normally replies at once */
	struct node_cache_rules *rules = xcalloc(1, sizeof *rules);

	for (size_t i = 0; i < 2; i++) {
		rules->legacy[i].socket = socket(families[i].family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		rules->legacy[i].names = fopen(families[i].names, "re");
	}
	rules->netlink = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (rules->netlink != NULL && mnl_socket_bind(rules->netlink, 0, MNL_SOCKET_AUTOPID) == 0 &&
	    setsockopt(mnl_socket_get_fd(rules->netlink), SOL_SOCKET, SO_RCVTIMEO, &patience,
		sizeof patience) == 0)
		return rules;
	log_error("node: netlink socket for node-cache's rules");
	node_cache_rules_close(rules);
	return NULL;
}

void
node_cache_rules_close(struct node_cache_rules *rules)
{
	if (rules == NULL)
		return;
	for (size_t i = 0; i < 2; i++) {
		if (rules->legacy[i].socket >= 0)
			close(rules->legacy[i].socket);
		if (rules->legacy[i].names != NULL)
			fclose(rules->legacy[i].names);
	}
	if (rules->netlink != NULL)
		mnl_socket_close(rules->netlink);
	free(rules);
}

static bool
has_legacy_table(FILE *names)
{
	char line[64];

	if (names == NULL)
		return false;
	rewind(names);
	while (fgets(line, sizeof line, names) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, table) == 0)
			return true;
	}
	return false;
}

/* Returns the number of matching rules, or -errno. */
static int
count_legacy(const struct legacy *legacy, size_t family)
{
	struct ipt_getinfo info = { .size = 0 };
	socklen_t len = sizeof info;
	int count;

	if (legacy->socket < 0 || !has_legacy_table(legacy->names))
		return 0;
	strcpy(info.name, table);
	if (getsockopt(
		legacy->socket, families[family].level, families[family].get_info, &info, &len) < 0)
		return -errno;
	if (info.size > LEGACY_BYTES)
		return -E2BIG;
	len = (socklen_t)(sizeof(struct ipt_get_entries) + info.size);
	struct ipt_get_entries *entries = xcalloc(1, len);
	strcpy(entries->name, table);
	entries->size = info.size;
	/* EAGAIN means that the size of the table changed after the first call. The next check
	 * counts the table again. */
	if (getsockopt(legacy->socket, families[family].level, families[family].get_entries,
		entries, &len) < 0)
		count = -errno;
	else
		count = count_comments(entries->entrytable, info.size);
	free(entries);
	return count;
}

/* Handles one message of a dump. Increments `*data` if the rule has node-cache's comment. */
static int
take_rule(const struct nlmsghdr *header, void *data)
{
	int *count = data;

	*count +=
	    count_comments(mnl_nlmsg_get_payload(header), mnl_nlmsg_get_payload_len(header)) > 0;
	return MNL_CB_OK;
}

/* If the table or chain does not exist, the kernel returns an empty dump or ENOENT. */
static int
count_nft(struct mnl_socket *netlink, int family, const char *chain)
{
	char buffer[DUMP_BYTES];
	struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);
	unsigned port = mnl_socket_get_portid(netlink);
	int count = 0, rc = MNL_CB_OK;
	ssize_t got = 0;

	header->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	struct nfgenmsg *nfnetlink = mnl_nlmsg_put_extra_header(header, sizeof *nfnetlink);
	nfnetlink->nfgen_family = (uint8_t)family;
	mnl_attr_put_strz(header, NFTA_RULE_TABLE, table);
	mnl_attr_put_strz(header, NFTA_RULE_CHAIN, chain);
	if (mnl_socket_sendto(netlink, header, header->nlmsg_len) < 0)
		return -errno;
	while (rc == MNL_CB_OK && (got = mnl_socket_recvfrom(netlink, buffer, sizeof buffer)) > 0)
		rc = mnl_cb_run(buffer, (size_t)got, 0, port, take_rule, &count);
	if (got < 0 || rc < 0)
		return errno == ENOENT ? 0 : -errno;
	return count;
}

int
node_cache_rules_count(struct node_cache_rules *rules)
{
	static const char *const chains[] = { "PREROUTING", "OUTPUT" };
	int total = 0;

	for (size_t i = 0; i < 2; i++) {
		int counts[] = { count_legacy(&rules->legacy[i], i),
			count_nft(rules->netlink, families[i].family, chains[0]),
			count_nft(rules->netlink, families[i].family, chains[1]) };

		for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
			if (counts[k] < 0)
				return counts[k];
			total += counts[k];
		}
	}
	return total;
}
