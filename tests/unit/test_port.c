/* Who holds a port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/port.h"

static void
the_holder_of_a_udp_port_is_found(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);
	char holder[PORT_HOLDER_MAX], expected[64];

	(void)state;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	snprintf(expected, sizeof(expected), "test_port (pid %d)", (int)getpid());
	assert_string_equal(port_holder(SOCK_DGRAM, ntohs(sin.sin_port), holder), expected);
	close(fd);
	assert_null(port_holder(SOCK_DGRAM, ntohs(sin.sin_port), holder));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_holder_of_a_udp_port_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
