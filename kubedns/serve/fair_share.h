/*
 * Gives every client address a fair share of one worker. While the worker keeps up with its
 * queries, nothing is measured and no packet is dropped. When it cannot keep up, a filter in the
 * kernel drops packets from the addresses that send most. It drops only as many packets as the
 * worker cannot answer. The filter is replaced every 20 ms, and removed when all packets can be
 * answered again. Limits on queries in flight to other servers are elsewhere (inflight.h).
 *
 *	off --a queue is half full--> measuring --it stays half full--> shedding <--each window-.
 *	 ^                               |   ^                             |   '----------------'
 *	 '------ a second of quiet ------'   '-- all packets fit again ----'
 *
 * The capacity is measured. It is the number of packets answered per second of work, times the time
 * that TCP and queries to other servers leave. A tenth is subtracted so that the queue stays short.
 * The addresses that send most (struct heavy_hitters) share it by max-min fairness
 * (max_min_level()). A small part of a heavy client's packets always passes, so that its demand can
 * still be measured.
 */
#ifndef KUBEDNS_SERVE_FAIR_SHARE_H
#define KUBEDNS_SERVE_FAIR_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "kubedns/serve/net/socket_filter.h"
#include "kubedns/serve/net/udp.h"
#include "kubedns/serve/worker_context.h"

struct fair_share;

/*
 * The client addresses that send most, in 1 KB. The method is the Space-Saving sketch (Metwally,
 * Agrawal and El Abbadi, 2005). An address with more than 1 / HITTERS of all packets is always
 * among the entries. A count is too high by at most `error`.
 */
enum { HITTERS = 32 };

struct hitter {
	struct addr addr;
	uint32_t count, error;
};

struct heavy_hitters {
	uint32_t total; /* number of packets counted */
	unsigned used;
	struct hitter entries[HITTERS];
};

/* Counts a packet from this address. */
void heavy_hitters_add(struct heavy_hitters *hitters, const struct sockaddr *from);

/*
 * Max-min fairness divides a capacity that is too small so that the smallest share is as large as
 * possible. Returns the level at which `count` demands and `others` together fit into `capacity`. A
 * demand up to the level is met in full. A larger demand gets the level. Returns a negative number
 * if `others` alone exceed the capacity, because lower demands would not help.
 */
double max_min_level(const double *demands, size_t count, double others, double capacity);

/* Creates the object. The sockets still belong to the caller. */
struct fair_share *fair_share_new(
    struct worker_context *context, const struct udp_socket *sockets, size_t count);

/* Checks the length of the socket's queue. Call it when the worker did not empty this socket in
 * its iteration. */
void fair_share_behind(struct fair_share *fair, size_t socket);

/* Reports a received batch and the time that it took. Call this and the next two functions only
 * while context->measuring is set. */
void fair_share_batch(
    struct fair_share *fair, const struct mmsghdr *batch, unsigned count, int64_t took_ns);

/* Reports that the worker has waited for this long. */
void fair_share_idle(struct fair_share *fair, int64_t ns);

/*
 * Decides at the end of a window which clients to limit. Returns when to call it again (worker
 * time, or CLOCK_NEVER).
 */
int64_t fair_share_iteration(struct fair_share *fair);

/*
 * Copies the clients that are limited now, at most SOCKET_FILTER_MAX, and returns their number. Any
 * thread may call it.
 */
size_t fair_share_clients(struct fair_share *fair, struct client_share *clients);

/* Appends one line of text for each limited client to `notes`. Takes `notes` and returns the new
 * text. */
char *fair_share_notes(struct fair_share *fair, unsigned worker, bool addresses, char *notes);

/* NULL is fine. */
void fair_share_free(struct fair_share *fair);

#endif
