/* The locations of clients: from the pods, nodes and zones in store_pods.c to the answers. A model
 * computes the expected locations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "kubedns/answer/nearest.h"
#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "tests/unit/answer_bed.h"

enum { PODS = 60, ADDRS = 40, HOSTS = 9 };

static unsigned
pick(unsigned below)
{
	static uint64_t state = 7;

	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % below;
}

static void
tell_pod(enum event_type type, unsigned pod, unsigned addr, unsigned host)
{
	struct addr addrs[1] = { { AF_INET, { 10, 9, 0, (uint8_t)addr } } };
	char name[16], on[16];
	struct object o = { .kind = OBJECT_POD,
		.namespace = "default",
		.name = name,
		.resource_version = "",
		.pod = { .addrs = addrs, .addr_count = 1, .running = true, .node = on } };

	snprintf(name, sizeof name, "p%u", pod);
	snprintf(on, sizeof on, "h%u", host);
	store_event(bed.store, OBJECT_POD, type, &o);
}

static void
tell_host(enum event_type type, unsigned host, unsigned zone)
{
	char name[16], in[16] = "";
	struct object o = { .kind = OBJECT_NODE,
		.namespace = "",
		.name = name,
		.resource_version = "",
		.node = { .zone = in, .region = "" } };

	snprintf(name, sizeof name, "h%u", host);
	if (zone > 0)
		snprintf(in, sizeof in, "z%u", zone);
	store_event(bed.store, OBJECT_NODE, type, &o);
}

static void
expect_places(struct node_places *places, const unsigned zones[HOSTS])
{
	struct answer_context context = { .places = places };
	struct tree tree = *tree_current(bed.cache);
	static struct view view;
	enum view_client who;

	tree.context = &context;
	for (unsigned a = 0; a < ADDRS; a++) {
		const struct addr addr = { AF_INET, { 10, 9, 0, (uint8_t)a } };
		const struct client_pod *pod = client_pods_find(bed.store->client_pods, &addr);
		struct client_place want = { 0 };

		if (pod != NULL) {
			char zone[16] = "";
			unsigned in = zones[atoi(pod->node->name + 1)];

			if (in > 0)
				snprintf(zone, sizeof zone, "z%u", in);
			want = client_place_of(pod->node->name, zone);
		}
		const struct tree *seen = view_of(&view, bed.config.view, &tree, &addr, &who);
		struct client_place got = nearest_place(bed.config.choice, seen);
		assert_int_equal(got.node, want.node);
		assert_int_equal(got.zone, want.zone);
		assert_int_equal(got.in_zone, want.in_zone);
		assert_int_equal(seen == &tree, pod == NULL);
		assert_false(view_limited(seen));
	}
}

static void
whatever_becomes_of_pods_and_nodes_clients_are_where_their_pod_is(void **state)
{
	struct store_config config = { .records = { .ttl_s = 30, .zone = bed.config.zone },
		.nearest = true,
		.client_pods = true,
		.pod_places = true };
	unsigned zones[HOSTS] = { 0 }, addrs[PODS] = { 0 }, made = 0;
	bool there[PODS] = { false };
	struct node_places *places = NULL;

	(void)state;
	store_free(bed.store);
	bed.store = store_new(bed.cache, &config);
	bed.parts.view.pod_places = bed.parts.choice.nearest = true;
	for (unsigned step = 0; step < 6000; step++) {
		unsigned i = pick(PODS), host = pick(HOSTS);

		if (step % 4 == 0) {
			bool gone = pick(4) == 0;

			zones[host] = gone ? 0 : pick(4);
			tell_host(gone ? EVENT_DELETED : EVENT_MODIFIED, host, zones[host]);
		} else if (there[i] && pick(2) == 0) {
			tell_pod(EVENT_DELETED, i, addrs[i], 0);
			there[i] = false;
		} else {
			addrs[i] = pick(ADDRS);
			tell_pod(EVENT_MODIFIED, i, addrs[i], host);
			there[i] = true;
		}
		struct node_places *renewed = store_node_places(bed.store);
		if (renewed != NULL) {
			free(places);
			places = renewed;
			made++;
		}
		bed_publish();
		expect_places(places, zones);
	}
	assert_true(made > 100);
	/* A Node object arrives again unchanged, as with each status update. */
	tell_host(EVENT_MODIFIED, 3, 2);
	free(store_node_places(bed.store));
	tell_host(EVENT_MODIFIED, 3, 2);
	assert_null(store_node_places(bed.store));
	free(places);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    whatever_becomes_of_pods_and_nodes_clients_are_where_their_pod_is, bed_begin,
		    bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
