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
	/* `udp` is a copy, and `tcp` is not set. The workers own the descriptors. */
	struct sockets sockets;
	bool bound;        /* the UDP sockets are bound */
	bool said_staying; /* a failure to leave has been logged */
	FILE *table;       /* /proc/net/udp or udp6, or NULL if it cannot be read */
};

static FILE *
open_table(const struct server *server)
{
	return fopen(server->addr.family == AF_INET ? "/proc/net/udp" : "/proc/net/udp6", "re");
}

/* Returns the number of sockets in the table of servers that have joined. The next function counts sockets of servers that have left. */
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
	log_error("dns: %s: the socket cannot be made to receive queries again",
	    server_format(server, text));
	return rc;
}

/* Calls `act` for each UDP socket until one call fails. */
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
		log_warn("dns: cannot read the kernel's list of sockets: another kubedns on this "
			 "port will not be noticed");
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
	/* This server has not joined yet. A server that has left returns unless another server joins. */
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
		log_warnx(
		    "dns: cannot leave port %u to the other kubedns: %s; trying again every second",
		    port->sockets.servers[0].port, strerror(-rc));
	port->said_staying = true;
	each(&port->sockets, return_udp);
	return rc;
}
