/* How the addresses of a set share the load. Each address is first equally often. In a subset, each
 * address is included equally often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/serve/rotation.h"
#include "tests/unit/answer_bed.h"

enum { ANSWERS = 10000, SET_MAX = 512 };

/* Returns the sum of (count - expected)^2 / expected. */
static double
chi_squared(const unsigned *counts, unsigned n, double expected)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += (counts[i] - expected) * (counts[i] - expected) / expected;
	return sum;
}

/* Returns a limit for chi_squared() with `n` - 1 degrees of freedom (Wilson and Hilferty). 999 of
 * 1,000 fair samples do not exceed it. */
static double
bound(unsigned n)
{
	double k = n - 1, root = 3.09; /* the 0.999 quantile of the normal distribution */
	double term = 1 - 2 / (9 * k) + root * 0.4714045 / __builtin_sqrt(k);

	return k * term * term * term;
}

static void
headless(const char *name, unsigned n)
{
	static char text[SET_MAX * 16];
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "%s10.1.%u.%u",
		    i == 0 ? "" : " ", i / 256, i % 256);
	bed_service(name, SERVICE_HEADLESS, NULL, "");
	bed_slice(name, name, "", text);
	bed_publish();
}

/* Queries the addresses of the name. The reply is in bed.out. Returns the number of its records. */
static unsigned
ask(const char *text, uint16_t type, uint16_t udp_size, bool tcp, uint32_t rotation)
{
	uint8_t query[512];
	struct dname name;
	struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.out = bed.out,
		.max = tcp ? DNS_TCP_MAX : DNS_UDP_PAYLOAD,
		.tcp = tcp,
		.rotation = rotation };

	assert_int_equal(dname_from_text(&name, text), 0);
	request.query_len =
	    query_write(query, sizeof query, 1, name.wire, type, CLASS_IN, udp_size);
	assert_int_equal(answer(&request, &bed.info), ANSWER_REPLY);
	return wire_get16(bed.out + 6);
}

/* Returns the number of the address in record `i`. All records have the same length. */
static unsigned
address(const char *text, unsigned i)
{
	const uint8_t *rdata = bed.out + DNS_HEADER + strlen(text) + 2 + 4 + 16 * i + 12;

	return rdata[2] * 256u + rdata[3];
}

/* Like glibc, the client alternates between A and AAAA on one socket. So one worker gets all its
 * queries. */
static void
each_address_is_first_equally_often(void **state)
{
	static const unsigned sizes[] = { 2, 3, 4, 7, 10, 16 };
	uint64_t random = 1;
	char service[16], name[64];

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
		unsigned counts[SET_MAX] = { 0 };

		snprintf(service, sizeof service, "set%u", sizes[s]);
		snprintf(name, sizeof name, "%s.default.svc.cluster.local", service);
		headless(service, sizes[s]);
		for (unsigned i = 0; i < ANSWERS; i++) {
			assert_int_equal(
			    ask(name, TYPE_A, 1232, false, rotation_next(&random)), sizes[s]);
			counts[address(name, 0)]++;
			rotation_next(&random); /* for the AAAA query */
		}
		double got = chi_squared(counts, sizes[s], (double)ANSWERS / sizes[s]);
		if (got >= bound(sizes[s]))
			fail_msg("%u addresses: chi squared %.1f, a fair one is below %.1f",
			    sizes[s], got, bound(sizes[s]));
	}
}

static void
set_that_udp_does_not_hold_is_cut_with_tc(void **state)
{
	(void)state;
	headless("big", 400);
	assert_in_range(ask("big.default.svc.cluster.local", TYPE_A, 1232, false, 5), 1, 76);
	assert_true(bed.info.truncated);
}

/* The test makes 10,000 answers for clients with EDNS and for clients that accept 512 bytes. */
static void
with_udp_subset_it_is_a_fair_part_without_tc(void **state)
{
	static const char name[] = "big.default.svc.cluster.local";
	static const uint16_t udp_sizes[] = { 512, 1232 };
	uint64_t random = 2;

	(void)state;
	bed.parts.choice.udp_subset = true;
	headless("big", 400);
	for (size_t s = 0; s < 2; s++) {
		unsigned counts[SET_MAX] = { 0 }, first[SET_MAX] = { 0 }, total = 0;

		for (unsigned i = 0; i < ANSWERS; i++) {
			unsigned n = ask(name, TYPE_A, udp_sizes[s], false, rotation_next(&random));

			assert_false(bed.info.truncated);
			assert_in_range(n, (udp_sizes[s] - 80) / 16, udp_sizes[s] / 16);
			total += n;
			first[address(name, 0)]++;
			for (unsigned r = 0; r < n; r++)
				counts[address(name, r)]++;
		}
		assert_true(chi_squared(first, 400, ANSWERS / 400.0) < bound(400));
		/* Neighbours are in an answer together, so their counts are not independent. Each
		 * count is within a fifth of the average. */
		for (unsigned i = 0; i < 400; i++)
			assert_in_range(counts[i], total / 400 * 8 / 10, total / 400 * 12 / 10);
	}
}

static void
udp_subset_leaves_the_rest_alone(void **state)
{
	(void)state;
	bed.parts.choice.udp_subset = true;
	headless("big", 400);
	headless("small", 3);
	assert_int_equal(ask("big.default.svc.cluster.local", TYPE_A, 1232, true, 5), 400);
	assert_int_equal(ask("small.default.svc.cluster.local", TYPE_A, 512, false, 5), 3);
	assert_int_equal(ask("big.default.svc.cluster.local", TYPE_AAAA, 512, false, 5), 0);
	bed_service("ports", SERVICE_HEADLESS, NULL, "http/tcp/80");
	bed_slice("ports", "ports", "http/tcp/80",
	    "10.2.0.1 10.2.0.2 10.2.0.3 10.2.0.4 10.2.0.5 10.2.0.6 10.2.0.7 10.2.0.8 10.2.0.9");
	bed_publish();
	ask("ports.default.svc.cluster.local", TYPE_SRV, 512, false, 5);
	assert_true(bed.info.truncated);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(each_address_is_first_equally_often),
		TEST(set_that_udp_does_not_hold_is_cut_with_tc),
		TEST(with_udp_subset_it_is_a_fair_part_without_tc),
		TEST(udp_subset_leaves_the_rest_alone),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
