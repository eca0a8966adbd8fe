/* Finding the process that uses a port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/port.h"

/* Opens a socket at the address `text`. If `*port` is 0, the kernel chooses a port. `*port` gets
 * the port of the socket. */
static int
bound(const char *text, uint16_t *port)
{
	struct server server = { .port = *port };
	struct sockaddr_storage ss;
	socklen_t len;

	assert_int_equal(addr_parse(text, &server.addr), 0);
	int fd = socket(server.addr.family, SOCK_DGRAM, 0);
	len = server_sockaddr(&server, &ss);
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	len = sizeof ss;
	assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &len), 0);
	assert_int_equal(server_from_sockaddr((struct sockaddr *)&ss, &server), 0);
	*port = server.port;
	return fd;
}

static void
the_holder_of_a_udp_port_is_found(void **state)
{
	struct server server = { .addr = { AF_INET, { 127, 0, 0, 1 } } };
	char holder[PORT_HOLDER_MAX], expected[64], name[16];

	(void)state;
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	int fd = bound("127.0.0.1", &server.port);
	snprintf(expected, sizeof expected, "%s (pid %d)", name, (int)getpid());
	assert_string_equal(port_holder(SOCK_DGRAM, &server, holder), expected);
	close(fd);
	assert_null(port_holder(SOCK_DGRAM, &server, holder));
}

static bool
holds(const char *text, uint16_t port)
{
	struct server server = { .port = port };
	char holder[PORT_HOLDER_MAX];

	assert_int_equal(addr_parse(text, &server.addr), 0);
	return port_holder(SOCK_DGRAM, &server, holder) != NULL;
}

/* Earlier, the first process at the port was reported, whatever its address. */
static void
who_has_another_address_is_not_the_holder(void **state)
{
	uint16_t port = 0;

	(void)state;
	int fd = bound("127.0.0.2", &port);
	assert_true(holds("127.0.0.2", port));
	assert_false(holds("127.0.0.1", port));
	assert_false(holds("::1", port));
	assert_true(holds("0.0.0.0", port));
	assert_true(holds("::", port)); /* both families */
	close(fd);
	port = 0;
	fd = bound("::1", &port);
	assert_true(holds("::1", port));
	assert_false(holds("127.0.0.1", port));
	assert_true(holds("::", port));
	close(fd);
}

static void
a_wildcard_holds_every_address(void **state)
{
	uint16_t port = 0;

	(void)state;
	int fd = bound("0.0.0.0", &port);
	assert_true(holds("127.0.0.3", port));
	assert_false(holds("::1", port));
	close(fd);
	port = 0;
	fd = bound("::", &port);
	assert_true(holds("127.0.0.3", port));
	assert_true(holds("::1", port));
	close(fd);
}

static int
reusing(const char *text, uint16_t *port)
{
	struct server server = { .port = *port };
	struct sockaddr_storage ss;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
	assert_int_equal(addr_parse(text, &server.addr), 0);
	socklen_t len = server_sockaddr(&server, &ss);
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	*port = port_bound(fd);
	return fd;
}

/* With SO_REUSEADDR, several UDP sockets can have the same address and port. One of them may be
 * connected. */
static void
all_udp_sockets_at_a_port_are_listed(void **state)
{
	struct port_socket sockets[4];
	struct server server = { .addr = { AF_INET, { 127, 0, 0, 6 } } };
	struct sockaddr_storage ss;
	char pid[16];

	(void)state;
	int first = reusing("127.0.0.6", &server.port);
	assert_int_equal(port_udp_sockets(&server, sockets, 4), 1);
	int second = reusing("127.0.0.6", &server.port), any = reusing("0.0.0.0", &server.port);
	int beside = reusing("127.0.0.7", &server.port);
	socklen_t len = server_sockaddr(&(struct server){ server.addr, 9 }, &ss);
	assert_int_equal(connect(second, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(port_udp_sockets(&server, sockets, 4), 3);
	assert_int_equal(port_udp_sockets(&server, sockets, 2), 2);
	assert_int_equal(sockets[0].uid, getuid());
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	assert_true(port_process_has(pid, sockets[0].inode));
	assert_false(port_process_has("1", sockets[0].inode));
	close(first);
	close(second);
	close(any);
	assert_int_equal(port_udp_sockets(&server, sockets, 4), 0);
	close(beside);
}

/* During an update, two kubedns share a port. A connected socket gets no queries. */
static void
servers_at_a_udp_port_are_counted(void **state)
{
	uint16_t port = 0, other = 0;
	struct server server = { .addr = { AF_INET, { 127, 0, 0, 4 } } };
	struct sockaddr_storage ss;
	FILE *table = fopen("/proc/net/udp", "re");

	(void)state;
	assert_non_null(table);
	/* `fd` is bound to a known port. If the kernel chose the port, `fd` would lose it when it
	 * is disconnected. */
	close(bound("127.0.0.4", &port));
	int fd = bound("127.0.0.4", &port), beside = bound("127.0.0.5", &port);
	server.port = port;
	assert_int_equal(port_udp_servers(table, &server, 0), 1);
	int elsewhere = bound("127.0.0.4", &other);
	assert_int_equal(port_udp_servers(table, &server, 0), 1);
	socklen_t len = server_sockaddr(&(struct server){ server.addr, 9 }, &ss);
	assert_int_equal(connect(fd, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(port_udp_servers(table, &server, 0), 0);
	assert_int_equal(port_udp_servers(table, &server, 9), 1);
	assert_int_equal(port_udp_servers(table, &server, 10), 0);
	assert_int_equal(
	    connect(fd, &(struct sockaddr){ .sa_family = AF_UNSPEC }, sizeof(struct sockaddr)), 0);
	assert_int_equal(port_udp_servers(table, &server, 0), 1);
	close(fd);
	assert_int_equal(port_udp_servers(table, &server, 0), 0);
	close(beside);
	close(elsewhere);
	fclose(table);
}

/* A table like those of the kernel: in some readings, a row is missing or is repeated. */
struct restless {
	const char *rows; /* for each reading, how often the row is in it */
	size_t reading, at;
	char text[512];
};

static ssize_t
restless_read(void *cookie, char *buf, size_t size)
{
	struct restless *r = cookie;
	size_t left = strlen(r->text) - r->at, n = left < size ? left : size;

	memcpy(buf, r->text + r->at, n);
	r->at += n;
	return (ssize_t)n;
}

static int
restless_seek(void *cookie, off64_t *offset, int origin)
{
	static const char row[] =
	    "  1: 0400007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1\n";
	struct restless *r = cookie;

	if (origin != SEEK_SET || *offset != 0)
		return -1;
	r->at = 0;
	r->text[0] = '\0';
	for (int n = r->rows[r->reading] - '0'; n > 0; n--)
		strcat(r->text, row);
	if (r->rows[r->reading + 1] != '\0')
		r->reading++;
	return 0;
}

static void
a_row_that_is_missed_or_comes_twice_is_one_row(void **state)
{
	const struct server server = { .addr = { AF_INET, { 127, 0, 0, 4 } }, .port = 53 };

	static const char *const readings[] = { "0111", "2111", "110111", "1111" };

	(void)state;
	for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
		struct restless r = { .rows = readings[i] };
		FILE *table = fopencookie(&r, "r",
		    (cookie_io_functions_t){ .read = restless_read, .seek = restless_seek });

		assert_non_null(table);
		assert_int_equal(port_udp_servers(table, &server, 0), 1);
		fclose(table);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_holder_of_a_udp_port_is_found),
		cmocka_unit_test(who_has_another_address_is_not_the_holder),
		cmocka_unit_test(all_udp_sockets_at_a_port_are_listed),
		cmocka_unit_test(servers_at_a_udp_port_are_counted),
		cmocka_unit_test(a_row_that_is_missed_or_comes_twice_is_one_row),
		cmocka_unit_test(a_wildcard_holds_every_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
