#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/addr.h"
#include "lib/xalloc.h"

int
addr_parse(const char *text, struct addr *addr)
{
	struct addr parsed = { .family = AF_INET };

	/* inet_pton refuses short forms (10.1), leading zeros and zones, which this parser must
	 * refuse too. */
	if (inet_pton(AF_INET, text, parsed.bytes) != 1) {
		parsed.family = AF_INET6;
		if (inet_pton(AF_INET6, text, parsed.bytes) != 1)
			return -EINVAL;
	}
	*addr = parsed;
	return 0;
}

const char *
addr_format(const struct addr *addr, char *text)
{
	if (inet_ntop(addr->family, addr->bytes, text, ADDR_TEXT_MAX) == NULL)
		*text = '\0'; /* AF_UNSPEC means that there is no address */
	return text;
}

bool
addr_equal(const struct addr *a, const struct addr *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, addr_len(a)) == 0;
}

int
addr_parse_prefix(const char *text, struct addr *addr, unsigned *bits)
{
	char *copy = xstrdup(text), *slash = strchr(copy, '/'), *end = NULL;
	int rc = -EINVAL;

	if (slash != NULL) {
		*slash = '\0';
		unsigned long n =
		    slash[1] >= '0' && slash[1] <= '9' ? strtoul(slash + 1, &end, 10) : 0;
		if (end != NULL && *end == '\0' && addr_parse(copy, addr) == 0 && n > 0 &&
		    n <= 8 * addr_len(addr)) {
			*bits = (unsigned)n;
			rc = 0;
		}
	}
	free(copy);
	return rc;
}

bool
addr_in_prefix(const struct addr *addr, const struct addr *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return addr->family == prefix->family && memcmp(addr->bytes, prefix->bytes, whole) == 0 &&
	       (rest == 0 || (addr->bytes[whole] ^ prefix->bytes[whole]) >> (8 - rest) == 0);
}

/* Accepts only decimal digits with a value of 1..65535; returns 0 for anything else. Leading zeros
 * are refused, as in addresses. */
static uint16_t
port_parse(const char *text)
{
	unsigned long port = 0;

	if (*text == '0')
		return 0;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p < '0' || *p > '9')
			return 0;
		port = port * 10 + (unsigned long)(*p - '0');
		if (port > UINT16_MAX)
			return 0;
	}
	return (uint16_t)port;
}

static int
refuse_server(const char **why, const char *reason)
{
	if (why != NULL)
		*why = reason;
	return -EINVAL;
}

/*
 * Finds the end of the address. Copies the address to `host`. `port` then points at the byte after
 * the colon, or is NULL if there is no colon. More than one colon outside brackets means a bare
 * IPv6 address.
 */
static const char *
server_split(const char *text, char *host, const char **port)
{
	const char *end = NULL;

	*port = NULL;
	if (*text == '[') {
		text++;
		end = strchr(text, ']');
		if (end == NULL)
			return "missing ']'";
		if (end[1] == ':')
			*port = end + 2;
		else if (end[1] != '\0')
			return "unexpected text after ']'";
	} else {
		end = strchr(text, ':');
		if (end != NULL && strchr(end + 1, ':') == NULL)
			*port = end + 1;
		else
			end = text + strlen(text);
	}
	if (end - text >= ADDR_TEXT_MAX)
		return "not an address";
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	return NULL;
}

/* Returns why the text is not an address, and what to write instead. */
static const char *
no_address(const char *host)
{
	const char *p = host;

	if (host[strspn(host, "0123456789.")] == '\0' && strchr(host, '.') != NULL)
		for (; *p != '\0'; p += strspn(p, ".")) {
			if (p[0] == '0' && p[1] >= '0' && p[1] <= '9')
				return "not an address: a number with a leading zero, which some "
				       "programs read as octal; write it without";
			p += strcspn(p, ".");
		}
	if (strchr(host, ':') == NULL && host[strcspn(host, "ghijklmnopqrstuvwxyz")] != '\0')
		return "not an address, but a name; an address such as 10.0.0.10 is needed";
	return "not an address, such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53";
}

int
server_parse(const char *text, uint16_t default_port, struct server *server, const char **why)
{
	char host[ADDR_TEXT_MAX];
	const char *port = NULL;
	struct server parsed = { .port = default_port };

	if (strstr(text, "://") != NULL)
		return refuse_server(why, "a URL, but queries are sent over plain UDP and TCP: "
					  "write ADDRESS or ADDRESS:PORT");
	if (strchr(text, '#') != NULL)
		return refuse_server(why, "the port must follow ':', as in 10.0.0.1:5353");
	const char *reason = server_split(text, host, &port);
	if (reason != NULL)
		return refuse_server(why, reason);
	if (addr_parse(host, &parsed.addr) < 0)
		return refuse_server(why, no_address(host));
	if (*text == '[' && parsed.addr.family != AF_INET6)
		return refuse_server(why, "brackets are for IPv6 addresses");
	if (port != NULL) {
		parsed.port = port_parse(port);
		if (parsed.port == 0)
			return refuse_server(why, "port out of range, 1 to 65535");
	}
	*server = parsed;
	return 0;
}

const char *
server_format(const struct server *server, char *text)
{
	char host[ADDR_TEXT_MAX];

	snprintf(text, SERVER_TEXT_MAX, server->addr.family == AF_INET6 ? "[%s]:%u" : "%s:%u",
	    addr_format(&server->addr, host), server->port);
	return text;
}

bool
server_equal(const struct server *a, const struct server *b)
{
	return a->port == b->port && addr_equal(&a->addr, &b->addr);
}

socklen_t
server_sockaddr(const struct server *server, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof *ss);
	if (server->addr.family == AF_INET) {
		struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(server->port) };

		memcpy(&sin.sin_addr, server->addr.bytes, 4);
		memcpy(ss, &sin, sizeof sin);
		return sizeof sin;
	}
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons(server->port) };

	memcpy(&sin6.sin6_addr, server->addr.bytes, 16);
	memcpy(ss, &sin6, sizeof sin6);
	return sizeof sin6;
}

int
server_from_sockaddr(const struct sockaddr *sa, struct server *server)
{
	struct sockaddr_in sin;
	struct sockaddr_in6 sin6;

	memset(server, 0, sizeof *server);
	switch (sa->sa_family) {
	case AF_INET:
		memcpy(&sin, sa, sizeof sin);
		server->addr.family = AF_INET;
		memcpy(server->addr.bytes, &sin.sin_addr, 4);
		server->port = ntohs(sin.sin_port);
		return 0;
	case AF_INET6:
		memcpy(&sin6, sa, sizeof sin6);
		server->port = ntohs(sin6.sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&sin6.sin6_addr)) {
			server->addr.family = AF_INET;
			memcpy(server->addr.bytes, sin6.sin6_addr.s6_addr + 12, 4);
		} else {
			server->addr.family = AF_INET6;
			memcpy(server->addr.bytes, &sin6.sin6_addr, 16);
		}
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}
