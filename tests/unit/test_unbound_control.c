/* The client of unbound's control socket, and what it reads from hostile replies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/clock.h"
#include "nanny/unbound/control.h"
#include "nanny/unbound/statistics.h"

/* A control socket, and the results of the commands. */
static struct world {
	char dir[64], path[96];
	int listener;
	struct control *control;
	int done;
	char command[64], reply[64], why[64]; /* the last result, or "" */
	size_t reply_len;
} w;

static void
note(void *arg, const char *command, const char *reply, const char *why)
{
	assert_ptr_equal(arg, &w);
	assert_true((reply == NULL) != (why == NULL));
	w.done++;
	w.reply_len = reply != NULL ? strlen(reply) : 0;
	snprintf(w.command, sizeof w.command, "%s", command);
	snprintf(w.reply, sizeof w.reply, "%s", reply != NULL ? reply : "");
	snprintf(w.why, sizeof w.why, "%s", why != NULL ? why : "");
}

static int
open_world(void **state)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	(void)state;
	memset(&w, 0, sizeof w);
	strcpy(w.dir, "/tmp/control-XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	snprintf(w.path, sizeof w.path, "%s/control", w.dir);
	strcpy(sun.sun_path, w.path);
	w.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(w.listener, (struct sockaddr *)&sun, sizeof sun), 0);
	assert_int_equal(listen(w.listener, 8), 0);
	w.control = control_new(w.path, &w);
	return 0;
}

static int
close_world(void **state)
{
	(void)state;
	control_free(w.control);
	close(w.listener);
	unlink(w.path);
	rmdir(w.dir);
	return 0;
}

/* Accepts the connection of the command that has been sent, and checks its text. */
static int
accept_command(const char *expected)
{
	char text[128] = "";
	int fd = accept(w.listener, NULL, NULL);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof text - 1) > 0);
	assert_string_equal(text, expected);
	return fd;
}

static void
send_reply(const char *bytes, size_t len)
{
	int fd;

	assert_true(control_send(w.control, "status", note));
	control_run(w.control, 0);
	fd = accept_command("UBCT1 status\n");
	while (len > 0) {
		ssize_t n = send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) { /* the buffer is full, or the client has had enough */
			control_run(w.control, 0);
			if (w.done > 0)
				break;
			continue;
		}
		bytes += n;
		len -= (size_t)n;
	}
	close(fd);
	control_run(w.control, 0);
}

static void
a_reply_ends_with_the_connection(void **state)
{
	(void)state;
	send_reply("ok\n", 3);
	assert_int_equal(w.done, 1);
	assert_string_equal(w.command, "status");
	assert_string_equal(w.reply, "ok\n");
	assert_int_equal(control_fd(w.control), -1);
	assert_true(control_next_ms(w.control) == CLOCK_NEVER);
}

static void
commands_are_sent_one_after_another(void **state)
{
	(void)state;
	assert_true(control_send(w.control, "one", note));
	assert_true(control_send(w.control, "two", note));
	assert_true(control_send(w.control, "two", note)); /* waits already */
	control_run(w.control, 0);
	int fd = accept_command("UBCT1 one\n");
	assert_true(control_send(w.control, "one", note)); /* the first one has been sent */
	assert_int_equal(write(fd, "1\n", 2), 2);
	control_run(w.control, 0);
	assert_int_equal(w.done, 0); /* the connection is still open */
	close(fd);
	control_run(w.control, 0);
	assert_string_equal(w.reply, "1\n");
	close(accept_command("UBCT1 two\n"));
	control_run(w.control, 0);
	close(accept_command("UBCT1 one\n"));
	control_run(w.control, 0);
	assert_int_equal(w.done, 3);
	assert_string_equal(w.why, "no reply");
}

static void
a_reply_that_is_too_long_is_an_error(void **state)
{
	char *bytes = malloc(2 * CONTROL_REPLY_MAX);

	(void)state;
	memset(bytes, 'x', 2 * CONTROL_REPLY_MAX);
	send_reply(bytes, 2 * CONTROL_REPLY_MAX);
	assert_int_equal(w.done, 1);
	assert_string_equal(w.why, "the reply is too long");
	free(bytes);
}

static void
the_longest_reply_is_taken(void **state)
{
	char *bytes = malloc(CONTROL_REPLY_MAX);

	(void)state;
	memset(bytes, 'x', CONTROL_REPLY_MAX);
	send_reply(bytes, CONTROL_REPLY_MAX - 1);
	assert_int_equal(w.done, 1);
	assert_int_equal(w.reply_len, CONTROL_REPLY_MAX - 1);
	free(bytes);
}

static void
a_reply_that_does_not_end_fails_at_its_deadline(void **state)
{
	(void)state;
	assert_true(control_send(w.control, "status", note));
	control_run(w.control, 1000);
	int fd = accept_command("UBCT1 status\n");
	assert_int_equal(write(fd, "ok\n", 3), 3);
	control_run(w.control, 1000);
	assert_true(control_next_ms(w.control) == 1000 + CONTROL_TIMEOUT_MS);
	control_run(w.control, 1000 + CONTROL_TIMEOUT_MS - 1);
	assert_int_equal(w.done, 0);
	control_run(w.control, 1000 + CONTROL_TIMEOUT_MS);
	assert_string_equal(w.why, "no reply in time");
	close(fd);
}

static void
without_a_socket_every_command_fails(void **state)
{
	(void)state;
	unlink(w.path);
	assert_true(control_send(w.control, "one", note));
	assert_true(control_send(w.control, "two", note));
	control_run(w.control, 0);
	assert_int_equal(w.done, 2);
	assert_string_equal(w.why, "No such file or directory");
	assert_int_equal(control_fd(w.control), -1);
}

static void
a_command_that_is_too_long_fails(void **state)
{
	char command[2000];

	(void)state;
	memset(command, 'c', sizeof command - 1);
	command[sizeof command - 1] = '\0';
	assert_true(control_send(w.control, command, note));
	control_run(w.control, 0);
	assert_int_equal(w.done, 1);
	assert_string_equal(w.why, "File name too long");
}

static void
the_queue_is_bounded_and_can_be_forgotten(void **state)
{
	char command[32];

	(void)state;
	for (int i = 0; i < CONTROL_COMMANDS_MAX; i++) {
		snprintf(command, sizeof command, "flush_zone %d.", i);
		assert_true(control_send(w.control, command, note));
	}
	assert_false(control_send(w.control, "one more", note));
	assert_true(control_send(w.control, "flush_zone 5.", note)); /* waits already */
	control_run(w.control, 0);
	control_forget(w.control);
	control_run(w.control, 0);
	assert_int_equal(w.done, 0);
	assert_int_equal(control_fd(w.control), -1);
}

static void
statistics_are_read(void **state)
{
	double values[FIGURE_COUNT] = { 0 };

	(void)state;
	unbound_statistics_read(values,
	    "thread0.num.queries=3\ntotal.num.queries=12345\ntotal.num.queries_wait_limit=7\n"
	    "total.tcpusage=0\nmem.cache.rrset=66104\nunknown=9\ntotal.num.prefetch=2\n");
	assert_true(values[FIGURE_QUERIES] == 12345);
	assert_true(values[FIGURE_CLIENT_LIMIT] == 7);
	assert_true(values[FIGURE_MEMORY_RRSETS] == 66104);
	assert_true(values[FIGURE_PREFETCHES] == 2);
	assert_true(values[FIGURE_CACHE_HITS] == 0);
}

static void
a_wrong_number_keeps_the_former_one(void **state)
{
	static const char *const wrong[] = { "total.num.queries=\n", "total.num.queries=-1\n",
		"total.num.queries=nan\n", "total.num.queries=inf\n", "total.num.queries=1e300\n",
		"total.num.queries=12x\n", "total.num.queries=12 13\n", "total.num.queries\n",
		"total.num.queries=\n14\n", "=12\n", "total.num.querie=12\n",
		"total.num.queriesx=12\n", "error unknown command 'stats_noreset'\n", "" };

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		double values[FIGURE_COUNT] = { [FIGURE_QUERIES] = 5 };

		unbound_statistics_read(values, wrong[i]);
		assert_true(values[FIGURE_QUERIES] == 5);
	}
}

static void
a_line_that_is_cut_is_ignored(void **state)
{
	double values[FIGURE_COUNT] = { [FIGURE_QUERIES] = 12000 };

	(void)state;
	unbound_statistics_read(values, "total.num.prefetch=2\ntotal.num.queries=123");
	assert_true(values[FIGURE_QUERIES] == 12000);
	assert_true(values[FIGURE_PREFETCHES] == 2);
}

int
main(void)
{
#define WITH_SOCKET(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
	const struct CMUnitTest tests[] = {
		WITH_SOCKET(a_reply_ends_with_the_connection),
		WITH_SOCKET(commands_are_sent_one_after_another),
		WITH_SOCKET(a_reply_that_is_too_long_is_an_error),
		WITH_SOCKET(the_longest_reply_is_taken),
		WITH_SOCKET(a_reply_that_does_not_end_fails_at_its_deadline),
		WITH_SOCKET(without_a_socket_every_command_fails),
		WITH_SOCKET(a_command_that_is_too_long_fails),
		WITH_SOCKET(the_queue_is_bounded_and_can_be_forgotten),
		cmocka_unit_test(statistics_are_read),
		cmocka_unit_test(a_wrong_number_keeps_the_former_one),
		cmocka_unit_test(a_line_that_is_cut_is_ignored),
	};

	return cmocka_run_group_tests_name("unbound's control socket", tests, NULL, NULL);
}
