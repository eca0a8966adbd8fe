/* --ready: a program that hangs is not ready, and the probe reports this in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/addr.h"
#include "lib/clock.h"
#include "lib/http_ready.h"
#include "lib/own_loopback.h"

enum { SOON_MS = 1900 }; /* the limit of one second, plus time for a busy machine */

/* Makes a listener at the address and port that the probe uses. */
static int
listen_there(struct server *server)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*server = (struct server){ 0 };
	own_loopback(&server->addr);
	len = server_sockaddr(server, &ss);
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &len), 0);
	assert_int_equal(server_from_sockaddr((struct sockaddr *)&ss, server), 0);
	return fd;
}

static void
expect_timeout(uint16_t port)
{
	int64_t begun_ms = clock_mono_ms();

	assert_int_equal(http_ready_ask(port), -ETIMEDOUT);
	assert_in_range(clock_mono_ms() - begun_ms, 900, SOON_MS);
}

static void
a_process_that_accepts_nothing_takes_a_second(void **state)
{
	struct server server;
	struct sockaddr_storage ss;
	int fd = listen_there(&server), waiting[8];
	socklen_t len = server_sockaddr(&server, &ss);

	(void)state;

	/* The backlog has no room for the last connections, so they are not established. */
	for (unsigned i = 0; i < 8; i++) {
		waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(waiting[i], (struct sockaddr *)&ss, len);
	}
	expect_timeout(server.port);
	for (unsigned i = 0; i < 8; i++)
		close(waiting[i]);
	close(fd);
}

static void *
trickle(void *arg)
{
	const struct timespec pause = { .tv_nsec = 100 * NS_PER_MS };
	int fd = accept(*(int *)arg, NULL, NULL);

	while (send(fd, "H", 1, MSG_NOSIGNAL) == 1)
		nanosleep(&pause, NULL);
	close(fd);
	return NULL;
}

static void
a_process_that_trickles_takes_a_second(void **state)
{
	struct server server;
	int fd = listen_there(&server);
	pthread_t thread;

	(void)state;

	assert_int_equal(pthread_create(&thread, NULL, trickle, &fd), 0);
	expect_timeout(server.port);
	pthread_join(thread, NULL);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_accepts_nothing_takes_a_second),
		cmocka_unit_test(a_process_that_trickles_takes_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
