/* Finds the host names that an object claims: those of a Service, an Ingress, a Gateway, a ListenerSet
 * or a route. */
#include "kubedns/cluster/external/host_claims.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* The objects that claim names, found by kind, namespace and name. */

static bool
same_object(const void *entry, const void *key)
{
	const struct external_object *object = entry;
	const struct object_key *wanted = key;

	return object->kind == wanted->kind && strcmp(object->name, wanted->name) == 0 &&
	       strcmp(object->namespace, wanted->namespace) == 0;
}

uint32_t
object_key_hash(const struct external *e, const struct object_key *key)
{
	uint64_t hash = hash64(e->seed + key->kind, key->namespace, strlen(key->namespace) + 1);

	return hash_fold(hash64(hash, key->name, strlen(key->name) + 1));
}

struct external_object *
external_object_find(
    const struct external *e, enum object_kind kind, const char *namespace, const char *name)
{
	const struct object_key key = { kind, namespace, name };

	return table_find(&e->objects, object_key_hash(e, &key), same_object, &key);
}

/* --- the names that an object claims --- */

int
claims_zone(const struct external *e, const uint8_t *wire)
{
	int best = -1;

	for (size_t i = 0; i < e->config.zone_count; i++)
		if (dname_in_zone(wire, e->config.zones[i].wire) >= 0 &&
		    (best < 0 || e->config.zones[i].len > e->config.zones[best].len))
			best = (int)i;
	return best;
}

static void
complain(struct external *e, struct external_object *object, const char *host, const char *why)
{
	e->refused++;
	if (!object->complained)
		log_neterr("%s %s/%s: host name \"%.255s\": %s; ignored",
		    object_kind_resource(object->kind), object->namespace, object->name, host, why);
	object->complained = true;
}

static void
claim(struct external *e, struct external_object *object, const struct dname *name,
    enum claim_rank rank, const struct served *served)
{
	struct claim *made = host_claim(e, name, object, rank, served);

	if (made == NULL)
		return;
	if (object->claim_count == object->claim_capacity) {
		object->claim_capacity =
		    object->claim_capacity == 0 ? 4 : 2 * object->claim_capacity;
		object->claims =
		    xreallocarray(object->claims, object->claim_capacity, sizeof *object->claims);
	}
	object->claims[object->claim_count++] = made;
}

/* Whether the text consists of labels of letters, digits and '-'. The first label may be `*`. */
static bool
is_host(const char *text)
{
	if (strncmp(text, "*.", 2) == 0)
		text += 2;
	for (;;) {
		size_t len = strcspn(text, ".");

		if (!dname_label_ok(text, len))
			return false;
		if (text[len] == '\0' || text[len + 1] == '\0')
			return true;
		text += len + 1;
	}
}

/* Returns the reason why --external-refuse refuses the name, or NULL. */
static const char *
refusal(const struct external *e, const struct dname *name)
{
	if (e->config.refuse_wildcards && memcmp(name->wire, "\1*", 2) == 0)
		return "--external-refuse=wildcards";
	if (e->config.refuse_apex && host_is_apex(e, name->wire))
		return "the zone's own name, which --external-refuse=apex refuses";
	return NULL;
}

static void
claim_host(struct external *e, struct external_object *object, const char *host,
    const struct served *served)
{
	struct dname name;
	const char *why;

	if (!is_host(host) || dname_from_text(&name, host) < 0) {
		complain(e, object, host, "not a host name");
		return;
	}
	dname_lower(name.wire, name.len);
	if (claims_zone(e, name.wire) < 0)
		return; /* the name belongs to another DNS server */
	if ((why = refusal(e, &name)) != NULL)
		complain(e, object, host, why);
	else if (served->addr_count == 0 && host_is_apex(e, name.wire))
		complain(e, object, host,
		    "a zone's own name cannot be an alias of a load balancer's host name "
		    "(RFC 1034 section 3.6.2)");
	else
		claim(e, object, &name, CLAIM_HOST, served);
}

/* Handles a host name of an object that has no addresses now. If the object had a claim of the
 * name, the claim keeps its position. */
static void
claim_asleep(struct external *e, struct external_object *object, const char *text)
{
	static const struct served none;
	struct dname name;

	if (!is_host(text) || dname_from_text(&name, text) < 0)
		return;
	dname_lower(name.wire, name.len);
	const struct external_host *host = host_find(e, name.wire);
	if (host != NULL && host->released_since > 0)
		claim(e, object, &name, CLAIM_ASLEEP, &none);
}

/* Claims service.namespace.zone in each of the zones. */
static void
claim_canonical(struct external *e, struct external_object *object)
{
	for (size_t i = 0; i < e->config.zone_count; i++) {
		struct dname name = e->config.zones[i];

		if (dname_prepend(&name, object->namespace, strlen(object->namespace)) < 0 ||
		    dname_prepend(&name, object->name, strlen(object->name)) < 0)
			continue; /* the name would be too long */
		dname_lower(name.wire, name.len);
		claim(e, object, &name, CLAIM_CANONICAL, &object->served);
	}
}

/* --- ListenerSets and routes --- */

/* Returns the targets of an object's listeners or host names. A ListenerSet has the targets of the
 * Gateway that has accepted it. */
static const struct served *
targets_of(const struct external *e, const struct external_object *object)
{
	static const struct served none;

	if (object != NULL && object->kind == OBJECT_LISTENERSET)
		object = object->parent_count == 0
			     ? NULL
			     : external_object_find(e, OBJECT_GATEWAY, object->parents[0].namespace,
				   object->parents[0].name);
	return object == NULL ? &none : &object->served;
}

/* Whether `host` matches the wildcard "*.zone". As in the Gateway API, `*` matches any number of labels. */
static bool
is_below(const char *host, const char *wildcard)
{
	size_t host_len = strlen(host), tail = strlen(wildcard) - 1;

	return host_len > tail && strcasecmp(host + host_len - tail, wildcard + 1) == 0;
}

/* Returns the name that matches both a route's host name and a listener's host name. Either host
 * name may be "", which matches every name. Returns NULL if no name matches both. */
static const char *
intersection(const char *route, const char *listener)
{
	if (*listener == '\0' || *route == '\0')
		return *route == '\0' ? listener : route;
	if (strcasecmp(route, listener) == 0)
		return route;
	if (*listener == '*' && is_below(route, listener))
		return route;
	return *route == '*' && is_below(listener, route) ? listener : NULL;
}

static bool
is_parents(const struct object_parent *parent, const struct object_listener *listener)
{
	return (*parent->section == '\0' || strcmp(parent->section, listener->name) == 0) &&
	       (parent->port == 0 || parent->port == listener->port);
}

static void
claim_at_listener(struct external *e, struct external_object *route,
    const struct object_listener *listener, const struct served *targets)
{
	const char *host;

	if (route->host_count == 0 && *listener->hostname != '\0')
		claim_host(e, route, listener->hostname, targets);
	for (size_t i = 0; i < route->host_count; i++)
		if ((host = intersection(route->hosts[i], listener->hostname)) != NULL)
			claim_host(e, route, host, targets);
}

static void
claim_route(struct external *e, struct external_object *route)
{
	for (size_t p = 0; p < route->parent_count; p++) {
		const struct object_parent *parent = &route->parents[p];
		const struct external_object *at =
		    external_object_find(e, parent->kind, parent->namespace, parent->name);
		const struct served *targets = targets_of(e, at);

		if (served_is_empty(targets))
			continue;
		for (size_t i = 0; i < at->listener_count; i++)
			if (is_parents(parent, &at->listeners[i]))
				claim_at_listener(e, route, &at->listeners[i], targets);
	}
}

/* --- updating claims --- */

static void
claim_all(struct external *e, struct external_object *object)
{
	if (object->kind == OBJECT_HTTPROUTE || object->kind == OBJECT_GRPCROUTE ||
	    object->kind == OBJECT_TLSROUTE) {
		claim_route(e, object);
		for (size_t i = 0; i < object->host_count && object->claim_count == 0; i++)
			claim_asleep(e, object, object->hosts[i]);
		return;
	}
	const struct served *targets = targets_of(e, object);
	bool served = !served_is_empty(targets);
	if (object->kind == OBJECT_SERVICE && (served || object->balanced))
		claim_canonical(e, object);
	for (size_t i = 0; i < object->host_count; i++) {
		if (served)
			claim_host(e, object, object->hosts[i], targets);
		else
			claim_asleep(e, object, object->hosts[i]);
	}
}

/* Adds a host to the list for host_settle(), unless the list already has it. */
static void
add_dirty(struct external_host **hosts, size_t *count, struct external_host *host)
{
	if (!host->dirty)
		hosts[(*count)++] = host;
	host->dirty = true;
}

void
claims_renew(struct external *e, struct external_object *object, bool any)
{
	struct claim **old = object->claims;
	size_t old_count = object->claim_count, count = 0;

	object->claims = NULL;
	object->claim_count = object->claim_capacity = 0;
	struct external_host **hosts = xcalloc(old_count + 1, sizeof(struct external_host *));
	for (size_t i = 0; i < old_count; i++)
		add_dirty(hosts, &count, host_release(old[i]));
	free(old);
	if (any)
		claim_all(e, object);
	hosts = xreallocarray(
	    hosts, old_count + object->claim_count + 1, sizeof(struct external_host *));
	for (size_t i = 0; i < object->claim_count; i++)
		add_dirty(hosts, &count, object->claims[i]->host);
	for (size_t i = 0; i < count; i++)
		host_settle(e, hosts[i]);
	free(hosts);
}

void
claims_drop(struct external *e, struct external_object *object)
{
	claims_renew(e, object, false);
	free(object->claims);
	object->claims = NULL;
	object->claim_capacity = 0;
}
