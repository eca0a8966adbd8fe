#include "kubedns/serve/shared_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "kubedns/serve/sockets.h"
#include "lib/log.h"
#include "lib/port.h"
#include "lib/xalloc.h"

enum { NOBODY_PORT = 9 /* discard, RFC 863 */ };

struct shared_port {
	struct sockets sockets; /* with copies of the arrays; descriptors are others' */
	FILE *table;            /* /proc/net/udp or udp6; NULL: cannot be read */
};

static FILE *
open_table(const struct server *server)
{
	return fopen(server->addr.family == AF_INET ? "/proc/net/udp" : "/proc/net/udp6", "re");
}

bool
shared_port_is_taken(const struct server *server)
{
	FILE *table = open_table(server);
	bool taken = table != NULL && port_udp_servers(table, server) > 0;

	if (table != NULL)
		fclose(table);
	return taken;
}

int
shared_port_hold(int udp, const struct server *server)
{
	struct server nobody = { .addr = server->addr, .port = NOBODY_PORT };
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&nobody, &ss);
	char text[SERVER_TEXT_MAX];

	if (connect(udp, (struct sockaddr *)&ss, len) == 0)
		return 0;
	int rc = -errno;
	log_warn("dns: %s: cannot keep queries from it for now", server_format(server, text));
	return rc;
}

static void
join_udp(int fd)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	if (connect(fd, &nobody, sizeof(nobody)) < 0)
		log_fatal("dns: connect");
}

static void
each(const struct sockets *sockets, int (*const fds)[SOCKETS_MAX], void (*act)(int fd))
{
	for (unsigned t = 0; t < sockets->threads; t++)
		for (size_t f = 0; f < sockets->count; f++)
			act(fds[t][f]);
}

static void
join_tcp(int fd)
{
	if (listen(fd, SHARED_PORT_BACKLOG) < 0)
		log_fatal("dns: listen");
}

void
shared_port_join(const struct sockets *sockets)
{
	each(sockets, sockets->tcp, join_tcp);
	each(sockets, sockets->udp, join_udp);
}

static int (*copy_fds(const struct sockets *sockets, int (*const fds)[SOCKETS_MAX]))[SOCKETS_MAX]
{
	int(*copy)[SOCKETS_MAX] = xcalloc(sockets->threads, sizeof(*copy));

	for (unsigned t = 0; t < sockets->threads; t++)
		for (size_t f = 0; f < SOCKETS_MAX; f++)
			copy[t][f] = fds[t][f];
	return copy;
}

struct shared_port *
shared_port_new(const struct sockets *sockets)
{
	struct shared_port *port = xcalloc(1, sizeof(*port));

	port->sockets = *sockets;
	port->sockets.udp = copy_fds(sockets, sockets->udp);
	port->sockets.tcp = copy_fds(sockets, sockets->tcp);
	port->table = open_table(&sockets->servers[0]);
	if (port->table == NULL)
		log_warn("dns: the kernel's list of sockets: another kubedns beside this one will "
			 "not be seen");
	return port;
}

void
shared_port_free(struct shared_port *port)
{
	if (port == NULL)
		return;
	if (port->table != NULL)
		fclose(port->table);
	free(port->sockets.udp);
	free(port->sockets.tcp);
	free(port);
}

bool
shared_port_held(const struct shared_port *port)
{
	return port->sockets.held;
}

bool
shared_port_has_other(const struct shared_port *port)
{
	const struct sockets *s = &port->sockets;

	return port->table != NULL &&
	       port_udp_servers(port->table, &s->servers[0]) > (s->held ? 0 : s->threads);
}

void
shared_port_enter(struct shared_port *port)
{
	shared_port_join(&port->sockets);
	port->sockets.held = false;
}

void
shared_port_leave(struct shared_port *port)
{
	const struct sockets *s = &port->sockets;

	for (unsigned t = 0; t < s->threads; t++)
		for (size_t f = 0; f < s->count; f++)
			shared_port_hold(s->udp[t][f], &s->servers[f]);
	port->sockets.held = true;
}
