#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/cluster/object.h"
#include "kubedns/cluster/external/object_external.h"
#include "kubedns/cluster/object_internal.h"
#include "lib/dname.h"
#include "lib/xalloc.h"

/* A Kubernetes object name: an RFC 1123 subdomain, or what old pods and RBAC objects may have in it
 * besides; no character that needs escaping in a URL. */
static bool
is_subdomain(const char *s)
{
	size_t len =
	    strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:");
	return len > 0 && len <= 253 && s[len] == '\0';
}

/* One member, or NULL. */
static struct json_object *
member(struct json_object *json, const char *name)
{
	struct json_object *value;

	fields_find(json, &(const struct field){ name, &value }, 1);
	return value;
}

#define ANY_METADATA(X) METADATA_FIELDS(X) SLICE_METADATA_FIELDS(X) POD_METADATA_FIELDS(X)

static void
read_meta(struct reader *r, struct json_object *json, struct object *o, struct meta *meta)
{
	FIELDS_DECLARE(ANY_METADATA)
	FIELDS_READ(member(json, "metadata"), ANY_METADATA);
	struct reader ignored = { 0 };
	o->name = field_text(&ignored, name, "");
	o->namespace = namespace == NULL ? "" : field_text(&ignored, namespace, "");
	o->resource_version =
	    field_text_or(r, version, "", "metadata.resourceVersion is not a string");
	meta->labels = labels;
	meta->annotations = annotations;
	meta->deleting = deletion != NULL;
}

#define GATEWAY_GROUP "gateway.networking.k8s.io/"

static const struct kind {
	const char *name;
	const char *api_version;     /* NULL: any that is given is another kind */
	const char *old_api_version; /* accepted too; its fields that we read are the same */
	const char *resource;
	enum object_kind kind;
	bool namespaced;
	bool name_is_label; /* names of this kind become labels of DNS names */
} kinds[] = {
	{ "EndpointSlice", "discovery.k8s.io/v1", "discovery.k8s.io/v1beta1", "endpointslices",
	    OBJECT_SLICES, true, false },
	{ "Service", "v1", "v1", "services", OBJECT_SERVICE, true, true },
	{ "Namespace", "v1", "v1", "namespaces", OBJECT_NAMESPACE, false, true },
	{ "Pod", "v1", "v1", "pods", OBJECT_POD, true, false },
	{ "Node", "v1", "v1", "nodes", OBJECT_NODE, false, false },
	{ "ConfigMap", "v1", "v1", "configmaps", OBJECT_CONFIGMAP, true, false },
	{ "Endpoints", "v1", "v1", "endpoints", OBJECT_SLICES, true, false },
	{ "Ingress", "networking.k8s.io/v1", "networking.k8s.io/v1", "ingresses", OBJECT_INGRESS,
	    true, false },
	{ "Gateway", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1beta1", "gateways", OBJECT_GATEWAY, true,
	    false },
	{ "HTTPRoute", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1beta1", "httproutes", OBJECT_HTTPROUTE,
	    true, false },
	{ "GRPCRoute", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1alpha2", "grpcroutes", OBJECT_GRPCROUTE,
	    true, false },
	{ "TLSRoute", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1alpha2", "tlsroutes", OBJECT_TLSROUTE,
	    true, false },
	{ "ServiceImport", "multicluster.x-k8s.io/v1beta1", "multicluster.x-k8s.io/v1alpha1",
	    "serviceimports", OBJECT_IMPORT, true, true },
};

/* 0, and the row of `kinds`; -ENOTSUP, -EINVAL. */
static int
read_kind(struct json_object *json, const char *hint, const struct kind **kind, const char **why)
{
	struct json_object *inside = member(json, "kind"), *version = member(json, "apiVersion");
	struct reader r = { 0 };

	const char *name = field_text_or(&r, inside, hint, "kind is not a string");
	const char *api = field_text(&r, version, "apiVersion is not a string");
	if (name == NULL)
		field_complain(&r, "kind is missing");
	else if (hint != NULL && strcmp(name, hint) != 0)
		field_complain(&r, "kind is not the one that was asked for");
	if (r.why != NULL) {
		*why = r.why;
		return -EINVAL;
	}
	assert(name != NULL); /* or there was a complaint */
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(name, kinds[i].name) != 0)
			continue;
		if (api != NULL && strcmp(api, kinds[i].api_version) != 0 &&
		    strcmp(api, kinds[i].old_api_version) != 0)
			return -ENOTSUP;
		*kind = &kinds[i];
		return 0;
	}
	return -ENOTSUP;
}

static const char *
check_identity(const struct kind *kind, const struct object *o)
{
	if (o->name == NULL)
		return "metadata.name is missing or not a string";
	if (kind->name_is_label ? !field_is_label(o->name) : !is_subdomain(o->name))
		return kind->name_is_label
			   ? "metadata.name is not a DNS label: small letters, digits and '-'"
			   : "metadata.name is not a DNS name";
	if (kind->namespaced) {
		if (o->namespace == NULL || o->namespace[0] == '\0')
			return "metadata.namespace is missing or not a string";
		if (!field_is_label(o->namespace))
			return "metadata.namespace is not a DNS label: small letters, digits and "
			       "'-'";
	}
	return NULL;
}

static void
service_add_ip(struct reader *r, struct object_service *svc, struct json_object *json)
{
	const char *s = field_text_or(r, json, "", "clusterIP is not a string");
	struct addr addr;

	if (s[0] == '\0')
		return;
	if (strcmp(s, "None") == 0) {
		svc->type = SERVICE_HEADLESS;
		return;
	}
	if (addr_parse(s, &addr) != 0) {
		field_complain_value(r, "clusterIP", s, "is not an address");
		return;
	}
	if (svc->addr_count == 2 || (svc->addr_count == 1 && svc->addrs[0].family == addr.family)) {
		field_complain(r, "clusterIPs has two addresses of one family");
		return;
	}
	svc->addrs[svc->addr_count++] = addr;
}

/* `type` decides first: an ExternalName Service may carry stale addresses. */
static void
read_addresses(
    struct reader *r, struct json_object *ips, struct json_object *ip, struct object_service *svc)
{
	svc->type = SERVICE_PENDING;
	size_t count = field_items(r, ips, "clusterIPs is not a list");
	for (size_t i = 0; i < count; i++)
		service_add_ip(r, svc, json_object_array_get_idx(ips, i));
	if (count == 0)
		service_add_ip(r, svc, ip);
	if (svc->type == SERVICE_HEADLESS)
		svc->addr_count = 0;
	else if (svc->addr_count > 0)
		svc->type = SERVICE_CLUSTERIP;
}

static void
read_service(struct reader *r, struct json_object *json, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(SERVICE_FIELDS)
	FIELDS_DECLARE(SERVICE_SPEC_FIELDS)
	FIELDS_DECLARE(ANNOTATIONS_FIELDS)
	struct object_service *svc = &o->service;

	FIELDS_READ(json, SERVICE_FIELDS);

	if (!json_object_is_type(spec, json_type_object))
		field_complain(r, "spec is missing or not an object");
	FIELDS_READ(spec, SERVICE_SPEC_FIELDS);
	svc->external_name = field_text_or(r, external_name, "", "externalName is not a string");
	if (strcmp(field_text_or(r, type, "", "type is not a string"), "ExternalName") == 0)
		svc->type = SERVICE_EXTERNALNAME;
	else
		read_addresses(r, cluster_ips, cluster_ip, svc);
	svc->ports = object_read_ports(r, ports, &svc->port_count);
	svc->publish_not_ready = field_bool_or(
	    r, publish_not_ready, false, "publishNotReadyAddresses is not true or false");
	FIELDS_READ(meta->annotations, ANNOTATIONS_FIELDS);
	if (strcmp(field_text_or(r, tolerate_unready, "", "an annotation is not a string"),
		"true") == 0)
		svc->publish_not_ready = true;
}

static void
pod_add_ip(struct reader *r, struct object *o, struct json_object *json)
{
	const char *s = field_text_or(r, json, "", "a pod's ip is not a string");

	if (s[0] == '\0')
		return;
	if (addr_parse(s, &o->pod.addrs[o->pod.addr_count]) == 0)
		o->pod.addr_count++;
	else
		field_complain_value(r, "a pod's ip", s, "is not an address");
}

static void
read_pod(struct reader *r, struct json_object *json, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(POD_FIELDS)
	FIELDS_DECLARE(POD_SPEC_FIELDS)
	FIELDS_DECLARE(POD_STATUS_FIELDS)

	FIELDS_READ(json, POD_FIELDS);
	FIELDS_READ(spec, POD_SPEC_FIELDS);
	FIELDS_READ(status, POD_STATUS_FIELDS);
	const char *now = field_text_or(r, phase, "", "status.phase is not a string");
	o->pod.running = !meta->deleting && strcmp(now, "Running") == 0;
	o->pod.ended = strcmp(now, "Succeeded") == 0 || strcmp(now, "Failed") == 0;
	o->pod.node = field_text_or(r, node, "", "spec.nodeName is not a string");
	if (*o->pod.node != '\0' && !is_subdomain(o->pod.node)) {
		field_complain_value(r, "spec.nodeName", o->pod.node, "is not a node's name");
		o->pod.node = "";
	}
	o->pod.on_host =
	    field_bool_or(r, host_network, false, "spec.hostNetwork is not true or false");
	size_t count = field_items(r, pod_ips, "status.podIPs is not a list");
	count = field_bound(r, count, POD_ADDRS_MAX, "more than 255 podIPs");
	o->pod.addrs = xcalloc(count + 1, sizeof(*o->pod.addrs));
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(POD_IP_FIELDS)
		FIELDS_READ(json_object_array_get_idx(pod_ips, i), POD_IP_FIELDS);
		pod_add_ip(r, o, ip);
	}
	if (count == 0)
		pod_add_ip(r, o, pod_ip);
}

/* A label's value, at most as long as Kubernetes allows. */
static const char *
label_value(struct reader *r, struct json_object *json, struct json_object *old)
{
	const char *s = field_text_or(r, json != NULL ? json : old, "", "a label is not a string");

	if (strnlen(s, DNAME_LABEL_MAX + 1) <= DNAME_LABEL_MAX)
		return s;
	field_complain(r, "a label is longer than 63 bytes");
	return "";
}

static void
read_node(struct reader *r, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(NODE_LABELS_FIELDS)

	FIELDS_READ(meta->labels, NODE_LABELS_FIELDS);
	o->node.zone = label_value(r, zone, old_zone);
	o->node.region = label_value(r, region, old_region);
}

/* A JSON object of strings; returns how many, the caller frees `*items`. */
static size_t
read_strings(struct reader *r, struct json_object *json, struct object_key_value **items,
    const char *not_object, const char *not_string)
{
	size_t count = 0;

	if (json == NULL)
		return 0;
	if (!json_object_is_type(json, json_type_object)) {
		field_complain(r, not_object);
		return 0;
	}
	*items = xcalloc((size_t)json_object_object_length(json), sizeof(**items));
	json_object_object_foreach(json, key, value)
	{
		if (!json_object_is_type(value, json_type_string)) {
			field_complain(r, not_string);
			continue;
		}
		(*items)[count++] = (struct object_key_value){
			.key = key,
			.value = json_object_get_string(value),
			.len = (size_t)json_object_get_string_len(value),
		};
	}
	return count;
}

static void
read_created(struct reader *r, struct json_object *json, struct object *o)
{
	FIELDS_DECLARE(CREATED_METADATA_FIELDS)

	FIELDS_READ(member(json, "metadata"), CREATED_METADATA_FIELDS);
	int64_t ns = object_rfc3339_ns(
	    field_text_or(r, created, "", "metadata.creationTimestamp is not a string"));
	o->created_s = ns == 0 ? INT64_MAX : ns / 1000000000;
}

static void
read_configmap(struct reader *r, struct json_object *json, struct object *o)
{
	FIELDS_DECLARE(CONFIGMAP_FIELDS)

	read_created(r, json, o);
	FIELDS_READ(json, CONFIGMAP_FIELDS);
	o->data_count = read_strings(
	    r, data, &o->data, "data is not an object", "a value of data is not a string");
}

static void
read_visibility(struct reader *r, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(VISIBILITY_FIELDS)

	FIELDS_READ(meta->annotations, VISIBILITY_FIELDS);
	o->visibility.sees = field_text(r, sees, "an annotation is not a string");
	o->visibility.visible_to = field_text(r, visible_to, "an annotation is not a string");
}

static void
read_namespace(
    struct reader *r, struct json_object *json, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(NAMESPACE_LABELS_FIELDS)

	read_created(r, json, o);
	o->label_count = read_strings(r, meta->labels, &o->labels,
	    "metadata.labels is not an object", "a label is not a string");
	FIELDS_READ(meta->labels, NAMESPACE_LABELS_FIELDS);
	o->visibility.sees_label = field_text(r, sees, "a label is not a string");
	o->visibility.visible_to_label = field_text(r, visible_to, "a label is not a string");
	/* Any other value, and anything but a string, means the default. */
	o->no_search = json_object_is_type(search, json_type_string) &&
		       strcmp(json_object_get_string(search), "off") == 0;
	read_visibility(r, meta, o);
}

static void
read_body(struct reader *r, struct json_object *json, const struct kind *kind,
    const struct meta *meta, struct object *o)
{
	switch (kind->kind) {
	case OBJECT_SERVICE:
		read_service(r, json, meta, o);
		break;
	case OBJECT_SLICES:
		object_read_trigger_time(r, meta, o);
		o->from_endpoints = strcmp(kind->name, "Endpoints") == 0;
		if (o->from_endpoints)
			object_read_endpoints(r, json, o);
		else
			object_read_slice(r, json, meta, o);
		break;
	case OBJECT_POD:
		read_pod(r, json, meta, o);
		break;
	case OBJECT_NODE:
		read_node(r, meta, o);
		break;
	case OBJECT_CONFIGMAP:
		read_configmap(r, json, o);
		break;
	case OBJECT_NAMESPACE:
		read_namespace(r, json, meta, o);
		break;
	case OBJECT_IMPORT:
		object_read_import(r, json, o);
		break;
	case OBJECT_INGRESS: /* object_read_external() reads the rest of these */
	case OBJECT_GATEWAY:
	case OBJECT_HTTPROUTE:
	case OBJECT_GRPCROUTE:
	case OBJECT_TLSROUTE:
	case OBJECT_KIND_COUNT:
		break;
	}
}

int
object_extract(
    struct json_object *json, const char *kind_hint, struct object *object, const char **why)
{
	const struct kind *kind;
	struct reader r = { 0 };
	struct meta meta;

	*object = (struct object){ 0 };
	*why = NULL;
	if (!json_object_is_type(json, json_type_object)) {
		*why = "not an object";
		return -EINVAL;
	}
	int err = read_kind(json, kind_hint, &kind, why);
	if (err != 0)
		return err;
	object->kind = kind->kind;
	read_meta(&r, json, object, &meta);
	*why = check_identity(kind, object);
	if (*why != NULL)
		return -EINVAL;
	if (!kind->namespaced)
		object->namespace = "";
	read_body(&r, json, kind, &meta, object);
	object->cut = r.cut;
	*why = r.why;
	return 0;
}

void
object_clear(struct object *object)
{
	for (size_t i = 0; i < object->slice_count; i++) {
		free(object->slices[i].ports);
		free(object->slices[i].endpoints);
		free(object->slices[i].places);
	}
	free(object->slices);
	free(object->service.ports);
	free(object->pod.addrs);
	free(object->data);
	free(object->labels);
	object_external_free(object->external);
	*object = (struct object){ 0 };
}

const char *
object_kind_resource(enum object_kind kind)
{
	static const char *const names[OBJECT_KIND_COUNT] = {
		[OBJECT_SERVICE] = "services",
		[OBJECT_SLICES] = "endpointslices",
		[OBJECT_NAMESPACE] = "namespaces",
		[OBJECT_POD] = "pods",
		[OBJECT_NODE] = "nodes",
		[OBJECT_CONFIGMAP] = "configmaps",
		[OBJECT_INGRESS] = "ingresses",
		[OBJECT_GATEWAY] = "gateways",
		[OBJECT_HTTPROUTE] = "httproutes",
		[OBJECT_GRPCROUTE] = "grpcroutes",
		[OBJECT_TLSROUTE] = "tlsroutes",
		[OBJECT_IMPORT] = "serviceimports",
	};
	assert(kind >= 0 && kind < OBJECT_KIND_COUNT);
	return names[kind];
}
