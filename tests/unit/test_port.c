/* Who holds a port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/port.h"

/* A socket of this family at `text`, port 0 for a free one; its port in `*port`. */
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
	char holder[PORT_HOLDER_MAX], expected[64];

	(void)state;
	int fd = bound("127.0.0.1", &server.port);
	snprintf(expected, sizeof(expected), "test_port (pid %d)", (int)getpid());
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

/* The first process found at the port was blamed, whatever address it had. */
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_holder_of_a_udp_port_is_found),
		cmocka_unit_test(who_has_another_address_is_not_the_holder),
		cmocka_unit_test(a_wildcard_holds_every_address),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
