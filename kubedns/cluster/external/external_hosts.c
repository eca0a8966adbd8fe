/*
 * The owner of each name. The claims of a name are stored in their order of precedence
 * (external.h). The records of the first claim are in the tree. A name's records change only when
 * its first claim changes.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/external/external_hosts.h"
#include "kubedns/cluster/rrset_writer.h"
#include "kubedns/cluster/service_records.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

/* --- the targets of a name --- */

static int
addr_order(const void *a, const void *b)
{
	const struct addr *x = a, *y = b;

	return x->family != y->family ? (int)x->family - (int)y->family
				      : memcmp(x->bytes, y->bytes, addr_len(x));
}

/* Adds more targets. The result has addresses or, if there are none, the lowest host name. */
static void
served_add(struct served *to, const struct served *from)
{
	to->addrs =
	    xreallocarray(to->addrs, to->addr_count + from->addr_count + 1, sizeof *to->addrs);
	for (size_t i = 0; i < from->addr_count && to->addr_count < EXTERNAL_ADDRS_MAX; i++) {
		size_t k = 0;

		while (k < to->addr_count && !addr_equal(&to->addrs[k], &from->addrs[i]))
			k++;
		if (k == to->addr_count)
			to->addrs[to->addr_count++] = from->addrs[i];
	}
	qsort(to->addrs, to->addr_count, sizeof *to->addrs, addr_order);
	if (from->target != NULL && (to->target == NULL || strcmp(from->target, to->target) < 0)) {
		free(to->target);
		to->target = xstrdup(from->target);
	}
	if (to->addr_count > 0) { /* a name with a CNAME has no other record (RFC 1034 3.6.2) */
		free(to->target);
		to->target = NULL;
	}
}

bool
served_is_empty(const struct served *served)
{
	return served->addr_count == 0 && served->target == NULL;
}

bool
served_equal(const struct served *a, const struct served *b)
{
	if (a->addr_count != b->addr_count || (a->target == NULL) != (b->target == NULL))
		return false;
	for (size_t i = 0; i < a->addr_count; i++)
		if (!addr_equal(&a->addrs[i], &b->addrs[i]))
			return false;
	return a->target == NULL || strcmp(a->target, b->target) == 0;
}

void
served_free(struct served *served)
{
	free(served->addrs);
	free(served->target);
	*served = (struct served){ 0 };
}

/* --- hosts --- */

static bool
same_host(const void *entry, const void *key)
{
	const struct external_host *host = entry;

	return dname_equal(host->wire, key);
}

static uint32_t
host_hash(const struct external *e, const uint8_t *wire)
{
	return hash_fold(hash64(e->seed, wire, dname_length(wire, DNAME_MAX)));
}

struct external_host *
host_find(const struct external *e, const uint8_t *wire)
{
	return table_find(&e->hosts, host_hash(e, wire), same_host, wire);
}

static struct external_host *
host_get(struct external *e, const struct dname *name)
{
	struct external_host *host = host_find(e, name->wire);

	if (host != NULL)
		return host;
	host = xcalloc(1, sizeof *host + name->len);
	host->hash = host_hash(e, name->wire);
	host->len = name->len;
	memcpy(host->wire, name->wire, name->len);
	table_add(&e->hosts, host);
	return host;
}

bool
host_is_apex(const struct external *e, const uint8_t *wire)
{
	for (size_t i = 0; i < e->config.zone_count; i++)
		if (dname_equal(wire, e->config.zones[i].wire))
			return true;
	return false;
}

/* --- claims, in their order of precedence --- */

/* Whether this is a Service's claim of its own `service.namespace.zone` while the Service waits for
 * its load balancer. */
static bool
claim_waits(const struct claim *claim)
{
	return claim->rank == CLAIM_CANONICAL && served_is_empty(&claim->served);
}

/* Orders objects by name of the namespace, age, name and kind. */
static int
object_order(const struct external_object *object, const struct external_object *other)
{
	int order = strcmp(object->namespace, other->namespace);

	if (order != 0)
		return order;
	if (object->created_s != other->created_s)
		return object->created_s < other->created_s ? -1 : 1;
	order = strcmp(object->name, other->name);
	return order != 0 ? order : (int)object->kind - (int)other->kind;
}

static int
claim_order(const struct claim *a, const struct claim *b)
{
	bool a_waits = claim_waits(a), b_waits = claim_waits(b);
	enum claim_rank a_rank = a_waits ? CLAIM_HOST : a->rank,
			b_rank = b_waits ? CLAIM_HOST : b->rank;

	if (a_rank != b_rank)
		return (int)a_rank - (int)b_rank;
	if (a->since != b->since)
		return a->since < b->since ? -1 : 1;
	if (a_waits != b_waits)
		return (int)a_waits - (int)b_waits;
	return object_order(a->object, b->object);
}

/* Whether this claim's records differ from the records of the previous claim. */
static bool
step_at(const struct external_host *host, uint32_t at)
{
	return at > 0 && at < host->claim_count && host->claims[at]->rank != CLAIM_ASLEEP &&
	       !served_equal(&host->claims[at - 1]->served, &host->claims[at]->served);
}

/* Counts the steps at this claim and at the next claim. A change of this claim can affect only
 * these two steps. */
static uint32_t
steps_at(const struct external_host *host, uint32_t at)
{
	return (uint32_t)step_at(host, at) + step_at(host, at + 1);
}

/* Returns the position of a new claim. It is the position of the claim that it replaces, if there is one. */
static uint32_t
claim_since(struct external *e, struct external_host *host)
{
	if (e->begun && host->released_since == 0) {
		e->since += e->since < UINT32_MAX; /* at the limit, the order of objects decides */
		/* Another listener of the same Gateway may claim the name too. Its claim gets the
		 * same position. */
		host->released_since = e->since;
	}
	return host->released_since;
}

/* Inserts the claim, whose targets are still empty, at index `at`. */
static void
insert_claim(struct external_host *host, struct claim *claim, uint32_t at)
{
	if (host->claim_count == host->claim_capacity) {
		host->claim_capacity = host->claim_capacity == 0 ? 1 : 2 * host->claim_capacity;
		host->claims =
		    xreallocarray(host->claims, host->claim_capacity, sizeof *host->claims);
	}
	host->steps -= step_at(host, at);
	memmove(&host->claims[at + 1], &host->claims[at],
	    (host->claim_count - at) * sizeof(struct claim *));
	host->claims[at] = claim;
	host->claim_count++;
	host->steps += steps_at(host, at);
}

struct claim *
host_claim(struct external *e, const struct dname *name, struct external_object *object,
    enum claim_rank rank, const struct served *served)
{
	struct external_host *host = host_get(e, name);
	uint32_t low = 0, high = host->claim_count;
	struct claim new = {
		.host = host, .object = object, .rank = rank, .served = *served, .last = served
	};

	new.since = claim_since(e, host);
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		int order = claim_order(&new, host->claims[mid]);

		if (order == 0) {
			/* Another listener of the same Gateway has already added these targets. */
			if (host->claims[mid]->last == served)
				return NULL;
			host->claims[mid]->last = served;
			host->steps -= steps_at(host, mid);
			served_add(&host->claims[mid]->served, served);
			host->steps += steps_at(host, mid);
			return NULL;
		}
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	struct claim *claim = xmalloc(sizeof *claim);
	*claim = new;
	claim->served = (struct served){ 0 };
	served_add(&claim->served, served);
	insert_claim(host, claim, low);
	return claim;
}

struct external_host *
host_release(struct claim *claim)
{
	struct external_host *host = claim->host;
	uint32_t i = 0;

	/* a linear search, because the object may have changed and the order cannot be used */
	while (i < host->claim_count && host->claims[i] != claim)
		i++;
	assert(i < host->claim_count);
	host->steps -= steps_at(host, i);
	host->claim_count--;
	memmove(&host->claims[i], &host->claims[i + 1],
	    (host->claim_count - i) * sizeof(struct claim *));
	host->steps += step_at(host, i);
	if (host->released_since == 0 || claim->since < host->released_since)
		host->released_since = claim->since;
	served_free(&claim->served);
	free(claim);
	return host;
}

/* --- records --- */

/* The records_sink. `arg` is the struct external. */
static void
put_records(void *arg, const uint8_t *name, const void *sets, size_t len)
{
	struct external *e = arg;

	treecache_records(e->cache, treecache_edit(e->cache, name), sets, len);
}

struct labels {
	uint8_t (*items)[1 + DNAME_LABEL_MAX];
	size_t count;
};

static void
note_service_label(void *arg, const struct node *child)
{
	struct labels *labels = arg;

	if (child->label[0] == 0 || child->label[1] != '_')
		return;
	labels->items = xreallocarray(labels->items, labels->count + 1, sizeof *labels->items);
	memcpy(labels->items[labels->count++], child->label, 1u + child->label[0]);
}

/* Removes the `_port._proto` names below a name. Such a name never has claims. */
static void
drop_ports(struct external *e, const struct dname *name)
{
	struct labels labels = { 0 };
	const struct node *node = tree_find(treecache_next(e->cache), name->wire);

	if (node != NULL)
		tree_children(node, note_service_label, &labels);
	for (size_t i = 0; i < labels.count; i++) {
		struct dname proto = *name;

		if (dname_prepend(&proto, labels.items[i] + 1, labels.items[i][0]) < 0)
			continue;
		treecache_clear(e->cache, treecache_edit(e->cache, proto.wire));
		treecache_prune(e->cache, proto.wire);
	}
	free(labels.items);
}

static void
add_ns(struct sets *sets, const struct external *e, const struct dname *zone)
{
	static const uint8_t ns[] = "\2ns\3dns";
	struct dname own = { .len = sizeof ns };

	memcpy(own.wire, ns, sizeof ns);
	sets_begin(sets, TYPE_NS);
	if (e->config.ns_addr_count > 0 && dname_append(&own, zone->wire) == 0)
		sets_add(sets, own.wire, own.len, NULL, 0);
	for (size_t i = 0; i < e->config.ns_count; i++)
		sets_add(sets, e->config.ns[i].wire, e->config.ns[i].len, NULL, 0);
	sets_end(sets);
}

/* Adds SRV records as in the cluster's zone. The target must not be an alias (RFC 2782). If the
 * load balancer is known by its host name, that name is the target. */
static void
add_srv(struct external *e, struct sets *sets, const struct claim *claim, const struct dname *name,
    const struct dname *target)
{
	const struct external_object *object = claim->object;
	struct ports *ports = ports_new(HASH_START, object->ports, object->port_count);
	struct sets below = { .ttl_s = sets->ttl_s };

	if (claim->served.addr_count > 0)
		sets_srv(sets, ports->numbers, ports->number_count, target);
	records_named_ports(&below, ports, name->wire, target, put_records, e);
	free(below.bytes);
	free(ports);
}

/* Writes the records of the name's first claim. */
static void
write_claim(struct external *e, struct external_host *host, struct sets *sets)
{
	const struct claim *claim = host_first(host);
	struct dname name = { .len = host->len }, target;

	memcpy(name.wire, host->wire, host->len);
	target = name;
	sets->ttl_s = claim->object->ttl_s;
	sets_addrs(sets, claim->served.addrs, claim->served.addr_count);
	if (claim->served.addr_count == 0 && claim->served.target != NULL &&
	    dname_from_text(&target, claim->served.target) == 0) {
		dname_lower(target.wire, target.len);
		sets_begin(sets, TYPE_CNAME);
		sets_add(sets, target.wire, target.len, NULL, 0);
		sets_end(sets);
	}
	if (claim->rank == CLAIM_CANONICAL && !served_is_empty(&claim->served) &&
	    claim->object->port_count > 0) {
		add_srv(e, sets, claim, &name, &target);
		host->has_ports = true;
	}
}

enum { CLAIMER_TEXT_MAX = 400 };

static const char *
claimer(const struct claim *claim, char text[CLAIMER_TEXT_MAX])
{
	if (claim == NULL || claim->object->kind == OBJECT_KIND_COUNT)
		return "--external-ns";
	const struct external_object *object = claim->object;
	snprintf(text, CLAIMER_TEXT_MAX, "%s %s/%s", object_kind_resource(object->kind),
	    object->namespace, object->name);
	return text;
}

const struct claim *
host_first(const struct external_host *host)
{
	if (host->claim_count == 0 || host->claims[0]->rank == CLAIM_ASLEEP ||
	    (host->reserved && host->claims[0]->rank == CLAIM_HOST))
		return NULL;
	return host->claims[0];
}

/* Returns the first claim whose records differ from the records of the name. */
static const struct claim *
host_loser(const struct external_host *host)
{
	uint32_t i = 0;

	if (host_first(host) != NULL)
		for (i = 1; !step_at(host, i); i++)
			assert(i < host->claim_count);
	return host->claims[i];
}

/* Counts and logs that a name is claimed by objects with different records. */
static void
note_conflict(struct external *e, struct external_host *host)
{
	bool refused =
	    host->reserved && host->claim_count > 0 && host->claims[0]->rank == CLAIM_HOST;
	bool conflict = host->steps > 0 || refused;
	char text[DNAME_TEXT_MAX], winner[CLAIMER_TEXT_MAX], loser[CLAIMER_TEXT_MAX];

	if (conflict == host->conflict || !e->begun)
		return;
	host->conflict = conflict;
	e->conflicts += conflict ? 1 : (size_t)-1;
	if (conflict)
		log_neterr("external name %s: %s has this name, and %s claims it with other "
			   "addresses: remove it from one of them",
		    dname_to_text(host->wire, text), claimer(host_first(host), winner),
		    claimer(host_loser(host), loser));
}

void
host_settle(struct external *e, struct external_host *host)
{
	const struct claim *first = host_first(host);
	bool apex = host_is_apex(e, host->wire), exists = first != NULL || host->reserved;
	bool was = host->has_records;
	struct sets sets = { .ttl_s = e->config.ttl_s };
	struct dname name = { .len = host->len };

	memcpy(name.wire, host->wire, host->len);
	host->dirty = false;
	host->released_since = 0;
	note_conflict(e, host);
	if (host->has_ports)
		drop_ports(e, &name);
	host->has_ports = false;
	if (apex)
		add_ns(&sets, e, &name);
	host->has_records = first != NULL && !served_is_empty(&first->served);
	e->names += (size_t)host->has_records - (size_t)was;
	if (first != NULL)
		write_claim(e, host, &sets);
	put_records(e, name.wire, sets.bytes, sets.len);
	/* The node stays, even if it has no records and even if all names below it are removed. */
	treecache_edit(e->cache, name.wire)->number = exists ? NODE_PERMANENT : 0;
	free(sets.bytes);
	if (exists || apex)
		return;
	treecache_prune(e->cache, name.wire);
	if (host->claim_count > 0) /* all claims of the name are asleep */
		return;
	table_remove(&e->hosts, host);
	free(host->claims);
	free(host);
}

/* --- ages of namespaces: until external_begin() --- */

struct age {
	uint32_t hash;
	int64_t created_s;
	char name[];
};

static bool
same_age(const void *entry, const void *key)
{
	return strcmp(((const struct age *)entry)->name, key) == 0;
}

static uint32_t
age_hash(const struct external *e, const char *name)
{
	return hash_fold(hash64(e->seed, name, strlen(name) + 1));
}

static struct age *
age_find(const struct external *e, const char *name)
{
	return table_find(&e->ages, age_hash(e, name), same_age, name);
}

/* Returns the creation time of the namespace as Unix time, or INT64_MAX if unknown. The time is
 * known only until external_begin() has ended. */
static int64_t
namespace_created_s(const struct external *e, const char *name)
{
	const struct age *age = age_find(e, name);

	return age == NULL ? INT64_MAX : age->created_s;
}

void
ages_note(struct external *e, const struct object *object)
{
	struct age *age = age_find(e, object->name);

	if (age == NULL) {
		size_t len = strlen(object->name) + 1;

		age = xcalloc(1, sizeof *age + len);
		age->hash = age_hash(e, object->name);
		memcpy(age->name, object->name, len);
		table_add(&e->ages, age);
	}
	age->created_s = object->created_s;
}

void
ages_forget(struct external *e)
{
	void *entry;

	for (size_t place = 0; (entry = table_next(&e->ages, &place)) != NULL;)
		free(entry);
	table_free(&e->ages);
}

/* --- the initial order --- */

/* Like claim_order(), but for claims that existed before the process started. */
static int
beginning_order(const void *a, const void *b, void *external)
{
	const struct claim *x = *(const struct claim *const *)a,
			   *y = *(const struct claim *const *)b;
	int64_t x_s = namespace_created_s(external, x->object->namespace),
		y_s = namespace_created_s(external, y->object->namespace);
	bool x_waits = claim_waits(x), y_waits = claim_waits(y);
	enum claim_rank x_rank = x_waits ? CLAIM_HOST : x->rank,
			y_rank = y_waits ? CLAIM_HOST : y->rank;

	if (x_rank != y_rank)
		return (int)x_rank - (int)y_rank;
	if (x_waits != y_waits)
		return (int)x_waits - (int)y_waits;
	if (x_s != y_s)
		return x_s < y_s ? -1 : 1;
	return object_order(x->object, y->object);
}

void
host_begin(struct external *e, struct external_host *host)
{
	if (host->claim_count > 1)
		qsort_r(
		    host->claims, host->claim_count, sizeof(struct claim *), beginning_order, e);
	host->steps = 0;
	for (uint32_t i = 0; i < host->claim_count; i++) {
		host->claims[i]->since = i + 1;
		host->steps += step_at(host, i);
	}
	if (e->since < host->claim_count)
		e->since = host->claim_count;
	if (host->claim_count > 0)
		host_settle(e, host);
}

void
host_reserve(struct external *e, const struct dname *name)
{
	struct external_host *host = host_get(e, name);

	host->reserved = true;
	host_settle(e, host);
}

void
hosts_begin(struct external *e)
{
	for (size_t i = 0; i < e->config.zone_count; i++) {
		struct external_host *host = host_get(e, &e->config.zones[i]);

		host_settle(e, host);
	}
}
