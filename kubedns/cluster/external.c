/* The events that change who claims which names. */
#include "kubedns/cluster/external.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/external_internal.h"
#include "kubedns/cluster/label_selector.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

static uint64_t
hash_text(uint64_t hash, const char *text)
{
	return hash64(hash, text, strlen(text) + 1);
}

/* --- chosen namespaces: only with --namespace-labels --- */

struct chosen {
	uint32_t hash;
	uint8_t mark;
	char name[];
};

static bool
same_name(const void *entry, const void *key)
{
	return strcmp(((const struct chosen *)entry)->name, key) == 0;
}

static struct chosen *
chosen_find(const struct external *e, const char *name)
{
	return table_find(&e->chosen, hash_fold(hash_text(e->seed, name)), same_name, name);
}

bool
external_namespace_is_chosen(const struct external *e, const char *name)
{
	return e->config.namespace_labels == NULL || chosen_find(e, name) != NULL;
}

static void
set_chosen(struct external *e, const char *name, bool chosen)
{
	struct chosen *entry = chosen_find(e, name);

	if (entry != NULL && chosen)
		entry->mark = e->mark[OBJECT_NAMESPACE];
	if ((entry != NULL) == chosen)
		return;
	if (chosen) {
		size_t len = strlen(name) + 1;
		entry = xcalloc(1, sizeof *entry + len);
		entry->hash = hash_fold(hash_text(e->seed, name));
		entry->mark = e->mark[OBJECT_NAMESPACE];
		memcpy(entry->name, name, len);
		table_add(&e->chosen, entry);
		followers_renew(e, OBJECT_NAMESPACE, "", entry->name);
	} else {
		table_remove(&e->chosen, entry);
		followers_renew(e, OBJECT_NAMESPACE, "", entry->name);
		free(entry);
	}
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

static struct age *
age_find(const struct external *e, const char *name)
{
	return table_find(&e->ages, hash_fold(hash_text(e->seed, name)), same_age, name);
}

int64_t
external_namespace_created_s(const struct external *e, const char *name)
{
	const struct age *age = age_find(e, name);

	return age == NULL ? INT64_MAX : age->created_s;
}

static void
note_age(struct external *e, const struct object *object)
{
	struct age *age = age_find(e, object->name);

	if (age == NULL) {
		size_t len = strlen(object->name) + 1;
		age = xcalloc(1, sizeof *age + len);
		age->hash = hash_fold(hash_text(e->seed, object->name));
		memcpy(age->name, object->name, len);
		table_add(&e->ages, age);
	}
	age->created_s = object->created_s;
}

static void
forget_ages(struct external *e)
{
	void *entry;

	for (size_t place = 0; (entry = table_next(&e->ages, &place)) != NULL;)
		free(entry);
	table_free(&e->ages);
}

void
external_begin(struct external *e)
{
	struct external_host *host;
	size_t place = 0;

	e->begun = true;
	while ((host = table_next(&e->hosts, &place)) != NULL)
		host_begin(e, host);
	forget_ages(e);
}

/* --- events --- */

/* Only what may have a name is kept: most Services are not for the outside. One that waits for its
 * load balancer has its name all the same, or another object could have it until then. A Gateway's
 * listeners are needed by routes, whatever it has. */
static bool
is_worth_keeping(const struct external *e, const struct object *object)
{
	const struct object_external *from = object->external;

	switch (object->kind) {
	case OBJECT_SERVICE:
	case OBJECT_INGRESS:
		return external_object_addrs(e, object) > 0 || from->target != NULL ||
		       from->balanced;
	case OBJECT_GATEWAY:
		return true;
	case OBJECT_HTTPROUTE:
	case OBJECT_GRPCROUTE:
	case OBJECT_TLSROUTE:
		return from->parent_count > 0;
	case OBJECT_SLICES:
	case OBJECT_NAMESPACE:
	case OBJECT_POD:
	case OBJECT_NODE:
	case OBJECT_CONFIGMAP:
	case OBJECT_IMPORT:
	case OBJECT_KIND_COUNT:
		break;
	}
	return false;
}

static void
object_gone(struct external *e, const struct object *source)
{
	struct external_object *object =
	    external_object_find(e, source->kind, source->namespace, source->name);

	if (object == NULL)
		return;
	external_object_drop(e, object);
	if (source->kind == OBJECT_GATEWAY)
		followers_renew(e, OBJECT_GATEWAY, source->namespace, source->name);
}

static void
object_here(struct external *e, const struct object *source)
{
	struct external_object *object =
	    external_object_find(e, source->kind, source->namespace, source->name);
	bool worth = is_worth_keeping(e, source);

	/* One that had names is kept, and with it its place among those who claim them. */
	if (!worth && (object == NULL || object->claim_count == 0)) {
		object_gone(e, source);
		return;
	}
	object = external_object_get(e, source);
	object->mark = e->mark[source->kind];
	if (!external_object_renew(e, object, source))
		return;
	claims_renew(e, object);
	if (!worth && object->claim_count == 0)
		object_gone(e, source);
	else if (source->kind == OBJECT_GATEWAY)
		followers_renew(e, OBJECT_GATEWAY, source->namespace, source->name);
}

/* Drops the objects of a kind that the listing which has just ended did not show. */
static void
sweep(struct external *e, enum object_kind kind)
{
	struct external_object *object, **gone = NULL;
	size_t place = 0, count = 0;

	if (e->counts[kind] == 0)
		return;
	gone = xcalloc(e->counts[kind], sizeof(struct external_object *));
	while ((object = table_next(&e->objects, &place)) != NULL)
		if (object->kind == kind && object->mark != e->mark[kind])
			gone[count++] = object;
	for (size_t i = 0; i < count; i++) {
		char *namespace = xstrdup(gone[i]->namespace), *name = xstrdup(gone[i]->name);
		external_object_drop(e, gone[i]);
		if (kind == OBJECT_GATEWAY)
			followers_renew(e, OBJECT_GATEWAY, namespace, name);
		free(namespace);
		free(name);
	}
	free(gone);
}

static void
sweep_namespaces(struct external *e)
{
	struct chosen *entry, **gone = xcalloc(e->chosen.count + 1, sizeof(struct chosen *));
	size_t place = 0, count = 0;

	while ((entry = table_next(&e->chosen, &place)) != NULL)
		if (entry->mark != e->mark[OBJECT_NAMESPACE])
			gone[count++] = entry;
	for (size_t i = 0; i < count; i++)
		set_chosen(e, gone[i]->name, false);
	free(gone);
}

static bool
is_wanted(const struct external *e, const struct object *object)
{
	const char *namespace = object->kind == OBJECT_NAMESPACE ? object->name : object->namespace;

	if (e->config.namespaces == NULL)
		return true;
	for (char *const *wanted = e->config.namespaces; *wanted != NULL; wanted++)
		if (strcmp(*wanted, namespace) == 0)
			return true;
	return false;
}

static void
namespace_event(struct external *e, bool deleted, const struct object *object)
{
	const struct label_selector *selector = e->config.namespace_labels;

	if (!e->begun && !deleted)
		note_age(e, object);
	if (selector != NULL)
		set_chosen(e, object->name,
		    !deleted &&
			label_selector_matches(selector, object->labels, object->label_count));
}

void
external_event(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct external *e = arg;

	if (type == EVENT_LISTING) {
		e->mark[kind]++;
	} else if (type == EVENT_SYNCED) {
		sweep(e, kind);
		if (kind == OBJECT_NAMESPACE)
			sweep_namespaces(e);
	} else if (!is_wanted(e, object)) {
		return;
	} else if (kind == OBJECT_NAMESPACE) {
		namespace_event(e, type == EVENT_DELETED, object);
	} else if (type == EVENT_DELETED) {
		object_gone(e, object);
	} else if (object->external != NULL) {
		object_here(e, object);
	}
}

/* --- the rest --- */

/* The zones' own name server, `ns.dns.ZONE`, and the names of --external-ns in the zones. */
static void
claim_own_names(struct external *e)
{
	static const uint8_t ns[] = "\2ns\3dns";
	struct served served = { .addrs = (struct addr *)(uintptr_t)e->config.ns_addrs,
		.addr_count = e->config.ns_addr_count };

	for (size_t i = 0; i < e->config.zone_count && served.addr_count > 0; i++) {
		struct dname name = { .len = sizeof ns };
		memcpy(name.wire, ns, sizeof ns);
		if (dname_append(&name, e->config.zones[i].wire) < 0)
			continue;
		e->zone.claims =
		    xreallocarray(e->zone.claims, e->zone.claim_count + 1, sizeof *e->zone.claims);
		struct claim *claim = host_claim(e, &name, &e->zone, CLAIM_ZONE, &served);
		e->zone.claims[e->zone.claim_count++] = claim;
		host_settle(e, claim->host);
	}
	for (size_t i = 0; i < e->config.ns_count; i++)
		if (claims_zone(e, e->config.ns[i].wire) >= 0)
			host_reserve(e, &e->config.ns[i]);
}

struct external *
external_new(const struct external_config *config, uint64_t seed)
{
	static char none[] = "";
	struct external *e = xcalloc(1, sizeof *e);

	e->config = *config;
	e->seed = seed;
	e->cache = treecache_new(seed);
	e->zone = (struct external_object){
		.kind = OBJECT_KIND_COUNT, .namespace = none, .name = none, .ttl_s = config->ttl_s
	};
	hosts_begin(e);
	claim_own_names(e);
	return e;
}

struct treecache *
external_tree(const struct external *e)
{
	return e->cache;
}

size_t
external_count(const struct external *e, enum object_kind kind)
{
	return e->counts[kind];
}

size_t
external_name_count(const struct external *e)
{
	return e->names;
}

size_t
external_conflicts(const struct external *e)
{
	return e->conflicts;
}

uint64_t
external_refused_total(const struct external *e)
{
	return e->refused;
}

bool
external_find(const struct external *e, const uint8_t *wire, size_t index,
    struct external_source *source, bool *differs)
{
	const struct external_host *host = host_find(e, wire);
	const struct claim *first = host == NULL ? NULL : host_first(host);

	if (host == NULL)
		return false;
	*source = (struct external_source){ .kind = OBJECT_KIND_COUNT };
	*differs = first == NULL && index > 0;
	if (first == NULL && host->reserved && index-- == 0)
		return true;
	if (index >= host->claim_count || host->claims[index]->rank == CLAIM_ASLEEP)
		return false;
	const struct external_object *object = host->claims[index]->object;
	*source = (struct external_source){ object->kind, object->namespace, object->name,
		object->version };
	if (first != NULL)
		*differs = !served_equal(&host->claims[index]->served, &first->served);
	return true;
}

/* Frees the hosts that are left: the zones' apexes, and reserved names. */
static void
free_hosts(struct external *e)
{
	struct external_host *host;
	size_t place = 0;

	while ((host = table_next(&e->hosts, &place)) != NULL) {
		free(host->claims);
		free(host);
	}
	table_free(&e->hosts);
}

void
external_free(struct external *e)
{
	void *entry;

	if (e == NULL)
		return;
	/* As after an empty listing of each kind; Gateways behind their routes. */
	for (unsigned kind = OBJECT_KIND_COUNT; kind-- > 0;) {
		e->mark[kind]++;
		sweep(e, kind);
	}
	claims_drop(e, &e->zone);
	free_hosts(e);
	for (size_t place = 0; (entry = table_next(&e->chosen, &place)) != NULL;)
		free(entry);
	forget_ages(e);
	table_free(&e->objects);
	table_free(&e->followed);
	table_free(&e->chosen);
	treecache_free(e->cache);
	free(e);
}
