/* A JSON value, read as an object of any kind. The result must have the properties that
 * kubedns/cluster/object.h states. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/cluster/clusterset/clusterset.h"
#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/external/object_external.h"
#include "lib/dname.h"
#include "treecache/treecache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_label(const char *s)
{
	assert(s == NULL || dname_label_ok(s, strlen(s)));
}

static void
check_ports(const struct object_port *ports, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert(strlen(ports[i].name) < DNAME_LABEL_MAX &&
		       strlen(ports[i].protocol) < DNAME_LABEL_MAX);
		check_label(ports[i].name[0] != '\0' ? ports[i].name : NULL);
		check_label(ports[i].protocol);
		for (const char *p = ports[i].protocol; *p != '\0'; p++)
			assert(*p < 'A' || *p > 'Z');
	}
}

static void
check(const struct object *o)
{
	assert(o->name != NULL && o->namespace != NULL && o->resource_version != NULL);
	assert(object_kind_resource(o->kind) != NULL);
	if (o->kind == OBJECT_SERVICE || o->kind == OBJECT_IMPORT) {
		const struct object_service *svc = &o->service;

		assert(svc->addr_count <= 2 && svc->external_name != NULL);
		assert((svc->type == SERVICE_CLUSTERIP) == (svc->addr_count > 0));
		check_ports(svc->ports, svc->port_count);
	}
	for (size_t i = 0; i < o->slice_count; i++) {
		const struct object_slice *s = &o->slices[i];

		assert(s->family == AF_INET || s->family == AF_INET6);
		check_label(s->service);
		check_ports(s->ports, s->port_count);
		for (size_t k = 0; k < s->endpoint_count; k++) {
			assert(s->endpoints[k].addr.family == s->family);
			check_label(s->endpoints[k].hostname);
			check_label(s->endpoints[k].pod);
		}
		assert(s->place_count <= s->endpoint_count * (2 * ENDPOINT_HINTS_MAX + 1));
		for (size_t k = 0; k < s->place_count; k++) {
			assert(s->places[k].endpoint < s->endpoint_count);
			assert(s->places[k].name[0] != '\0');
		}
	}
}

static void
check_external(const struct object_external *from)
{
	assert(from->addr_count <= EXTERNAL_ADDRS_MAX && from->host_count <= EXTERNAL_HOSTS_MAX &&
	       from->listener_count <= EXTERNAL_LISTENERS_MAX &&
	       from->parent_count <= EXTERNAL_PARENTS_MAX);
	assert(!from->has_ttl || from->ttl_s <= EXTERNAL_TTL_MAX_S);
	for (size_t i = 0; i < from->parent_count; i++)
		assert(from->parents[i].name[0] != '\0' && from->parents[i].namespace != NULL);
}

/* Adds the names that the object claims, together with a Gateway. All these names must be removed
 * with the object. */
static void
claim(struct json_object *json, struct object *object)
{
	static const struct object_listener any = { "any", "", 80 };
	static const struct addr addr = { .family = AF_INET, .bytes = { 192, 0, 2, 1 } };
	struct object_external served = { .addrs = (struct addr *)(uintptr_t)&addr,
		.addr_count = 1,
		.listeners = (struct object_listener *)(uintptr_t)&any,
		.listener_count = 1 };
	const struct object gateway = { .kind = OBJECT_GATEWAY,
		.namespace = "infra",
		.name = "gw",
		.resource_version = "1",
		.external = &served };
	struct dname zone;
	const char *why = NULL;

	object_read_external(json, object, &why);
	if (object->external == NULL)
		return;
	check_external(object->external);
	dname_from_text(&zone, "example.com");
	const struct external_config config = { .zones = &zone, .zone_count = 1, .ttl_s = 5 };
	struct external *external = external_new(&config, 1);
	external_begin(external);
	external_event(external, OBJECT_GATEWAY, EVENT_ADDED, &gateway);
	external_event(external, object->kind, EVENT_ADDED, object);
	external_event(external, OBJECT_GATEWAY, EVENT_DELETED, &gateway);
	external_event(external, object->kind, EVENT_DELETED, object);
	assert(external_name_count(external) == 0 && external_conflicts(external) == 0);
	external_free(external);
}

/* Handles the object as a ServiceImport, or as an EndpointSlice of a ServiceImport. No data may
 * remain when both are deleted. */
static void
import(struct json_object *json, struct object *object)
{
	struct clusterset_config config = { .ttl_s = 5, .endpoint_pod_names = true };
	struct object other = { .kind = OBJECT_IMPORT,
		.namespace = object->namespace,
		.name = object->import.name,
		.resource_version = "1",
		.service = { .type = SERVICE_HEADLESS, .external_name = "" } };
	const char *why = NULL;

	object_read_import_labels(json, object, &why);
	check_label(object->import.name);
	check_label(object->import.cluster);
	assert((object->import.name == NULL) == (object->import.cluster == NULL));
	if (object->kind != OBJECT_IMPORT && object->kind != OBJECT_SLICES)
		return;
	other.name = object->import.name;
	dname_from_text(&config.zone, "clusterset.local");
	struct treecache *tree = treecache_new(1);
	struct clusterset *clusterset = clusterset_new(&config, tree, 1);
	clusterset_event(clusterset, object->kind, EVENT_ADDED, object);
	if (other.name != NULL)
		clusterset_event(clusterset, OBJECT_IMPORT, EVENT_ADDED, &other);
	clusterset_settle(clusterset);
	assert(clusterset_counts(clusterset).endpoints <= OBJECT_ENDPOINTS_MAX);
	clusterset_event(clusterset, object->kind, EVENT_DELETED, object);
	if (other.name != NULL)
		clusterset_event(clusterset, OBJECT_IMPORT, EVENT_DELETED, &other);
	clusterset_settle(clusterset);
	struct clusterset_counts left = clusterset_counts(clusterset);
	assert(left.ip + left.headless + left.slices + left.endpoints + left.cut == 0);
	clusterset_free(clusterset);
	treecache_free(tree);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hints[] = { NULL, "Service", "EndpointSlice", "Endpoints",
		"Namespace", "Pod", "Node", "ConfigMap", "Ingress", "Gateway", "ListenerSet",
		"HTTPRoute", "ServiceImport" };
	struct json_tokener *tokener = json_tokener_new_ex(64);
	struct json_object *json = json_tokener_parse_ex(tokener, (const char *)data, (int)size);

	for (size_t i = 0; json != NULL && i < sizeof hints / sizeof hints[0]; i++) {
		struct object object;
		const char *why;
		int err = object_extract(json, hints[i], &object, &why);

		if (err != 0)
			assert(why != NULL || err != -EINVAL);
		else
			check(&object);
		if (err == 0)
			claim(json, &object);
		if (err == 0)
			import(json, &object);
		object_clear(&object);
	}
	json_object_put(json);
	json_tokener_free(tokener);
	return 0;
}
