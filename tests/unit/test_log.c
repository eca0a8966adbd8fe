/* Log lines as an operator and a log collector see them. They are complete, cannot be forged, and
 * never block the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/log.h"

/* The reading end of stderr during a test. */
struct capture {
	int saved, reader;
	char text[1 << 17];
};

static void
capture_begin(struct capture *c, int writer, int reader)
{
	c->saved = dup(STDERR_FILENO);
	dup2(writer, STDERR_FILENO);
	close(writer);
	c->reader = reader;
	fcntl(reader, F_SETFL, O_NONBLOCK);
}

static void
capture_pipe(struct capture *c)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	capture_begin(c, fds[1], fds[0]);
}

/* Returns the output so far. */
static const char *
capture_text(struct capture *c)
{
	size_t len = 0;
	ssize_t n = 0;

	while (len < sizeof c->text - 1 &&
	       (n = read(c->reader, c->text + len, sizeof c->text - 1 - len)) > 0)
		len += (size_t)n;
	c->text[len] = '\0';
	return c->text;
}

static void
capture_end(struct capture *c)
{
	dup2(c->saved, STDERR_FILENO);
	close(c->saved);
	close(c->reader);
	log_init("", LOG_FORMAT_TEXT, 0);
}

/* Returns the line after its time stamp, and checks the format of the time stamp. */
static const char *
after_time(const char *line)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

	for (size_t i = 0; form[i] != '\0'; i++) {
		if (form[i] == 'd')
			assert_in_range(line[i], '0', '9');
		else
			assert_int_equal(line[i], form[i]);
	}
	return line + strlen(form);
}

static struct capture capture;

static void
a_line_is_time_program_level_and_text(void **state)
{
	(void)state;
	capture_pipe(&capture);
	log_init("kubedns", LOG_FORMAT_TEXT, 0);
	log_warnx("conf %s: \"%s\": not an address", "/etc/kube-dns", "8.8.8");
	assert_string_equal(after_time(capture_text(&capture)),
	    "kubedns: warning: conf /etc/kube-dns: \"8.8.8\": not an address\n");
	capture_end(&capture);
}

static void
errno_is_spelled_out_and_kept(void **state)
{
	(void)state;
	capture_pipe(&capture);
	log_init("nanny", LOG_FORMAT_TEXT, 0);
	errno = ENOENT;
	log_error("exec %s", "/usr/sbin/dnsmasq");
	assert_int_equal(errno, ENOENT);
	assert_string_equal(after_time(capture_text(&capture)),
	    "nanny: error: exec /usr/sbin/dnsmasq: No such file or directory\n");
	capture_end(&capture);
}

static void
debug_lines_appear_from_verbosity_four(void **state)
{
	(void)state;
	capture_pipe(&capture);
	log_init("kubedns", LOG_FORMAT_TEXT, 3);
	assert_false(log_is_debug());
	log_debug("hidden");
	assert_string_equal(capture_text(&capture), "");
	log_init("kubedns", LOG_FORMAT_TEXT, 4);
	assert_true(log_is_debug());
	log_debug("shown");
	log_at(LOG_LEVEL_DEBUG, "shown too");
	assert_non_null(strstr(capture_text(&capture), "kubedns: debug: shown\n"));
	assert_non_null(strstr(capture.text, "kubedns: debug: shown too\n"));
	capture_end(&capture);
}

static void
the_verbosity_changes_while_the_program_runs(void **state)
{
	(void)state;
	log_init("kubedns", LOG_FORMAT_TEXT, 0);
	log_set_verbosity(4);
	assert_true(log_is_debug());
	log_set_verbosity(0);
	assert_false(log_is_debug());
	log_init("kubedns", LOG_FORMAT_TEXT, 4);
	log_set_verbosity(0);
	assert_false(log_is_debug());
	log_set_verbosity(-1);
	assert_true(log_is_debug());
	log_init("", LOG_FORMAT_TEXT, 0);
}

/* A client chose a name with line ends, terminal controls, bidirectional overrides and invalid
 * UTF-8. */
static void
strangers_cannot_forge_a_line(void **state)
{
	static const struct {
		const char *hostile, *shown;
	} cases[] = {
		{ "a\n2026-01-01 kubedns: error: b", "a\\n2026-01-01 kubedns: error: b" },
		{ "a\r\033[2Jb\tc\x7f", "a\\x0d\\x1b[2Jb\\tc\\x7f" },
		{ "\xc2\x9b"
		  "31m",
		    "\\xc2\\x9b31m" }, /* CSI as one C1 character */
		{ "\xe2\x80\xa8|\xe2\x80\xae",
		    "\\xe2\\x80\\xa8|\\xe2\\x80\\xae" }, /* U+2028, U+202E */
		{ "\xe2\x81\xa6|\xe2\x81\xa9",
		    "\\xe2\\x81\\xa6|\\xe2\\x81\\xa9" }, /* U+2066, U+2069 */
		{ "\xff\xc0\x80\xe4", "\\xff\\xc0\\x80\\xe4" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },          /* a surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" }, /* beyond U+10FFFF */
		{ "z\xc3\xbcrich \xe2\x9c\x93 \xf0\x9f\x90\x9f",
		    "z\xc3\xbcrich \xe2\x9c\x93 \xf0\x9f\x90\x9f" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		capture_pipe(&capture);
		log_init("t", LOG_FORMAT_TEXT, 0);
		log_info("%s", cases[i].hostile);
		const char *text = after_time(capture_text(&capture)) + strlen("t: info: ");
		assert_int_equal(strlen(text), strlen(cases[i].shown) + 1);
		assert_memory_equal(text, cases[i].shown, strlen(cases[i].shown));
		capture_end(&capture);
	}
}

static const char *
member(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	assert_true(json_object_object_get_ex(object, name, &value));
	return json_object_get_string(value);
}

static void
json_lines_are_objects_whatever_is_in_them(void **state)
{
	(void)state;
	capture_pipe(&capture);
	log_init("sidecar", LOG_FORMAT_JSON, 0);
	log_warnx("probe \"%s\"", "\\ \n \x01 \xff \xc2\x85 \xc3\xbc");
	capture_text(&capture);
	assert_ptr_equal(strchr(capture.text, '\n'), capture.text + strlen(capture.text) - 1);
	struct json_object *line = json_tokener_parse(capture.text);
	assert_non_null(line);
	assert_string_equal(member(line, "level"), "warning");
	assert_string_equal(member(line, "program"), "sidecar");
	assert_string_equal(member(line, "msg"), "probe \"\\ \n \x01 \\xff \\xc2\\x85 \xc3\xbc\"");
	assert_int_equal(strlen(member(line, "time")), strlen("2026-01-01T00:00:00.000Z"));
	json_object_put(line);
	capture_end(&capture);
}

static void
a_long_line_is_cut_and_still_whole(void **state)
{
	enum { LONG = 100000 };
	char *text = malloc(LONG + 1);

	(void)state;
	memset(text, '\x01', LONG); /* in JSON, each byte becomes six bytes */
	text[LONG] = '\0';
	capture_pipe(&capture);
	log_init("t", LOG_FORMAT_JSON, 0);
	log_info("%s", text);
	size_t len = strlen(capture_text(&capture));
	assert_in_range(len, PIPE_BUF / 2, PIPE_BUF);
	struct json_object *line = json_tokener_parse(capture.text);
	assert_non_null(line);
	json_object_put(line);
	capture_end(&capture);
	free(text);
}

/* Logs far more than the pipe can hold while nobody reads. alarm(2) ends the test if logging
 * blocks. */
static void
overfill(struct capture *c)
{
	uint64_t before = log_suppressed();
	unsigned lines = 0;

	alarm(10);
	for (unsigned i = 0; i < 20000; i++)
		log_info("%u a line of some length so that the buffer fills before long, as a "
			 "stopped reader lets it",
		    i);
	alarm(0);
	for (const char *p = capture_text(c); (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_int_not_equal(lines, 0);
	assert_int_equal(log_suppressed() - before,
	    20000 - lines); /* every line is either written completely or counted */
	assert_int_equal(c->text[strlen(c->text) - 1], '\n');
}

static void
a_full_pipe_drops_lines_and_counts_them(void **state)
{
	(void)state;
	capture_pipe(&capture);
	log_init("t", LOG_FORMAT_TEXT, 0);
	overfill(&capture);
	/* Other processes may share the file description, so logging must not set O_NONBLOCK. */
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	log_info("after");
	assert_non_null(strstr(capture_text(&capture), "t: info: after\n"));
	capture_end(&capture);
}

static void
a_full_socket_drops_lines_and_counts_them(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	capture_begin(&capture, fds[1], fds[0]);
	log_init("t", LOG_FORMAT_TEXT, 0);
	overfill(&capture);
	capture_end(&capture);
}

/* The user of a terminal has pressed ^S, or its emulator hangs. */
static void
a_stopped_terminal_drops_lines(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	(void)state;
	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	uint64_t before = log_suppressed();
	capture_begin(&capture, slave, master);
	log_init("t", LOG_FORMAT_TEXT, 0);
	alarm(10);
	for (unsigned i = 0; i < 5000; i++)
		log_info(
		    "%u a line that nobody reads for the time being, and many more of them to come",
		    i);
	alarm(0);
	assert_true(log_suppressed() > before);
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	assert_non_null(strstr(capture_text(&capture), "t: info: 0 a line"));
	capture_end(&capture);
}

static void
a_reader_that_went_away_ends_nothing(void **state)
{
	(void)state;
	capture_pipe(&capture);
	log_init("t", LOG_FORMAT_TEXT, 0);
	uint64_t before = log_suppressed();
	int reader = capture.reader;
	close(reader);
	log_info("to nobody");
	assert_int_equal(log_suppressed() - before, 1);
	capture.reader = dup(capture.saved);
	capture_end(&capture);
}

static void
strangers_get_ten_lines_a_second(void **state)
{
	unsigned lines = 0;
	uint64_t before = 0;

	(void)state;
	capture_pipe(&capture);
	log_init("t", LOG_FORMAT_TEXT, 0);
	before = log_suppressed();
	for (unsigned i = 0; i < 1000; i++)
		log_neterr("192.0.2.1: malformed query %u", i);
	for (const char *p = capture_text(&capture); (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_in_range(lines, 10, 20); /* the second may end during the loop */
	assert_int_equal(log_suppressed() - before, 1000 - lines);
	log_warnx("ours are not limited");
	assert_non_null(strstr(capture_text(&capture), "ours are not limited"));
	capture_end(&capture);
}

/* Messages of libmicrohttpd about client errors appear at level debug. */
static void
strangers_get_ten_debug_lines_a_second_which_take_no_warning(void **state)
{
	unsigned lines = 0;

	(void)state;
	capture_pipe(&capture);
	log_init("t", LOG_FORMAT_TEXT, 4);
	assert_true(log_is_debug());
	uint64_t before = log_suppressed();
	for (unsigned i = 0; i < 1000; i++)
		log_netdebug("http: wrong request %u", i);
	for (const char *p = capture_text(&capture); (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	assert_in_range(lines, 10, 20);
	assert_int_equal(log_suppressed() - before, 1000 - lines);
	capture_end(&capture);
	capture_pipe(&capture);
	log_init("t", LOG_FORMAT_TEXT, 0);
	before = log_suppressed();
	log_netdebug("not shown, and not counted");
	assert_string_equal(capture_text(&capture), "");
	assert_int_equal(log_suppressed(), before);
	capture_end(&capture);
}

static void
fatal_exits_with_status_one(void **state)
{
	int status = 0;

	(void)state;
	capture_pipe(&capture);
	pid_t pid = fork();
	if (pid == 0) {
		log_init("t", LOG_FORMAT_TEXT, 0);
		errno = EMFILE;
		signal(SIGABRT, SIG_DFL);
		log_fatal("epoll");
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_string_equal(
	    after_time(capture_text(&capture)), "t: error: epoll: Too many open files\n");
	capture_end(&capture);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_time_program_level_and_text),
		cmocka_unit_test(errno_is_spelled_out_and_kept),
		cmocka_unit_test(debug_lines_appear_from_verbosity_four),
		cmocka_unit_test(the_verbosity_changes_while_the_program_runs),
		cmocka_unit_test(strangers_cannot_forge_a_line),
		cmocka_unit_test(json_lines_are_objects_whatever_is_in_them),
		cmocka_unit_test(a_long_line_is_cut_and_still_whole),
		cmocka_unit_test(a_full_pipe_drops_lines_and_counts_them),
		cmocka_unit_test(a_full_socket_drops_lines_and_counts_them),
		cmocka_unit_test(a_stopped_terminal_drops_lines),
		cmocka_unit_test(a_reader_that_went_away_ends_nothing),
		cmocka_unit_test(strangers_get_ten_lines_a_second),
		cmocka_unit_test(strangers_get_ten_debug_lines_a_second_which_take_no_warning),
		cmocka_unit_test(fatal_exits_with_status_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
