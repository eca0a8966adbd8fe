/* The objects that claim names. This file stores their fields and handles the events that change
 * them. */
#include "kubedns/cluster/external/external.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/external/external_hosts.h"
#include "kubedns/cluster/external/host_claims.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/service_records.h"
#include "kubedns/cluster/store.h"
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

/* Whether --namespace-labels matches the namespace. Returns true if the option is not set. */
static bool
external_namespace_is_chosen(const struct external *e, const char *name)
{
	return e->config.namespace_labels == NULL || chosen_find(e, name) != NULL;
}

/* Computes the claims of the object. An object in a namespace that was not chosen has none. */
static void
renew(struct external *e, struct external_object *object)
{
	claims_renew(e, object, external_namespace_is_chosen(e, object->namespace));
}

/* --- objects that follow others --- */

/*
 * The objects whose claims must be recomputed when another object changes. Routes follow their
 * Gateways and ListenerSets, and ListenerSets follow their Gateways. With --namespace-labels, each
 * object follows its namespace. Without this table, each change of a Gateway would cost a walk over
 * all objects.
 */

/* An object that other objects follow. The object need not exist. */
struct followed {
	uint32_t hash;
	enum object_kind kind;
	size_t count, capacity; /* number of followers */
	struct external_object **followers;
	const char *name; /* in the same block, after the namespace */
	char namespace[];
};

static bool
same_followed(const void *entry, const void *key)
{
	const struct followed *followed = entry;
	const struct object_key *wanted = key;

	return followed->kind == wanted->kind && strcmp(followed->name, wanted->name) == 0 &&
	       strcmp(followed->namespace, wanted->namespace) == 0;
}

static struct followed *
find(const struct external *e, const struct object_key *key)
{
	return table_find(&e->followed, object_key_hash(e, key), same_followed, key);
}

static void
follow(struct external *e, struct external_object *object, const struct object_key *key)
{
	struct followed *followed = find(e, key);

	if (followed == NULL) {
		size_t namespace = strlen(key->namespace) + 1, name = strlen(key->name) + 1;

		followed = xcalloc(1, sizeof *followed + namespace + name);
		followed->hash = object_key_hash(e, key);
		followed->kind = key->kind;
		followed->name = followed->namespace + namespace;
		memcpy(followed->namespace, key->namespace, namespace);
		memcpy(followed->namespace + namespace, key->name, name);
		table_add(&e->followed, followed);
	}
	if (followed->count == followed->capacity) {
		followed->capacity = followed->capacity == 0 ? 1 : 2 * followed->capacity;
		followed->followers = xreallocarray(
		    followed->followers, followed->capacity, sizeof *followed->followers);
	}
	followed->followers[followed->count++] = object;
}

static void
unfollow(struct external *e, struct external_object *object, const struct object_key *key)
{
	struct followed *followed = find(e, key);
	size_t i = 0;

	assert(followed != NULL);
	while (i < followed->count && followed->followers[i] != object)
		i++;
	assert(i < followed->count);
	followed->followers[i] = followed->followers[--followed->count];
	if (followed->count > 0)
		return;
	table_remove(&e->followed, followed);
	free(followed->followers);
	free(followed);
}

/* Calls `act` once for each object that `object` follows. */
static void
each_followed(struct external *e, struct external_object *object,
    void (*act)(struct external *, struct external_object *, const struct object_key *))
{
	for (size_t i = 0; i < object->parent_count; i++) {
		const struct object_parent *parent = &object->parents[i];
		size_t k = 0;

		while (object->parents[k].kind != parent->kind ||
		       strcmp(object->parents[k].name, parent->name) != 0 ||
		       strcmp(object->parents[k].namespace, parent->namespace) != 0)
			k++;
		if (k == i) /* the route may name several listeners of one Gateway */
			act(e, object,
			    &(struct object_key){ parent->kind, parent->namespace, parent->name });
	}
	if (e->config.namespace_labels != NULL)
		act(e, object, &(struct object_key){ OBJECT_NAMESPACE, "", object->namespace });
}

/* Makes the object follow the objects on which it depends, until followers_remove(). Until then,
 * its content must not change. */
static void
followers_add(struct external *e, struct external_object *object)
{
	each_followed(e, object, follow);
	object->follows = true;
}

static void
followers_remove(struct external *e, struct external_object *object)
{
	if (object->follows)
		each_followed(e, object, unfollow);
	object->follows = false;
}

/* Recomputes the claims of all objects that follow this object, and of routes that follow these
 * objects. A Namespace object has the namespace "". */
static void
followers_renew(struct external *e, enum object_kind kind, const char *namespace, const char *name)
{
	const struct followed *followed = find(e, &(struct object_key){ kind, namespace, name });

	for (size_t i = 0; followed != NULL && i < followed->count; i++) {
		struct external_object *follower = followed->followers[i];

		renew(e, follower);
		if (follower->kind == OBJECT_LISTENERSET)
			followers_renew(e, follower->kind, follower->namespace, follower->name);
	}
}

/* --- the stored objects --- */

/* Returns the entry of this object, and creates it if necessary. */
static struct external_object *
external_object_get(struct external *e, const struct object *from)
{
	struct external_object *object =
	    external_object_find(e, from->kind, from->namespace, from->name);

	if (object != NULL)
		return object;
	object = xcalloc(1, sizeof *object);
	object->kind = from->kind;
	object->hash =
	    object_key_hash(e, &(struct object_key){ from->kind, from->namespace, from->name });
	object->namespace = xstrdup(from->namespace);
	object->name = xstrdup(from->name);
	table_add(&e->objects, object);
	e->counts[from->kind]++;
	return object;
}

static void
free_strings(const char *a, const char *b, const char *c)
{
	const char *strings[] = { a, b, c };

	for (size_t i = 0; i < 3; i++)
		free((char *)(uintptr_t)strings[i]);
}

/* Frees the fields that a new version of the object replaces. */
static void
clear_content(struct external_object *object)
{
	served_free(&object->served);
	free(object->ports);
	for (size_t i = 0; i < object->host_count; i++)
		free(object->hosts[i]);
	free(object->hosts);
	for (size_t i = 0; i < object->listener_count; i++)
		free_strings(object->listeners[i].name, object->listeners[i].hostname, NULL);
	free(object->listeners);
	for (size_t i = 0; i < object->parent_count; i++)
		free_strings(object->parents[i].namespace, object->parents[i].name,
		    object->parents[i].section);
	free(object->parents);
	object->ports = NULL;
	object->hosts = NULL;
	object->listeners = NULL;
	object->parents = NULL;
	object->port_count = object->host_count = object->listener_count = object->parent_count = 0;
}

static void
copy_lists(struct external_object *object, const struct object_external *from)
{
	object->hosts = xcalloc(from->host_count + 1, sizeof(char *));
	for (size_t i = 0; i < from->host_count; i++)
		object->hosts[object->host_count++] =
		    xasprintf("%.*s", (int)from->hosts[i].len, from->hosts[i].text);
	object->listeners = xcalloc(from->listener_count + 1, sizeof *object->listeners);
	for (size_t i = 0; i < from->listener_count; i++)
		object->listeners[object->listener_count++] =
		    (struct object_listener){ .name = xstrdup(from->listeners[i].name),
			    .hostname = xstrdup(from->listeners[i].hostname),
			    .port = from->listeners[i].port };
	object->parents = xcalloc(from->parent_count + 1, sizeof *object->parents);
	for (size_t i = 0; i < from->parent_count; i++)
		object->parents[object->parent_count++] =
		    (struct object_parent){ .namespace = xstrdup(from->parents[i].namespace),
			    .name = xstrdup(from->parents[i].name),
			    .kind = from->parents[i].kind,
			    .section = xstrdup(from->parents[i].section),
			    .port = from->parents[i].port };
}

/* Returns the number of the object's addresses that the configuration accepts. */
static size_t
external_object_addrs(const struct external *e, const struct object *source)
{
	return e->config.refuse_external_ips && source->kind == OBJECT_SERVICE
		   ? source->external->balancer_addr_count
		   : source->external->addr_count;
}

/* Copies the stored fields of an object. */
static void
copy_content(struct external *e, struct external_object *object, const struct object *source)
{
	const struct object_external *from = source->external;
	const struct object_service *service = &source->service;
	size_t addr_count = external_object_addrs(e, source);
	struct dname target;

	followers_remove(e, object);
	clear_content(object);
	object->created_s = from->created_s;
	object->ttl_s = from->has_ttl ? from->ttl_s : e->config.ttl_s;
	object->balanced = from->balanced;
	object->complained = false;
	if (addr_count > 0)
		object->served.addrs = xcalloc(addr_count, sizeof *from->addrs);
	for (size_t i = 0; i < addr_count; i++)
		object->served.addrs[object->served.addr_count++] = from->addrs[i];
	if (addr_count == 0 && from->target != NULL &&
	    dname_from_text(&target, from->target) == 0 && target.len > 1)
		object->served.target = xstrdup(from->target);
	copy_lists(object, from);
	followers_add(e, object);
	if (source->kind != OBJECT_SERVICE || service->port_count == 0)
		return;
	object->ports = xcalloc(service->port_count, sizeof *object->ports);
	for (size_t i = 0; i < service->port_count; i++)
		records_port(&object->ports[object->port_count++], &service->ports[i]);
}

/* Removes the object's claims, recomputes the claims of its followers, and frees it. */
static void
external_object_drop(struct external *e, struct external_object *object)
{
	claims_drop(e, object);
	followers_remove(e, object);
	clear_content(object);
	table_remove(&e->objects, object);
	e->counts[object->kind]--;
	followers_renew(e, object->kind, object->namespace, object->name);
	free(object->namespace);
	free(object->name);
	free(object);
}

static uint64_t
digest_of(const struct external *e, const struct object *source)
{
	uint64_t hash = object_external_digest(e->seed, source->external);

	for (size_t i = 0; i < source->service.port_count; i++) {
		const struct object_port *port = &source->service.ports[i];

		hash = hash_text(hash_text(hash + port->port, port->name), port->protocol);
	}
	return hash;
}

/* Copies the stored fields of `source`. The caller then calls renew(). Returns false if no
 * stored field has changed. */
static bool
external_object_renew(
    struct external *e, struct external_object *object, const struct object *source)
{
	uint64_t digest = digest_of(e, source);

	object->version = store_version(source->resource_version);
	if (digest == object->digest)
		return false;
	object->digest = digest;
	copy_content(e, object, source);
	return true;
}

/* --- --namespace-labels begins or ceases to match a namespace --- */

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

/* --- the initial order --- */

void
external_begin(struct external *e)
{
	struct external_host *host;
	size_t place = 0;

	e->begun = true;
	while ((host = table_next(&e->hosts, &place)) != NULL)
		host_begin(e, host);
	ages_forget(e);
}

/* --- events --- */

/*
 * Whether the object may have a name. Other objects are not stored, because most Services are not
 * external. A Service that waits for its load balancer is stored. Otherwise another object could
 * get its name meanwhile. A Gateway is always stored, because routes need its listeners.
 */
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
	case OBJECT_LISTENERSET:
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

	if (object != NULL)
		external_object_drop(e, object);
}

static void
object_here(struct external *e, const struct object *source)
{
	struct external_object *object =
	    external_object_find(e, source->kind, source->namespace, source->name);
	bool worth = is_worth_keeping(e, source);

	/* An object that had names stays stored. Its claims thus keep their positions. */
	if (!worth && (object == NULL || object->claim_count == 0)) {
		object_gone(e, source);
		return;
	}
	object = external_object_get(e, source);
	object->mark = e->mark[source->kind];
	if (!external_object_renew(e, object, source))
		return;
	renew(e, object);
	if (!worth && object->claim_count == 0)
		object_gone(e, source);
	else
		followers_renew(e, source->kind, source->namespace, source->name);
}

/* Removes the objects of a kind that the listing that has just ended did not contain. */
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
	for (size_t i = 0; i < count; i++)
		external_object_drop(e, gone[i]);
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
		ages_note(e, object);
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

/* --- other functions --- */

/* Claims the zones' own name server, `ns.dns.ZONE`, and the names of --external-ns that are in the zones. */
static void
claim_local_names(struct external *e)
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
	claim_local_names(e);
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

/* Frees the remaining hosts: apexes of zones, and reserved names. */
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
	/* Does the same as an empty listing of each kind. Gateways come after their followers. */
	for (unsigned kind = OBJECT_KIND_COUNT; kind-- > 0;) {
		e->mark[kind]++;
		sweep(e, kind);
	}
	claims_drop(e, &e->zone);
	free_hosts(e);
	for (size_t place = 0; (entry = table_next(&e->chosen, &place)) != NULL;)
		free(entry);
	ages_forget(e);
	table_free(&e->objects);
	table_free(&e->followed);
	table_free(&e->chosen);
	treecache_free(e->cache);
	free(e);
}
