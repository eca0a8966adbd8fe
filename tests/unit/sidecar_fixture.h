/* The status of a sidecar for tests: two probes, the states of dnsmasq and kubedns, and the health
 * verdict. */
#ifndef TESTS_UNIT_SIDECAR_FIXTURE_H
#define TESTS_UNIT_SIDECAR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/page/status.h"
#include "sidecar/verdict/verdict.h"

enum { DNSMASQ, KUBEDNS, PROBES };

static struct probe probes[PROBES];
static struct dnsmasq_stats cache;
static struct kubedns_view kubedns;
static struct server_checks checks;
static struct view view;

static inline int
setup(void **state)
{
	static const char *const specs[] = {
		"dnsmasq,127.0.0.1:53,kubernetes.default.svc.cluster.local,5,SRV",
		"kubedns,127.0.0.1:10053,kubernetes.default.svc.cluster.local,5,SRV"
	};
	char why[SPEC_WHY_MAX];

	(void)state;
	memset(&cache, 0, sizeof cache);
	memset(&kubedns, 0, sizeof kubedns);
	memset(&checks, 0, sizeof checks);
	view = (struct view){ .now_ns = 10000 * NS_PER_S,
		.now_s = 1.7e9,
		.surroundings = SURROUNDINGS_POD,
		.host = "pod",
		.probes = probes,
		.probe_count = PROBES,
		.cache = &cache,
		.checks = &checks,
		.may_ask = true,
		.metrics_path = "/metrics",
		.prometheus_namespace = "kubedns" };
	for (int i = 0; i < PROBES; i++) {
		struct probe_spec spec;

		assert_int_equal(spec_parse(&spec, specs[i], why), 0);
		probe_init(&probes[i], &spec, view.now_ns - 600 * NS_PER_S, 0);
	}
	view.dnsmasq = probes[DNSMASQ].spec.server;
	cache.up = cache.seen = true;
	return 0;
}

static inline int
teardown(void **state)
{
	(void)state;
	for (int i = 0; i < PROBES; i++)
		probe_close(&probes[i]);
	return 0;
}

static inline void
result(int probe, enum cause cause, double ms)
{
	struct dns_exchange r = { .reply.cause = cause,
		.sent_ns = view.now_ns,
		.latency_ns = (int64_t)(ms * 1e6),
		.error = cause == CAUSE_UNREACHABLE ? 113 : 0 };

	probe_record(&probes[probe], &r, view.now_ns, view.now_s);
}

/* Returns the JSON document for the status page. */
static inline char *
shown_status(void)
{
	size_t len;
	char *json = status_json(&view, &len);

	assert_int_equal(strlen(json), len);
	return json;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
