#include "kubedns/serve/net/shared_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kubedns/serve/net/sockets.h"
#include "lib/log.h"
#include "lib/port.h"
#include "lib/xalloc.h"

enum { NOBODY_PORT = 9 /* discard, RFC 863 */ };

struct shared_port {
	struct sockets sockets; /* with a copy of `udp`, and no `tcp`; descriptors are others' */
	bool bound;             /* the UDP sockets */
	bool said_staying;      /* it could not leave */
	FILE *table;            /* /proc/net/udp or udp6; NULL: cannot be read */
};

static FILE *
open_table(const struct server *server)
{
	return fopen(server->addr.family == AF_INET ? "/proc/net/udp" : "/proc/net/udp6", "re");
}

/* Sockets of servers that have joined there, and of those that have left. */
static unsigned
joined(FILE *table, const struct server *server)
{
	return port_udp_servers(table, server, 0);
}

static unsigned
left(FILE *table, const struct server *server)
{
	return port_udp_servers(table, server, NOBODY_PORT);
}

static bool
is_taken(FILE *table, const struct server *server)
{
	return joined(table, server) + left(table, server) > 0;
}

bool
shared_port_is_taken(const struct server *server)
{
	FILE *table = open_table(server);
	bool taken = table != NULL && is_taken(table, server);

	if (table != NULL)
		fclose(table);
	return taken;
}

static int
bind_udp(int fd, const struct server *server)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(server, &ss);

	if (bind(fd, (struct sockaddr *)&ss, len) == 0)
		return 0;
	int rc = -errno;
	port_log_failure("dns", SOCK_DGRAM, server, -rc);
	return rc;
}

static int
leave_udp(int fd, const struct server *server)
{
	const struct server nobody = { .addr = server->addr, .port = NOBODY_PORT };
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&nobody, &ss);

	return connect(fd, (struct sockaddr *)&ss, len) == 0 ? 0 : -errno;
}

static int
return_udp(int fd, const struct server *server)
{
	const struct sockaddr anybody = { .sa_family = AF_UNSPEC };
	char text[SERVER_TEXT_MAX];

	if (connect(fd, &anybody, sizeof anybody) == 0)
		return 0;
	int rc = -errno;
	log_error("dns: %s: cannot be taken back", server_format(server, text));
	return rc;
}

/* Stops at the first that fails. */
static int
each(const struct sockets *sockets, int (*act)(int fd, const struct server *server))
{
	int rc = 0;

	for (unsigned t = 0; t < sockets->threads; t++)
		for (size_t f = 0; f < sockets->count && rc == 0; f++)
			rc = act(sockets->udp[t][f], &sockets->servers[f]);
	return rc;
}

static int (*copy_udp(const struct sockets *sockets))[SOCKETS_MAX]
{
	int(*copy)[SOCKETS_MAX] = xcalloc(sockets->threads, sizeof *copy);

	memcpy(copy, sockets->udp, sockets->threads * sizeof *copy);
	return copy;
}

struct shared_port *
shared_port_new(const struct sockets *sockets)
{
	struct shared_port *port = xcalloc(1, sizeof *port);

	port->sockets = *sockets;
	port->sockets.udp = copy_udp(sockets);
	port->sockets.tcp = NULL;
	port->bound = !sockets->held;
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

	if (port->table == NULL)
		return false;
	/* Before it has joined: the other that has left returns unless somebody joins. */
	if (!port->bound)
		return is_taken(port->table, &s->servers[0]);
	return joined(port->table, &s->servers[0]) > (s->held ? 0 : s->threads);
}

int
shared_port_enter(struct shared_port *port)
{
	int rc = each(&port->sockets, port->bound ? return_udp : bind_udp);

	if (rc == 0) {
		port->bound = true;
		port->sockets.held = false;
	}
	return rc;
}

int
shared_port_leave(struct shared_port *port)
{
	int rc = each(&port->sockets, leave_udp);

	port->sockets.held = rc == 0;
	if (rc == 0)
		return 0;
	if (!port->said_staying)
		log_warnx("dns: port %u cannot be left to the other: %s; it is tried again every "
			  "second",
		    port->sockets.servers[0].port, strerror(-rc));
	port->said_staying = true;
	each(&port->sockets, return_udp);
	return rc;
}
