/*
 * --namespace-labels in the store. Whatever the order of events, the tree must equal the tree of a
 * cluster that has only the selected namespaces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/zones.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/store.h"
#include "kubedns/cluster/tree_content.h"
#include "kubedns/show/zone.h"
#include "lib/rcu.h"

enum { NAMESPACES = 3, SERVICES = 6, WALKS = 300, STEPS = 40 };

struct bed {
	struct treecache *cache;
	struct store *store;
};

/* The state of the cluster, which a random walk changes. */
struct cluster {
	unsigned random;
	bool namespaces[NAMESPACES], services[SERVICES], slices[SERVICES];
	unsigned labels[NAMESPACES]; /* index in `values` */
	unsigned types[SERVICES];
	uint8_t last[SERVICES]; /* last byte of the address in the slice */
};

static const char *const namespace_names[NAMESPACES] = { "a", "b", "c" };
static const char *const values[] = { "yes", "no", NULL };
static struct label_selector *selector;
static struct answer_config answers;

static struct bed
bed_new(bool selecting)
{
	struct store_config config = { .records = { answers.zone, 30 },
		.namespace_labels = selecting ? selector : NULL,
		.label = { "dns", "yes" } };
	struct bed bed = { .cache = treecache_new(3) };

	bed.store = store_new(bed.cache, &config);
	return bed;
}

static void
bed_free(struct bed *bed)
{
	store_free(bed->store);
	treecache_free(bed->cache);
}

static unsigned
pick(struct cluster *c, unsigned below)
{
	c->random = c->random * 1103515245u + 12345u;
	return (c->random >> 16) % below;
}

static void
tell_namespace(struct bed *bed, const struct cluster *c, unsigned n, enum event_type type)
{
	struct object_key_value label = { "dns", values[c->labels[n]], 0 };
	const struct object o = { .kind = OBJECT_NAMESPACE,
		.namespace = "",
		.name = namespace_names[n],
		.resource_version = "",
		.labels = &label,
		.label_count = label.value != NULL };

	store_event(bed->store, OBJECT_NAMESPACE, type, &o);
}

static const char *
service_name(unsigned s, char name[8])
{
	snprintf(name, 8, "s%u", s);
	return name;
}

static void
tell_service(struct bed *bed, const struct cluster *c, unsigned s, enum event_type type)
{
	static struct object_port ports[] = { { "http", "tcp", 80 }, { "", "udp", 53 } };
	static const enum service_type types[] = { SERVICE_CLUSTERIP, SERVICE_HEADLESS,
		SERVICE_EXTERNALNAME };
	char name[8];
	const struct object o = { .kind = OBJECT_SERVICE,
		.namespace = namespace_names[s % NAMESPACES],
		.name = service_name(s, name),
		.resource_version = "",
		.service = { .type = types[c->types[s]],
		    .addrs = { { AF_INET, { 10, 96, 0, (uint8_t)s } } },
		    .addr_count = types[c->types[s]] == SERVICE_CLUSTERIP,
		    .external_name = "www.example.com",
		    .ports = ports,
		    .port_count = 2 } };

	store_event(bed->store, OBJECT_SERVICE, type, &o);
}

static void
tell_slice(struct bed *bed, const struct cluster *c, unsigned s, enum event_type type)
{
	char name[8];
	struct object_port port = { "http", "tcp", 8080 };
	struct object_endpoint endpoint = { .addr = { AF_INET, { 10, 1, 0, c->last[s] } },
		.ready = true };
	struct object_slice slice = { .name = service_name(s, name),
		.service = name,
		.family = AF_INET,
		.ports = &port,
		.port_count = 1,
		.endpoints = &endpoint,
		.endpoint_count = 1 };
	const struct object o = { .kind = OBJECT_SLICES,
		.namespace = namespace_names[s % NAMESPACES],
		.name = name,
		.resource_version = "",
		.slices = &slice,
		.slice_count = 1 };

	store_event(bed->store, OBJECT_SLICES, type, &o);
}

static bool
is_chosen(const struct cluster *c, unsigned n)
{
	return c->namespaces[n] && c->labels[n] == 0;
}

/* Lists all kinds in random order. If `chosen_only`, it lists only the selected objects. */
static void
list_all(struct bed *bed, struct cluster *c, bool chosen_only)
{
	static const enum object_kind kinds[] = { OBJECT_NAMESPACE, OBJECT_SERVICE, OBJECT_SLICES };
	unsigned first = pick(c, 3);

	for (unsigned k = 0; k < 3; k++) {
		enum object_kind kind = kinds[(first + k) % 3];

		store_event(bed->store, kind, EVENT_LISTING, NULL);
		for (unsigned n = 0; n < NAMESPACES && kind == OBJECT_NAMESPACE; n++)
			if (c->namespaces[n] && (!chosen_only || is_chosen(c, n)))
				tell_namespace(bed, c, n, EVENT_ADDED);
		for (unsigned s = 0; s < SERVICES; s++) {
			if (chosen_only && !is_chosen(c, s % NAMESPACES))
				continue;
			if (kind == OBJECT_SERVICE && c->services[s])
				tell_service(bed, c, s, EVENT_ADDED);
			if (kind == OBJECT_SLICES && c->slices[s])
				tell_slice(bed, c, s, EVENT_ADDED);
		}
		store_event(bed->store, kind, EVENT_SYNCED, NULL);
	}
}

static void
change(struct bed *bed, struct cluster *c)
{
	unsigned n = pick(c, NAMESPACES), s = pick(c, SERVICES);

	switch (pick(c, 4)) {
	case 0:
		c->namespaces[n] = pick(c, 4) > 0;
		c->labels[n] = c->namespaces[n] ? pick(c, 3) : 2;
		tell_namespace(bed, c, n, c->namespaces[n] ? EVENT_MODIFIED : EVENT_DELETED);
		break;
	case 1:
	case 2:
		c->services[s] = pick(c, 4) > 0;
		c->types[s] = pick(c, 3);
		tell_service(bed, c, s, c->services[s] ? EVENT_MODIFIED : EVENT_DELETED);
		break;
	default:
		c->slices[s] = pick(c, 4) > 0;
		c->last[s] = (uint8_t)pick(c, 3);
		tell_slice(bed, c, s, c->slices[s] ? EVENT_MODIFIED : EVENT_DELETED);
	}
}

/* Returns the zone and the reverse zone as text, without their serials. */
static char *
shown(const struct bed *bed)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	treecache_publish(bed->cache, 0, true);
	assert_int_equal(zone_print(out, &answers, treecache_next(bed->cache), 0), 0);
	assert_int_equal(zone_print(out, &answers, treecache_next(bed->cache), 1), 0);
	fclose(out);
	return text;
}

static bool
has(const struct bed *bed, const char *text)
{
	char *all = shown(bed);
	bool found = strstr(all, text) != NULL;

	free(all);
	return found;
}

static void
names_come_and_go_with_the_labels(void **state)
{
	(void)state;
	struct bed bed = bed_new(true);
	struct cluster c = { .namespaces = { true }, .labels = { 1, 2, 2 } };

	tell_namespace(&bed, &c, 0, EVENT_ADDED);
	tell_service(&bed, &c, 0, EVENT_ADDED);
	assert_false(has(&bed, "s0.a.svc"));
	assert_true(store_leaves_namespace_out(bed.store, "a"));
	c.labels[0] = 0;
	tell_namespace(&bed, &c, 0, EVENT_MODIFIED);
	assert_true(has(&bed, "_http._tcp.s0.a.svc"));
	assert_true(has(&bed, "PTR s0.a.svc"));
	assert_false(store_leaves_namespace_out(bed.store, "a"));
	c.labels[0] = 2;
	tell_namespace(&bed, &c, 0, EVENT_MODIFIED);
	assert_false(has(&bed, "s0.a.svc"));
	assert_int_equal(store_count(bed.store, OBJECT_SERVICE), 1);
	bed_free(&bed);
}

static void
a_namespace_that_a_relist_does_not_show_takes_its_names_along(void **state)
{
	(void)state;
	struct bed bed = bed_new(true);
	struct cluster c = { .namespaces = { true } };

	tell_service(&bed, &c, 0, EVENT_ADDED);
	assert_false(has(&bed, "s0.a.svc")); /* the labels of the namespace are not known yet */
	tell_namespace(&bed, &c, 0, EVENT_ADDED);
	assert_true(has(&bed, "s0.a.svc"));
	store_event(bed.store, OBJECT_NAMESPACE, EVENT_LISTING, NULL);
	store_event(bed.store, OBJECT_NAMESPACE, EVENT_SYNCED, NULL);
	assert_false(has(&bed, "s0.a.svc"));
	bed_free(&bed);
}

static void
after_any_walk_the_tree_is_that_of_the_chosen_namespaces_alone(void **state)
{
	(void)state;
	size_t bytes = 0;

	for (unsigned walk = 0; walk < WALKS; walk++) {
		struct cluster c = { .random = walk };
		struct bed bed = bed_new(true), fresh = bed_new(false);

		for (unsigned step = 0; step < STEPS; step++) {
			change(&bed, &c);
			if (pick(&c, 10) == 0)
				list_all(&bed, &c, false);
			if (pick(&c, 3) == 0)
				treecache_publish(bed.cache, 0, true);
		}
		list_all(&fresh, &c, true);
		char *was = shown(&bed), *is = shown(&fresh);
		assert_string_equal(was, is);
		bytes += strlen(was);
		free(was);
		free(is);
		bed_free(&bed);
		bed_free(&fresh);
	}
	assert_true(bytes > WALKS * 400); /* a zone without a name has 200 bytes */
}

/* --- the label of a module --- */

static bool
is_labelled(const struct bed *bed)
{
	static const uint8_t svc[16] = "\3svc", a[16] = "\1a";
	const struct tree *tree = treecache_next(bed->cache);

	return tree_child(tree, tree_child(tree, tree->root, svc), a)->flags & NODE_LABELLED;
}

static void
a_module_sees_which_namespaces_have_its_label(void **state)
{
	struct cluster c = { .random = 1 };
	struct bed bed = bed_new(false);

	(void)state;
	for (unsigned round = 0; round < 2; round++)
		for (unsigned value = 0; value < 3; value++) {
			c.labels[0] = value;
			tell_namespace(&bed, &c, 0, EVENT_MODIFIED);
			assert_int_equal(is_labelled(&bed), value == 0);
		}
	bed_free(&bed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_come_and_go_with_the_labels),
		cmocka_unit_test(a_namespace_that_a_relist_does_not_show_takes_its_names_along),
		cmocka_unit_test(after_any_walk_the_tree_is_that_of_the_chosen_namespaces_alone),
		cmocka_unit_test(a_module_sees_which_namespaces_have_its_label),
	};
	struct reverse_zone reverse = { .prefix = { AF_INET, { 10 } }, .bits = 8 };
	char *why;

	dname_from_text(&answers.zone, "cluster.local.");
	dname_from_text(&reverse.name, "10.in-addr.arpa.");
	const struct reverse_config reverse_config = { .zones = &reverse, .zone_count = 1 };
	answers.stage_config[STAGE_reverse] = &reverse_config;
	stages_build(&answers);
	if (label_selector_parse("dns=yes", &selector, &why) < 0)
		return 1;
	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	label_selector_free(selector);
	return rc;
}
