/* How the sidecar reads the pages of the other containers: URLs, the heads of responses, and lines
 * of metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "sidecar/containers/metrics_read.h"
#include "sidecar/containers/fetch.h"
#include "sidecar/containers/container_status.h"

static void
urls_with_a_literal_host_are_taken(void **state)
{
	static const struct {
		const char *text, *server, *path;
	} good[] = { { "http://127.0.0.1:8081", "127.0.0.1:8081", "" },
		{ "http://127.0.0.1:8081/", "127.0.0.1:8081", "" },
		{ "HTTP://localhost:8081/a/b/", "127.0.0.1:8081", "/a/b" },
		{ "http://localhost", "127.0.0.1:80", "" },
		{ "http://[::1]:81/x", "[::1]:81", "/x" } };
	struct url url;
	const char *why;
	char server[SERVER_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		assert_int_equal(url_parse(&url, good[i].text, &why), 0);
		assert_string_equal(server_format(&url.server, server), good[i].server);
		assert_string_equal(url.path, good[i].path);
	}
}

static void
urls_that_could_do_harm_are_refused(void **state)
{
	static const char *const bad[] = { "", "127.0.0.1:8081", "https://127.0.0.1", "http://",
		"http:///x", "http://example.org", "http://127.0.0.1:0", "http://127.0.0.1:99999",
		"http://user@127.0.0.1", "http://127.0.0.1/a b", "http://127.0.0.1/a\r\nX: y",
		"http://127.0.0.1/?q", "http://127.0.0.1/#f", "file:///etc/passwd" };
	struct url url;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		why = NULL;
		if (url_parse(&url, bad[i], &why) == 0)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(why);
	}
}

static enum fetch_head_result
head_of(const char *text, struct fetch_head *head)
{
	return fetch_head_read(head, text, strlen(text));
}

static void
a_head_is_read(void **state)
{
	struct fetch_head head;
	static const char text[] =
	    "HTTP/1.1 503 Service Unavailable\r\nDate: x\r\ncontent-LENGTH:  12\r\n\r\nbody";

	(void)state;
	assert_int_equal(head_of(text, &head), HEAD_OK);
	assert_int_equal(head.status, 503);
	assert_true(head.has_length);
	assert_int_equal(head.content_length, 12);
	assert_string_equal(text + head.body, "body");
	assert_int_equal(head_of("HTTP/1.0 200\n\nx", &head), HEAD_OK);
	assert_false(head.has_length);
}

static void
half_a_head_needs_more(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
	struct fetch_head head;

	(void)state;
	for (size_t len = 0; len < sizeof text - 1; len++)
		assert_int_equal(fetch_head_read(&head, text, len), HEAD_MORE);
}

static void
heads_that_are_not_http_are_bad(void **state)
{
	static const char *const bad[] = { "\r\n\r\n", "hello\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 99 x\r\n\r\n", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" };
	struct fetch_head head;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (head_of(bad[i], &head) != HEAD_BAD)
			fail_msg("accepted: %s", bad[i]);
}

static void
a_head_without_end_is_bad_at_last(void **state)
{
	struct fetch_head head;
	char *text = malloc(FETCH_HEAD_MAX + 2);

	(void)state;
	memset(text, 'x', FETCH_HEAD_MAX + 2);
	memcpy(text, "HTTP/1.1 200 OK\r\n", 17);
	assert_int_equal(fetch_head_read(&head, text, FETCH_HEAD_MAX), HEAD_MORE);
	assert_int_equal(fetch_head_read(&head, text, FETCH_HEAD_MAX + 1), HEAD_BAD);
	free(text);
}

static void
a_line_of_metrics_is_read(void **state)
{
	static const char line[] = "name_total{a=\"x\",b=\"q\\\"\\\\\\n<\"} 1.5e3 1700000000";
	struct sample sample;

	(void)state;
	assert_int_equal(sample_read(&sample, line, sizeof line - 1), 0);
	assert_string_equal(sample.name, "name_total");
	assert_string_equal(sample_label(&sample, "a"), "x");
	assert_string_equal(sample_label(&sample, "b"), "q\"\\\n<");
	assert_string_equal(sample_label(&sample, "c"), "");
	assert_true(sample.value == 1500);
}

static void
lines_that_are_no_metrics_are_refused(void **state)
{
	static const char *const bad[] = { "", "# HELP x y", "x", "x{", "x{a} 1", "x{a=\"} 1",
		"x{a=\"b\"", "x{a=\"b\"}", "x{a=\"b\" 1", "9x 1", "x one", "x{a=\"b\\" };
	struct sample sample;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (sample_read(&sample, bad[i], strlen(bad[i])) == 0)
			fail_msg("accepted: %s", bad[i]);
}

static void
kubedns_pages_become_a_view(void **state)
{
	static const char page[] =
	    "# TYPE kubedns_api_synced gauge\n"
	    "kubedns_api_synced{resource=\"services\"} "
	    "1\nkubedns_api_synced{resource=\"endpointslices\"} 0\n"
	    "kubedns_api_last_event_timestamp_seconds{resource=\"services\"} 1700000000.5\n"
	    "kubedns_objects{kind=\"<b>\"} 42\nkubedns_api_synced{resource=\"\"} 1\nother 1\n";
	struct kubedns_view view = { 0 };

	(void)state;
	kubedns_read_metrics(&view, page, sizeof page - 1, NS_PER_S);
	assert_int_equal(view.resource_count, 2);
	assert_false(kubedns_synced(&view));
	assert_true(kubedns_newest_event_s(&view) == 1700000000.5);
	assert_string_equal(view.kinds[0].name, "<b>");
	kubedns_read_readiness(&view, 503, "services: not synced\n", 21);
	assert_false(view.ready);
	assert_string_equal(view.reasons, "services: not synced");
	assert_int_equal(view.api_problem, API_PROBLEM_NONE);
	static const char json[] =
	    "{\"ready\":true,\"reason\":\"ready\",\"text\":\"ok\\npods: denied\\n\","
	    "\"problems\":[{\"resource\":\"pods\",\"problem\":\"forbidden\"},"
	    "{\"resource\":\"nodes\",\"problem\":\"silent\"}]}\n";
	kubedns_read_readiness(&view, 200, json, sizeof json - 1);
	assert_true(view.ready);
	assert_string_equal(view.reasons, "");
	assert_string_equal(view.notes, "pods: denied");
	assert_int_equal(view.api_problem, API_PROBLEM_FORBIDDEN);
}

/* Found by the fuzzer: a value of infinity became a count. */
static void
values_that_are_no_counts_are_0(void **state)
{
	static const char *const values[] = { "+Inf", "-Inf", "NaN", "1e400", "-1", "1e300" };
	char page[200];
	struct kubedns_view view = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		snprintf(page, sizeof page,
		    "kubedns_objects{kind=\"x\"} "
		    "%s\nkubedns_api_last_event_timestamp_seconds{resource=\"x\"} %s\n",
		    values[i], values[i]);
		kubedns_read_metrics(&view, page, strlen(page), NS_PER_S);
		assert_true(view.kinds[0].objects == 0);
		assert_true(kubedns_newest_event_s(&view) == 0);
	}
}

static void
more_resources_than_there_is_room_for_are_left_out(void **state)
{
	struct kubedns_view view = { 0 };
	char *page = calloc(1, 64 * 100);

	(void)state;
	for (int i = 0; i < 100; i++)
		sprintf(page + strlen(page), "kubedns_api_synced{resource=\"r%d\"} 1\n", i);
	kubedns_read_metrics(&view, page, strlen(page), NS_PER_S);
	assert_int_equal(view.resource_count, KUBEDNS_RESOURCES_MAX);
	free(page);
}

/* Fetches a page of at most `max` bytes. The peer sends `head` and then never stops sending. */
static void
fetch_from_a_flood(struct fetch *fetch, const char *head, size_t max)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof sin;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&sin, sizeof sin), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
	pid_t peer = fork();
	if (peer == 0) {
		static const char more[4096];
		int fd = accept(listener, NULL, NULL);

		for (ssize_t n = write(fd, head, strlen(head)); n > 0;)
			n = write(fd, more, sizeof more);
		_exit(0);
	}
	close(listener);
	const struct url url = { .server = { { AF_INET, { 127, 0, 0, 1 } }, ntohs(sin.sin_port) } };
	fetch_init(fetch);
	bool ended = fetch_start(fetch, &url, "/", max);
	while (!ended) {
		struct pollfd fd = { .fd = fetch->fd, .events = fetch->events };

		poll(&fd, 1, 100);
		ended = fetch_run(fetch, fd.revents);
	}
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
}

static void
a_page_without_end_is_given_up_at_its_bound(void **state)
{
	static const char *const heads[] = { "HTTP/1.0 200 OK\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Length: 100000000\r\n\r\n" };
	enum { PAGE_MAX = 20000 };
	struct fetch fetch;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		fetch_from_a_flood(&fetch, heads[i], PAGE_MAX);
		assert_int_equal(fetch.status, 0);
		assert_string_equal(fetch.error, "the page is too large");
		assert_true(fetch.size <= 2 * (PAGE_MAX + FETCH_HEAD_MAX));
		/* If a page announces a size above the limit, it is not read. */
		assert_true(fetch.len < PAGE_MAX || !fetch.head.has_length);
		fetch_close(&fetch);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls_with_a_literal_host_are_taken),
		cmocka_unit_test(urls_that_could_do_harm_are_refused),
		cmocka_unit_test(a_head_is_read),
		cmocka_unit_test(half_a_head_needs_more),
		cmocka_unit_test(heads_that_are_not_http_are_bad),
		cmocka_unit_test(a_head_without_end_is_bad_at_last),
		cmocka_unit_test(a_page_without_end_is_given_up_at_its_bound),
		cmocka_unit_test(a_line_of_metrics_is_read),
		cmocka_unit_test(lines_that_are_no_metrics_are_refused),
		cmocka_unit_test(kubedns_pages_become_a_view),
		cmocka_unit_test(values_that_are_no_counts_are_0),
		cmocka_unit_test(more_resources_than_there_is_room_for_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
