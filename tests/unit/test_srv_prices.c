/*
 * What it costs to count the SRV records of endpoints that are in many slices, each of which has ports of its
 * own; and that the numbers are right, by counting them one by one. Times are compared with each other, and
 * with wide room: sixteen times as much takes some sixteen times as long; were it quadratic, 256.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "tests/unit/cpu_time.h"
#include "treecache/endpoint_internal.h"

enum {
	FEW = 250,
	MANY = 16 * FEW,
	FLAGS = ENDPOINTS_APEX | ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED
};

static struct treecache *cache;
static struct owner *owner;
static uint32_t slots[MANY];
static struct ports *lists[MANY];

static void
new_owner(void)
{
	struct dname name;

	dname_from_text(&name, "big.test.svc");
	owner = treecache_owner(cache, name.wire);
	treecache_endpoint_set_flags(cache, owner, FLAGS);
}

static int
begin(void **state)
{
	(void)state;
	cache = treecache_new(0x9e3779b97f4a7c15);
	new_owner();
	return 0;
}

static int
end(void **state)
{
	(void)state;
	for (unsigned s = 0; s < MANY; s++) {
		if (slots[s] != 0)
			treecache_slice_remove(cache, owner, slots[s]);
		slots[s] = 0;
	}
	treecache_endpoint_set_flags(cache, owner, 0);
	treecache_prune(cache, owner->name);
	treecache_owner_free(cache, owner);
	treecache_free(cache);
	for (unsigned s = 0; s < MANY; s++) {
		free(lists[s]);
		lists[s] = NULL;
	}
	return 0;
}

/* A list of the numbers from `first` on, named a0, a1, ... from `name` on. */
static struct ports *
make_list(unsigned first, unsigned name, unsigned count)
{
	struct port *items = calloc(count + 1, sizeof *items);

	for (unsigned i = 0; i < count; i++) {
		items[i].number = (uint16_t)(first + i);
		items[i].name[0] = (uint8_t)snprintf(
		    (char *)items[i].name + 1, sizeof items[i].name - 1, "_a%u", name + i);
		memcpy(items[i].proto, "\4_tcp", 5);
	}
	struct ports *list = ports_new(tree_current(cache)->seed, items, count);
	free(items);
	return list;
}

static void
put_slice(unsigned s, const struct ports *ports, const struct endpoint *endpoints, size_t count)
{
	static char names[MANY][8];

	snprintf(names[s], sizeof names[s], "s%05u", s);
	slots[s] = treecache_slice(cache, owner, slots[s],
	    &(struct slice_source){ .name = names[s],
		.family = AF_INET,
		.ports = ports,
		.endpoints = endpoints,
		.count = count });
}

static uint64_t
label_of(const char *name)
{
	return port_label(
	    tree_current(cache)->seed, (const uint8_t *)name, (const uint8_t *)"\4_tcp");
}

/* Slices of one endpoint, the same in all, with as many ports of their own each; how long they took. */
static double
fill(unsigned slices, unsigned ports)
{
	struct endpoint endpoint = {
		.addr = { .family = AF_INET, .bytes = { 10, 0, 0, 1 } }, .ready = true, .name = "a"
	};

	for (unsigned s = 0; s < slices; s++)
		if (lists[s] == NULL)
			lists[s] = make_list(1 + s * ports, s * ports, ports);
	double begun_s = cpu_s();
	for (unsigned s = 0; s < MANY; s++)
		if (s < slices)
			put_slice(s, lists[s], &endpoint, 1);
		else if (slots[s] != 0) {
			treecache_slice_remove(cache, owner, slots[s]);
			slots[s] = 0;
		}
	treecache_publish(cache, 1, true);
	treecache_reclaim(cache);
	return cpu_s() - begun_s;
}

/* One change of the Service's publishNotReadyAddresses, and back. */
static double
flip(void)
{
	double begun_s = cpu_s();

	treecache_endpoint_set_flags(cache, owner, FLAGS | ENDPOINTS_NOT_READY);
	treecache_endpoint_set_flags(cache, owner, FLAGS);
	treecache_publish(cache, 1, true);
	treecache_reclaim(cache);
	return cpu_s() - begun_s;
}

static void
ports_of_many_slices_are_counted_in_linear_time(unsigned few, unsigned ports)
{
	fill(few, ports);
	fill(0, ports);
	double few_s = fill(few, ports), few_flip_s = flip(), few_gone_s = fill(0, ports);
	double many_s = fill(16 * few, ports), many_flip_s = flip();
	assert_int_equal(endpoint_set_pairs(owner->endpoints, 0), 16 * few * ports);
	assert_int_equal(endpoint_set_pairs(owner->endpoints, label_of("\3_a3")), 1);
	double many_gone_s = fill(0, ports);
	print_message("%u, %u slices of %u ports: %.4f, %.4f s; flip %.4f, %.4f; gone %.4f, %.4f\n",
	    few, 16 * few, ports, few_s, many_s, few_flip_s, many_flip_s, few_gone_s, many_gone_s);
	assert_true(many_s < 60 * few_s + 0.02);
	assert_true(many_flip_s < 60 * few_flip_s + 0.02);
	assert_true(many_gone_s < 60 * few_gone_s + 0.02);
	assert_null(owner->endpoints->pairs);
}

static void
slices_with_a_port_of_their_own(void **state)
{
	(void)state;
	ports_of_many_slices_are_counted_in_linear_time(FEW, 1);
}

static void
slices_with_forty_ports_of_their_own(void **state)
{
	(void)state;
	ports_of_many_slices_are_counted_in_linear_time(64, 40);
}

/* --- the numbers --- */

enum { SLICES = 12, TARGETS = 6, LISTS = 8, PORTS = 260, STEPS = 4000 };

/* Beginnings and lengths in which lists overlap; some are short together, some are long. */
static const struct {
	unsigned first, name, count;
} shapes[LISTS] = { { 1, 0, 1 }, { 1, 1, 1 }, { 2, 0, 3 }, { 1, 0, 40 }, { 20, 20, 60 },
	{ 20, 0, 60 }, { 1, 0, 130 }, { 90, 90, 170 } };

struct model {
	unsigned list[SLICES];     /* LISTS: no slice */
	bool has[SLICES][TARGETS]; /* which endpoints */
};

/* What the records of all targets are: under label a`name`, or under all of them (PORTS). */
static unsigned
model_pairs(const struct model *m, unsigned name)
{
	unsigned pairs = 0;

	for (unsigned t = 0; t < TARGETS; t++) {
		bool under[LISTS] = { false }, seen[PORTS] = { false };
		unsigned ports = 0, each = 0, distinct = 0;
		for (unsigned s = 0; s < SLICES; s++)
			if (m->list[s] < LISTS && m->has[s][t])
				under[m->list[s]] = true;
		for (unsigned l = 0; l < LISTS; l++) {
			ports += under[l] ? shapes[l].count + 1 : 0;
			for (unsigned i = 0; under[l] && i < shapes[l].count; i++) {
				unsigned number = shapes[l].first + i;
				if (name != PORTS && name != shapes[l].name + i)
					continue;
				each++;
				distinct += !seen[number];
				seen[number] = true;
			}
		}
		pairs += ports <= SRV_SHARED_PORTS ? distinct : each;
	}
	return pairs;
}

static void
check(const struct model *m)
{
	static const unsigned names[] = { 0, 1, 2, 21, 39, 59, 90, 129, 259 };
	char label[16];

	assert_int_equal(endpoint_set_pairs(owner->endpoints, 0), model_pairs(m, PORTS));
	for (unsigned n = 0; n < sizeof names / sizeof *names; n++) {
		snprintf(label, sizeof label, "%c_a%u",
		    names[n] < 10    ? 3
		    : names[n] < 100 ? 4
				     : 5,
		    names[n]);
		assert_int_equal(endpoint_set_pairs(owner->endpoints, label_of(label)),
		    model_pairs(m, names[n]));
	}
}

static void
change(struct model *m, unsigned s, unsigned random)
{
	static const char *const names[TARGETS] = { "a", "b", "c", "d", "e", "f" };
	struct endpoint endpoints[TARGETS];
	size_t count = 0;

	m->list[s] = random % (LISTS + 1);
	random /= LISTS + 1;
	for (unsigned t = 0; t < TARGETS; t++) {
		m->has[s][t] = random >> t & 1;
		if (!m->has[s][t])
			continue;
		endpoints[count] = (struct endpoint){
			.addr = { .family = AF_INET }, .ready = true, .name = names[t]
		};
		wire_put32(endpoints[count++].addr.bytes, 10u << 24 | (t + 1));
	}
	if (m->list[s] < LISTS)
		put_slice(s, lists[m->list[s]], endpoints, count);
	else if (slots[s] != 0) {
		treecache_slice_remove(cache, owner, slots[s]);
		slots[s] = 0;
	}
}

/* With targets searched for and with targets kept, and counted anew. */
static void
the_numbers_are_those_of_the_lists(void **state)
{
	struct model m;
	unsigned random = 1;

	(void)state;
	for (unsigned l = 0; l < LISTS; l++)
		lists[l] = make_list(shapes[l].first, shapes[l].name, shapes[l].count);
	for (unsigned s = 0; s < SLICES; s++)
		m.list[s] = LISTS;
	for (unsigned step = 0; step < STEPS; step++) {
		random = random * 1103515245 + 12345;
		change(&m, (random >> 8) % SLICES, random >> 12);
		if (step == STEPS / 2 && srv_targets_find(cache, owner) == NULL)
			endpoint_srv_count_keep(cache, owner);
		if (step % 500 == 499) {
			treecache_endpoint_set_flags(cache, owner, FLAGS & ~ENDPOINTS_APEX);
			treecache_endpoint_set_flags(cache, owner, FLAGS);
		}
		if (step % 3 == 0)
			continue; /* two changes at once */
		treecache_publish(cache, 1, true);
		treecache_reclaim(cache);
		check(&m);
	}
}

/* What its slices leave to the publish goes with the last of them. */
static void
an_owner_may_go_before_the_publish(void **state)
{
	struct endpoint endpoint = { .addr = { .family = AF_INET }, .ready = true, .name = "a" };

	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		lists[s] = make_list(1, s, 100);
		put_slice(s, lists[s], &endpoint, 1);
	}
	treecache_publish(cache, 1, true);
	for (unsigned s = 0; s < 2; s++) {
		treecache_slice_remove(cache, owner, slots[s]);
		slots[s] = 0;
		assert_int_equal(cache->srv_waiting.count, s == 0);
	}
	assert_null(owner->endpoints->pairs);
	treecache_endpoint_set_flags(cache, owner, 0);
	treecache_prune(cache, owner->name);
	treecache_owner_free(cache, owner);
	treecache_publish(cache, 1, true);
	treecache_reclaim(cache);
	treecache_publish(cache, 1, true);
	new_owner();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(slices_with_a_port_of_their_own, begin, end),
		cmocka_unit_test_setup_teardown(slices_with_forty_ports_of_their_own, begin, end),
		cmocka_unit_test_setup_teardown(the_numbers_are_those_of_the_lists, begin, end),
		cmocka_unit_test_setup_teardown(an_owner_may_go_before_the_publish, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
