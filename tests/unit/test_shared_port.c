/* shared_port.c: which other servers at a shared port count, and what happens if a server cannot
 * leave the port. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "kubedns/serve/net/shared_port.h"
#include "kubedns/serve/net/sockets.h"
#include "lib/port.h"

enum { THREADS = 2, DISCARD = 9 };

/* The UDP sockets of a kubedns at one address. */
struct server_sockets {
	struct sockets sockets;
	int udp[THREADS][SOCKETS_MAX];
};

static int
open_socket(void)
{
	const int yes = 1;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes), 0);
	return fd;
}

static void
bind_to(int fd, struct server *server)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(server, &ss);

	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	server->port = port_bound(fd);
}

/* Finds a port that is free at this address. If the kernel chose the port of a socket, the socket
 * would lose the port when it is connected and then returns. */
static uint16_t
free_port(struct server server)
{
	int fd = open_socket();

	bind_to(fd, &server);
	close(fd);
	return server.port;
}

/* Binds the sockets to `server`, or only holds them if `held`. If the port of `server` is 0, a free
 * port is chosen. */
static void
open_server(struct server_sockets *s, struct server *server, bool held)
{
	*s = (struct server_sockets){ .sockets = { .threads = THREADS, .count = 1, .held = held } };
	s->sockets.udp = s->udp;
	if (server->port == 0)
		server->port = free_port(*server);
	for (unsigned t = 0; t < THREADS; t++) {
		s->udp[t][0] = open_socket();
		if (!held)
			bind_to(s->udp[t][0], server);
	}
	s->sockets.servers[0] = *server;
}

static void
close_server(struct server_sockets *s)
{
	for (unsigned t = 0; t < THREADS; t++)
		close(s->udp[t][0]);
}

/* The first of three servers has left the port to the second, which has died. The first server
 * returns a second later. Until then, the third server would be alone. It would only get queries
 * that the first has not read yet. */
static void
a_port_that_was_left_is_still_taken(void **state)
{
	struct server server = { .addr = { AF_INET, { 127, 0, 0, 6 } } };
	struct server_sockets first, third;

	(void)state;
	open_server(&first, &server, false);
	struct shared_port *old = shared_port_new(&first.sockets);
	assert_int_equal(shared_port_leave(old), 0);
	assert_false(shared_port_has_other(old));
	assert_true(shared_port_is_taken(&server));

	open_server(&third, &server, true);
	struct shared_port *new = shared_port_new(&third.sockets);
	assert_true(shared_port_has_other(new));
	assert_int_equal(shared_port_enter(old), 0);
	assert_true(shared_port_has_other(new));
	assert_false(shared_port_has_other(old));
	assert_int_equal(shared_port_enter(new), 0);
	assert_true(shared_port_has_other(old));

	/* A server that has left the port does not count as a server that serves. */
	assert_int_equal(shared_port_leave(old), 0);
	assert_false(shared_port_has_other(new));
	close_server(&first);
	assert_true(shared_port_is_taken(&server));
	close_server(&third);
	assert_false(shared_port_is_taken(&server));
	shared_port_free(old);
	shared_port_free(new);
}

/* No interface has 192.0.2.6, so there is no route from this address. It is the same if the
 * interface is down. */
static void
one_that_cannot_leave_goes_on_serving(void **state)
{
	struct server server = { .addr = { AF_INET, { 192, 0, 2, 6 } } };
	struct server_sockets first, second;

	(void)state;
	open_server(&first, &server, false);
	open_server(&second, &server, false);
	struct shared_port *port = shared_port_new(&first.sockets);
	assert_true(shared_port_has_other(port));
	assert_true(shared_port_leave(port) < 0);
	assert_false(shared_port_held(port));
	assert_true(shared_port_has_other(port));
	close_server(&second);
	assert_false(shared_port_has_other(port));
	close_server(&first);
	shared_port_free(port);
}

/* No interface has the second address. So the sockets that had already left the port return to it. */
static void
it_leaves_with_all_sockets_or_with_none(void **state)
{
	struct server here = { .addr = { AF_INET, { 127, 0, 0, 8 } } }, away = here;
	struct server_sockets first;
	FILE *table = fopen("/proc/net/udp", "re");

	(void)state;
	assert_non_null(table);
	open_server(&first, &here, false);
	away.addr = (struct addr){ AF_INET, { 192, 0, 2, 8 } };
	away.port = here.port;
	for (unsigned t = 0; t < THREADS; t++) {
		first.udp[t][1] = open_socket();
		bind_to(first.udp[t][1], &away);
	}
	first.sockets.servers[1] = away;
	first.sockets.count = 2;
	struct shared_port *port = shared_port_new(&first.sockets);
	assert_true(shared_port_leave(port) < 0);
	assert_int_equal(port_udp_servers(table, &here, 0), THREADS);
	assert_int_equal(port_udp_servers(table, &here, DISCARD), 0);
	for (unsigned t = 0; t < THREADS; t++)
		close(first.udp[t][1]);
	close_server(&first);
	shared_port_free(port);
	fclose(table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_that_was_left_is_still_taken),
		cmocka_unit_test(one_that_cannot_leave_goes_on_serving),
		cmocka_unit_test(it_leaves_with_all_sockets_or_with_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
