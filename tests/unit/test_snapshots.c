/*
 * Readers run at the same time as a writer. Each answer must come from one snapshot. The whole
 * cluster changes from state to state, and the answers show the state. In state n, the headless
 * Service has the addresses 10.n.0.1 to COUNT, half of them in each slice. The ClusterIP Service
 * has 10.96.0.n. This test also runs under ThreadSanitizer (make tsan).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/store.h"
#include "lib/rcu.h"

enum { READERS = 3, CHANGES = 3000, COUNT = 20, STATES = 250 };

struct bed {
	struct treecache *cache;
	struct store *store;
	struct answer_config config;
	bool stop;
};

struct reader {
	struct bed *bed;
	pthread_t thread;
	uint64_t asked, torn, lost, states;
};

static void
put_slice(struct bed *bed, unsigned state, unsigned half)
{
	struct object_endpoint endpoints[COUNT / 2];
	char name[8];
	struct object_port port = { "http", "tcp", 80 };
	struct object_slice slice = { .name = name,
		.service = "db",
		.family = AF_INET,
		.ports = &port,
		.port_count = 1,
		.endpoints = endpoints,
		.endpoint_count = COUNT / 2 };
	struct object o = { .kind = OBJECT_SLICES,
		.namespace = "default",
		.name = name,
		.resource_version = "",
		.slices = &slice,
		.slice_count = 1 };

	snprintf(name, sizeof name, "db-%u", half);
	for (unsigned i = 0; i < COUNT / 2; i++)
		endpoints[i] = (struct object_endpoint){ .ready = true,
			.addr = {
			    AF_INET, { 10, (uint8_t)state, 0, (uint8_t)(half * COUNT / 2 + i) } } };
	store_event(bed->store, OBJECT_SLICES, EVENT_MODIFIED, &o);
}

static void
put_service(struct bed *bed, const char *name, enum service_type type, unsigned state)
{
	struct object_port port = { "http", "tcp", 80 };
	struct object o = {
		.kind = OBJECT_SERVICE, .namespace = "default", .name = name, .resource_version = ""
	};

	o.service = (struct object_service){ .type = type,
		.external_name = "",
		.ports = &port,
		.port_count = 1,
		.addrs = { { AF_INET, { 10, 96, 0, (uint8_t)state } } },
		.addr_count = type == SERVICE_CLUSTERIP };
	store_event(bed->store, OBJECT_SERVICE, EVENT_MODIFIED, &o);
}

static void
put_state(struct bed *bed, unsigned state)
{
	put_slice(bed, state, 0);
	put_slice(bed, state, 1);
	put_service(bed, "web", SERVICE_CLUSTERIP, state);
	treecache_publish(bed->cache, state, true);
}

/* Queries the addresses of the headless Service. They must all belong to one state. Returns the
 * state, or -1. */
static int
ask(struct reader *r, const uint8_t *query, size_t len, unsigned expected, uint32_t rotation)
{
	uint8_t out[DNS_UDP_PAYLOAD];
	struct answer_info info;
	int state = -1;

	const struct answer_request request = { .config = &r->bed->config,
		.tree = tree_current(r->bed->cache),
		.query = query,
		.query_len = len,
		.out = out,
		.max = sizeof out,
		.rotation = rotation };
	if (answer(&request, &info) != ANSWER_REPLY || info.rcode != RCODE_NOERROR ||
	    wire_get16(out + 6) != expected) {
		r->lost++;
		return -1;
	}
	const uint8_t *record = out + DNS_HEADER + info.query.question_len;
	for (unsigned i = 0; i < expected; i++, record += 16) {
		int seen = expected == 1 ? record[15] : record[13];

		r->torn += state >= 0 && seen != state;
		state = seen;
	}
	return state;
}

static void *
reader_main(void *arg)
{
	struct reader *r = arg;
	struct dname db, web;
	uint8_t ask_db[512], ask_web[512];
	uint32_t rotation = 0;
	int last = -1;

	dname_from_text(&db, "db.default.svc.cluster.local.");
	dname_from_text(&web, "web.default.svc.cluster.local.");
	size_t db_len = query_write(ask_db, sizeof ask_db, 1, db.wire, TYPE_A, CLASS_IN, 1232);
	size_t web_len = query_write(ask_web, sizeof ask_web, 1, web.wire, TYPE_A, CLASS_IN, 1232);
	rcu_join();
	while (!__atomic_load_n(&r->bed->stop, __ATOMIC_RELAXED)) {
		rcu_enter();
		int state = ask(r, ask_db, db_len, COUNT, rotation++);
		rcu_leave();
		rcu_enter();
		ask(r, ask_web, web_len, 1, rotation);
		rcu_leave();
		r->states += state != last;
		last = state;
		r->asked += 2;
	}
	rcu_part();
	return NULL;
}

static void
every_answer_is_of_one_moment_while_all_objects_change(void **unused)
{
	(void)unused;
	struct bed bed = { .config = { .ttl_s = 30, .negative_ttl_s = 5 } };
	struct reader readers[READERS];
	struct store_config config = { .records = { .ttl_s = 30 } };

	rcu_join();
	dname_from_text(&bed.config.zone, "cluster.local.");
	stages_build(&bed.config);
	config.records.zone = bed.config.zone;
	bed.cache = treecache_new(3);
	bed.store = store_new(bed.cache, &config);
	put_service(&bed, "db", SERVICE_HEADLESS, 0);
	put_state(&bed, 0);
	for (unsigned i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .bed = &bed };
		assert_int_equal(
		    pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]), 0);
	}
	for (unsigned change = 1; change <= CHANGES; change++) {
		put_state(&bed, change % STATES);
		treecache_reclaim(bed.cache);
	}
	__atomic_store_n(&bed.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		assert_int_equal(readers[i].torn, 0);
		assert_int_equal(readers[i].lost, 0);
		assert_true(readers[i].states > 1);
		print_message("reader %u: %llu answers, %llu times another state\n", i,
		    (unsigned long long)readers[i].asked, (unsigned long long)readers[i].states);
	}
	store_free(bed.store);
	treecache_free(bed.cache);
	rcu_part();
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
	    every_answer_is_of_one_moment_while_all_objects_change) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
