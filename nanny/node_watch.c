#include "nanny/node_watch.h"

#include <arpa/inet.h>
#include <errno.h>
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
#include "nanny/nft.h"
#include "nanny/node_link.h"
#include "nanny/node_rules.h"
#include "nanny/options.h"
#include "nanny/privileges.h"

enum slot { FD_WORDS, FD_LINK, FD_DNSMASQ, FD_KUBEDNS, FD_COUNT = FD_KUBEDNS + NODE_ADDRESSES_MAX };

/* A server that is probed. */
struct asked {
	int fd;
	uint16_t id;
	int64_t answered_ms; /* 0: not yet, or it has refused */
};

struct node_watch {
	struct node_report *report;
	struct node_link *link;
	struct nft *nft;
	char table[32];
	struct node_address addresses[NODE_ADDRESSES_MAX];
	size_t count;
	struct asked kubedns[NODE_ADDRESSES_MAX], dnsmasq;
	struct dname question, version;
	int64_t next_probe_ms, next_ensure_ms;
	int64_t up_ms; /* when the rules were put in force the last time */
	bool owner;    /* the kernel has tables that end with their process */
	bool made, up, draining, said;
};

/* --- asking --- */

/* On a connected socket the kernel reports at once that nobody listens at the port. */
static int
open_asker(const struct server *from, const struct server *to, uint16_t *port)
{
	struct sockaddr_storage ss;
	socklen_t len;
	struct server bound = *to;
	char text[SERVER_TEXT_MAX];
	int fd = socket(to->addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && from != NULL) {
		len = server_sockaddr(from, &ss);
		if (bind(fd, (struct sockaddr *)&ss, len) < 0)
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

static void
ask(struct asked *asked, const struct dname *name, uint16_t class)
{
	uint8_t wire[512];
	if (getrandom(&asked->id, sizeof asked->id, 0) != sizeof asked->id)
		return;
	size_t len = query_write(wire, sizeof wire, asked->id, name->wire, TYPE_TXT, class, 0);
	if (send(asked->fd, wire, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED)
		asked->answered_ms = 0;
}

/* Only an answer without an error counts: before its first sync kubedns answers SERVFAIL. */
static void
read_answers(struct asked *asked, int64_t now_ms)
{
	uint8_t wire[4096];
	ssize_t got;
	while ((got = recv(asked->fd, wire, sizeof wire, MSG_DONTWAIT)) >= 0 ||
	       errno == ECONNREFUSED) {
		uint16_t id;
		if (got < 0) {
			asked->answered_ms = 0;
			continue;
		}
		memcpy(&id, wire, sizeof id);
		if (got >= DNS_HEADER && ntohs(id) == asked->id && (wire[3] & 0xf) == 0)
			asked->answered_ms = now_ms;
	}
}

static bool
answers(const struct asked *asked, int64_t now_ms)
{
	return asked->answered_ms != 0 && now_ms - asked->answered_ms < NODE_PATIENCE_MS;
}

/* --- rules --- */

static int
run_commands(struct node_watch *w, char *commands)
{
	const char *why = "";
	int rc = nft_run(w->nft, commands, &why);
	w->report->rule_errors += rc < 0;
	if (rc < 0 && !w->said)
		log_errorx("node: rules of table inet %s: %s", w->table, why);
	w->said = rc < 0;
	free(commands);
	return rc;
}

static int
make_table(struct node_watch *w)
{
	char *commands = node_rules_make(w->table, true);
	int rc = nft_run(w->nft, commands, NULL);
	free(commands);
	w->owner = rc == 0;
	if (rc == 0)
		return 0;
	/* Linux before 5.12. The name is fixed, so that what a killed process has left is found. */
	strcpy(w->table, "kubedns-node");
	if ((rc = run_commands(w, node_rules_make(w->table, false))) == 0)
		log_warnx(
		    "node: this kernel has no tables that end with their process: after a SIGKILL "
		    "table inet %s stays, without effect after %d s, until the next start",
		    w->table, NODE_RULES_ALIVE_S);
	return rc;
}

/* True if these rules are there now. */
static bool
set_rules(struct node_watch *w, bool up)
{
	if (!w->made && make_table(w) < 0)
		return false;
	w->made =
	    run_commands(w, up ? node_rules_up(w->table, w->addresses, w->count, w->owner)
			       : node_rules_down(w->table, w->addresses, w->count, w->owner)) == 0;
	return w->made;
}

/* The rules direct clients here from the first answer after they were put in force, which puts the
 * addresses in @alive. */
static void
report_up(struct node_watch *w)
{
	bool all = w->up;
	for (size_t i = 0; i < w->count; i++)
		all &= w->kubedns[i].answered_ms > w->up_ms;
	w->report->up = all;
}

static void
judge(struct node_watch *w, int64_t now_ms)
{
	char text[ADDR_TEXT_MAX + 64];
	const char *why = "kubedns and dnsmasq answer";
	bool well = !w->draining && answers(&w->dnsmasq, now_ms);
	if (!well)
		why = w->draining ? "stopping" : "dnsmasq does not answer";
	for (size_t i = 0; i < w->count && well; i++)
		if (!answers(&w->kubedns[i], now_ms)) {
			char address[ADDR_TEXT_MAX];
			snprintf(text, sizeof text, "kubedns does not answer at %s",
			    addr_format(&w->addresses[i].addr, address));
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

/* --- life --- */

static int
ensure(struct node_watch *w)
{
	const struct addr *all[NODE_ADDRESSES_MAX];
	for (size_t i = 0; i < w->count; i++)
		all[i] = &w->addresses[i].addr;
	int rc = node_link_ensure(w->link, all, w->count);
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

/* Two pods may be there during an update: each has a table of its own. */
static void
name_table(struct node_watch *w)
{
	uint32_t random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		log_fatal("node: random bytes");
	snprintf(w->table, sizeof w->table, "kubedns-node-%08x", random);
}

struct node_watch *
node_watch_new(const struct options *options, enum sandbox_mode mode, struct node_report *report)
{
	struct node_watch *w = xcalloc(1, sizeof *w);
	w->report = report;
	w->dnsmasq.fd = -1;
	for (size_t i = 0; i < NODE_ADDRESSES_MAX; i++)
		w->kubedns[i].fd = -1;
	name_questions(w, options);
	name_table(w);
	w->count = options->node_address_count;
	for (size_t i = 0; i < w->count; i++)
		w->addresses[i].addr = options->node_addresses[i];
	if ((w->link = node_link_open(options->node_interface)) == NULL || ensure(w) < 0 ||
	    (w->nft = nft_open()) == NULL)
		goto failed;
	for (size_t i = 0; i < w->count; i++) {
		struct server from = { .addr = w->addresses[i].addr }, to = from;
		to.port = DNS_PORT;
		w->kubedns[i].fd = open_asker(&from, &to, &w->addresses[i].probe_port);
		if (w->kubedns[i].fd < 0)
			goto failed;
	}
	if (mode != SANDBOX_OFF)
		sandbox_empty_bounding_set(SANDBOX_KEEP_NET_ADMIN);
	if (privileges_keep_net_admin() < 0)
		goto failed;
	sandbox_enter(sandbox_new(mode), SANDBOX_KEEP_NET_ADMIN);
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
	node_link_close(w->link);
	for (size_t i = 0; i < NODE_ADDRESSES_MAX; i++)
		if (w->kubedns[i].fd >= 0)
			close(w->kubedns[i].fd);
	if (w->dnsmasq.fd >= 0)
		close(w->dnsmasq.fd);
	free(w);
}

static void
run_timers(struct node_watch *w, int64_t now_ms)
{
	if (now_ms >= w->next_ensure_ms) {
		ensure(w);
		w->next_ensure_ms = now_ms + NODE_ENSURE_MS;
	}
	if (now_ms < w->next_probe_ms)
		return;
	w->next_probe_ms = now_ms + NODE_PROBE_MS;
	for (size_t i = 0; i < w->count; i++)
		ask(&w->kubedns[i], &w->question, CLASS_IN);
	ask(&w->dnsmasq, &w->version, CLASS_CH);
}

/* False when the nanny is gone. */
static bool
read_words(struct node_watch *w, int words)
{
	char word;
	ssize_t got = read(words, &word, 1);
	w->draining |= got == 1;
	return got > 0 || (got < 0 && errno == EINTR);
}

void
node_watch_run(struct node_watch *w, const struct server *dnsmasq, int words)
{
	uint16_t ignored;
	if ((w->dnsmasq.fd = open_asker(NULL, dnsmasq, &ignored)) < 0)
		return;
	for (;;) {
		struct pollfd fds[FD_COUNT] = { [FD_WORDS] = { .fd = words },
			[FD_LINK] = { .fd = node_link_fd(w->link) },
			[FD_DNSMASQ] = { .fd = w->dnsmasq.fd } };
		for (size_t i = 0; i < NODE_ADDRESSES_MAX; i++)
			fds[FD_KUBEDNS + i].fd = w->kubedns[i].fd;
		for (size_t i = 0; i < FD_COUNT; i++)
			fds[i].events = POLLIN;
		int64_t wait = w->next_probe_ms - clock_mono_ms();
		if (poll(fds, FD_COUNT, wait > 0 ? (int)wait : 0) < 0 && errno != EINTR)
			log_fatal("node: poll");
		int64_t now_ms = clock_mono_ms();
		if (fds[FD_WORDS].revents != 0 && !read_words(w, words))
			return;
		if (fds[FD_LINK].revents != 0 && node_link_read(w->link))
			w->next_ensure_ms = now_ms;
		read_answers(&w->dnsmasq, now_ms);
		for (size_t i = 0; i < w->count; i++)
			read_answers(&w->kubedns[i], now_ms);
		run_timers(w, now_ms);
		judge(w, now_ms);
	}
}
