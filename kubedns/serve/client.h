/*
 * Where a query came from and its reply must go, kept while the query is in flight to another
 * server.
 */
#ifndef KUBEDNS_SERVE_CLIENT_H
#define KUBEDNS_SERVE_CLIENT_H

#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "kubedns/serve/observe/stats.h"

/* Room for one IPV6_PKTINFO, the larger of the two. */
enum { PKTINFO_ROOM = CMSG_SPACE(sizeof(struct in6_pktinfo)) };

/* An address and port, as a socket has them. */
union client_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A UDP client: its address and port, and the local address that it asked. */
struct udp_peer {
	uint8_t socket;      /* index among the worker's sockets */
	uint8_t control_len; /* 0 unless bound to a wildcard */
	socklen_t addr_len;
	union client_addr addr;
	_Alignas(struct cmsghdr) uint8_t control[PKTINFO_ROOM];
};

/* A TCP client: its connection, if it is still the same one. */
struct tcp_peer {
	uint32_t slot, generation;
	union client_addr addr;
};

struct client {
	enum stats_proto proto;
	enum stats_family family;
	uint32_t hash; /* of the address alone: for bounds per client */
	union {
		struct udp_peer udp;
		struct tcp_peer tcp;
	} peer;
};

/* The client's address, whichever way it came. */
static inline const struct sockaddr *
client_sockaddr(const struct client *client)
{
	return client->proto == PROTO_TCP ? &client->peer.tcp.addr.sa : &client->peer.udp.addr.sa;
}

/*
 * Hashes the address of `sa`, not the port. Keyed, so that a client cannot choose an address that
 * collides with another client's.
 */
static inline uint32_t
client_hash(const struct sockaddr *sa, uint64_t key)
{
	uint64_t low, high = 0;

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

		low = in->sin_addr.s_addr;
	} else {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

		memcpy(&high, &in6->sin6_addr, 8);
		memcpy(&low, (const uint8_t *)&in6->sin6_addr + 8, 8);
	}
	uint64_t h = (low ^ key) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ (h >> 29) ^ high ^ (key << 1)) * 0xbf58476d1ce4e5b9ULL;
	return (uint32_t)(h >> 32);
}

#endif
