#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "nanny/dnsmasq/stale_forks.h"
#include "tests/unit/emulator.h"

static bool
waits(long number, const char *rest, int *fd)
{
	char text[256];

	snprintf(text, sizeof text, "%ld %s", number, rest);
	return stale_forks_waits(text, fd);
}

static void
waiting_is_a_read_of_one_byte(void **state)
{
	int fd = -1;

	(void)state;
	assert_true(waits(SYS_read, "0xb 0x7ffd2cbc5b1f 0x1 0x0 0x0 0x0 0x7ffd2c 0x7f11", &fd));
	assert_int_equal(fd, 11);
	assert_false(waits(SYS_read, "0xb 0x7ffd2cbc5b1f 0x2b 0x0 0x0 0x0 0x7ffd2c 0x7f11", &fd));
	assert_false(waits(SYS_write, "0xb 0x7ffd2cbc5b1f 0x1 0x0 0x0 0x0 0x7ffd2c 0x7f11", &fd));
	assert_false(stale_forks_waits("running\n", &fd));
	assert_false(stale_forks_waits("-1 0x7ffd2cbc5b1f 0x7f11\n", &fd));
	assert_false(stale_forks_waits("", &fd));
}

/* Opens two connected sockets. pair[0] is ours and has the port `*port`. pair[1] is the client's. */
static void
open_pair(int pair[2], uint16_t *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof sin;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
	pair[1] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(pair[1], (struct sockaddr *)&sin, len), 0);
	pair[0] = accept(listener, NULL, NULL);
	assert_true(pair[0] >= 0);
	close(listener);
	*port = ntohs(sin.sin_port);
}

/* Starts a process that reads one byte again and again, like a fork of dnsmasq. It ends when this
 * process ends. */
static pid_t
fork_reader(int fd)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		for (char c; read(fd, &c, 1) == 1;)
			;
		_exit(0);
	}
	return pid;
}

/* Runs stale_forks_run() for `ms` of a simulated clock. Other processes can run in the pauses. */
static void
look(struct stale_forks *tcp, uint16_t port, int64_t *now_ms, int64_t ms)
{
	for (int64_t end = *now_ms + ms; *now_ms < end; *now_ms += STALE_FORKS_LOOK_MS) {
		usleep(5000);
		stale_forks_run(tcp, port, *now_ms);
	}
}

/* Continues until `count` forks are left. On a busy machine this may take long. */
static void
look_until(struct stale_forks *tcp, uint16_t port, int64_t *now_ms, size_t count)
{
	for (int i = 0; i < 1000 && tcp->count != count; i++)
		look(tcp, port, now_ms, STALE_FORKS_LOOK_MS);
	assert_int_equal(tcp->count, count);
}

static int
reap(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
who_waits_for_its_client_is_ended_and_who_waits_for_a_server_is_not(void **state)
{
	int client[2], server[2];
	uint16_t port, other;
	int64_t now = 1000;
	struct stale_forks tcp = { .count = 0 };

	(void)state;
	skip_under_emulator("/proc/PID/syscall of the emulated program");
	open_pair(client, &port);
	open_pair(server, &other);
	pid_t idle = fork_reader(client[0]), busy = fork_reader(server[0]);
	assert_int_equal(send(client[1], "x", 1, 0), 1);
	assert_int_equal(send(server[1], "x", 1, 0), 1);
	stale_forks_reloaded(&tcp, getpid(), now);
	assert_int_equal(tcp.count, 2);
	stale_forks_reloaded(&tcp, getpid(), now); /* the same reload again */
	assert_int_equal(tcp.count, 2);
	look_until(&tcp, port, &now, 1);
	look(&tcp, port, &now, 10 * STALE_FORKS_QUIET_MS);
	assert_int_equal(tcp.count, 1); /* no other fork has ended */
	assert_int_equal(tcp.ended, 1);
	assert_int_equal(reap(idle), SIGALRM);
	assert_int_equal(kill(busy, SIGKILL), 0);
	assert_int_equal(reap(busy), SIGKILL);
	look_until(&tcp, port, &now, 0); /* the fork has exited by itself */
	assert_int_equal(tcp.ended, 1);
	assert_true(stale_forks_next_ms(&tcp) == INT64_MAX);
}

static void
whose_client_goes_on_asking_is_left(void **state)
{
	int client[2];
	uint16_t port;
	int64_t now = 1000;
	struct stale_forks tcp = { .count = 0 };

	(void)state;
	skip_under_emulator("/proc/PID/syscall of the emulated program");
	open_pair(client, &port);
	pid_t pid = fork_reader(client[0]);
	stale_forks_reloaded(&tcp, getpid(), now);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(send(client[1], "x", 1, 0), 1);
		look(&tcp, port, &now, STALE_FORKS_QUIET_MS);
		assert_int_equal(tcp.count, 1);
	}
	look_until(&tcp, port, &now, 0);
	assert_int_equal(reap(pid), SIGALRM);
}

static void
whose_client_has_asked_nothing_yet_is_given_time(void **state)
{
	int client[2];
	uint16_t port;
	int64_t now = 1000;
	struct stale_forks tcp = { .count = 0 };

	(void)state;
	skip_under_emulator("/proc/PID/syscall of the emulated program");
	open_pair(client, &port);
	pid_t pid = fork_reader(client[0]);
	stale_forks_reloaded(&tcp, getpid(), now);
	look(&tcp, port, &now, STALE_FORKS_FRESH_MS / 2);
	assert_int_equal(tcp.count, 1);
	look_until(&tcp, port, &now, 0);
	assert_int_equal(reap(pid), SIGALRM);
}

/* Near the limit, a connection without a query ends after 100 ms, as the manual says. */
static void
near_the_limit_a_connection_without_a_query_has_100_ms(void **state)
{
	int client[2];
	uint16_t port;
	int64_t now = 1000;
	struct stale_forks tcp = { .limit = 1 };

	(void)state;
	skip_under_emulator("/proc/PID/syscall of the emulated program");
	open_pair(client, &port);
	pid_t pid = fork_reader(client[0]);
	stale_forks_count(&tcp, getpid(), now);
	assert_int_equal(tcp.count, 1);
	for (int i = 0; i < 1000 && tcp.forks[0].quiet_ms == 0; i++) /* until the process waits */
		look(&tcp, port, &now, STALE_FORKS_LOOK_MS);
	int64_t begun = tcp.forks[0].quiet_ms;
	assert_true(begun != 0);
	tcp.next_ms = begun + 99;
	stale_forks_run(&tcp, port, begun + 99);
	assert_int_equal(tcp.crowd_ended, 0);
	tcp.next_ms = begun + 100;
	stale_forks_run(&tcp, port, begun + 100);
	assert_int_equal(tcp.crowd_ended, 1);
	assert_int_equal(reap(pid), SIGALRM);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_is_a_read_of_one_byte),
		cmocka_unit_test(
		    who_waits_for_its_client_is_ended_and_who_waits_for_a_server_is_not),
		cmocka_unit_test(whose_client_goes_on_asking_is_left),
		cmocka_unit_test(whose_client_has_asked_nothing_yet_is_given_time),
		cmocka_unit_test(near_the_limit_a_connection_without_a_query_has_100_ms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
