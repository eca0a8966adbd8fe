/*
 * Queries over UDP, in batches: one recvmmsg(), up to 64 answers inside one RCU read section, one
 * sendmmsg(). A second sendmmsg() goes first where replies of other servers have been gathered already,
 * or where more than two queries of the batch are for other servers: our answers do not wait for those.
 *
 * Every buffer is allocated once. Strides are not multiples of 4,096 bytes, or 64 buffers would
 * compete for the same sets of the first-level cache. On a socket bound to a wildcard address,
 * replies leave from the address that was asked.
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
	UDP_SOCKETS_MAX = 6 /* one an address: four, and two of --external-address */
};

struct fair_share;
struct inflight_table;
struct udp;

struct udp_socket {
	int fd;
	uint8_t family;
	bool wildcard; /* needs the packet's destination */
	const struct answer_config *answers;
	size_t reply_max; /* bytes of a reply, at most DNS_UDP_PAYLOAD; a longer one is cut (TC) */
};

/* Takes ownership of the sockets, bound and non-blocking. Queries for other servers go to
 * `inflight`. */
struct udp *udp_new(struct worker_context *context, struct inflight_table *inflight,
    const struct udp_socket *sockets, size_t count);

/*
 * The sockets for the loop's poll(), by index; returns how many. They are not in the epoll: while
 * an epoll watches a socket the kernel runs a wakeup for every packet that has left it
 * (sock_def_write_space), a seventh of what an answer costs.
 */
size_t udp_fds(const struct udp *udp, struct pollfd fds[UDP_SOCKETS_MAX]);

/* Sets who is told of each batch and of sockets that were not emptied; NULL: nobody. */
void udp_fair_share(struct udp *udp, struct fair_share *fair);

/* Answers what has arrived at socket `index`, at most 16 batches or for WORKER_BUDGET_NS. */
void udp_readable(struct udp *udp, unsigned index);

/* The same for every socket. */
void udp_poll(struct udp *udp);

/*
 * A reply to a query that was in flight: room of DNS_UDP_PAYLOAD bytes, then its length, if there
 * is a reply. It leaves with the next udp_flush() or when the batch is full. Nothing else of this
 * module may be called between the two.
 */
uint8_t *udp_reply_room(struct udp *udp, const struct udp_peer *peer);
void udp_reply_done(struct udp *udp, size_t len);

/* Sends the replies that udp_reply_done() has gathered. */
void udp_flush(struct udp *udp);

/* Packets that the kernel has dropped from the sockets' queues; for any thread. */
uint64_t udp_queue_drops(const struct udp *udp);

/* Closes the sockets; NULL is fine. */
void udp_free(struct udp *udp);

#endif
