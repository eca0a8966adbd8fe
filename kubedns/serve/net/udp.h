/*
 * Queries over UDP, in batches. A batch is one recvmmsg(), up to 64 answers within one RCU read
 * section, and one sendmmsg(). In two cases, there is an additional sendmmsg() before the batch is
 * complete. In the first case, replies from other servers are already waiting to be sent. In the
 * second case, more than two queries of the batch are for other servers, and our own answers do not
 * wait for these.
 *
 * Every buffer is allocated once. The strides are not multiples of 4,096 bytes. With such a stride,
 * 64 buffers would compete for the same sets of the first-level cache. On a socket bound to a
 * wildcard address, a reply is sent from the address to which the query was sent.
 */
#ifndef KUBEDNS_SERVE_NET_UDP_H
#define KUBEDNS_SERVE_NET_UDP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

enum {
	UDP_BATCH = 64,
	UDP_SOCKETS_MAX = 6 /* one for each address: four, and two for the second address */
};

struct fair_share;
struct inflight_table;
struct udp;

struct udp_socket {
	int fd;
	uint8_t family;
	bool wildcard; /* the packet's destination address is needed */
	const struct answer_config *answers;
	/* Maximum length of a reply, up to DNS_UDP_PAYLOAD. A longer reply is truncated (TC). */
	size_t reply_max;
};

/* Takes ownership of the sockets, which must be bound and non-blocking. Passes queries for other
 * servers to `inflight`. */
struct udp *udp_new(struct worker_context *context, struct inflight_table *inflight,
    const struct udp_socket *sockets, size_t count);

/*
 * Fills in the sockets for the loop's poll(), by index, and returns their number. UDP sockets are
 * not in the epoll. While an epoll watches a socket, the kernel runs a wakeup for every packet that
 * has been sent (sock_def_write_space). Such a wakeup costs a seventh of an answer.
 */
size_t udp_fds(const struct udp *udp, struct pollfd fds[UDP_SOCKETS_MAX]);

/* Sets the object to which batches, and sockets that were not emptied, are reported. `fair` may
 * be NULL. */
void udp_fair_share(struct udp *udp, struct fair_share *fair);

/* Answers the queries that have arrived at socket `index`. Handles at most 16 batches, for at
 * most WORKER_BUDGET_NS. */
void udp_readable(struct udp *udp, unsigned index);

/* Does the same for every socket. */
void udp_poll(struct udp *udp);

/*
 * Write the reply to a query that was in flight. udp_reply_reserve() returns a buffer of
 * DNS_UDP_PAYLOAD bytes. If there is a reply, udp_reply_done() gets its length. The next
 * udp_flush() sends the reply, or a full batch does. No other function of this module may be called
 * in between.
 */
uint8_t *udp_reply_reserve(struct udp *udp, const struct udp_peer *peer);
void udp_reply_done(struct udp *udp, size_t len);

/* Sends the replies that udp_reply_done() has gathered. */
void udp_flush(struct udp *udp);

/* Returns the number of packets that the kernel has dropped because a socket's queue was full.
 * Any thread may call it. */
uint64_t udp_queue_drops(const struct udp *udp);

/* Closes the sockets; NULL is fine. */
void udp_free(struct udp *udp);

#endif
