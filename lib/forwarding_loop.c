#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/forwarding_loop.h"
#include "lib/xalloc.h"

static bool
has_addr(const struct addr *list, size_t count, const struct addr *addr)
{
	for (size_t i = 0; i < count; i++)
		if (addr_equal(&list[i], addr))
			return true;
	return false;
}

static bool
is_any(const struct addr *addr)
{
	static const uint8_t zero[16];

	return memcmp(addr->bytes, zero, addr_len(addr)) == 0;
}

static bool
is_loopback_net(const struct addr *addr)
{
	return addr->family == AF_INET && addr->bytes[0] == 127;
}

/* Whether the program listens on every address. That is so if no address is given, or if one
 * address is unspecified. */
static bool
listens_everywhere(const struct forwarding_loop *guard)
{
	for (size_t i = 0; i < guard->listen_count; i++)
		if (is_any(&guard->listen[i]))
			return true;
	return guard->listen_count == 0;
}

void
forwarding_loop_init(struct forwarding_loop *guard, const char *program, uint16_t port,
    const struct addr *listen, size_t listen_count)
{
	*guard = (struct forwarding_loop){
		.port = port, .listen = listen, .listen_count = listen_count
	};
	snprintf(guard->itself, sizeof guard->itself, "is %s itself: a forwarding loop", program);
	snprintf(guard->loopback, sizeof guard->loopback,
	    "is this pod's loopback, where only %s itself listens: a forwarding loop", program);
}

void
forwarding_loop_set_service(struct forwarding_loop *guard, const char *host, const char *port)
{
	char *end;
	unsigned long number = port != NULL ? strtoul(port, &end, 10) : 53;

	guard->service = (struct server){ 0 };
	if (host == NULL || addr_parse(host, &guard->service.addr) < 0 || number == 0 ||
	    number > UINT16_MAX || (port != NULL && *end))
		return;
	guard->service.port = (uint16_t)number;
}

void
forwarding_loop_set_asker(struct forwarding_loop *guard, const struct server *asker)
{
	guard->asker = *asker;
}

bool
forwarding_loop_is(
    const struct forwarding_loop *guard, const struct server *server, const char **why)
{
	*why = "is the Service that leads to this pod: a forwarding loop";
	if (guard->service.port != 0 && server_equal(&guard->service, server))
		return true;
	*why = "is kubedns, which sends such names here: a forwarding loop";
	if (guard->asker.port != 0 && server_equal(&guard->asker, server))
		return true;
	*why = guard->itself;
	if (server->port != guard->port)
		return false;
	if (has_addr(guard->listen, guard->listen_count, &server->addr))
		return true;
	if (!listens_everywhere(guard))
		return false;
	if (has_addr(guard->local, guard->local_count, &server->addr))
		return true;
	if (!is_loopback_net(&server->addr) ||
	    has_addr(guard->others, guard->other_count, &server->addr))
		return false;
	*why = guard->loopback;
	return true;
}

/* Reads the second column: the local address, in hexadecimal and host byte order, and the port. */
void
forwarding_loop_read_udp_line(struct forwarding_loop *guard, const char *line)
{
	uint32_t ip;
	unsigned port;

	if (sscanf(line, " %*u: %8" SCNx32 ":%4X", &ip, &port) != 2 || port != guard->port)
		return;
	struct addr addr = { .family = AF_INET };
	memcpy(addr.bytes, &ip, 4);
	bool exact = addr.bytes[0] == 127 &&
		     !(addr.bytes[1] == 0 && addr.bytes[2] == 0 && addr.bytes[3] == 1);
	if (exact && guard->other_count < FORWARDING_LOOP_ADDRS_MAX)
		guard->others[guard->other_count++] = addr;
}

void
forwarding_loop_refresh(struct forwarding_loop *guard)
{
	struct ifaddrs *list;
	struct server server;

	guard->local_count = guard->other_count = 0;
	if (getifaddrs(&list) == 0) {
		for (struct ifaddrs *i = list;
		     i != NULL && guard->local_count < FORWARDING_LOOP_ADDRS_MAX; i = i->ifa_next)
			if (i->ifa_addr != NULL && server_from_sockaddr(i->ifa_addr, &server) == 0)
				guard->local[guard->local_count++] = server.addr;
		freeifaddrs(list);
	}
	FILE *file = fopen("/proc/net/udp", "re");
	char line[512];
	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		forwarding_loop_read_udp_line(guard, line);
	if (file != NULL)
		fclose(file);
}

char *
forwarding_loop_find(const struct forwarding_loop *guard, const char *whose,
    const struct server *servers, size_t count)
{
	const char *why;
	char text[SERVER_TEXT_MAX];

	for (size_t i = 0; i < count; i++)
		if (forwarding_loop_is(guard, &servers[i], &why))
			return xasprintf("%s%sserver %s %s", whose, *whose ? ": " : "",
			    server_format(&servers[i], text), why);
	return NULL;
}
