/* When the node's guard considers a server alive. The server is a socket of the test, which answers
 * each probe when the test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/wire.h"
#include "nanny/node/probe.h"

enum { PROBES_MAX = 100 };

struct world {
	struct node_probe probe;
	int server;
	/* The probes that have reached the server, and when they were sent */
	uint8_t queries[PROBES_MAX][512];
	size_t lengths[PROBES_MAX];
	int64_t sent_ms[PROBES_MAX];
	unsigned count;
};

static int
begin(void **state)
{
	static struct world w;
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	socklen_t len = sizeof sin;

	w = (struct world){ .server = socket(AF_INET, SOCK_DGRAM, 0),
		.probe.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0) };
	assert_int_equal(bind(w.server, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(w.server, (struct sockaddr *)&sin, &len), 0);
	assert_int_equal(connect(w.probe.fd, (struct sockaddr *)&sin, len), 0);
	len = sizeof sin;
	assert_int_equal(getsockname(w.probe.fd, (struct sockaddr *)&sin, &len), 0);
	assert_int_equal(connect(w.server, (struct sockaddr *)&sin, len), 0);
	*state = &w;
	return 0;
}

static int
finish(void **state)
{
	struct world *w = *state;

	close(w->probe.fd);
	if (w->server >= 0)
		close(w->server);
	return 0;
}

static void
probe(struct world *w, int64_t now_ms)
{
	struct dname name;

	dname_from_text(&name, "dns-version.cluster.local");
	node_probe_send(&w->probe, &name, CLASS_IN, now_ms);
	ssize_t got = recv(w->server, w->queries[w->count], sizeof w->queries[0], 0);
	assert_true(got > DNS_HEADER);
	w->lengths[w->count] = (size_t)got;
	w->sent_ms[w->count++] = now_ms;
}

static void
reply(struct world *w, unsigned number, unsigned rcode)
{
	wire_put16(w->queries[number] + 2, 0x8000 | rcode);
	assert_true(send(w->server, w->queries[number], w->lengths[number], 0) > 0);
}

/* A bug: only the answer to the newest probe counted. kubedns that answered each probe after more
 * than NODE_PROBE_MS, for example because of a CPU limit, was dead. */
static void
a_server_that_answers_every_probe_late_is_alive(void **state)
{
	static const int64_t delays_ms[] = { 0, 190, 215, 900 };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof delays_ms / sizeof *delays_ms; i++) {
		unsigned replied = 0;

		if (i > 0)
			begin(state);
		for (int64_t now_ms = 1; now_ms < 5000; now_ms += 5) {
			if ((now_ms - 1) % NODE_PROBE_MS == 0)
				probe(w, now_ms);
			while (replied < w->count && now_ms - w->sent_ms[replied] >= delays_ms[i])
				reply(w, replied++, RCODE_NOERROR);
			node_probe_read(&w->probe, now_ms);
			if (now_ms > delays_ms[i] + 5 && !node_probe_alive(&w->probe, now_ms))
				fail_msg("dead at %d ms, with answers after %d ms", (int)now_ms,
				    (int)delays_ms[i]);
		}
		if (i + 1 < sizeof delays_ms / sizeof *delays_ms)
			finish(state);
	}
}

static void
an_answer_after_the_patience_is_over_does_not_count(void **state)
{
	struct world *w = *state;

	probe(w, 1);
	reply(w, 0, RCODE_NOERROR);
	node_probe_read(&w->probe, 1 + NODE_PATIENCE_MS);
	assert_false(node_probe_alive(&w->probe, 1 + NODE_PATIENCE_MS));
}

static void
an_error_does_not_count(void **state)
{
	struct world *w = *state;

	probe(w, 1);
	reply(w, 0, RCODE_SERVFAIL);
	node_probe_read(&w->probe, 2);
	assert_false(node_probe_alive(&w->probe, 2));
}

/* The kernel reports a refusal before the answers that arrived earlier. */
static void
answers_from_before_a_refusal_do_not_count(void **state)
{
	struct world *w = *state;
	struct dname name;

	probe(w, 1);
	reply(w, 0, RCODE_NOERROR);
	close(w->server);
	w->server = -1;
	dname_from_text(&name, "dns-version.cluster.local");
	node_probe_send(&w->probe, &name, CLASS_IN, 201);
	node_probe_read(&w->probe, 202);
	assert_false(node_probe_alive(&w->probe, 202));
}

static void
after_an_alarm_only_the_answer_to_a_later_probe_ends_the_doubts(void **state)
{
	struct world *w = *state;

	probe(w, 1);
	node_probe_doubt(&w->probe);
	reply(w, 0, RCODE_NOERROR);
	node_probe_read(&w->probe, 2);
	assert_int_equal(w->probe.doubts, NODE_DOUBTS_MAX);
	probe(w, 3);
	reply(w, 1, RCODE_NOERROR);
	node_probe_read(&w->probe, 4);
	assert_int_equal(w->probe.doubts, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_server_that_answers_every_probe_late_is_alive),
		TEST(an_answer_after_the_patience_is_over_does_not_count),
		TEST(an_error_does_not_count),
		TEST(answers_from_before_a_refusal_do_not_count),
		TEST(after_an_alarm_only_the_answer_to_a_later_probe_ends_the_doubts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
