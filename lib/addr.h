/* Addresses of 4 or 16 bytes in network order. They are parsed strictly: 010.1.1.1 is refused, and
 * never read as octal. */
#ifndef LIB_ADDR_H
#define LIB_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint8_t bytes[16];
};

enum { ADDR_TEXT_MAX = 46, SERVER_TEXT_MAX = 56 };

/* The address and port at which a server listens. */
struct server {
	struct addr addr;
	uint16_t port;
};

/* Returns the number of bytes in an address of this family: 4 or 16. */
static inline size_t
addr_len(const struct addr *addr)
{
	return addr->family == AF_INET ? 4 : 16;
}

/* Parses a literal IPv4 or IPv6 address without brackets, zone and surrounding space. Returns 0 or -EINVAL. */
int addr_parse(const char *text, struct addr *addr);

/* Writes the canonical text (RFC 5952 for IPv6) into `text` of ADDR_TEXT_MAX bytes; returns it. */
const char *addr_format(const struct addr *addr, char *text);

bool addr_equal(const struct addr *a, const struct addr *b);

/* Parses a prefix such as 10.96.0.0/12, with at least one bit. Returns 0 or -EINVAL. */
int addr_parse_prefix(const char *text, struct addr *addr, unsigned *bits);

/* Whether `addr` has the first `bits` bits of `prefix`. */
bool addr_in_prefix(const struct addr *addr, const struct addr *prefix, unsigned bits);

/*
 * Parses `ip`, `ip:port`, `[v6]`, `[v6]:port` or a bare IPv6 address. The port is 1..65535. If the
 * text has no port, the port is `default_port`. Returns 0 or -EINVAL. On failure `why` (may be
 * NULL) points at a static reason such as "not an address" or "port out of range".
 */
int server_parse(const char *text, uint16_t default_port, struct server *server, const char **why);

/* Writes `ip:port` or `[v6]:port` into `text` of SERVER_TEXT_MAX bytes; returns it. */
const char *server_format(const struct server *server, char *text);

bool server_equal(const struct server *a, const struct server *b);

/* Fills in a socket address; returns its length. */
socklen_t server_sockaddr(const struct server *server, struct sockaddr_storage *ss);

/* Reads a socket address. An IPv4-mapped address becomes an IPv4 address. Returns 0 or
 * -EAFNOSUPPORT. */
int server_from_sockaddr(const struct sockaddr *sa, struct server *server);

#endif
