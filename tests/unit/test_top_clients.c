/* The clients that send most queries, and the names that are queried most, with little memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/observe/top_clients.h"
#include "lib/clock.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum { CLIENTS = 5000, HEAVIEST = 10 };

static struct top_clients *
new_top(void)
{
	return top_clients_new(UINT64_C(0x123456789abcdef), 0);
}

/* Makes an answer to a query for `text`. `text` is below the zone cluster.local, which has two
 * labels. */
static struct ring_record
answer_to(const char *text, unsigned rcode, uint16_t type)
{
	struct ring_record record = { .rcode = (uint8_t)rcode, .type = type, .below = -1 };
	int labels = 0;

	assert_int_equal(dname_from_text(&record.name, text), 0);
	for (const uint8_t *p = record.name.wire; *p != 0; p += 1u + *p)
		labels++;
	record.outside = strstr(text, "cluster.local") == NULL;
	if (!record.outside)
		record.below = labels - 2;
	return record;
}

/* Records an answer if it is a sample. One answer in RING_SAMPLE is a sample, at random. */
static void
answered(struct top_clients *top, uint32_t client, struct ring_record *record, int64_t at_ns)
{
	if (lrand48() % RING_SAMPLE != 0)
		return;
	record->peer.addr = (struct addr){ .family = AF_INET };
	memcpy(record->peer.addr.bytes, &(uint32_t){ htonl(client) }, 4);
	record->at_ns = at_ns;
	top_clients_observer.consume(top, record);
}

static const struct top_counts *
counts_of_client(const struct top_clients *top, uint32_t client)
{
	uint32_t addr = htonl(client);

	for (unsigned i = 0; i < TOP_CLIENTS; i++)
		if (top->clients[i].counts.of[TOP_ALL] > 0 &&
		    memcmp(&top->clients[i].addr.s6_addr[12], &addr, 4) == 0)
			return &top->clients[i].counts;
	return NULL;
}

static int
descending(const void *a, const void *b)
{
	const struct top_counts *x = &((const struct top_client *)a)->counts;
	const struct top_counts *y = &((const struct top_client *)b)->counts;
	uint32_t m = x->of[TOP_ALL] - x->error, n = y->of[TOP_ALL] - y->error;

	return m < n ? 1 : m > n ? -1 : 0;
}

/* The queries follow Zipf's law: client number n sends 1/n of the queries of the first client. */
static void
the_ten_heaviest_of_5000_clients_are_named_and_counted_within_a_tenth(void **state)
{
	(void)state;
	static double until[CLIENTS];
	static unsigned asked[CLIENTS];
	struct top_clients *top = new_top();
	struct ring_record info = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	double sum = 0;
	srand48(1);
	for (unsigned n = 0; n < CLIENTS; n++)
		until[n] = sum += 1.0 / (n + 1);
	for (unsigned long q = 0; q < 4000000; q++) {
		double at = drand48() * sum;
		unsigned low = 0, high = CLIENTS - 1;

		while (low < high) {
			unsigned middle = (low + high) / 2;

			if (until[middle] < at)
				low = middle + 1;
			else
				high = middle;
		}
		asked[low]++;
		answered(top, low, &info, 0);
	}
	qsort(top->clients, TOP_CLIENTS, sizeof top->clients[0], descending);
	double worst = 0;
	for (uint32_t n = 0; n < HEAVIEST; n++) {
		const struct top_counts *counts = counts_of_client(top, n);

		assert_non_null(counts);
		double counted = (double)(counts->of[TOP_ALL] - counts->error) * RING_SAMPLE;
		worst = fmax(worst, fabs(counted / asked[n] - 1));
		uint32_t shown;
		memcpy(&shown, &top->clients[n].addr.s6_addr[12], 4);
		/* The tenth and the eleventh client have similar counts. */
		assert_in_range(ntohl(shown), 0, HEAVIEST);
	}
	print_message("the ten heaviest are counted within %.1f %%\n", 100 * worst);
	assert_true(worst < 0.1);
	free(top);
}

static void
answers_are_told_apart_by_kind(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned rcode;
		uint16_t type;
		unsigned classes;
	} cases[] = {
		{ "web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A, 0 },
		{ "web.default.svc.cluster.local", RCODE_NOERROR, TYPE_AAAA, 1 << TOP_AAAA },
		{ "wob.default.svc.cluster.local", RCODE_NXDOMAIN, TYPE_A, 1 << TOP_NXDOMAIN },
		{ "google.com.default.svc.cluster.local", RCODE_NXDOMAIN, TYPE_A,
		    1 << TOP_NXDOMAIN | 1 << TOP_SEARCH_WALK },
		{ "_http._tcp.wob.default.svc.cluster.local", RCODE_NXDOMAIN, TYPE_SRV,
		    1 << TOP_NXDOMAIN },
		{ "google.com.cluster.local", RCODE_NXDOMAIN, TYPE_AAAA,
		    1 << TOP_NXDOMAIN | 1 << TOP_SEARCH_WALK | 1 << TOP_AAAA },
		{ "1-2-3-4.nowhere.pod.cluster.local", RCODE_NXDOMAIN, TYPE_A, 1 << TOP_NXDOMAIN },
		{ "www.example.com", RCODE_NOERROR, TYPE_A, 1 << TOP_OUTSIDE },
		{ "www.example.com", RCODE_NXDOMAIN, TYPE_A, 1 << TOP_OUTSIDE | 1 << TOP_NXDOMAIN },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct top_clients *top = new_top();
		struct ring_record info = answer_to(cases[i].name, cases[i].rcode, cases[i].type);

		for (unsigned n = 0; n < 100 * RING_SAMPLE; n++)
			answered(top, 1, &info, 0);
		assert_in_range(top->totals[TOP_ALL], 50, 200);
		const struct top_counts *counts = counts_of_client(top, 1);
		for (unsigned c = TOP_ALL + 1; c < TOP_COUNT; c++) {
			bool is = (cases[i].classes >> c & 1) != 0;

			if (top->totals[c] != (is ? top->totals[TOP_ALL] : 0))
				fail_msg("%s: class %u: %u", cases[i].name, c, top->totals[c]);
			assert_int_equal(counts->of[c], top->totals[c]);
		}
		free(top);
	}
}

static void
a_long_name_is_shown_by_its_end(void **state)
{
	(void)state;
	struct top_clients *top = new_top();
	char text[256];
	memset(text, 'x', sizeof text);
	strcpy(text + 63, ".");
	memset(text + 64, 'y', 60);
	strcpy(text + 124, ".default.svc.cluster.local.");
	struct ring_record info = answer_to(text, RCODE_NXDOMAIN, TYPE_A);
	for (unsigned n = 0; n < 20 * RING_SAMPLE; n++)
		answered(top, 1, &info, 0);
	unsigned shown = 0;
	for (unsigned i = 0; i < TOP_NAMES; i++) {
		char seen[DNAME_TEXT_MAX];

		if (top->names[i].counts.of[TOP_ALL] == 0)
			continue;
		assert_string_equal(dname_to_text(top->names[i].name, seen), text + 64);
		shown++;
	}
	assert_int_equal(shown, 1);
	free(top);
}

static void
the_root_name_is_counted(void **state)
{
	(void)state;
	struct top_clients *top = new_top();
	struct ring_record record = answer_to(".", RCODE_NOERROR, TYPE_NS);
	unsigned found = 0;
	top_clients_observer.consume(top, &record);
	record.name.len = 0; /* a query without a question has no name */
	top_clients_observer.consume(top, &record);
	for (unsigned i = 0; i < TOP_NAMES; i++)
		if (top->names[i].counts.of[TOP_ALL] > 0) {
			assert_int_equal(top->names[i].counts.of[TOP_ALL], 1);
			assert_int_equal(top->names[i].name[0], 0);
			found++;
		}
	assert_int_equal(found, 1);
	assert_int_equal(top->totals[TOP_ALL], 2);
	free(top);
}

static void
counts_are_halved_each_minute_and_rates_stay(void **state)
{
	(void)state;
	struct top_clients *top = new_top();
	struct ring_record info = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	enum { PER_SECOND = 4000 };
	int64_t now_ns = 0;
	for (unsigned s = 0; s < 330; s++)
		for (unsigned n = 0; n < PER_SECOND; n++)
			answered(top, 7, &info, now_ns = s * NS_PER_S);
	top_clients_age(top, now_ns);
	double rate = top->totals[TOP_ALL] * RING_SAMPLE / top_clients_seconds(top, now_ns);
	assert_in_range((unsigned)rate, PER_SECOND * 95 / 100, PER_SECOND * 105 / 100);
	assert_in_range((unsigned)top_clients_seconds(top, now_ns), 60, 120);
	/* For an hour, there are no queries. */
	top_clients_age(top, now_ns + 3600 * NS_PER_S);
	assert_int_equal(top->totals[TOP_ALL], 0);
	assert_null(counts_of_client(top, 7));
	free(top);
}

static void
a_flood_of_names_and_addresses_leaves_the_heaviest_in(void **state)
{
	(void)state;
	struct top_clients *top = new_top();
	struct ring_record web = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	for (uint32_t n = 0; n < 400000; n++) {
		char text[64];

		snprintf(text, sizeof text, "x%u.default.svc.cluster.local", n);
		struct ring_record random = answer_to(text, RCODE_NXDOMAIN, TYPE_A);
		answered(top, 1000 + n, &random, 0);
		if (n % 10 == 0)
			answered(top, 7, &web, 0);
	}
	const struct top_counts *counts = counts_of_client(top, 7);
	assert_non_null(counts);
	assert_in_range(counts->of[TOP_ALL] * RING_SAMPLE, 30000, 50000);
	free(top);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    the_ten_heaviest_of_5000_clients_are_named_and_counted_within_a_tenth),
		cmocka_unit_test(answers_are_told_apart_by_kind),
		cmocka_unit_test(a_long_name_is_shown_by_its_end),
		cmocka_unit_test(the_root_name_is_counted),
		cmocka_unit_test(counts_are_halved_each_minute_and_rates_stay),
		cmocka_unit_test(a_flood_of_names_and_addresses_leaves_the_heaviest_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
