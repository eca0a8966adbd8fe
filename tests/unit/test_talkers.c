/* Who asks most and what is asked most, in little memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/observe/talkers.h"
#include "lib/clock.h"
#include "lib/xalloc.h"

enum { CLIENTS = 5000, HEAVIEST = 10 };

static struct talkers *
talkers_new(void)
{
	struct talkers *talkers = xmalloc(sizeof(*talkers));
	talkers_init(talkers, UINT64_C(0x123456789abcdef), 0);
	return talkers;
}

/* An answer to a question for `text` below the zone cluster.local, which has two labels. */
static struct answer_info
answer_to(const char *text, unsigned rcode, uint16_t type)
{
	struct answer_info info = { .rcode = (uint8_t)rcode, .below = -1 };
	struct dname name;
	assert_int_equal(dname_from_text(&name, text), 0);
	info.query.has_question = true;
	info.query.qtype = type;
	info.query.qname_len = name.len;
	memcpy(info.query.qname, name.wire, name.len);
	for (const uint8_t *p = name.wire; *p != 0; p += 1u + *p)
		info.query.labels[info.query.label_count++] = (uint8_t)(p - name.wire);
	info.query.labels[info.query.label_count] = (uint8_t)(name.len - 1);
	info.system = SYSTEM_RECURSIVE;
	if (strstr(text, "cluster.local") != NULL) {
		info.below = info.query.label_count - 2;
		info.system = SYSTEM_AUTH;
	}
	return info;
}

/* As a worker does it. */
static void
answered(struct talkers *talkers, uint32_t client, const struct answer_info *info, int64_t now_ns)
{
	const union client_addr from = { .in = { .sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(client) } };
	if (talkers_due(talkers))
		talkers_sample(talkers, &from.sa, info, now_ns);
}

static const struct talk_counts *
counts_of_client(const struct talkers *talkers, uint32_t client)
{
	uint32_t addr = htonl(client);
	for (unsigned i = 0; i < TALKERS_CLIENTS; i++)
		if (talkers->clients[i].counts.of[TALK_ALL] > 0 &&
		    memcmp(&talkers->clients[i].addr.s6_addr[12], &addr, 4) == 0)
			return &talkers->clients[i].counts;
	return NULL;
}

static int
descending(const void *a, const void *b)
{
	const struct talk_counts *x = &((const struct talking_client *)a)->counts;
	const struct talk_counts *y = &((const struct talking_client *)b)->counts;
	uint32_t m = x->of[TALK_ALL] - x->error, n = y->of[TALK_ALL] - y->error;
	return m < n ? 1 : m > n ? -1 : 0;
}

/* Zipf's law: client number n asks 1/n as often as the first. */
static void
the_ten_heaviest_of_5000_clients_are_named_and_counted_within_a_tenth(void **state)
{
	(void)state;
	static double until[CLIENTS];
	static unsigned asked[CLIENTS];
	struct talkers *talkers = talkers_new();
	struct answer_info info = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
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
		answered(talkers, low, &info, 0);
	}
	qsort(talkers->clients, TALKERS_CLIENTS, sizeof(talkers->clients[0]), descending);
	double worst = 0;
	for (uint32_t n = 0; n < HEAVIEST; n++) {
		const struct talk_counts *counts = counts_of_client(talkers, n);
		assert_non_null(counts);
		double counted = (double)(counts->of[TALK_ALL] - counts->error) * TALKERS_SAMPLE;
		worst = fmax(worst, fabs(counted / asked[n] - 1));
		uint32_t shown;
		memcpy(&shown, &talkers->clients[n].addr.s6_addr[12], 4);
		assert_in_range(ntohl(shown), 0, HEAVIEST); /* the tenth and eleventh are near */
	}
	print_message("the ten heaviest are counted within %.1f %%\n", 100 * worst);
	assert_true(worst < 0.1);
	free(talkers);
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
		{ "web.default.svc.cluster.local", RCODE_NOERROR, TYPE_AAAA, 1 << TALK_AAAA },
		{ "wob.default.svc.cluster.local", RCODE_NXDOMAIN, TYPE_A, 1 << TALK_NXDOMAIN },
		{ "google.com.default.svc.cluster.local", RCODE_NXDOMAIN, TYPE_A,
		    1 << TALK_NXDOMAIN | 1 << TALK_SEARCH_WALK },
		{ "_http._tcp.wob.default.svc.cluster.local", RCODE_NXDOMAIN, TYPE_SRV,
		    1 << TALK_NXDOMAIN },
		{ "google.com.cluster.local", RCODE_NXDOMAIN, TYPE_AAAA,
		    1 << TALK_NXDOMAIN | 1 << TALK_SEARCH_WALK | 1 << TALK_AAAA },
		{ "1-2-3-4.nowhere.pod.cluster.local", RCODE_NXDOMAIN, TYPE_A, 1 << TALK_NXDOMAIN },
		{ "www.example.com", RCODE_NOERROR, TYPE_A, 1 << TALK_OUTSIDE },
		{ "www.example.com", RCODE_NXDOMAIN, TYPE_A,
		    1 << TALK_OUTSIDE | 1 << TALK_NXDOMAIN },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct talkers *talkers = talkers_new();
		struct answer_info info = answer_to(cases[i].name, cases[i].rcode, cases[i].type);
		for (unsigned n = 0; n < 100 * TALKERS_SAMPLE; n++)
			answered(talkers, 1, &info, 0);
		assert_in_range(talkers->totals[TALK_ALL], 50, 200);
		const struct talk_counts *counts = counts_of_client(talkers, 1);
		for (unsigned c = TALK_ALL + 1; c < TALK_COUNT; c++) {
			bool is = (cases[i].classes >> c & 1) != 0;
			if (talkers->totals[c] != (is ? talkers->totals[TALK_ALL] : 0))
				fail_msg("%s: class %u: %u", cases[i].name, c, talkers->totals[c]);
			assert_int_equal(counts->of[c], talkers->totals[c]);
		}
		free(talkers);
	}
}

static void
a_long_name_is_shown_by_its_end(void **state)
{
	(void)state;
	struct talkers *talkers = talkers_new();
	char text[256];
	memset(text, 'x', sizeof(text));
	strcpy(text + 63, ".");
	memset(text + 64, 'y', 60);
	strcpy(text + 124, ".default.svc.cluster.local.");
	struct answer_info info = answer_to(text, RCODE_NXDOMAIN, TYPE_A);
	for (unsigned n = 0; n < 10 * TALKERS_SAMPLE; n++)
		answered(talkers, 1, &info, 0);
	unsigned shown = 0;
	for (unsigned i = 0; i < TALKERS_NAMES; i++) {
		char seen[DNAME_TEXT_MAX];
		if (talkers->names[i].counts.of[TALK_ALL] == 0)
			continue;
		assert_string_equal(dname_to_text(talkers->names[i].name, seen), text + 64);
		shown++;
	}
	assert_int_equal(shown, 1);
	free(talkers);
}

/* answer_info is on a worker's stack, and reading a query for the root writes no label. */
static void
the_root_name_has_no_label_to_begin_at(void **state)
{
	(void)state;
	static const uint8_t wire[] = { 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, TYPE_NS, 0,
		CLASS_IN };
	struct talkers *talkers = talkers_new();
	struct answer_info info = { .below = -1, .rcode = RCODE_NOERROR };
	memset(&info.query, 0xff, sizeof(info.query));
	assert_int_equal(query_read(&info.query, wire, sizeof(wire)), QUERY_OK);
	assert_int_equal(info.query.label_count, 0);
	for (unsigned i = 0; i < 100; i++)
		answered(talkers, 7, &info, 0);
	unsigned found = 0;
	for (unsigned i = 0; i < TALKERS_NAMES; i++)
		if (talkers->names[i].counts.of[TALK_ALL] > 0) {
			assert_int_equal(talkers->names[i].name[0], 0);
			found++;
		}
	assert_int_equal(found, 1);
	free(talkers);
}

static void
counts_are_halved_each_minute_and_rates_stay(void **state)
{
	(void)state;
	struct talkers *talkers = talkers_new(), *copy = talkers_new();
	struct answer_info info = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	enum { PER_SECOND = 4000 };
	int64_t now_ns = 0;
	for (unsigned s = 0; s < 330; s++)
		for (unsigned n = 0; n < PER_SECOND; n++)
			answered(talkers, 7, &info, now_ns = s * NS_PER_S);
	assert_true(talkers_read(talkers, copy, now_ns));
	double rate = copy->totals[TALK_ALL] * TALKERS_SAMPLE / talkers_seconds(copy, now_ns);
	assert_in_range((unsigned)rate, PER_SECOND * 95 / 100, PER_SECOND * 105 / 100);
	assert_in_range((unsigned)talkers_seconds(copy, now_ns), 60, 120);
	/* Nobody has asked for an hour. */
	assert_true(talkers_read(talkers, copy, now_ns + 3600 * NS_PER_S));
	assert_int_equal(copy->totals[TALK_ALL], 0);
	assert_null(counts_of_client(copy, 7));
	free(talkers);
	free(copy);
}

/* Else a reader that adds the counts of two workers would add a half to a whole for a while. */
static void
all_workers_halve_their_counts_at_the_same_moment(void **state)
{
	(void)state;
	struct answer_info info = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	struct talkers *copy = talkers_new();
	for (int64_t start_s = 7; start_s < 60; start_s += 50) {
		struct talkers *talkers = talkers_new();
		talkers_init(talkers, 1, start_s * NS_PER_S);
		for (unsigned n = 0; n < 4000 * TALKERS_SAMPLE; n++)
			answered(talkers, 7, &info, start_s * NS_PER_S);
		assert_true(talkers_read(talkers, copy, 60 * NS_PER_S - 1));
		assert_in_range(copy->totals[TALK_ALL], 3500, 4500);
		uint32_t whole = copy->totals[TALK_ALL];
		assert_in_range((unsigned)(talkers_seconds(copy, 60 * NS_PER_S - 1) + 0.5),
		    60 - start_s, 60 - start_s);
		assert_true(talkers_read(talkers, copy, 60 * NS_PER_S));
		assert_int_equal(copy->totals[TALK_ALL], whole / 2);
		assert_true(
		    fabs(talkers_seconds(copy, 60 * NS_PER_S) - (double)(60 - start_s) / 2) < 0.01);
		free(talkers);
	}
	free(copy);
}

static void
a_flood_of_names_and_addresses_leaves_the_heaviest_in(void **state)
{
	(void)state;
	struct talkers *talkers = talkers_new();
	struct answer_info web = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	for (uint32_t n = 0; n < 400000; n++) {
		char text[64];
		snprintf(text, sizeof(text), "x%u.default.svc.cluster.local", n);
		struct answer_info random = answer_to(text, RCODE_NXDOMAIN, TYPE_A);
		answered(talkers, 1000 + n, &random, 0);
		if (n % 10 == 0)
			answered(talkers, 7, &web, 0);
	}
	const struct talk_counts *counts = counts_of_client(talkers, 7);
	assert_non_null(counts);
	assert_in_range(counts->of[TALK_ALL] * TALKERS_SAMPLE, 30000, 50000);
	free(talkers);
}

struct counting {
	struct talkers *talkers;
	atomic_bool stop;
};

static void *
count_without_pause(void *arg)
{
	struct counting *counting = arg;
	struct answer_info info = answer_to("web.default.svc.cluster.local", RCODE_NOERROR, TYPE_A);
	while (!atomic_load(&counting->stop))
		answered(counting->talkers, 7, &info, 0);
	return NULL;
}

/* One client asks for one name: three counters that are always the same. */
static void
a_copy_is_of_one_moment_while_a_worker_counts(void **state)
{
	(void)state;
	struct counting counting = { .talkers = talkers_new() };
	struct talkers *copy = talkers_new();
	pthread_t thread;
	unsigned copies = 0, changed = 0;
	uint32_t last = 0;
	int64_t end_ns = clock_mono_ns() + 30 * NS_PER_S;
	assert_int_equal(pthread_create(&thread, NULL, count_without_pause, &counting), 0);
	while (changed < 100 && clock_mono_ns() < end_ns) {
		if (!talkers_read(counting.talkers, copy, 0))
			continue;
		uint32_t total = copy->totals[TALK_ALL], name = 0;
		const struct talk_counts *client = counts_of_client(copy, 7);
		for (unsigned i = 0; i < TALKERS_NAMES; i++)
			name += copy->names[i].counts.of[TALK_ALL];
		assert_int_equal(client != NULL ? client->of[TALK_ALL] : 0, total);
		assert_int_equal(name, total);
		copies++;
		changed += total != last;
		last = total;
	}
	atomic_store(&counting.stop, true);
	pthread_join(thread, NULL);
	print_message("%u copies, %u of them new\n", copies, changed);
	assert_int_equal(changed, 100);
	free(counting.talkers);
	free(copy);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    the_ten_heaviest_of_5000_clients_are_named_and_counted_within_a_tenth),
		cmocka_unit_test(answers_are_told_apart_by_kind),
		cmocka_unit_test(a_long_name_is_shown_by_its_end),
		cmocka_unit_test(the_root_name_has_no_label_to_begin_at),
		cmocka_unit_test(counts_are_halved_each_minute_and_rates_stay),
		cmocka_unit_test(all_workers_halve_their_counts_at_the_same_moment),
		cmocka_unit_test(a_copy_is_of_one_moment_while_a_worker_counts),
		cmocka_unit_test(a_flood_of_names_and_addresses_leaves_the_heaviest_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
