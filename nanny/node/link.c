#include "nanny/node/link.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"

enum { MESSAGE_MAX = 512 };

struct node_link {
	char name[IFNAMSIZ];
	struct mnl_socket *ask, *told;
	unsigned seq;
	bool said; /* the current failure has already been logged */
};

static struct mnl_socket *
open_route(unsigned groups)
{
	struct mnl_socket *s =
	    mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK * !!groups);

	if (s != NULL && mnl_socket_bind(s, groups, MNL_SOCKET_AUTOPID) == 0)
		return s;
	log_error("node: netlink socket");
	if (s != NULL)
		mnl_socket_close(s);
	return NULL;
}

struct node_link *
node_link_open(const char *name)
{
	struct node_link *link = xcalloc(1, sizeof *link);

	strncpy(link->name, name, sizeof link->name - 1);
	if ((link->ask = open_route(0)) != NULL &&
	    (link->told = open_route(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)) !=
		NULL)
		return link;
	node_link_close(link);
	return NULL;
}

void
node_link_close(struct node_link *link)
{
	if (link == NULL)
		return;
	if (link->ask != NULL)
		mnl_socket_close(link->ask);
	if (link->told != NULL)
		mnl_socket_close(link->told);
	free(link);
}

int
node_link_fd(const struct node_link *link)
{
	return mnl_socket_get_fd(link->told);
}

bool
node_link_read(struct node_link *link)
{
	char buffer[8192];
	bool changed = false;
	ssize_t got;

	while ((got = mnl_socket_recvfrom(link->told, buffer, sizeof buffer)) != 0) {
		/* ENOBUFS means that events were lost, so check everything */
		if (got < 0 && errno != ENOBUFS)
			break;
		changed = true;
	}
	return changed;
}

/* Sends a request and reads the kernel's reply, which is immediate. Returns 0 or -errno. */
static int
request(struct node_link *link, struct nlmsghdr *message)
{
	char buffer[8192];
	ssize_t got;

	message->nlmsg_seq = ++link->seq;
	message->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (mnl_socket_sendto(link->ask, message, message->nlmsg_len) < 0 ||
	    (got = mnl_socket_recvfrom(link->ask, buffer, sizeof buffer)) < 0)
		return -errno;
	return mnl_cb_run(
		   buffer, (size_t)got, link->seq, mnl_socket_get_portid(link->ask), NULL, NULL) < 0
		   ? -errno
		   : 0;
}

static int
make_interface(struct node_link *link, const char *kind)
{
	char buffer[MESSAGE_MAX];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	message->nlmsg_type = RTM_NEWLINK;
	message->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	mnl_nlmsg_put_extra_header(message, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(message, IFLA_IFNAME, link->name);
	struct nlattr *info = mnl_attr_nest_start(message, IFLA_LINKINFO);
	mnl_attr_put_str(message, IFLA_INFO_KIND, kind);
	mnl_attr_nest_end(message, info);
	return request(link, message);
}

static int
set_up(struct node_link *link, unsigned index)
{
	char buffer[MESSAGE_MAX];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	message->nlmsg_type = RTM_NEWLINK;
	struct ifinfomsg *head = mnl_nlmsg_put_extra_header(message, sizeof *head);
	head->ifi_index = (int)index;
	head->ifi_flags = head->ifi_change = IFF_UP;
	return request(link, message);
}

static int
add_address(struct node_link *link, unsigned index, const struct addr *addr)
{
	char buffer[MESSAGE_MAX];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	message->nlmsg_type = RTM_NEWADDR;
	message->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	struct ifaddrmsg *head = mnl_nlmsg_put_extra_header(message, sizeof *head);
	head->ifa_family = addr->family;
	head->ifa_prefixlen = (uint8_t)(8 * addr_len(addr));
	head->ifa_index = index;
	/* No other host is on this link, so skip duplicate address detection. */
	head->ifa_flags = addr->family == AF_INET6 ? IFA_F_NODAD : 0;
	mnl_attr_put(message, IFA_LOCAL, addr_len(addr), addr->bytes);
	mnl_attr_put(message, IFA_ADDRESS, addr_len(addr), addr->bytes);
	int rc = request(link, message);
	return rc == -EEXIST ? 0 : rc;
}

static int
ensure(struct node_link *link, const struct addr *const *addresses, size_t count)
{
	unsigned index = if_nametoindex(link->name);
	int rc = 0;

	if (index == 0) {
		rc = make_interface(link, "dummy");
		if (rc == -EOPNOTSUPP)
			rc = make_interface(link, "bridge");
		if (rc < 0 && rc != -EEXIST)
			return rc;
		if ((index = if_nametoindex(link->name)) == 0)
			return -errno;
		log_info("node: interface %s: created", link->name);
	}
	rc = set_up(link, index);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = add_address(link, index, addresses[i]);
	return rc;
}

int
node_link_ensure(struct node_link *link, const struct addr *const *addresses, size_t count)
{
	int rc = ensure(link, addresses, count);

	if (rc < 0 && !link->said)
		log_errorx("node: interface %s: %s%s", link->name, strerror(-rc),
		    rc == -EPERM ? ": the container needs the capability NET_ADMIN" : "");
	link->said = rc < 0;
	return rc;
}
