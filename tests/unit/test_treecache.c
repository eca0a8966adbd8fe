/*
 * Compares the tree with a model that is too simple to be wrong. The model computes every possible
 * answer again from the plain list of inputs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <cmocka.h>

#include "lib/rcu.h"
#include "treecache/endpoint_set.h"

enum { LISTS = 4, OWNERS = 4, SLICES = 6, ADDRS = 24, ENDPOINTS = 12, STEPS = 20000 };

struct model_slice {
	uint32_t slot; /* 0 if the slice does not exist */
	unsigned list; /* index of the list of ports */
	size_t count;
	struct endpoint endpoints[ENDPOINTS];
};

struct model {
	struct treecache *cache;
	struct ports *lists[LISTS];
	struct owner *owners[OWNERS];
	uint32_t flags[OWNERS];
	struct model_slice slices[OWNERS][SLICES];
	unsigned random;
};

/* Two of the names are addresses of the model with dashes: 10.1.0.4, 10.1.0.9. */
static const char *const host_names[] = { NULL, "db-0", "db-1", "DB-2", "db-3", "db-4", "10-1-0-4",
	"10-1-0-9", "db-7" };

/* The names of the slices are not in the order of their indexes. */
static const char *const slice_names[SLICES] = { "s-d", "s-a", "s-f", "s-b", "s-e", "s-c" };

/* The lists share labels, numbers and protocols in all combinations. The last list is for a slice
 * without ports. */
static const struct {
	uint16_t number;
	const char *name, *proto;
} model_ports[LISTS][4] = { { { 80, "\5_http", "\4_tcp" }, { 53, "\4_dns", "\4_udp" } },
	{ { 81, "\5_http", "\4_tcp" }, { 80, "", "\4_tcp" }, { 53, "\4_dns", "\4_tcp" } },
	{ { 80, "\5_http", "\4_tcp" }, { 82, "\5_http", "\4_tcp" }, { 0, "\4_odd", "\4_tcp" } },
	{ { 0 } } };

static struct ports *
make_list(unsigned list)
{
	struct port items[4] = { 0 };
	size_t count = 0;

	for (; count < 4 && model_ports[list][count].proto != NULL; count++) {
		items[count].number = model_ports[list][count].number;
		memcpy(items[count].name, model_ports[list][count].name,
		    (size_t)model_ports[list][count].name[0] + 1);
		memcpy(items[count].proto, model_ports[list][count].proto,
		    (size_t)model_ports[list][count].proto[0] + 1);
	}
	return ports_new(42, items, count);
}
enum { HOST_NAMES = sizeof host_names / sizeof host_names[0] };

static unsigned
pick(struct model *m, unsigned below)
{
	m->random = m->random * 1103515245u + 12345u;
	return (m->random >> 16) % below;
}

static struct addr
addr4(unsigned n)
{
	return (struct addr){ AF_INET, { 10, 1, (uint8_t)(n / 256), (uint8_t)n } };
}

static struct dname
name_of(const char *text)
{
	struct dname name;

	assert_int_equal(dname_from_text(&name, text), 0);
	return name;
}

static bool
is_published(const struct model *m, unsigned o, const struct endpoint *e)
{
	return e->ready || m->flags[o] & ENDPOINTS_NOT_READY;
}

/* Returns whether the model publishes this address for owner o. If `name` is not NULL, the endpoint
 * must have this host name. "" means an endpoint without a host name. */
static bool
model_has(const struct model *m, unsigned o, const struct addr *addr, const char *name)
{
	for (unsigned s = 0; s < SLICES; s++)
		for (size_t i = 0; i < m->slices[o][s].count; i++) {
			const struct endpoint *e = &m->slices[o][s].endpoints[i];

			if (is_published(m, o, e) && addr_equal(&e->addr, addr) &&
			    (name == NULL || strcasecmp(e->name != NULL ? e->name : "", name) == 0))
				return true;
		}
	return false;
}

static void
check_endpoint_set(const struct model *m, const struct tree *tree, unsigned o)
{
	const struct node *node = tree_find(tree, m->owners[o]->name);
	unsigned distinct = 0, seen[ADDRS] = { 0 };

	if ((m->flags[o] & ENDPOINTS_ATTACHED) == 0) {
		assert_null(node);
		return;
	}
	const struct endpoint_set *endpoints = node->endpoints;
	for (unsigned a = 0; a < ADDRS; a++) {
		struct addr addr = addr4(a);

		distinct += model_has(m, o, &addr, NULL);
	}
	assert_int_equal(endpoints->total4, distinct);
	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct endpoint_set_slice *entry = &endpoints->slices[c];

		assert_int_equal(entry->slot, entry->slice->slot);
		assert_int_equal(entry->unique, entry->slice->unique);
		assert_int_equal(entry->family, entry->slice->family);
		for (unsigned i = 0; i < entry->unique; i++)
			seen[slice_addr(entry->slice, i)[3]]++;
	}
	for (unsigned a = 0; a < ADDRS; a++) {
		struct addr addr = addr4(a);

		assert_int_equal(seen[a], model_has(m, o, &addr, NULL));
	}
}

static void
check_walks(const struct model *m, const struct tree *tree, unsigned o)
{
	struct endpoint_walk walk;
	struct endpoint_ref ref;

	if ((m->flags[o] & ENDPOINTS_ATTACHED) == 0)
		return;
	const struct endpoint_set *endpoints = tree_find(tree, m->owners[o]->name)->endpoints;
	for (unsigned a = 0; a < ADDRS; a++) {
		struct addr addr = addr4(a);
		unsigned found = 0;

		endpoint_set_find_unnamed(&walk, tree, endpoints, &addr);
		while (endpoint_set_next(&walk, &ref)) {
			found++;
			assert_memory_equal(slice_addr(ref.slice, ref.i), addr.bytes, 4);
			assert_null(slice_name(ref.slice, ref.i));
		}
		assert_int_equal(found > 0, model_has(m, o, &addr, ""));
	}
	for (unsigned h = 1; h < HOST_NAMES; h++) {
		uint8_t label[80] = { 4 };
		bool named[ADDRS] = { false };

		label[0] = (uint8_t)strlen(host_names[h]);
		memcpy(label + 1, host_names[h], label[0]);
		dname_lower(label + 1, label[0]);
		endpoint_set_find_name(&walk, tree, endpoints, label);
		while (endpoint_set_next(&walk, &ref))
			named[slice_addr(ref.slice, ref.i)[3]] = true;
		for (unsigned a = 0; a < ADDRS; a++) {
			struct addr addr = addr4(a);

			assert_int_equal(named[a], model_has(m, o, &addr, host_names[h]));
		}
	}
}

/* Returns whether another entry of the slice has the same address or host name. */
static bool
has_double(const struct slice_endpoints *slice)
{
	for (unsigned i = 0; i < slice->published; i++) {
		const uint8_t *name = slice_name(slice, i);

		if (slice_find_addr(slice, i + 1, slice->published, slice_addr(slice, i)) <
			slice->published ||
		    (name != NULL &&
			slice_find_name(slice, i + 1, slice->published, name) < slice->published))
			return true;
	}
	return false;
}

static bool
list_has(unsigned list, uint16_t number, const char *name, const char *proto)
{
	for (unsigned i = 0; i < 4 && model_ports[list][i].proto != NULL; i++)
		if (model_ports[list][i].number == number &&
		    (name == NULL || (strcmp(model_ports[list][i].name, name) == 0 &&
					 strcmp(model_ports[list][i].proto, proto) == 0)))
			return true;
	return false;
}

/* Returns whether the model publishes an endpoint with a port of this name. NULL means any port. */
static bool
model_has_port(const struct model *m, unsigned o, const char *name, const char *proto)
{
	for (unsigned number = 1; number < 100; number++)
		for (unsigned s = 0; s < SLICES; s++)
			for (size_t i = 0; i < m->slices[o][s].count; i++)
				if (is_published(m, o, &m->slices[o][s].endpoints[i]) &&
				    list_has(m->slices[o][s].list, (uint16_t)number, name, proto))
					return true;
	return false;
}

static void
check_ports(const struct model *m, const struct tree *tree, unsigned o)
{
	static const char *const labels[][2] = { { "\5_http", "\4_tcp" }, { "\4_dns", "\4_udp" },
		{ "\4_dns", "\4_tcp" }, { "\4_odd", "\4_tcp" } };
	const struct endpoint_set *endpoints = m->owners[o]->endpoints;
	unsigned count =
	    endpoints->total4 > endpoints->total6 ? endpoints->total4 : endpoints->total6;

	assert_int_equal(endpoint_set_has_port(endpoints, 0), model_has_port(m, o, NULL, NULL));
	for (unsigned l = 0; l < 4; l++)
		assert_int_equal(endpoint_set_has_port(endpoints,
				     port_label(tree->seed, (const uint8_t *)labels[l][0],
					 (const uint8_t *)labels[l][1])),
		    model_has_port(m, o, labels[l][0], labels[l][1]));
	assert_int_equal(endpoint_set_weight(endpoints), count == 0 ? 1 : 100 / count);
}

/* Returns whether the owner has a slice with a lower name that publishes this address. */
static bool
model_has_lower(const struct model *m, unsigned o, const char *name, const uint8_t *addr)
{
	for (unsigned s = 0; s < SLICES; s++)
		for (size_t i = 0; i < m->slices[o][s].count; i++) {
			const struct endpoint *e = &m->slices[o][s].endpoints[i];

			if (strcmp(slice_names[s], name) < 0 && is_published(m, o, e) &&
			    memcmp(e->addr.bytes, addr, 4) == 0)
				return true;
		}
	return false;
}

/* The order of the slices, their runs, and the order in each run depend only on the slices. */
static void
check_order(const struct model *m, unsigned o)
{
	const struct endpoint_set *endpoints = m->owners[o]->endpoints;

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;

		assert_true(
		    c == 0 || strcmp(endpoints->slices[c - 1].slice->name, slice->name) < 0);
		for (unsigned i = 0; i < slice->count; i++) {
			bool first = i == 0 || i == slice->unique || i == slice->published;

			assert_true(first || slice_compare_entries(slice, i - 1, i) <= 0);
			if (i < slice->unique)
				assert_false(
				    model_has_lower(m, o, slice->name, slice_addr(slice, i)));
			else if (i < slice->published)
				assert_true(
				    slice_has_addr(slice, 0, slice->unique, slice_addr(slice, i)) ||
				    model_has_lower(m, o, slice->name, slice_addr(slice, i)));
		}
	}
}

/* The flags of a slice must be correct. A reader that trusts them does not examine other slices. */
static void
check_alone(const struct endpoint_set *endpoints, unsigned *alone)
{
	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;

		assert_int_equal(slice->distinct, !has_double(slice));
		for (unsigned i = 0; slice->alone && i < slice->published; i++) {
			const uint8_t *name = slice_name(slice, i);

			for (unsigned d = 0; name != NULL && d < endpoints->count; d++) {
				const struct slice_endpoints *other = endpoints->slices[d].slice;

				*alone += d == c;
				assert_true(d == c || slice_find_name(other, 0, other->published,
							  name) == other->published);
			}
		}
	}
}

static void
check_reverse(const struct model *m, const struct tree *tree)
{
	for (unsigned a = 0; a < ADDRS; a++) {
		struct addr addr = addr4(a);
		struct reverse_walk walk;
		struct reverse_ref ref;
		bool owners[OWNERS] = { false };

		reverse_find(&walk, tree, &addr);
		while (reverse_next(&walk, &ref))
			for (unsigned o = 0; o < OWNERS; o++)
				owners[o] |= ref.owner == m->owners[o];
		for (unsigned o = 0; o < OWNERS; o++) {
			uint32_t both = ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED;

			assert_int_equal(owners[o],
			    (m->flags[o] & both) == both && model_has(m, o, &addr, NULL));
		}
	}
}

static void
change_slice(struct model *m, unsigned o, unsigned s)
{
	struct model_slice *slice = &m->slices[o][s];

	if (slice->slot != 0 && pick(m, 4) == 0) {
		treecache_slice_remove(m->cache, m->owners[o], slice->slot);
		slice->slot = 0;
		slice->count = 0;
		return;
	}
	slice->count = pick(m, ENDPOINTS + 1);
	for (size_t i = 0; i < slice->count; i++)
		slice->endpoints[i] = (struct endpoint){ addr4(pick(m, ADDRS)), pick(m, 3) > 0,
			host_names[pick(m, HOST_NAMES)] };
	slice->list = pick(m, LISTS);
	slice->slot = treecache_slice(m->cache, m->owners[o], slice->slot,
	    &(struct slice_source){ .name = slice_names[s],
		.family = AF_INET,
		.ports = m->lists[slice->list],
		.endpoints = slice->endpoints,
		.count = slice->count });
}

static void
remove_slices(struct model *m, unsigned o)
{
	for (unsigned s = 0; s < SLICES; s++) {
		if (m->slices[o][s].slot != 0)
			treecache_slice_remove(m->cache, m->owners[o], m->slices[o][s].slot);
		m->slices[o][s].slot = 0;
		m->slices[o][s].count = 0;
	}
}

static void
model_free(struct model *m)
{
	for (unsigned o = 0; o < OWNERS; o++) {
		remove_slices(m, o);
		treecache_endpoint_set_flags(m->cache, m->owners[o], 0);
		treecache_prune(m->cache, m->owners[o]->name);
		treecache_owner_free(m->cache, m->owners[o]);
	}
	assert_int_equal(m->cache->addr_holders.count, 0);
	assert_null(m->cache->next.endpoints.root);
	assert_null(m->cache->next.reverse4.root);
	assert_null(m->cache->next.root->children);
	treecache_free(m->cache);
	for (unsigned list = 0; list < LISTS; list++)
		free(m->lists[list]);
}

static void
endpoints_are_what_the_slices_say_through_any_changes(void **state)
{
	(void)state;
	struct model m = { .cache = treecache_new(42), .random = 7 };
	static const char *const names[OWNERS] = { "a.ns.svc.", "b.ns.svc.", "a.other.svc.",
		"c.svc." };

	for (unsigned o = 0; o < OWNERS; o++)
		m.owners[o] = treecache_owner(m.cache, name_of(names[o]).wire);
	for (unsigned list = 0; list < LISTS; list++)
		m.lists[list] = make_list(list);
	unsigned alone = 0, held = 0;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned o = pick(&m, OWNERS);

		/* This is as if a change had found very many other slices. */
		if (pick(&m, 10) == 0 && m.owners[o]->endpoints->published > 0 &&
		    addr_holders_find(m.cache, m.owners[o]) == NULL) {
			addr_holders_new(m.cache, m.owners[o]);
			held++;
		}
		if (pick(&m, 100) == 0) {
			remove_slices(&m, o);
		} else if (pick(&m, 10) > 0) {
			change_slice(&m, o, pick(&m, SLICES));
		} else {
			m.flags[o] = pick(&m, 16);
			treecache_endpoint_set_flags(m.cache, m.owners[o], m.flags[o]);
			if ((m.flags[o] & ENDPOINTS_ATTACHED) == 0)
				treecache_prune(m.cache, m.owners[o]->name);
		}
		if (pick(&m, 3) > 0)
			continue;
		treecache_publish(m.cache, 1, true);
		for (unsigned i = 0; i < OWNERS; i++) {
			check_endpoint_set(&m, tree_current(m.cache), i);
			check_walks(&m, tree_current(m.cache), i);
			check_alone(m.owners[i]->endpoints, &alone);
			check_order(&m, i);
			check_ports(&m, tree_current(m.cache), i);
		}
		check_reverse(&m, tree_current(m.cache));
		if (pick(&m, 5) == 0)
			treecache_reclaim(m.cache);
	}
	assert_true(alone > 1000);
	assert_true(held > 50);
	model_free(&m);
}

static void
an_older_moment_stays_as_it_was(void **state)
{
	(void)state;
	struct treecache *cache = treecache_new(1);
	struct owner *owner = treecache_owner(cache, name_of("db.ns.svc.").wire);
	struct endpoint endpoints[] = { { addr4(1), true, NULL }, { addr4(2), true, NULL } };

	treecache_endpoint_set_flags(
	    cache, owner, ENDPOINTS_ATTACHED | ENDPOINTS_APEX | ENDPOINTS_REVERSE);
	struct slice_source source = { "s", 0, AF_INET, NULL, endpoints, 2, NULL, 0 };
	uint32_t slot = treecache_slice(cache, owner, 0, &source);
	treecache_publish(cache, 5, true);
	const struct tree *before = tree_current(cache);
	source.count = 1;
	treecache_slice(cache, owner, slot, &source);
	treecache_publish(cache, 6, true);
	const struct tree *after = tree_current(cache);
	assert_int_equal(tree_find(before, owner->name)->endpoints->total4, 2);
	assert_int_equal(tree_find(after, owner->name)->endpoints->total4, 1);
	struct addr gone = addr4(2), found = gone;
	assert_true(reverse_seek(before, &found) && addr_equal(&found, &gone));
	assert_false(reverse_seek(after, &found));
	assert_int_equal(before->serial, 5);
	assert_int_equal(after->serial, 6);
	treecache_slice_remove(cache, owner, slot);
	treecache_endpoint_set_flags(cache, owner, 0);
	treecache_owner_free(cache, owner);
	treecache_free(cache);
}

static unsigned
count_called(const struct treecache *cache, const char *text, const struct owner *wanted)
{
	struct owner_walk walk;
	const struct owner *owner;
	struct dname name = name_of(text);
	unsigned count = 0;
	bool found = false;

	owners_find(&walk, tree_current(cache), name.wire);
	while ((owner = owners_next(&walk)) != NULL) {
		count++;
		found = found || owner == wanted;
	}
	assert_true(found == (wanted != NULL));
	return count;
}

static void
owners_are_found_by_their_first_label(void **state)
{
	(void)state;
	struct treecache *cache = treecache_new(1);
	struct owner *here = treecache_owner(cache, name_of("api.ns.svc.").wire),
		     *there = treecache_owner(cache, name_of("api.prod.svc.").wire),
		     *other = treecache_owner(cache, name_of("apis.ns.svc.").wire);
	struct addr addr = addr4(1);

	treecache_owner_label(cache, here, true);
	treecache_owner_addr(cache, there, &addr, true); /* this address has the same slot */
	treecache_owner_label(cache, there, true);
	treecache_owner_label(cache, other, true);
	treecache_publish(cache, 1, true);
	assert_int_equal(count_called(cache, "api.", here), 2);
	assert_int_equal(count_called(cache, "api.", there), 2);
	assert_int_equal(count_called(cache, "apis.", other), 1);
	assert_int_equal(count_called(cache, "ap.", NULL), 0);
	treecache_owner_label(cache, here, false);
	treecache_publish(cache, 2, true);
	assert_int_equal(count_called(cache, "api.", there), 1);
	treecache_owner_label(cache, there, false);
	treecache_owner_label(cache, other, false);
	treecache_owner_addr(cache, there, &addr, false);
	treecache_publish(cache, 3, true);
	assert_int_equal(count_called(cache, "api.", NULL), 0);
	treecache_owner_free(cache, here);
	treecache_owner_free(cache, there);
	treecache_owner_free(cache, other);
	treecache_free(cache);
}

enum { BIG_SLICES = 100, BIG_ENDPOINTS = 100 };

/* The endpoints of one slice of a large StatefulSet. Every tenth endpoint has no host name. */
static void
big_endpoints(unsigned slice, struct endpoint endpoints[BIG_ENDPOINTS], char names[][16])
{
	for (unsigned i = 0; i < BIG_ENDPOINTS; i++) {
		unsigned n = slice * BIG_ENDPOINTS + i;

		snprintf(names[i], 16, "db-%u", n);
		endpoints[i] = (struct endpoint){ addr4(n), true, i % 10 == 0 ? NULL : names[i] };
	}
}

static void
a_changed_slice_of_a_huge_service_touches_no_other(void **state)
{
	(void)state;
	static char names[BIG_ENDPOINTS][16];
	struct treecache *cache = treecache_new(9);
	struct dname name = name_of("big.ns.svc.");
	struct owner *owner = treecache_owner(cache, name.wire);
	struct endpoint endpoints[BIG_ENDPOINTS];
	const struct slice_endpoints *before[BIG_SLICES];
	uint32_t slots[BIG_SLICES];
	struct slice_source source = { "s", 0, AF_INET, NULL, endpoints, BIG_ENDPOINTS, NULL, 0 };

	treecache_endpoint_set_flags(
	    cache, owner, ENDPOINTS_APEX | ENDPOINTS_REVERSE | ENDPOINTS_ATTACHED);
	for (unsigned s = 0; s < BIG_SLICES; s++) {
		big_endpoints(s, endpoints, names);
		source.index = (uint16_t)s;
		slots[s] = treecache_slice(cache, owner, 0, &source);
	}
	treecache_publish(cache, 1, true);
	treecache_reclaim(cache);
	for (unsigned s = 0; s < BIG_SLICES; s++)
		before[s] = treecache_slice_at(cache, slots[s]);

	/* In slice 42, one endpoint is removed, one becomes unready, and one is added. */
	big_endpoints(42, endpoints, names);
	endpoints[7] = (struct endpoint){ addr4(60000), true, "db-new" };
	endpoints[8].ready = false;
	source.index = 42;
	treecache_slice(cache, owner, slots[42], &source);
	treecache_publish(cache, 2, true);

	const struct tree *tree = tree_current(cache);
	const struct endpoint_set *set = tree_find(tree, name.wire)->endpoints;
	assert_int_equal(set->count, BIG_SLICES);
	assert_int_equal(set->total4, BIG_SLICES * BIG_ENDPOINTS - 1);
	for (unsigned s = 0; s < BIG_SLICES; s++) {
		assert_int_equal(set->slices[s].slot, slots[s]);
		if (s == 42)
			assert_ptr_not_equal(set->slices[s].slice, before[s]);
		else
			assert_ptr_equal(set->slices[s].slice, before[s]);
	}
	for (unsigned n = 0; n <= 60000; n += n == 10000 ? 50000 : 1) {
		struct addr addr = addr4(n);
		struct reverse_walk walk;
		struct reverse_ref ref;

		reverse_find(&walk, tree, &addr);
		assert_int_equal(reverse_next(&walk, &ref),
		    n != 4207 && n != 4208 && n != BIG_SLICES * BIG_ENDPOINTS);
	}
	print_message(
	    "one slice of %u: %zu bytes replaced\n", BIG_SLICES, treecache_garbage(cache));
	for (unsigned s = 0; s < BIG_SLICES; s++)
		treecache_slice_remove(cache, owner, slots[s]);
	treecache_endpoint_set_flags(cache, owner, 0);
	treecache_owner_free(cache, owner);
	treecache_free(cache);
}

static int
by_hash(const void *a, const void *b)
{
	const uint64_t *ha = a, *hb = b;

	return *ha < *hb ? -1 : *ha > *hb;
}

/* Returns whether an endpoint of the owner has this name. */
static bool
endpoint_set_has_name(
    const struct treecache *cache, const struct owner *owner, const uint8_t *label)
{
	struct endpoint_walk walk;
	struct endpoint_ref ref;
	const struct tree *tree = treecache_next(cache);

	endpoint_set_find_name(&walk, tree, tree_find(tree, owner->name)->endpoints, label);
	return endpoint_set_next(&walk, &ref);
}

/* The index only has hashes. So the reader must check the owner and the content of a result. */
static void
endpoints_of_two_owners_with_one_hash_are_kept_apart(void **state)
{
	(void)state;
	enum { TRIES = 200000 }; /* about 9 pairs of a name of each owner have the same hash */
	struct treecache *cache = treecache_new(23);
	struct owner *a = treecache_owner(cache, name_of("a.ns.svc.").wire),
		     *b = treecache_owner(cache, name_of("b.ns.svc.").wire);
	uint64_t *hashes = calloc(TRIES, sizeof *hashes);
	uint8_t labels[2][16] = { { 7 }, { 7 } };
	unsigned pairs = 0;
	uint32_t slots[3];

	treecache_endpoint_set_flags(cache, a, ENDPOINTS_ATTACHED);
	treecache_endpoint_set_flags(cache, b, ENDPOINTS_ATTACHED);
	for (unsigned i = 0; i < 3; i++) /* with so many slices, the index is used */
		slots[i] = treecache_slice(cache, a, 0,
		    &(struct slice_source){ "s", (uint16_t)i, AF_INET, NULL,
			&(struct endpoint){ addr4(i), true, NULL }, 1, NULL, 0 });
	for (unsigned i = 0; i < TRIES; i++) {
		uint32_t hash;

		snprintf((char *)labels[0] + 1, 9, "x%06u", i);
		endpoint_name_key(treecache_next(cache), a, labels[0], (uint8_t *)&hash);
		hashes[i] = (uint64_t)hash << 32 | i;
	}
	qsort(hashes, TRIES, sizeof *hashes, by_hash);
	for (unsigned i = 0; i < TRIES; i++) {
		uint32_t hash;

		snprintf((char *)labels[1] + 1, 9, "y%06u", i);
		endpoint_name_key(treecache_next(cache), b, labels[1], (uint8_t *)&hash);
		unsigned low = 0, high = TRIES;
		while (low < high)
			if (hashes[(low + high) / 2] >> 32 < hash)
				low = (low + high) / 2 + 1;
			else
				high = (low + high) / 2;
		if (low == TRIES || hashes[low] >> 32 != hash)
			continue;
		snprintf((char *)labels[0] + 1, 9, "x%06u", (unsigned)hashes[low]);
		struct endpoint both[] = { { addr4(7), true, (char *)labels[0] + 1 },
			{ addr4(8), true, (char *)labels[1] + 1 } };
		uint32_t slot = treecache_slice(
		    cache, b, 0, &(struct slice_source){ "s", 0, AF_INET, NULL, both, 2, NULL, 0 });
		assert_false(endpoint_set_has_name(cache, a, labels[0]));
		assert_true(endpoint_set_has_name(cache, b, labels[0]));
		treecache_slice_remove(cache, b, slot);
		pairs++;
	}
	assert_true(pairs > 0);
	for (unsigned i = 0; i < 3; i++)
		treecache_slice_remove(cache, a, slots[i]);
	treecache_endpoint_set_flags(cache, a, 0);
	treecache_endpoint_set_flags(cache, b, 0);
	treecache_owner_free(cache, a);
	treecache_owner_free(cache, b);
	free(hashes);
	treecache_free(cache);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints_are_what_the_slices_say_through_any_changes),
		cmocka_unit_test(owners_are_found_by_their_first_label),
		cmocka_unit_test(an_older_moment_stays_as_it_was),
		cmocka_unit_test(a_changed_slice_of_a_huge_service_touches_no_other),
		cmocka_unit_test(endpoints_of_two_owners_with_one_hash_are_kept_apart),
	};

	rcu_join();
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return rc;
}
