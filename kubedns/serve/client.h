/*
 * The client that sent a query and gets the reply. The client is stored while the query is in
 * flight to another server.
 */
#ifndef KUBEDNS_SERVE_CLIENT_H
#define KUBEDNS_SERVE_CLIENT_H

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "kubedns/serve/observe/stats.h"
#include "lib/hash.h"

/* Space for one IPV6_PKTINFO message, which is larger than the message for IPv4. */
enum { PKTINFO_ROOM = CMSG_SPACE(sizeof(struct in6_pktinfo)) };

/* An address and port in the form that sockets use. */
union client_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A UDP client: its address and port, and the local address to which it sent the query. */
struct udp_peer {
	uint8_t socket;      /* index of the socket in the worker's list */
	uint8_t control_len; /* 0 unless the socket is bound to a wildcard address */
	socklen_t addr_len;
	union client_addr addr;
	_Alignas(struct cmsghdr) uint8_t control[PKTINFO_ROOM];
};

/* A TCP client: a reference to its connection. A different generation means that the slot has been
 * reused. */
struct tcp_peer {
	uint32_t slot, generation;
	union client_addr addr;
};

struct client {
	enum stats_proto proto;
	enum stats_family family;
	uint32_t hash; /* hash of the address without the port, for limits per client */
	union {
		struct udp_peer udp;
		struct tcp_peer tcp;
	} peer;
};

/* Returns the client's address, for UDP and TCP. */
static inline const struct sockaddr *
client_sockaddr(const struct client *client)
{
	return client->proto == PROTO_TCP ? &client->peer.tcp.addr.sa : &client->peer.udp.addr.sa;
}

/*
 * Hashes the address of `sa` without the port. Without the key, a client cannot choose an address
 * whose hash equals the hash of another client's address.
 */
static inline uint32_t
client_hash(const struct sockaddr *sa, uint64_t key)
{
	const union client_addr *addr = (const void *)sa;

	return hash_fold(sa->sa_family == AF_INET
			     ? hash64(key, &addr->in.sin_addr, sizeof addr->in.sin_addr)
			     : hash64(key, &addr->in6.sin6_addr, sizeof addr->in6.sin6_addr));
}

#endif
