/*
 * Addresses as DNS needs them: 4 or 16 bytes in network order, parsed strictly (010.1.1.1 is
 * refused, never read as octal).
 */
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

/* An address and a port: where a server listens. */
struct server {
	struct addr addr;
	uint16_t port;
};

/* Bytes of an address of this family: 4 or 16. */
static inline size_t
addr_len(const struct addr *addr)
{
	return addr->family == AF_INET ? 4 : 16;
}

/* Parses a literal IPv4 or IPv6 address (no brackets, no zone, no surrounding space); 0 or
 * -EINVAL. */
int addr_parse(const char *text, struct addr *addr);

/* Writes the canonical text (RFC 5952 for IPv6) into `text` of ADDR_TEXT_MAX bytes; returns it. */
const char *addr_format(const struct addr *addr, char *text);

bool addr_equal(const struct addr *a, const struct addr *b);

/* Whether `addr` has the first `bits` bits of `prefix`. */
bool addr_in_prefix(const struct addr *addr, const struct addr *prefix, unsigned bits);

/*
 * Parses `ip`, `ip:port`, `[v6]`, `[v6]:port` or a bare IPv6; port 1..65535, `default_port` without
 * one. 0 or -EINVAL; `why` (may be NULL) then points at a static reason such as "not an address" or
 * "port out of range".
 */
int server_parse(const char *text, uint16_t default_port, struct server *server, const char **why);

/* Writes `ip:port` or `[v6]:port` into `text` of SERVER_TEXT_MAX bytes; returns it. */
const char *server_format(const struct server *server, char *text);

bool server_equal(const struct server *a, const struct server *b);

/* Fills a socket address; returns its length. */
socklen_t server_sockaddr(const struct server *server, struct sockaddr_storage *ss);

/* Reads one; v4-mapped becomes IPv4. 0 or -EAFNOSUPPORT. */
int server_from_sockaddr(const struct sockaddr *sa, struct server *server);

#endif
