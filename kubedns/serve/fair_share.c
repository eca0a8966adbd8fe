#include "kubedns/serve/fair_share.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	SAMPLE = 4, /* one packet of this many is counted */
	/* After this number of samples, the first window ends early, because the queue is full. */
	FIRST_COUNT = 64,
	HEAVY_PART = 16, /* a client is heavy if it sends more than 1/16 of all packets */
	/* Measuring ends after this number of windows without a client to limit. */
	QUIET_WINDOWS = 50,
};
static const int64_t window_ns = 20 * INT64_C(1000000);
static const int64_t patience_ns = 4 * INT64_C(1000000);
static const double headroom = 0.9; /* part of the capacity that the clients share */
static const double catch_up = 0.5; /* used instead of `headroom` while a queue is half full */
/* This share of a client's packets always passes, so that the client's demand can be measured. */
static const double least_share = 0.001;
/* A demand decreases at most to this part in each window, because an attack may only pause. */
static const double decay = 0.8;

/* A heavy client, and the number of its packets in a window. Packets that the filter dropped are included. */
struct demand {
	struct addr addr;
	double packets;
};

struct fair_share {
	struct worker_context *context;
	struct udp_socket sockets[UDP_SOCKETS_MAX];
	size_t socket_count;

	bool behind;              /* a queue was half full in this window */
	int64_t behind_ns;        /* time since which a queue was half full */
	size_t behind_socket;     /* socket of that queue */
	uint32_t behind_bytes;    /* bytes that were in that queue */
	double rate;              /* packets answered in a nanosecond of work */
	unsigned quiet;           /* number of windows without a client to limit */
	int64_t start_ns;         /* start of the window */
	int64_t busy_ns, idle_ns; /* time in the window spent on UDP, and time spent waiting */
	uint64_t packets;         /* packets in the window */
	unsigned phase;           /* index of the next sample in a batch */
	uint64_t drops;           /* packets dropped by the kernel so far */
	struct heavy_hitters hitters;
	/* The demands of the clients in `limited`. */
	struct demand demands[SOCKET_FILTER_MAX];

	pthread_mutex_t lock; /* protects the following members from readers in other threads */
	size_t limited_count;
	struct client_share limited[SOCKET_FILTER_MAX];
};

/* --- the addresses that send most --- */

void
heavy_hitters_add(struct heavy_hitters *hitters, const struct sockaddr *from)
{
	const bool v4 = from->sa_family == AF_INET;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;
	struct addr addr = { .family = v4 ? AF_INET : AF_INET6 };

	if (v4)
		memcpy(addr.bytes, &in->sin_addr, sizeof in->sin_addr);
	else
		memcpy(addr.bytes, &in6->sin6_addr, sizeof in6->sin6_addr);

	struct hitter *least = &hitters->entries[0];
	hitters->total++;
	for (unsigned i = 0; i < hitters->used; i++) {
		struct hitter *entry = &hitters->entries[i];

		if (memcmp(&entry->addr, &addr, sizeof addr) == 0) {
			entry->count++;
			return;
		}
		if (entry->count < least->count)
			least = entry;
	}
	if (hitters->used < HITTERS) {
		hitters->entries[hitters->used++] = (struct hitter){ addr, 1, 0 };
		return;
	}
	*least = (struct hitter){ addr, least->count + 1, least->count };
}

/* --- shares --- */

struct fair_share *
fair_share_new(struct worker_context *context, const struct udp_socket *sockets, size_t count)
{
	struct fair_share *fair = xcalloc(1, sizeof *fair);

	fair->context = context;
	fair->socket_count = count;
	memcpy(fair->sockets, sockets, count * sizeof *sockets);
	pthread_mutex_init(&fair->lock, NULL);
	return fair;
}

static bool
read_meminfo(const struct fair_share *fair, size_t socket, uint32_t info[SK_MEMINFO_VARS])
{
	socklen_t len = SK_MEMINFO_VARS * sizeof *info;

	memset(info, 0, len);
	return getsockopt(fair->sockets[socket].fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0;
}

static uint64_t
kernel_drops(const struct fair_share *fair)
{
	uint64_t drops = 0;
	uint32_t info[SK_MEMINFO_VARS];

	for (size_t i = 0; i < fair->socket_count; i++)
		if (read_meminfo(fair, i, info))
			drops += info[SK_MEMINFO_DROPS];
	return drops;
}

static void
start_window(struct fair_share *fair)
{
	fair->start_ns = fair->context->now_ns;
	fair->busy_ns = fair->idle_ns = 0;
	fair->packets = 0;
	if (fair->limited_count > 0)
		fair->behind = false;
	fair->hitters.total = fair->hitters.used = 0;
}

/* Returns the number of bytes in the socket's queue if the queue is at least half full, else 0. */
static uint32_t
half_full(const struct fair_share *fair, size_t socket)
{
	uint32_t info[SK_MEMINFO_VARS];

	if (!read_meminfo(fair, socket, info) ||
	    info[SK_MEMINFO_RMEM_ALLOC] < info[SK_MEMINFO_RCVBUF] / 2)
		return 0;
	return info[SK_MEMINFO_RMEM_ALLOC];
}

void
fair_share_behind(struct fair_share *fair, size_t socket)
{
	uint32_t queued = fair->behind ? 0 : half_full(fair, socket);

	if (queued == 0)
		return;
	if (!fair->context->measuring) {
		fair->context->measuring = true;
		fair->quiet = 0;
		fair->drops = kernel_drops(fair);
		start_window(fair);
	}
	fair->behind = true;
	fair->behind_ns = fair->context->now_ns;
	fair->behind_socket = socket;
	fair->behind_bytes = queued;
}

/*
 * Returns whether the queue overflows or has not become shorter for some time. A queue that becomes shorter was filled while the worker was
 * not scheduled. No client has caused it.
 */
static bool
stays_behind(struct fair_share *fair)
{
	if (!fair->behind || fair->context->now_ns - fair->behind_ns < patience_ns)
		return false;
	uint32_t queued = half_full(fair, fair->behind_socket);
	if (queued == 0)
		fair->behind = false;
	return queued >= fair->behind_bytes || (queued > 0 && kernel_drops(fair) != fair->drops);
}

void
fair_share_batch(
    struct fair_share *fair, const struct mmsghdr *batch, unsigned count, int64_t took_ns)
{
	unsigned i = fair->phase;

	for (; i < count; i += SAMPLE)
		heavy_hitters_add(&fair->hitters, batch[i].msg_hdr.msg_name);
	fair->phase = i - count;
	fair->packets += count;
	fair->busy_ns += took_ns;
}

void
fair_share_idle(struct fair_share *fair, int64_t ns)
{
	fair->idle_ns += ns;
}

/* Returns the client's index in `limited`, or limited_count if it is not there. */
static size_t
limited_index(const struct fair_share *fair, const struct addr *addr)
{
	size_t i = 0;

	while (i < fair->limited_count && !addr_equal(&fair->limited[i].addr, addr))
		i++;
	return i;
}

/* Inserts a demand into the list, which is sorted by demand, the largest first. If the list is full, the smallest demand is dropped.
 * Returns the new count. */
static size_t
insert_demand(struct demand *demands, size_t count, struct demand demand)
{
	size_t at = count;

	while (at > 0 && demands[at - 1].packets < demand.packets)
		at--;
	if (at == SOCKET_FILTER_MAX)
		return count;
	count += count < SOCKET_FILTER_MAX;
	memmove(&demands[at + 1], &demands[at], (count - at - 1) * sizeof *demands);
	demands[at] = demand;
	return count;
}

/*
 * Finds the heavy clients. The demand of a limited client is the number of packets that passed the filter, divided by the share that may
 * pass. The demand is at least `decay` times the last demand, because an attack may pause. Sets `*others` to the packets of all other
 * clients.
 */
static size_t
find_demands(
    const struct fair_share *fair, struct demand demands[SOCKET_FILTER_MAX], double *others)
{
	const struct heavy_hitters *hitters = &fair->hitters;
	struct demand found;
	double passed[SOCKET_FILTER_MAX] = { 0 };
	size_t count = 0;

	*others = (double)hitters->total * SAMPLE;
	for (unsigned i = 0; i < hitters->used; i++) {
		const struct hitter *hitter = &hitters->entries[i];
		uint32_t sure = hitter->count - hitter->error;
		size_t limited = limited_index(fair, &hitter->addr);

		found = (struct demand){ hitter->addr, (double)sure * SAMPLE };
		if (limited < fair->limited_count)
			passed[limited] = found.packets;
		else if (sure > hitters->total / HEAVY_PART)
			count = insert_demand(demands, count, found);
		else
			continue;
		*others -= found.packets;
	}
	for (size_t i = 0; i < fair->limited_count; i++) {
		double sent = passed[i] / fair->limited[i].share, before = fair->demands[i].packets;

		found = (struct demand){ fair->limited[i].addr,
			sent > before * decay ? sent : before * decay };
		count = insert_demand(demands, count, found);
	}
	return count;
}

static void
set_filters(struct fair_share *fair, const struct client_share *limited, size_t count)
{
	char text[ADDR_TEXT_MAX];

	if (fair->limited_count == 0 && count > 0)
		log_neterr("dns: a worker cannot keep up: %.1f %% of the packets from %s are "
			   "answered, %zu clients are held back",
		    100 * limited[0].share, addr_format(&limited[0].addr, text), count);
	if (fair->limited_count > 0 && count == 0)
		log_neterr("dns: all packets are answered again");
	for (size_t i = 0; i < fair->socket_count; i++)
		socket_filter_set(fair->sockets[i].fd, fair->sockets[i].family, limited, count);
	pthread_mutex_lock(&fair->lock);
	memcpy(fair->limited, limited, count * sizeof *limited);
	fair->limited_count = count;
	pthread_mutex_unlock(&fair->lock);
	__atomic_store_n(&fair->context->stats->clients_limited, count, __ATOMIC_RELAXED);
}

/*
 * Returns the number of packets that the kernel has dropped since the last call. If there is a filter, all these packets count as dropped
 * by the filter. The kernel does not distinguish these from packets that a full queue dropped.
 */
static uint32_t
take_drops(struct fair_share *fair)
{
	uint64_t drops = kernel_drops(fair);
	uint32_t more = (uint32_t)(drops - fair->drops);

	if (fair->limited_count > 0)
		stats_add(&fair->context->stats->client_shed, more);
	fair->drops = drops;
	return more;
}

/* Returns the number of packets that the worker could have answered in the window. */
static double
window_capacity(struct fair_share *fair)
{
	if (fair->busy_ns > 0)
		fair->rate = (double)fair->packets / (double)fair->busy_ns;
	return fair->rate * (double)(fair->busy_ns + fair->idle_ns);
}

double
max_min_level(const double *demands, size_t count, double others, double capacity)
{
	double left = capacity - others;

	if (left < 0)
		return -1;
	/* Each round meets the demands below the level, and shares the remaining capacity among the other demands. */
	double level = count > 0 ? left / (double)count : left;
	for (size_t round = 0; round < count; round++) {
		double taken = 0;
		size_t above = 0;

		for (size_t i = 0; i < count; i++) {
			if (demands[i] > level)
				above++;
			else
				taken += demands[i];
		}
		if (above == 0)
			break;
		level = (left - taken) / (double)above;
	}
	return level;
}

static void
decide(struct fair_share *fair, bool begins)
{
	struct demand demands[SOCKET_FILTER_MAX], kept[SOCKET_FILTER_MAX];
	struct client_share limited[SOCKET_FILTER_MAX];
	double packets[SOCKET_FILTER_MAX] = { 0 }, others, sum;
	/* if a queue is half full, the worker must catch up first */
	double fits = window_capacity(fair) * (fair->behind ? catch_up : headroom);
	size_t count = find_demands(fair, demands, &others), limited_count = 0;
	uint32_t drops = take_drops(fair);

	sum = others;
	for (size_t i = 0; i < count; i++) {
		/* Adds the client's part of the packets lost by overflow. */
		if (fair->limited_count == 0 && fair->packets > 0)
			demands[i].packets *= 1 + (double)drops / (double)fair->packets;
		sum += packets[i] = demands[i].packets;
	}
	/* The filter drops nothing while the worker can answer all packets. Only a queue that stays full starts a filter. */
	bool needed = sum > fits && (begins || fair->limited_count > 0);
	double level = needed ? max_min_level(packets, count, others, fits) : -1;
	for (size_t i = 0; i < count && level >= 0; i++)
		if (packets[i] > level) {
			double share = level / packets[i];

			kept[limited_count] = demands[i];
			limited[limited_count].addr = demands[i].addr;
			limited[limited_count++].share = share > least_share ? share : least_share;
		}
	if (limited_count > 0 || fair->limited_count > 0)
		set_filters(fair, limited, limited_count);
	memcpy(fair->demands, kept, limited_count * sizeof *kept);
	fair->quiet = limited_count > 0 ? 0 : fair->quiet + 1;
}

int64_t
fair_share_iteration(struct fair_share *fair)
{
	if (!fair->context->measuring)
		return CLOCK_NEVER;
	int64_t end_ns = fair->start_ns + window_ns;
	bool begins = fair->limited_count == 0 && stays_behind(fair);
	if (fair->context->now_ns < end_ns && !begins)
		return end_ns;
	decide(fair, begins);
	fair->context->measuring = fair->quiet < QUIET_WINDOWS;
	start_window(fair);
	return fair->context->measuring ? fair->start_ns + window_ns : CLOCK_NEVER;
}

size_t
fair_share_clients(struct fair_share *fair, struct client_share *clients)
{
	pthread_mutex_lock(&fair->lock);
	size_t count = fair->limited_count;
	memcpy(clients, fair->limited, count * sizeof *clients);
	pthread_mutex_unlock(&fair->lock);
	return count;
}

char *
fair_share_notes(struct fair_share *fair, unsigned worker, bool addresses, char *notes)
{
	struct client_share limited[SOCKET_FILTER_MAX];
	char text[ADDR_TEXT_MAX];
	size_t count = fair_share_clients(fair, limited);

	for (size_t i = 0; i < count; i++) {
		const char *who = addresses ? addr_format(&limited[i].addr, text) : "one client";
		char *more = xasprintf("%sworker %u cannot keep up: %.1f %% of the packets from %s "
				       "are answered\n",
		    notes, worker, 100 * limited[i].share, who);

		free(notes);
		notes = more;
	}
	return notes;
}

void
fair_share_free(struct fair_share *fair)
{
	if (fair == NULL)
		return;
	pthread_mutex_destroy(&fair->lock);
	free(fair);
}
