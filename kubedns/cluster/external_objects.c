/* The objects that claim names: what is kept of each, by kind, namespace and name. */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/external_internal.h"
#include "kubedns/cluster/service_records.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

static bool
same_object(const void *entry, const void *key)
{
	const struct external_object *object = entry;
	const struct object_key *wanted = key;

	return object->kind == wanted->kind && strcmp(object->name, wanted->name) == 0 &&
	       strcmp(object->namespace, wanted->namespace) == 0;
}

static uint64_t
hash_text(uint64_t hash, const char *text)
{
	return hash64(hash, text, strlen(text) + 1);
}

uint32_t
object_key_hash(const struct external *e, const struct object_key *key)
{
	return hash_fold(hash_text(hash_text(e->seed + key->kind, key->namespace), key->name));
}

struct external_object *
external_object_find(
    const struct external *e, enum object_kind kind, const char *namespace, const char *name)
{
	const struct object_key key = { kind, namespace, name };

	return table_find(&e->objects, object_key_hash(e, &key), same_object, &key);
}

struct external_object *
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

/* Frees what a new version of the object replaces. */
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
			    .section = xstrdup(from->parents[i].section),
			    .port = from->parents[i].port };
}

size_t
external_object_addrs(const struct external *e, const struct object *source)
{
	return e->config.refuse_external_ips && source->kind == OBJECT_SERVICE
		   ? source->external->balancer_addr_count
		   : source->external->addr_count;
}

/* Copies what is kept of an object. */
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

void
external_object_drop(struct external *e, struct external_object *object)
{
	claims_drop(e, object);
	followers_remove(e, object);
	clear_content(object);
	table_remove(&e->objects, object);
	e->counts[object->kind]--;
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

bool
external_object_renew(
    struct external *e, struct external_object *object, const struct object *source)
{
	uint64_t digest = digest_of(e, source);

	object->version = strtoull(source->resource_version, NULL, 10);
	if (digest == object->digest)
		return false;
	object->digest = digest;
	copy_content(e, object, source);
	return true;
}
