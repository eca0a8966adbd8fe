#include <ares.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "nanny/servers/cares.h"
#include "lib/clock.h"
#include "lib/conf.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "nanny/servers/stub_hosts.h"

enum { TIMEOUT_MS = 2000, TRIES = 2, EVENTS = 64 };

enum channel { CHANNEL_CLUSTER, CHANNEL_OUTSIDE, CHANNEL_COUNT };

/* A query in flight, which can exist longer than the entry of its name. */
struct lookup {
	struct stub_hosts *names;
	struct entry *entry; /* NULL if the name was removed; the answer is then ignored */
	int family;
};

struct entry {
	struct stub_host name;
	struct lookup *lookups[STUB_HOST_FAMILIES];
};

struct stub_hosts {
	char cluster[CONF_HOST_MAX];
	ares_channel channels[CHANNEL_COUNT];
	struct server servers[CHANNEL_COUNT][CONF_UPSTREAMS_MAX];
	size_t server_count[CHANNEL_COUNT];
	int epoll;
	struct entry **entries; /* sorted by host */
	size_t count;
	enum stub_host_change change;
	int64_t now_ms;
	struct stub_hosts_stats stats;
};

/* c-ares calls this function when a socket must be polled. In the caller's loop, one epoll
 * descriptor represents all sockets of c-ares. */
static void
socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct stub_hosts *names = arg;
	struct epoll_event event = { .data.fd = fd };

	event.events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);
	if (event.events == 0)
		epoll_ctl(names->epoll, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(names->epoll, EPOLL_CTL_MOD, fd, &event) < 0)
		epoll_ctl(names->epoll, EPOLL_CTL_ADD, fd, &event);
}

static char *
servers_csv(const struct server *servers, size_t count)
{
	char *text = xcalloc(count + 1, SERVER_TEXT_MAX + 1), *p = text;

	for (size_t i = 0; i < count; i++) {
		char one[SERVER_TEXT_MAX];

		p += strlen(strcpy(p, i ? "," : ""));
		p += strlen(strcpy(p, server_format(&servers[i], one)));
	}
	return text;
}

/*
 * Opens a c-ares channel. The pod's resolv.conf and hosts file are not used, so that a name
 * resolves to the same addresses everywhere. Sockets are closed when no query is in flight, so that
 * the next query uses another source port.
 */
static void
open_channel(struct stub_hosts *names, enum channel which)
{
	struct ares_options options = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TIMEOUT_MS,
		.tries = TRIES,
		.sock_state_cb = socket_state,
		.sock_state_cb_data = names };
	static char lookups[] = "b";

	options.lookups = lookups;
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB |
		   ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS | ARES_OPT_NDOTS;
	if (cares_init(&names->channels[which], &options, mask) != ARES_SUCCESS)
		log_fatalx("names: c-ares cannot be initialised");
	char *csv = servers_csv(names->servers[which], names->server_count[which]);
	if (*csv && ares_set_servers_ports_csv(names->channels[which], csv) != ARES_SUCCESS)
		log_warnx("names: cannot use the servers %s", csv);
	free(csv);
}

struct stub_hosts *
stub_hosts_new(const char *cluster_domain, const struct server *kubedns)
{
	struct stub_hosts *names = xcalloc(1, sizeof *names);
	const char *why;

	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		log_fatalx("names: c-ares cannot be initialised");
	if ((names->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
		log_fatal("names: epoll");
	if (conf_name_parse(cluster_domain, names->cluster, &why) < 0)
		names->cluster[0] = '\0';
	names->servers[CHANNEL_CLUSTER][0] = *kubedns;
	names->server_count[CHANNEL_CLUSTER] = 1;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		open_channel(names, (enum channel)i);
	return names;
}

static void
entry_free(struct entry *entry)
{
	for (int i = 0; i < STUB_HOST_FAMILIES; i++)
		if (entry->lookups[i] != NULL)
			entry->lookups[i]->entry = NULL;
	free(entry);
}

void
stub_hosts_free(struct stub_hosts *names)
{
	if (names == NULL)
		return;
	for (size_t i = 0; i < names->count; i++)
		entry_free(names->entries[i]);
	names->count = 0;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		ares_destroy(names->channels[i]);
	free(names->entries);
	close(names->epoll);
	ares_library_cleanup();
	free(names);
}

static unsigned
draw_jitter(void)
{
	uint8_t byte = 0;
	ssize_t ignored = getrandom(&byte, 1, 0);

	(void)ignored;
	return byte;
}

static void
raise_change(struct stub_hosts *names, enum stub_host_change change)
{
	if (change > names->change)
		names->change = change;
}

static void
fail(struct stub_hosts *names, struct stub_host *name, int family, const char *error)
{
	bool first = name->family[family].failures == 0;

	names->stats.failures++;
	stub_host_failure(name, family, error, names->now_ms, draw_jitter());
	if (first)
		log_warnx("name %s: %s: %s%s", name->host, family == STUB_HOST_V4 ? "A" : "AAAA",
		    error, name->known_count ? "; keeping the known addresses" : "");
}

static void
take_answer(
    struct stub_hosts *names, struct stub_host *name, int family, const uint8_t *wire, size_t len)
{
	struct addr addrs[STUB_HOST_ADDRS_MAX];
	unsigned ttl_s;
	int count = stub_hosts_parse_reply(wire, len, name->host, family, addrs, &ttl_s);

	if (count < 0) {
		fail(names, name, family, "malformed answer");
		return;
	}
	bool failed = name->family[family].failures > 0;
	names->stats.answers++;
	enum stub_host_change change = stub_host_answer(
	    name, family, addrs, (size_t)count, ttl_s, names->now_ms, draw_jitter());
	if (failed || change != STUB_HOST_SAME)
		log_info("name %s: %s: %d addresses, TTL %u s", name->host,
		    family == STUB_HOST_V4 ? "A" : "AAAA", count, ttl_s);
	raise_change(names, change);
}

static void
answered(void *arg, int status, const uint8_t *wire, size_t len)
{
	struct lookup *lookup = arg;
	struct stub_hosts *names = lookup->names;
	struct entry *entry = lookup->entry;
	int family = lookup->family;

	free(lookup);
	if (entry == NULL)
		return;
	entry->lookups[family] = NULL;
	struct stub_host *name = &entry->name;
	if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED) {
		/* the servers changed, so query the new servers at once */
		name->family[family].pending = false;
		name->family[family].due_ms = names->now_ms;
	} else if (status == ARES_SUCCESS)
		take_answer(names, name, family, wire, len);
	else if (status == ARES_ENODATA) {
		names->stats.answers++;
		raise_change(names, stub_host_answer(name, family, NULL, 0, STUB_HOST_TTL_MAX_S / 5,
					names->now_ms, draw_jitter()));
	} else
		fail(names, name, family, ares_strerror(status));
}

static void
ask(struct stub_hosts *names, struct entry *entry, int family)
{
	struct stub_host *name = &entry->name;
	enum channel which = *names->cluster && conf_name_under(name->host, names->cluster)
				 ? CHANNEL_CLUSTER
				 : CHANNEL_OUTSIDE;

	if (names->server_count[which] == 0) {
		fail(names, name, family, "no server that can resolve it");
		return;
	}
	struct lookup *lookup = xcalloc(1, sizeof *lookup);
	*lookup = (struct lookup){ .names = names, .entry = entry, .family = family };
	entry->lookups[family] = lookup;
	name->family[family].pending = true;
	cares_query(names->channels[which], name->host, family == STUB_HOST_V4 ? TYPE_A : TYPE_AAAA,
	    answered, lookup);
}

void
stub_hosts_set_servers(struct stub_hosts *names, const struct server *servers, size_t count)
{
	bool same = names->server_count[CHANNEL_OUTSIDE] == count;

	for (size_t i = 0; same && i < count; i++)
		same = server_equal(&names->servers[CHANNEL_OUTSIDE][i], &servers[i]);
	if (same)
		return;
	names->server_count[CHANNEL_OUTSIDE] = 0;
	for (size_t i = 0; i < count && i < CONF_UPSTREAMS_MAX; i++)
		names->servers[CHANNEL_OUTSIDE][names->server_count[CHANNEL_OUTSIDE]++] =
		    servers[i];
	ares_destroy(names->channels[CHANNEL_OUTSIDE]);
	open_channel(names, CHANNEL_OUTSIDE);
}

static int
host_order(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t
stub_hosts_set(struct stub_hosts *names, const char *const *hosts, size_t count)
{
	const char **sorted = xcalloc(count + 1, sizeof *sorted);
	struct entry **entries = xcalloc(count + 1, sizeof(void *));
	size_t old = 0, new_count = 0;

	for (size_t i = 0; i < count; i++)
		sorted[i] = hosts[i];
	qsort(sorted, count, sizeof *sorted, host_order);
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && strcmp(sorted[i], sorted[i - 1]) == 0)
			continue;
		while (old < names->count && strcmp(names->entries[old]->name.host, sorted[i]) < 0)
			entry_free(names->entries[old++]);
		if (old < names->count && strcmp(names->entries[old]->name.host, sorted[i]) == 0)
			entries[new_count++] = names->entries[old++];
		else {
			struct entry *entry = entries[new_count++] = xcalloc(1, sizeof *entry);

			stub_host_init(&entry->name, sorted[i], 0);
		}
	}
	while (old < names->count)
		entry_free(names->entries[old++]);
	free(names->entries);
	free(sorted);
	names->entries = entries;
	names->count = new_count;
	return new_count;
}

int
stub_hosts_fd(const struct stub_hosts *names)
{
	return names->epoll;
}

int64_t
stub_hosts_next_ms(const struct stub_hosts *names, int64_t now_ms)
{
	int64_t next = CLOCK_NEVER;

	for (size_t i = 0; i < names->count; i++) {
		int64_t due = stub_host_next_ms(&names->entries[i]->name);

		if (due < next)
			next = due;
	}
	for (int i = 0; i < CHANNEL_COUNT; i++) {
		struct timeval tv, *left = ares_timeout(names->channels[i], NULL, &tv);
		int64_t due = left != NULL ? now_ms + left->tv_sec * 1000 + left->tv_usec / 1000 + 1
					   : CLOCK_NEVER;

		if (due < next)
			next = due;
	}
	return next;
}

/* Lets c-ares read pending answers and handle timeouts. */
static void
run_channels(struct stub_hosts *names)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(names->epoll, events, EVENTS, 0);

	for (int i = 0; i < n; i++) {
		ares_socket_t fd = events[i].data.fd;
		bool in = events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP),
		     out = events[i].events & EPOLLOUT;

		for (int c = 0; c < CHANNEL_COUNT; c++)
			ares_process_fd(names->channels[c], in ? fd : ARES_SOCKET_BAD,
			    out ? fd : ARES_SOCKET_BAD);
	}
	for (int c = 0; c < CHANNEL_COUNT; c++)
		ares_process_fd(names->channels[c], ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

enum stub_host_change
stub_hosts_run(struct stub_hosts *names, int64_t now_ms)
{
	names->now_ms = now_ms;
	run_channels(names);
	for (size_t i = 0; i < names->count; i++) {
		struct entry *entry = names->entries[i];

		raise_change(names, stub_host_expire(&entry->name, now_ms));
		for (int family = 0; family < STUB_HOST_FAMILIES; family++)
			if (!entry->name.family[family].pending &&
			    entry->name.family[family].due_ms <= now_ms)
				ask(names, entry, family);
	}
	enum stub_host_change change = names->change;
	names->change = STUB_HOST_SAME;
	return change;
}

const struct stub_host *
stub_hosts_get(const struct stub_hosts *names, const char *host)
{
	size_t low = 0, high = names->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(names->entries[middle]->name.host, host);

		if (order == 0)
			return &names->entries[middle]->name;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const struct stub_host *
stub_hosts_at(const struct stub_hosts *names, size_t i)
{
	return i < names->count ? &names->entries[i]->name : NULL;
}

struct stub_hosts_stats
stub_hosts_stats(const struct stub_hosts *names)
{
	return names->stats;
}
