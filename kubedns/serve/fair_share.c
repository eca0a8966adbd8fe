#include "kubedns/serve/fair_share.h"

#include <linux/sock_diag.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/observe/heavy_hitters.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	SAMPLE = 4,         /* one packet in so many is counted */
	FIRST_COUNT = 64,   /* samples that end the first window early: the queue is full */
	HEAVY_PART = 16,    /* a client is heavy if it sends more than this part of all */
	QUIET_WINDOWS = 50, /* without a client to hold back, then measuring ends */
};
static const int64_t window_ns = 20 * INT64_C(1000000);
static const int64_t patience_ns = 4 * INT64_C(1000000);
static const double headroom = 0.9;      /* of the capacity is shared out */
static const double catch_up = 0.5;      /* instead, while a queue is half full */
static const double least_share = 0.001; /* always passes, to measure the demand */
static const double decay = 0.8;         /* of a demand, per window: an attack may only pause */

/* A heavy client, and its packets in a window, those that the filter dropped included. */
struct demand {
	struct addr addr;
	double packets;
};

struct fair_share {
	struct worker_context *context;
	struct udp_socket sockets[UDP_SOCKETS_MAX];
	size_t socket_count;

	bool behind;              /* a queue was half full in this window, */
	int64_t behind_ns;        /* since then: */
	size_t behind_socket;     /* this one, */
	uint32_t behind_bytes;    /* with so many */
	double rate;              /* packets answered in a nanosecond of work */
	unsigned quiet;           /* windows */
	int64_t start_ns;         /* of the window */
	int64_t busy_ns, idle_ns; /* in it: with UDP, and waiting */
	uint64_t packets;         /* in it */
	unsigned phase;           /* which packet of a batch is the next sample */
	uint64_t drops;           /* of the kernel, at the last look */
	struct heavy_hitters hitters;
	struct demand demands[SOCKET_FILTER_MAX]; /* of the clients in `held` */

	pthread_mutex_t lock; /* of what follows, for readers in other threads */
	size_t held_count;
	struct client_share held[SOCKET_FILTER_MAX];
};

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
	if (fair->held_count > 0)
		fair->behind = false;
	fair->hitters.total = fair->hitters.used = 0;
}

/* Bytes in the socket's queue if it is at least half full, else 0. */
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
 * Whether the queue has not become shorter for a while, or overflows. A queue that becomes shorter
 * was filled while the worker was not scheduled, which is no client's fault.
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

/* The client's place in `held`, or held_count. */
static size_t
held_index(const struct fair_share *fair, const struct addr *addr)
{
	size_t i = 0;

	while (i < fair->held_count && !addr_equal(&fair->held[i].addr, addr))
		i++;
	return i;
}

/* Inserts into the list, heaviest first; a full list loses its lightest. Returns the new count. */
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
 * Finds the heavy clients. What a held client has sent is what has passed the filter, divided by
 * the share that may pass, but at least `decay` times its last demand: an attack may pause.
 * `*others`: the packets of all other clients.
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
		size_t held = held_index(fair, &hitter->addr);

		found = (struct demand){ hitter->addr, (double)sure * SAMPLE };
		if (held < fair->held_count)
			passed[held] = found.packets;
		else if (sure > hitters->total / HEAVY_PART)
			count = insert_demand(demands, count, found);
		else
			continue;
		*others -= found.packets;
	}
	for (size_t i = 0; i < fair->held_count; i++) {
		double sent = passed[i] / fair->held[i].share, before = fair->demands[i].packets;

		found = (struct demand){ fair->held[i].addr,
			sent > before * decay ? sent : before * decay };
		count = insert_demand(demands, count, found);
	}
	return count;
}

static void
set_filters(struct fair_share *fair, const struct client_share *held, size_t count)
{
	char text[ADDR_TEXT_MAX];

	if (fair->held_count == 0 && count > 0)
		log_neterr("dns: a worker cannot keep up: %.1f %% of the packets from %s are "
			   "answered, %zu clients are held back",
		    100 * held[0].share, addr_format(&held[0].addr, text), count);
	if (fair->held_count > 0 && count == 0)
		log_neterr("dns: all packets are answered again");
	for (size_t i = 0; i < fair->socket_count; i++)
		socket_filter_set(fair->sockets[i].fd, fair->sockets[i].family, held, count);
	pthread_mutex_lock(&fair->lock);
	memcpy(fair->held, held, count * sizeof *held);
	fair->held_count = count;
	pthread_mutex_unlock(&fair->lock);
	__atomic_store_n(&fair->context->stats->clients_held, count, __ATOMIC_RELAXED);
}

/*
 * How many packets the kernel has dropped since the last call. With a filter they all count as
 * shed: the kernel does not tell those of the filter from those of a full queue.
 */
static uint32_t
take_drops(struct fair_share *fair)
{
	uint64_t drops = kernel_drops(fair);
	uint32_t more = (uint32_t)(drops - fair->drops);

	if (fair->held_count > 0)
		stats_add(&fair->context->stats->client_shed, more);
	fair->drops = drops;
	return more;
}

/* How many packets the worker could have answered in the window. */
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
	double room = capacity - others;

	if (room < 0)
		return -1;
	/* Each round meets the demands below the level, and shares the rest among the others. */
	double level = count > 0 ? room / (double)count : room;
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
		level = (room - taken) / (double)above;
	}
	return level;
}

static void
decide(struct fair_share *fair, bool begins)
{
	struct demand demands[SOCKET_FILTER_MAX], kept[SOCKET_FILTER_MAX];
	struct client_share held[SOCKET_FILTER_MAX];
	double packets[SOCKET_FILTER_MAX] = { 0 }, others, sum;
	/* Behind, it has to catch up first. */
	double fits = window_capacity(fair) * (fair->behind ? catch_up : headroom);
	size_t count = find_demands(fair, demands, &others), held_count = 0;
	uint32_t drops = take_drops(fair);

	sum = others;
	for (size_t i = 0; i < count; i++) {
		if (fair->held_count == 0 && fair->packets > 0) /* their part of the overflow */
			demands[i].packets *= 1 + (double)drops / (double)fair->packets;
		sum += packets[i] = demands[i].packets;
	}
	/* Nothing is dropped while all fits, and only a queue that stays full starts a filter. */
	bool needed = sum > fits && (begins || fair->held_count > 0);
	double level = needed ? max_min_level(packets, count, others, fits) : -1;
	for (size_t i = 0; i < count && level >= 0; i++)
		if (packets[i] > level) {
			double share = level / packets[i];

			kept[held_count] = demands[i];
			held[held_count].addr = demands[i].addr;
			held[held_count++].share = share > least_share ? share : least_share;
		}
	if (held_count > 0 || fair->held_count > 0)
		set_filters(fair, held, held_count);
	memcpy(fair->demands, kept, held_count * sizeof *kept);
	fair->quiet = held_count > 0 ? 0 : fair->quiet + 1;
}

int64_t
fair_share_turn(struct fair_share *fair)
{
	if (!fair->context->measuring)
		return 0;
	int64_t end_ns = fair->start_ns + window_ns;
	bool begins = fair->held_count == 0 && stays_behind(fair);
	if (fair->context->now_ns < end_ns && !begins)
		return end_ns;
	decide(fair, begins);
	fair->context->measuring = fair->quiet < QUIET_WINDOWS;
	start_window(fair);
	return fair->context->measuring ? fair->start_ns + window_ns : 0;
}

size_t
fair_share_clients(struct fair_share *fair, struct client_share *clients)
{
	pthread_mutex_lock(&fair->lock);
	size_t count = fair->held_count;
	memcpy(clients, fair->held, count * sizeof *clients);
	pthread_mutex_unlock(&fair->lock);
	return count;
}

char *
fair_share_notes(struct fair_share *fair, unsigned worker, bool addresses, char *notes)
{
	struct client_share held[SOCKET_FILTER_MAX];
	char text[ADDR_TEXT_MAX];
	size_t count = fair_share_clients(fair, held);

	for (size_t i = 0; i < count; i++) {
		const char *who = addresses ? addr_format(&held[i].addr, text) : "one client";
		char *more = xasprintf("%sworker %u cannot keep up: %.1f %% of the packets from %s "
				       "are answered\n",
		    notes, worker, 100 * held[i].share, who);

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
