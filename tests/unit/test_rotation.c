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

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(each_address_is_first_equally_often),
		TEST(set_that_udp_does_not_hold_is_cut_with_tc),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
