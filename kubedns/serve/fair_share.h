/*
 * A fair share of one worker for every client address. While the worker keeps up, nothing is
 * measured and no packet is dropped. When it cannot keep up, a filter in the kernel drops packets
 * of the addresses that send most, just as many as the worker cannot answer. The filter is made
 * anew every 20 ms and removed when all packets can be answered again.
 * Who waits for other servers with too many questions is REFUSED elsewhere (inflight.h).
 *
 *	off --a queue is half full--> measuring --it stays so--> shedding <--each window-.
 *	 ^                               |   ^                     |   '----------------'
 *	 '------ a second of quiet ------'   '-- all fits again ---'
 *
 * The capacity is measured: packets answered for each second of work, times the time that is left
 * beside TCP and other servers, less a tenth, so that the queue stays short. The addresses that
 * send most (heavy_hitters.h) share it by max-min fairness (max_min_level()). A small part of a heavy
 * client's packets always passes, so that its demand can still be measured.
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
 * Max-min fairness shares out a capacity that is too small so that the smallest share is as large as possible.
 * Returns the level that keeps `count` demands and `others` within `capacity`: a demand up to the level is met in full,
 * a larger one gets the level. Below 0 if `others` alone exceed the capacity, so that cutting the demands is of no use.
 */
double max_min_level(const double *demands, size_t count, double others, double capacity);

/* The sockets stay the caller's. */
struct fair_share *fair_share_new(
    struct worker_context *context, const struct udp_socket *sockets, size_t count);

/* The worker did not empty this socket in its turn: looks at the queue. */
void fair_share_behind(struct fair_share *fair, size_t socket);

/* A batch was received and took so long. This and the next two only while context->measuring. */
void fair_share_batch(
    struct fair_share *fair, const struct mmsghdr *batch, unsigned count, int64_t took_ns);

/* The worker has waited for so long. */
void fair_share_idle(struct fair_share *fair, int64_t ns);

/*
 * Decides at the end of a window; returns when it must be called again (worker time, 0: not at
 * all).
 */
int64_t fair_share_turn(struct fair_share *fair);

/*
 * Copies the clients that are held back, at most SOCKET_FILTER_MAX; for any thread. Returns how
 * many.
 */
size_t fair_share_clients(struct fair_share *fair, struct client_share *clients);

/* Adds a line of text for each of them to `notes`, which it takes; returns the new text. */
char *fair_share_notes(struct fair_share *fair, unsigned worker, bool addresses, char *notes);

/* NULL is fine. */
void fair_share_free(struct fair_share *fair);

#endif
