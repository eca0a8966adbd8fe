#include "nanny/node/watch.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "nanny/confine.h"
#include "nanny/node/nft.h"
#include "nanny/node/alarm.h"
#include "nanny/node/cache_rules.h"
#include "nanny/node/link.h"
#include "nanny/node/probe.h"
#include "nanny/node/rules.h"
#include "nanny/options.h"
#include "nanny/privileges.h"

enum slot {
	FD_WORDS,
	FD_LINK,
	FD_CONNECTIONS,
	FD_DNSMASQ,
	FD_KUBEDNS,
	FD_ALARM = FD_KUBEDNS + NODE_ADDRESSES_MAX,
	FD_COUNT = FD_ALARM + NODE_ADDRESSES_MAX
};

enum { PORT_TRIES = 16 };

/* The state of a count of the connections in @here. Address families are counted one after the
 * other. */
struct counting {
	bool running;
	enum node_family family;
	int64_t begun_ms, next_ms, next_read_ms;
	/* last counter values; the kernel's counters are reset with the table */
	uint64_t crowd, full;
};

struct node_watch {
	struct node_report *report;
	struct node_link *link;
	struct node_cache_rules *node_cache;
	struct nft *nft;
	struct node_rules rules;
	struct node_alarm alarms[NODE_ADDRESSES_MAX];
	struct counting counting;
	struct node_probe kubedns[NODE_ADDRESSES_MAX], dnsmasq;
	struct dname question, version;
	int64_t next_probe_ms, next_ensure_ms, next_node_cache_ms;
	int64_t up_ms, set_ms; /* when the rules were last put in force, and last replaced */
	bool made, up, hiding, draining, said;
	bool said_node_cache; /* the failure to read node-cache's rules has been logged */
};

/* --- probing --- */

/* Opens a connected UDP socket. If no process listens at the port, the kernel reports this at once
 * on a connected socket. */
static int
open_asker(const struct server *from, const struct server *to, uint16_t *port)
{
	struct sockaddr_storage ss;
	socklen_t len;
	struct server bound = *to;
	char text[SERVER_TEXT_MAX];
	int fd = socket(to->addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && from != NULL) {
		bool v6 = from->addr.family == AF_INET6;

		len = server_sockaddr(from, &ss);
		if (bind(fd, (struct sockaddr *)&ss, len) < 0 ||
		    setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_UNICAST_HOPS : IP_TTL,
			&(int){ NODE_PROBE_HOPS }, sizeof(int)) < 0)
			goto failed;
	}
	len = server_sockaddr(to, &ss);
	if (fd < 0 || connect(fd, (struct sockaddr *)&ss, len) < 0)
		goto failed;
	len = sizeof ss;
	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		server_from_sockaddr((struct sockaddr *)&ss, &bound);
	*port = bound.port;
	return fd;
failed:
	log_error("node: socket to %s", server_format(to, text));
	if (fd >= 0)
		close(fd);
	return -1;
}

/*
 * Opens the sockets that probe kubedns at one address. The UDP and the TCP socket use the same
 * port, by which the rules identify probes. If the port is not free for TCP, another port is tried.
 */
static int
open_kubedns(struct node_watch *w, size_t i)
{
	struct server from = { .addr = w->rules.addresses[i].addr }, to = from;

	to.port = DNS_PORT;
	for (int tries = 0; tries < PORT_TRIES; tries++) {
		int fd = open_asker(&from, &to, &from.port);

		if (fd < 0)
			return -1;
		if (node_alarm_open(&w->alarms[i], &from, &to, NODE_PROBE_HOPS) == 0) {
			w->kubedns[i].fd = fd;
			w->rules.addresses[i].probe_port = from.port;
			return 0;
		}
		close(fd);
		from.port = 0;
	}
	log_errorx("node: no port is free for both UDP and TCP");
	return -1;
}

/* --- rules --- */

static int
commit(struct node_watch *w, struct nft_batch *batch)
{
	int rc = nft_commit(w->nft, batch);

	w->report->rule_errors += rc < 0;
	if (rc < 0 && !w->said)
		log_errorx("node: rules of table inet %s: %s", w->rules.table, strerror(-rc));
	w->said = rc < 0;
	return rc;
}

/* Gives the table a random name. During an update, two pods may be on the node, and each pod has
 * its own table. */
static void
name_table(struct node_watch *w)
{
	uint32_t random;

	if (getrandom(&random, sizeof random, 0) != sizeof random)
		log_fatal("node: random bytes");
	snprintf(w->rules.table, sizeof w->rules.table, "kubedns-node-%08x", random);
}

/* Creates the table with the first combination of features that the kernel accepts. */
static int
make_table(struct node_watch *w)
{
	static const struct {
		bool owner, fib;
	} kernels[] = { { true, true }, { true, false }, { false, true }, { false, false } };

	enum { COUNT = sizeof kernels / sizeof *kernels };
	int rc = -1;
	for (size_t i = 0; i < COUNT && rc < 0; i++) {
		w->rules.owner = kernels[i].owner;
		w->rules.fib = kernels[i].fib;
		if (w->rules.owner)
			name_table(w);
		else /* a fixed name, so that a table left by a killed process is found */
			strcpy(w->rules.table, "kubedns-node");
		rc = i + 1 < COUNT ? nft_commit(w->nft, node_rules_make(&w->rules))
				   : commit(w, node_rules_make(&w->rules));
	}
	if (rc == 0 && !w->rules.owner)
		log_warnx("node: this kernel cannot remove a table when its process exits: after a "
			  "SIGKILL, table inet %s has no effect after %d s, and stays until the "
			  "next start",
		    w->rules.table, NODE_RULES_ALIVE_S);
	if (rc == 0 && !w->rules.fib)
		log_warnx("node: this kernel's nf_tables has no fib: if the interface is deleted, "
			  "queries are lost until it is created again");
	w->counting.crowd = w->counting.full = 0;
	return rc;
}

/* Replaces the rules. Returns true if the new rules are in force. */
static bool
set_rules(struct node_watch *w, bool up)
{
	if (!w->made && make_table(w) < 0)
		return false;
	w->made = commit(w, node_rules_replace(&w->rules, up, true)) == 0;
	w->hiding = w->made;
	w->set_ms = clock_mono_ms();
	return w->made;
}

/* Stops dropping refusals after NODE_HIDE_MS. If only this node serves an address, its clients then
 * fail at once instead of timing out. */
static void
show_refusals(struct node_watch *w, int64_t now_ms)
{
	if (w->made && w->hiding && !w->up && now_ms - w->set_ms >= NODE_HIDE_MS) {
		w->made = commit(w, node_rules_replace(&w->rules, false, false)) == 0;
		w->hiding = false;
	}
}

/* --- counting connections --- */

static void
read_counter(struct node_watch *w, const char *name, uint64_t *before, _Atomic uint64_t *report)
{
	uint64_t packets;

	if (nft_read_counter(w->nft, w->rules.table, name, &packets) == 0 && packets > *before) {
		*report += packets - *before;
		*before = packets;
	}
}

static void
count_family(struct node_watch *w, enum node_family family, int64_t now_ms)
{
	int version = family == NODE_IPV4 ? AF_INET : AF_INET6;
	struct counting *c = &w->counting;

	c->family = family;
	c->running = family < NODE_FAMILIES &&
		     nft_count_begin(w->nft, w->rules.table, NODE_RULES_HERE(version)) == 0;
	if (!c->running && now_ms - c->begun_ms > NODE_COUNT_MS / NODE_COUNT_SHARE)
		c->next_ms = now_ms + (now_ms - c->begun_ms) * NODE_COUNT_SHARE;
}

static void
begin_counting(struct node_watch *w, int64_t now_ms)
{
	struct counting *c = &w->counting;

	if (w->made && now_ms >= c->next_read_ms) {
		c->next_read_ms = now_ms + NODE_COUNT_MS;
		read_counter(w, NODE_RULES_CROWD, &c->crowd, &w->report->crowd);
		read_counter(w, NODE_RULES_FULL, &c->full, &w->report->full);
	}
	if (w->made && !c->running && now_ms >= c->next_ms) {
		c->begun_ms = now_ms;
		c->next_ms = now_ms + NODE_COUNT_MS;
		count_family(w, NODE_IPV4, now_ms);
	}
}

static void
go_on_counting(struct node_watch *w, int64_t now_ms)
{
	unsigned elements;
	int rc = nft_count_read(w->nft, &elements);

	if (rc == 0)
		return;
	if (rc > 0)
		w->report->connections[w->counting.family] = elements;
	count_family(w, w->counting.family + 1, now_ms);
}

/*
 * Reports whether the rules direct clients to this node. The rules do so from the first answer to a
 * probe after they were put in force, because this answer adds the address to @alive. All addresses
 * must have such an answer.
 */
static void
report_up(struct node_watch *w)
{
	bool all = w->up;

	for (size_t i = 0; i < w->rules.count; i++)
		all &= w->kubedns[i].answered_ms > w->up_ms;
	w->report->up = all;
}

static void
judge(struct node_watch *w, int64_t now_ms)
{
	char text[ADDR_TEXT_MAX + 64];
	const char *why = "kubedns and dnsmasq answer";
	bool well = !w->draining && node_probe_alive(&w->dnsmasq, now_ms);

	if (!well)
		why = w->draining ? "stopping" : "dnsmasq does not answer";
	for (size_t i = 0; i < w->rules.count && well; i++)
		if (!node_probe_alive(&w->kubedns[i], now_ms)) {
			char address[ADDR_TEXT_MAX];

			snprintf(text, sizeof text, "kubedns does not answer at %s",
			    addr_format(&w->rules.addresses[i].addr, address));
			why = text;
			well = false;
		}
	if (well == w->up && w->made) {
		report_up(w);
		return;
	}
	bool was_made = w->made;
	if (set_rules(w, well) && (was_made || well)) {
		w->up = well;
		w->up_ms = now_ms;
		w->next_probe_ms = now_ms + 1;
		report_up(w);
		(*(well ? &w->report->ups : &w->report->downs))++;
		log_info("node: rules %s: %s", well ? "in force" : "taken down", why);
	}
}

/* --- life cycle --- */

static int
ensure(struct node_watch *w)
{
	const struct addr *all[NODE_ADDRESSES_MAX];

	for (size_t i = 0; i < w->rules.count; i++)
		all[i] = &w->rules.addresses[i].addr;
	int rc = node_link_ensure(w->link, all, w->rules.count);
	w->report->link_errors += rc < 0;
	return rc;
}

static void
name_questions(struct node_watch *w, const struct options *options)
{
	char *name = xasprintf("dns-version.%s", options->domain);

	dname_from_text(&w->question, name);
	dname_from_text(&w->version, "version.bind");
	free(name);
}

struct node_watch *
node_watch_new(const struct options *options, enum sandbox_mode mode, struct node_report *report)
{
	struct node_watch *w = xcalloc(1, sizeof *w);

	w->report = report;
	w->dnsmasq.fd = -1;
	for (size_t i = 0; i < NODE_ADDRESSES_MAX; i++)
		w->kubedns[i].fd = w->alarms[i].fd = -1;
	name_questions(w, options);
	w->rules.count = options->node_address_count;
	for (size_t i = 0; i < w->rules.count; i++)
		w->rules.addresses[i].addr = options->node_addresses[i];
	if ((w->link = node_link_open(options->node_interface)) == NULL || ensure(w) < 0 ||
	    (w->nft = nft_open()) == NULL || (w->node_cache = node_cache_rules_open()) == NULL)
		goto failed;
	for (size_t i = 0; i < w->rules.count; i++)
		if (open_kubedns(w, i) < 0)
			goto failed;
	if (mode != SANDBOX_OFF)
		sandbox_empty_bounding_set(SANDBOX_KEEP_NET_ADMIN);
	if (privileges_keep_net_admin() < 0)
		goto failed;
	struct sandbox *sandbox = sandbox_new(mode);
	sandbox_connect(sandbox, DNS_PORT);
	sandbox_enter(sandbox, SANDBOX_KEEP_NET_ADMIN);
	return w;
failed:
	node_watch_free(w);
	return NULL;
}

void
node_watch_free(struct node_watch *w)
{
	if (w == NULL)
		return;
	nft_close(w->nft);
	node_cache_rules_close(w->node_cache);
	node_link_close(w->link);
	for (size_t i = 0; i < NODE_ADDRESSES_MAX; i++) {
		if (w->kubedns[i].fd >= 0)
			close(w->kubedns[i].fd);
		node_alarm_close(&w->alarms[i]);
	}
	if (w->dnsmasq.fd >= 0)
		close(w->dnsmasq.fd);
	free(w);
}

static void
look_for_node_cache(struct node_watch *w)
{
	int before = w->report->node_cache_rules, count = node_cache_rules_count(w->node_cache);

	if (count < 0) {
		errno = -count;
		if (!w->said_node_cache)
			log_warn("node: cannot look for rules of NodeLocal DNSCache");
		w->said_node_cache = true;
		return;
	}
	w->said_node_cache = false;
	w->report->node_cache_rules = count;
	if (count > 0 && before == 0)
		log_warnx(
		    "node: %d NOTRACK rules of NodeLocal DNSCache are on this node: with them, "
		    "pods get no answers while kubedns is down: remove them when node-local-dns "
		    "is gone (docs/node.md, \"Left-over rules of node-cache\")",
		    count);
	else if (count == 0 && before > 0)
		log_info("node: the NOTRACK rules of NodeLocal DNSCache are gone");
}

static void
run_timers(struct node_watch *w, int64_t now_ms)
{
	if (now_ms >= w->next_node_cache_ms) {
		look_for_node_cache(w);
		w->next_node_cache_ms = now_ms + NODE_CACHE_LOOK_MS;
	}
	if (now_ms >= w->next_ensure_ms) {
		ensure(w);
		w->next_ensure_ms = now_ms + NODE_ENSURE_MS;
	}
	if (now_ms < w->next_probe_ms)
		return;
	w->next_probe_ms = now_ms + NODE_PROBE_MS;
	for (size_t i = 0; i < w->rules.count; i++) {
		node_probe_send(&w->kubedns[i], &w->question, CLASS_IN, now_ms);
		if (w->kubedns[i].doubts > 0)
			w->next_probe_ms = now_ms + NODE_DOUBT_MS;
		if (w->made)
			node_alarm_connect(&w->alarms[i], now_ms);
	}
	node_probe_send(&w->dnsmasq, &w->version, CLASS_CH, now_ms);
	begin_counting(w, now_ms);
}

/* Handles an alarm. Either kubedns died, or kubedns only closed an idle connection. Further probes
 * show which of the two happened. */
static void
heed_alarm(struct node_watch *w, size_t i, int64_t now_ms)
{
	node_probe_doubt(&w->kubedns[i]);
	w->next_probe_ms = now_ms;
	node_alarm_ended(&w->alarms[i], now_ms);
}

/* Reads the pipe from the nanny. Returns false when the nanny has ended. */
static bool
read_words(struct node_watch *w, int words)
{
	char word;
	ssize_t got = read(words, &word, 1);

	w->draining |= got == 1;
	return got > 0 || (got < 0 && errno == EINTR);
}

static void
fill_slots(const struct node_watch *w, int words, struct pollfd fds[FD_COUNT])
{
	fds[FD_WORDS].fd = words;
	fds[FD_LINK].fd = node_link_fd(w->link);
	fds[FD_CONNECTIONS].fd = w->counting.running ? nft_count_fd(w->nft) : -1;
	fds[FD_DNSMASQ].fd = w->dnsmasq.fd;
	for (size_t i = 0; i < NODE_ADDRESSES_MAX; i++) {
		fds[FD_KUBEDNS + i].fd = w->kubedns[i].fd;
		fds[FD_ALARM + i].fd = node_alarm_fd(&w->alarms[i]);
	}
	for (size_t i = 0; i < FD_COUNT; i++) {
		fds[i].events = POLLIN;
		fds[i].revents = 0;
	}
}

void
node_watch_run(struct node_watch *w, const struct server *dnsmasq, int words)
{
	uint16_t ignored;

	if ((w->dnsmasq.fd = open_asker(NULL, dnsmasq, &ignored)) < 0)
		return;
	/* create the table before the first probe, so that kube-proxy's rules see none of the
	 * probes */
	set_rules(w, false);
	for (;;) {
		struct pollfd fds[FD_COUNT];

		fill_slots(w, words, fds);
		int64_t now_ms = clock_mono_ms();
		if (poll(fds, FD_COUNT, clock_wait_ms(w->next_probe_ms, now_ms)) < 0 &&
		    errno != EINTR)
			log_fatal("node: poll");
		now_ms = clock_mono_ms();
		if (fds[FD_WORDS].revents != 0 && !read_words(w, words))
			return;
		if (fds[FD_LINK].revents != 0 && node_link_read(w->link))
			w->next_ensure_ms = now_ms;
		if (fds[FD_CONNECTIONS].revents != 0)
			go_on_counting(w, now_ms);
		uint64_t answers = w->dnsmasq.answers;
		node_probe_read(&w->dnsmasq, now_ms);
		w->report->dnsmasq_answers += w->dnsmasq.answers - answers;
		for (size_t i = 0; i < w->rules.count; i++) {
			node_probe_read(&w->kubedns[i], now_ms);
			if (fds[FD_ALARM + i].revents != 0)
				heed_alarm(w, i, now_ms);
		}
		run_timers(w, now_ms);
		judge(w, now_ms);
		show_refusals(w, now_ms);
		w->report->seen_ms = now_ms;
	}
}
