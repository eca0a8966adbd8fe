/*
 * Queries over UDP, in batches: one recvmmsg(),
 * up to 64 answers inside one RCU read section, one sendmmsg() (two where handed-on replies wait).
 *
 * Every buffer is allocated once. Buffers are a cache line apart from multiples of 4,096 bytes:
 * else 64 of them would fight for the same sets of the first-level cache. Bound to a wildcard
 * address, replies leave from the address that was asked.
 */
#ifndef KUBEDNS_SERVE_UDP_H
#define KUBEDNS_SERVE_UDP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/worker_context.h"

enum { UDP_BATCH = 64, UDP_SOCKETS_MAX = 2 /* one a family */ };

struct udp_socket {
	int fd;
	uint8_t family;
	bool wildcard; /* needs the packet's destination */
};

/* Takes the sockets, bound and non-blocking. Never fails but for memory. */
struct udp *udp_new(struct worker *worker, const struct udp_socket *sockets, size_t count);

/*
 * What the loop waits for, by socket index; returns how many. For poll(): to a socket that an epoll
 * waits on the kernel reports every packet that has left it, which is a seventh of what an answer
 * costs (sock_def_write_space).
 */
size_t udp_fds(const struct udp *udp, struct pollfd fds[UDP_SOCKETS_MAX]);

/* Answers what has arrived at socket `index`: at most 16 batches, so that others have their turn. */
void udp_readable(struct udp *udp, unsigned index);

/* The same for every socket. */
void udp_poll(struct udp *udp);

/*
 * A reply to a query that was kept: room of DNS_UDP_PAYLOAD bytes, then its length,
 * if there is one. It leaves with the next udp_flush() or when the batch is full; nothing
 * else may be called in between.
 */
uint8_t *udp_reply_room(struct udp *udp, const struct udp_peer *peer);
void udp_reply_done(struct udp *udp, size_t len);

/* Sends what udp_reply_done() has gathered. */
void udp_flush(struct udp *udp);

/* Packets that the kernel dropped before we saw them; for any thread. */
uint64_t udp_queue_drops(const struct udp *udp);

/* Closes the sockets; NULL is fine. */
void udp_free(struct udp *udp);

#endif
