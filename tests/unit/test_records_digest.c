/*
 * The digest of the records. The digest that changes keep up to date equals the digest of the whole
 * tree, and the digest of another store that got the same objects in another order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/port_lists.h"
#include "kubedns/cluster/records_digest.h"
#include "kubedns/cluster/store.h"
#include "lib/rcu.h"

enum {
	NAMESPACES = 3,
	SERVICES = 5,
	SLICES = 9,
	ENDPOINTS = 6,
	OBJECTS = NAMESPACES + SERVICES + SLICES
};
enum { WALKS = 300, STEPS = 40 };

struct bed {
	struct treecache *cache;
	struct store *store;
	uint64_t digest; /* kept up to date by publish() */
};

/* The server of each bed has another address and another seed. */
static struct bed
bed_new(uint8_t own)
{
	struct store_config config = { .records = { .ttl_s = 30 }, .label = { "kind", "special" } };
	/* As in kubedns, the digest begins with 0, the digest of an empty tree. */
	struct bed bed = { .cache = treecache_new(own * UINT64_C(0x9e3779b97f4a7c15)) };
	const struct addr ns = { AF_INET, { 192, 0, 2, own } };

	assert_int_equal(dname_from_text(&config.records.zone, "cluster.local."), 0);
	bed.store = store_new(bed.cache, &config);
	store_addresses(bed.store, &ns, 1);
	return bed;
}

static void
bed_free(struct bed *bed)
{
	store_free(bed->store);
	treecache_free(bed->cache);
}

/* Publishes and returns the digest. */
static uint64_t
publish(struct bed *bed)
{
	static uint32_t now_s = 1000;

	bed->digest += records_digest_change(tree_current(bed->cache), treecache_next(bed->cache));
	treecache_publish(bed->cache, now_s++, true);
	treecache_reclaim(bed->cache);
	assert_int_equal(bed->digest, records_digest_change(NULL, tree_current(bed->cache)));
	return bed->digest;
}

/* --- random walks --- */

struct walk {
	unsigned random;
	bool there[OBJECTS];
	struct object_service services[SERVICES];
	struct object_slice slices[SLICES];
	struct object_endpoint endpoints[SLICES][ENDPOINTS];
};

static const char *const namespaces[NAMESPACES] = { "default", "prod", "test" };
static struct object_key_value special = { .key = "kind", .value = "special" };
static const char *const service_names[SERVICES] = { "db", "web", "api", "mail", "cache" };
static const char *const slice_names[SLICES] = { "s-c", "s-a", "s-i", "s-b", "s-d", "s-g", "s-f",
	"s-h", "s-e" };
static struct object_port lists[3][2] = { { { "pg", "tcp", 5432 }, { "dns", "udp", 53 } },
	{ { "pg", "tcp", 5433 }, { "dns", "tcp", 53 } },
	{ { "pg", "tcp", 5432 }, { "", "tcp", 1 } } };

static unsigned
pick(struct walk *w, unsigned below)
{
	w->random = w->random * 1103515245u + 12345u;
	return (w->random >> 16) % below;
}

static void
choose_service(struct walk *w, unsigned s)
{
	static const enum service_type types[] = { SERVICE_CLUSTERIP, SERVICE_HEADLESS,
		SERVICE_HEADLESS, SERVICE_EXTERNALNAME, SERVICE_PENDING };

	w->services[s] = (struct object_service){ .type = types[pick(w, 5)],
		.publish_not_ready = pick(w, 3) == 0,
		.external_name = pick(w, 2) == 0 ? "example.org" : "example.com",
		.ports = lists[pick(w, 3)],
		.port_count = pick(w, 3),
		.addrs = { { AF_INET, { 10, 96, 0, (uint8_t)pick(w, 20) } },
		    { AF_INET6, { 0xfd, [15] = (uint8_t)pick(w, 20) } } },
		.addr_count = (uint8_t)(1 + pick(w, 2)) };
}

static void
choose_slice(struct walk *w, unsigned s)
{
	static const char *const hosts[] = { NULL, NULL, "h-0", "h-1", "10-1-0-2" };
	struct object_slice *slice = &w->slices[s];

	*slice = (struct object_slice){ .name = slice_names[s],
		.service = service_names[pick(w, 4) == 0 ? pick(w, SERVICES) : 0],
		.family = pick(w, 6) == 0 ? AF_INET6 : AF_INET,
		.ports = lists[pick(w, 3)],
		.port_count = 2,
		.endpoints = w->endpoints[s],
		.endpoint_count = pick(w, ENDPOINTS + 1) };
	for (size_t i = 0; i < slice->endpoint_count; i++)
		w->endpoints[s][i] = (struct object_endpoint){
			.addr = { slice->family, { 10, 1, 0, (uint8_t)pick(w, 5) } },
			.ready = pick(w, 4) > 0,
			.hostname = hosts[pick(w, 5)],
		};
}

static struct object
object_at(struct walk *w, unsigned i)
{
	struct object o = { .resource_version = "", .namespace = namespaces[0] };

	if (i < NAMESPACES) {
		o.kind = OBJECT_NAMESPACE;
		o.name = namespaces[i];
		o.namespace = "";
		o.labels = &special;
		o.label_count = i == 2;
	} else if (i < NAMESPACES + SERVICES) {
		o.kind = OBJECT_SERVICE;
		o.name = service_names[i - NAMESPACES];
		o.namespace = namespaces[i % 2];
		o.service = w->services[i - NAMESPACES];
	} else {
		i -= NAMESPACES + SERVICES;
		o.kind = OBJECT_SLICES;
		o.name = slice_names[i];
		o.namespace = namespaces[(NAMESPACES + (i % 4 == 0)) % 2];
		o.slices = &w->slices[i];
		o.slice_count = 1;
	}
	return o;
}

static void
change(struct walk *w, struct bed *bed)
{
	unsigned i = pick(w, OBJECTS);
	bool gone = w->there[i] && pick(w, 4) == 0;

	if (!gone && i >= NAMESPACES + SERVICES)
		choose_slice(w, i - NAMESPACES - SERVICES);
	else if (!gone && i >= NAMESPACES)
		choose_service(w, i - NAMESPACES);
	struct object o = object_at(w, i);
	w->there[i] = !gone;
	store_event(bed->store, o.kind, gone ? EVENT_DELETED : EVENT_MODIFIED, &o);
}

static uint64_t
digest_of_fresh(struct walk *w)
{
	struct bed bed = bed_new(9);
	unsigned first = pick(w, OBJECTS);

	for (unsigned n = 0; n < OBJECTS; n++) {
		unsigned i = (first + 5 * n) % OBJECTS;
		struct object o = object_at(w, i);

		if (w->there[i])
			store_event(bed.store, o.kind, EVENT_ADDED, &o);
	}
	uint64_t digest = publish(&bed);
	bed_free(&bed);
	return digest;
}

static void
after_any_walk_the_digest_is_that_of_a_fresh_store(void **state)
{
	unsigned different = 0;
	uint64_t last = 0;

	(void)state;
	for (unsigned walk = 0; walk < WALKS; walk++) {
		struct walk w = { .random = walk };
		struct bed bed = bed_new(1);

		for (unsigned step = 0; step < STEPS; step++) {
			change(&w, &bed);
			if (pick(&w, 3) == 0)
				publish(&bed);
		}
		assert_int_equal(publish(&bed), digest_of_fresh(&w));
		different += bed.digest != last;
		last = bed.digest;
		bed_free(&bed);
	}
	assert_int_equal(different, WALKS);
}

/* --- what the digest covers --- */

/* A Service, a slice with one endpoint that has a port, and their namespace. */
struct scene {
	struct object objects[3];
	struct object_slice slice;
	struct object_endpoint endpoint;
	struct object_port port;
};

static void
scene_set(struct scene *s)
{
	s->port = (struct object_port){ "pg", "tcp", 5432 };
	s->endpoint = (struct object_endpoint){
		.addr = { AF_INET, { 10, 1, 0, 1 } }, .ready = true, .hostname = "db-0"
	};
	s->slice = (struct object_slice){ .name = "db-a",
		.service = "db",
		.family = AF_INET,
		.ports = &s->port,
		.port_count = 1,
		.endpoints = &s->endpoint,
		.endpoint_count = 1 };
	s->objects[0] = (struct object){
		.kind = OBJECT_NAMESPACE, .name = "ns", .namespace = "", .resource_version = ""
	};
	s->objects[1] = (struct object){ .kind = OBJECT_SERVICE,
		.name = "db",
		.namespace = "ns",
		.resource_version = "",
		.service = { .type = SERVICE_HEADLESS, .external_name = "" } };
	s->objects[2] = (struct object){ .kind = OBJECT_SLICES,
		.name = "db-a",
		.namespace = "ns",
		.resource_version = "",
		.slices = &s->slice,
		.slice_count = 1 };
}

static uint64_t
scene_digest(const struct scene *s)
{
	struct bed bed = bed_new(1);

	for (unsigned i = 0; i < 3; i++)
		store_event(bed.store, s->objects[i].kind, EVENT_ADDED, &s->objects[i]);
	uint64_t digest = publish(&bed);
	bed_free(&bed);
	return digest;
}

/* Replicas of different processors and versions of the compiler are compared. If this number must
 * change, replicas of different versions differ, so the scope must change too. */
static void
the_digest_is_the_same_on_every_machine(void **state)
{
	struct scene s;

	(void)state;
	scene_set(&s);
	assert_int_equal(scene_digest(&s), UINT64_C(0x545e71ed7c2a51a5));
}

static void
every_change_of_an_answer_changes_the_digest(void **state)
{
	enum { CASES = 10 };
	uint64_t digests[CASES];
	struct scene s;

	(void)state;
	for (unsigned c = 0; c < CASES; c++) {
		scene_set(&s);
		switch (c) {
		case 1:
			s.endpoint.addr.bytes[3] = 2;
			break;
		case 2:
			s.endpoint.hostname = "db-1";
			break;
		case 3:
			s.endpoint.hostname = NULL;
			break;
		case 4:
			s.endpoint.ready = false;
			break;
		case 5:
			s.port.port = 5433;
			break;
		case 6:
			s.port.name = "sql";
			break;
		case 7:
			s.objects[1].service.publish_not_ready = true;
			break;
		case 8:
			s.objects[0].labels = &special;
			s.objects[0].label_count = 1;
			break;
		case 9:
			s.objects[1].namespace = s.objects[2].namespace = "other";
			break;
		default:
			break;
		}
		digests[c] = scene_digest(&s);
		for (unsigned before = 0; before < c; before++)
			if (digests[before] == digests[c])
				fail_msg("cases %u and %u have the same digest", before, c);
	}
}

static void
the_digest_leaves_out_what_answers_do_not_show(void **state)
{
	struct scene s;

	(void)state;
	scene_set(&s);
	uint64_t digest = scene_digest(&s);
	s.objects[1].resource_version = "7";
	s.slice.name = s.objects[2].name = "db-z";
	assert_int_equal(scene_digest(&s), digest);
	/* An endpoint that is not ready has no records, so its address does not matter. */
	s.endpoint.ready = false;
	digest = scene_digest(&s);
	s.endpoint.addr.bytes[3] = 9;
	assert_int_equal(scene_digest(&s), digest);
}

static int
by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Fails if two sums of two of the hashes have the same 44 high or 44 low bits. With a million
 * random sums, this happens once in 30 runs of other numbers. */
static void
sums_are_unlike(const uint64_t *hashes, size_t count)
{
	size_t pairs = 0;
	uint64_t *sums = calloc(count * count / 2, sizeof *sums);

	assert_non_null(sums);
	for (int turned = 0; turned < 2; turned++, pairs = 0) {
		for (size_t i = 0; i < count; i++)
			for (size_t k = 0; k < i; k++) {
				uint64_t sum = hashes[i] + hashes[k];

				sums[pairs++] = turned ? sum << 32 | sum >> 32 : sum;
			}
		qsort(sums, pairs, sizeof *sums, by_number);
		for (size_t i = 1; i < pairs; i++)
			assert_int_not_equal(sums[i] >> 20, sums[i - 1] >> 20);
	}
	free(sums);
}

/* Addresses of one network and neighbouring ports are similar numbers. If a hash mixed them too
 * little, the sum for two of them could be the sum for two others. A replica with wrong addresses
 * would then have the right digest. */
static void
sums_of_similar_endpoints_are_unlike(void **state)
{
	enum { COUNT = 1400 };
	static uint64_t by_addr[COUNT], by_port[COUNT];
	struct bed bed = bed_new(1);
	struct table known = { 0 };
	struct scene s;

	(void)state;
	scene_set(&s);
	s.endpoint.hostname = NULL;
	for (unsigned i = 0; i < 3; i++)
		store_event(bed.store, s.objects[i].kind, EVENT_ADDED, &s.objects[i]);
	for (unsigned i = 0; i < COUNT; i++) {
		s.endpoint.addr =
		    (struct addr){ AF_INET, { 10, 1, (uint8_t)(i >> 8), (uint8_t)i } };
		store_event(bed.store, OBJECT_SLICES, EVENT_MODIFIED, &s.objects[2]);
		by_addr[i] = publish(&bed);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		s.port.port = (uint16_t)(8000 + i);
		const struct ports *ports = port_lists_get(&known, bed.cache, &s.port, 1);
		by_port[i] = ports->content;
		port_lists_put(&known, bed.cache, ports);
	}
	table_free(&known);
	sums_are_unlike(by_addr, COUNT);
	sums_are_unlike(by_port, COUNT);
	bed_free(&bed);
}

/* --- many slices, of which few change --- */

static void
one_slice_of_many_is_replaced(void **state)
{
	enum { MANY = 200 };
	struct bed bed = bed_new(1);
	struct scene s;

	(void)state;
	scene_set(&s);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < MANY; i++) {
			char name[16];

			snprintf(name, sizeof name, "db-%03u", i * 7 % MANY);
			s.slice.name = s.objects[2].name = name;
			s.endpoint.addr.bytes[2] = (uint8_t)i;
			s.endpoint.addr.bytes[3] = (uint8_t)round;
			s.endpoint.hostname = name;
			if (i % 50 == 0)
				store_event(
				    bed.store, OBJECT_SERVICE, EVENT_MODIFIED, &s.objects[1]);
			store_event(bed.store, OBJECT_SLICES,
			    round == 2 && i % 3 > 0 ? EVENT_DELETED : EVENT_MODIFIED,
			    &s.objects[2]);
			if (i % 3 == 0 || round == 0)
				publish(&bed); /* compares with the digest of the whole tree */
		}
	bed_free(&bed);
}

static int
join(void **state)
{
	(void)state;
	rcu_join();
	return 0;
}

static int
part(void **state)
{
	(void)state;
	rcu_part();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_any_walk_the_digest_is_that_of_a_fresh_store),
		cmocka_unit_test(the_digest_is_the_same_on_every_machine),
		cmocka_unit_test(every_change_of_an_answer_changes_the_digest),
		cmocka_unit_test(the_digest_leaves_out_what_answers_do_not_show),
		cmocka_unit_test(sums_of_similar_endpoints_are_unlike),
		cmocka_unit_test(one_slice_of_many_is_replaced),
	};

	return cmocka_run_group_tests(tests, join, part);
}
