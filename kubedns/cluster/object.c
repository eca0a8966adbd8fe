#include "kubedns/cluster/object.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/cluster/external/object_external.h"
#include "kubedns/cluster/field_reader.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/dname.h"
#include "lib/xalloc.h"

/* Labels and annotations of an object, and whether it is being deleted. */
struct meta {
	struct json_object *labels;
	struct json_object *annotations;
	bool deleting;
};

/*
 * Endpoints in both Kubernetes forms, converted to one. An EndpointSlice becomes a slice. Each
 * subset of an old Endpoints object becomes one or two slices, by address family, with the object's
 * name and an index. Limits and complaints are described in object.h.
 */

/* Reads the host name and the pod of an endpoint, from which the endpoint's name is made. */
static void
read_endpoint_names(struct reader *r, struct json_object *hostname, struct json_object *target,
    struct object_endpoint *ep)
{
	FIELDS_DECLARE(TARGET_REF_FIELDS)

	ep->hostname = field_label(r, hostname, "an endpoint's hostname is not a DNS label");
	ep->pod = NULL;
	if (target == NULL)
		return;
	FIELDS_READ(target, TARGET_REF_FIELDS);
	if (strcmp(field_text_or(r, kind, "", "targetRef.kind is not a string"), "Pod") == 0) {
		/* A pod's name may contain dots. Such a name is not a label, but it is no mistake. */
		const char *pod = field_text(r, name, "targetRef.name is not a string");

		ep->pod = field_is_label(pod) ? pod : NULL;
	}
}

/* --- places --- */

/* Adds a place, unless its name is missing or empty. */
static void
add_place(struct object_slice *slice, enum place_kind kind, const char *name)
{
	if (name == NULL || *name == '\0' || slice->endpoint_count >= OBJECT_ENDPOINTS_MAX)
		return;
	if ((slice->place_count & (slice->place_count - 1)) == 0)
		slice->places = xreallocarray(slice->places,
		    slice->place_count > 0 ? 2 * slice->place_count : 1, sizeof *slice->places);
	slice->places[slice->place_count++] =
	    (struct object_place){ name, (uint16_t)slice->endpoint_count, (uint8_t)kind };
}

/* Adds the places that the hints name. Without hints, adds the endpoint's own place. */
static void
add_hinted(struct reader *r, struct object_slice *slice, enum place_kind kind,
    struct json_object *hints, const char *own)
{
	size_t before = slice->place_count;
	size_t count = field_items(r, hints, "an endpoint's hints are not a list");

	if (count > ENDPOINT_HINTS_MAX) {
		field_complain(r, "an endpoint has more than 8 hints of a kind");
		count = ENDPOINT_HINTS_MAX;
	}
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(HINT_FIELDS)
		FIELDS_READ(json_object_array_get_idx(hints, i), HINT_FIELDS);
		add_place(slice, kind, field_text(r, name, "an endpoint's hint is not a string"));
	}
	if (slice->place_count == before)
		add_place(slice, kind, own);
}

static void
read_places(struct reader *r, struct json_object *json, struct object_slice *slice)
{
	FIELDS_DECLARE(ENDPOINT_PLACE_FIELDS)
	FIELDS_DECLARE(HINTS_FIELDS)

	FIELDS_READ(json, ENDPOINT_PLACE_FIELDS);
	FIELDS_READ(hints, HINTS_FIELDS);
	const char *in = field_text(r, zone, "an endpoint's zone is not a string");
	add_place(slice, PLACE_ZONE, in);
	add_hinted(r, slice, PLACE_FOR_ZONE, for_zones, in);
	add_hinted(r, slice, PLACE_FOR_NODE, for_nodes,
	    field_text(r, node, "an endpoint's nodeName is not a string"));
}

/* --- endpoints of a slice --- */

#define SLICE_ENDPOINT_ALL(X) SLICE_ENDPOINT_FIELDS(X) ENDPOINT_TARGET_FIELDS(X)

/* Reads the slice's next endpoint. Returns false if it has no address of the slice's family. */
static bool
read_endpoint(struct reader *r, struct json_object *json, struct object_slice *slice)
{
	FIELDS_DECLARE(SLICE_ENDPOINT_ALL)
	FIELDS_DECLARE(CONDITIONS_FIELDS)
	struct object_endpoint *ep = &slice->endpoints[slice->endpoint_count];

	FIELDS_READ(json, SLICE_ENDPOINT_ALL);
	if (field_items(r, addresses, "an endpoint's addresses is not a list") == 0)
		return false;
	const char *s = field_text(
	    r, json_object_array_get_idx(addresses, 0), "an endpoint's address is not a string");
	if (s == NULL)
		return false;
	if (addr_parse(s, &ep->addr) != 0 || ep->addr.family != slice->family) {
		field_complain_value(
		    r, "an endpoint's address", s, "is not of the slice's addressType");
		return false;
	}
	if (conditions != NULL)
		FIELDS_READ(conditions, CONDITIONS_FIELDS);
	ep->ready = field_bool_or(r, ready, true, "conditions.ready is not true or false");
	read_endpoint_names(r, hostname, target_ref, ep);
	/*
	 * A shortcut: if the endpoint has only the keys that are already read, it has no places.
	 * Pruned JSON has other keys only if places are wanted. In JSON that is not pruned, any
	 * other key disables the shortcut.
	 */
	if (json_object_object_length(json) >
	    1 + (conditions != NULL) + (hostname != NULL) + (target_ref != NULL))
		read_places(r, json, slice);
	return true;
}

static void
read_endpoints(struct reader *r, struct json_object *json, struct object_slice *slice)
{
	size_t count = field_bound(r, field_items(r, json, "endpoints is not a list"),
	    OBJECT_ENDPOINTS_MAX, "more than 65,535 endpoints");

	if (count == 0)
		return;
	slice->endpoints = xmalloc(count * sizeof *slice->endpoints);
	for (size_t i = 0; i < count; i++) {
		if (read_endpoint(r, json_object_array_get_idx(json, i), slice))
			slice->endpoint_count++;
	}
}

/* Returns AF_INET or AF_INET6. Returns 0 for FQDN slices, which DNS does not use, and for unknown types. */
static uint8_t
read_family(struct reader *r, struct json_object *json)
{
	const char *s = field_text_or(r, json, "", "addressType is not a string");

	if (strcmp(s, "IPv4") == 0)
		return AF_INET;
	if (strcmp(s, "IPv6") == 0)
		return AF_INET6;
	if (strcmp(s, "FQDN") != 0)
		field_complain(r, "addressType is none of IPv4, IPv6, FQDN");
	return 0;
}

static void
object_read_slice(
    struct reader *r, struct json_object *json, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(SLICE_FIELDS)
	FIELDS_DECLARE(SLICE_LABELS_FIELDS)

	FIELDS_READ(json, SLICE_FIELDS);
	uint8_t family = read_family(r, address_type);
	if (family == 0)
		return;
	struct object_slice *slice = o->slices = xcalloc(1, sizeof *slice);
	o->slice_count = 1;
	slice->name = o->name;
	slice->family = family;
	FIELDS_READ(meta->labels, SLICE_LABELS_FIELDS);
	slice->service =
	    field_label(r, service_name, "label kubernetes.io/service-name is not a DNS label");
	slice->ports = object_read_ports(r, ports, &slice->port_count);
	read_endpoints(r, endpoints, slice);
}

#define ADDRESS_ALL(X) ADDRESS_FIELDS(X) ENDPOINT_TARGET_FIELDS(X)

/* Adds the addresses of a subset that are of the slice's family. */
static void
read_subset_addresses(
    struct reader *r, struct json_object *json, bool ready, struct object_slice *slice)
{
	size_t count = field_bound(r, field_items(r, json, "a subset's addresses is not a list"),
	    OBJECT_ENDPOINTS_MAX - slice->endpoint_count, "more than 65,535 addresses in a subset");

	if (count == 0)
		return;
	slice->endpoints = xreallocarray(
	    slice->endpoints, slice->endpoint_count + count, sizeof *slice->endpoints);
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(ADDRESS_ALL)
		struct object_endpoint *ep = &slice->endpoints[slice->endpoint_count];
		FIELDS_READ(json_object_array_get_idx(json, i), ADDRESS_ALL);
		const char *s = field_text(r, ip, "an endpoint's ip is not a string");
		if (s == NULL)
			continue;
		if (addr_parse(s, &ep->addr) != 0) {
			field_complain_value(r, "an endpoint's ip", s, "is not an address");
			continue;
		}
		if (ep->addr.family != slice->family)
			continue;
		ep->ready = ready;
		read_endpoint_names(r, hostname, target_ref, ep);
		slice->endpoint_count++;
	}
}

/* Converts one family of a subset to a slice. The slice is stored only if it has an address. */
static void
read_subset(struct reader *r, struct json_object *json, uint8_t family, struct object *o)
{
	FIELDS_DECLARE(SUBSET_FIELDS)
	struct object_slice *slice = &o->slices[o->slice_count];

	FIELDS_READ(json, SUBSET_FIELDS);
	*slice = (struct object_slice){ .name = o->name,
		.index = (unsigned)o->slice_count,
		.service = field_is_label(o->name) ? o->name : NULL,
		.family = family };
	read_subset_addresses(r, ready, true, slice);
	read_subset_addresses(r, not_ready, false, slice);
	if (slice->endpoint_count == 0) {
		free(slice->endpoints);
		return;
	}
	slice->ports = object_read_ports(r, ports, &slice->port_count);
	o->slice_count++;
}

/* Reads an Endpoints object, the older form. It has at most 1,000 addresses of both families, and
 * the name of its Service. */
static void
object_read_endpoints(struct reader *r, struct json_object *json, struct object *o)
{
	FIELDS_DECLARE(ENDPOINTS_FIELDS)

	FIELDS_READ(json, ENDPOINTS_FIELDS);
	size_t count = field_bound(r, field_items(r, subsets, "subsets is not a list"),
	    OBJECT_SLICES_MAX / 2, "more than 500 subsets");

	if (count == 0)
		return;
	o->slices = xcalloc(count * 2, sizeof *o->slices);
	for (size_t i = 0; i < count; i++) {
		struct json_object *subset = json_object_array_get_idx(subsets, i);

		read_subset(r, subset, AF_INET, o);
		read_subset(r, subset, AF_INET6, o);
	}
}

static void
object_read_trigger_time(struct reader *r, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(ANNOTATIONS_FIELDS)

	FIELDS_READ(meta->annotations, ANNOTATIONS_FIELDS);
	const char *s = field_text(r, trigger_time, "an annotation is not a string");

	if (s != NULL)
		o->trigger_time_ns = object_rfc3339_ns(s);
}

/*
 * Services that other clusters export to this one (KEP-1645, --clusterset-domain): a ServiceImport,
 * and the labels that attach an EndpointSlice to one. The other fields of such a slice are read as
 * for any slice.
 */

/* Reads spec.ips, with at most one address for each family, as in a Service. */
static void
read_ips(struct reader *r, struct json_object *ips, struct object_service *service)
{
	size_t count = field_items(r, ips, "spec.ips is not a list");

	for (size_t i = 0; i < count; i++) {
		const char *s = field_text_or(r, json_object_array_get_idx(ips, i), "",
		    "an item of spec.ips is not a string");
		struct addr addr;

		if (s[0] == '\0')
			continue;
		if (addr_parse(s, &addr) != 0) {
			field_complain_value(r, "spec.ips", s, "is not an address");
		} else if (service->addr_count == 2 ||
			   (service->addr_count == 1 && service->addrs[0].family == addr.family)) {
			field_complain(r, "spec.ips has two addresses of one family");
			return;
		} else {
			service->addrs[service->addr_count++] = addr;
		}
	}
}

static void
object_read_import(struct reader *r, struct json_object *json, struct object *o)
{
	FIELDS_DECLARE(IMPORT_FIELDS)
	FIELDS_DECLARE(IMPORT_SPEC_FIELDS)
	struct object_service *service = &o->service;

	FIELDS_READ(json, IMPORT_FIELDS);
	if (!json_object_is_type(spec, json_type_object))
		field_complain(r, "spec is missing or not an object");
	FIELDS_READ(spec, IMPORT_SPEC_FIELDS);
	service->external_name = "";
	service->type = SERVICE_PENDING;
	const char *text = field_text_or(r, type, "", "spec.type is not a string");
	if (strcmp(text, "Headless") == 0) {
		service->type = SERVICE_HEADLESS;
	} else {
		o->invalid = strcmp(text, "ClusterSetIP") != 0;
		if (o->invalid)
			field_complain_value(
			    r, "spec.type", text, "is neither ClusterSetIP nor Headless");
		read_ips(r, ips, service);
		if (service->addr_count > 0)
			service->type = SERVICE_CLUSTERIP;
	}
	service->ports = object_read_ports(r, ports, &service->port_count);
}

void
object_read_import_labels(struct json_object *json, struct object *object, const char **why)
{
	FIELDS_DECLARE(IMPORTED_LABELS_FIELDS)
	struct json_object *metadata = NULL, *labels = NULL;
	struct reader r = { 0 };

	if (object->kind != OBJECT_SLICES || object->from_endpoints)
		return;
	fields_find(json, &(const struct field){ "metadata", &metadata }, 1);
	fields_find(metadata, &(const struct field){ "labels", &labels }, 1);
	FIELDS_READ(labels, IMPORTED_LABELS_FIELDS);
	const char *name = field_label(
	    &r, import_name, "label multicluster.kubernetes.io/service-name is not a DNS label");
	const char *from = field_label(
	    &r, cluster, "label multicluster.kubernetes.io/source-cluster is not a DNS label");
	if (name != NULL && from == NULL)
		field_complain(&r, "label multicluster.kubernetes.io/service-name without a "
				   "multicluster.kubernetes.io/source-cluster");
	if (name != NULL && from != NULL) {
		object->import.name = name;
		object->import.cluster = from;
	}
	if (*why == NULL)
		*why = r.why;
}

/* Whether `s` is a valid object name: an RFC 1123 subdomain, plus the characters that old pods and
 * RBAC objects may have in their names. None of them needs escaping in a URL. */
static bool
is_subdomain(const char *s)
{
	size_t len =
	    strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:");

	return len > 0 && len <= 253 && s[len] == '\0';
}

/* One member of a JSON object, or NULL. */
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
	const char *api_version;     /* NULL: an object with any apiVersion is of another kind */
	const char *old_api_version; /* accepted too, because the fields that we read are the
				      * same */
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
	{ "ListenerSet", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1", "listenersets", OBJECT_LISTENERSET,
	    true, false },
	{ "HTTPRoute", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1beta1", "httproutes", OBJECT_HTTPROUTE,
	    true, false },
	{ "GRPCRoute", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1alpha2", "grpcroutes", OBJECT_GRPCROUTE,
	    true, false },
	{ "TLSRoute", GATEWAY_GROUP "v1", GATEWAY_GROUP "v1alpha2", "tlsroutes", OBJECT_TLSROUTE,
	    true, false },
	{ "ServiceImport", "multicluster.x-k8s.io/v1beta1", "multicluster.x-k8s.io/v1alpha1",
	    "serviceimports", OBJECT_IMPORT, true, true },
};

/* Sets `*kind` to a row of `kinds` and returns 0; or returns -ENOTSUP or -EINVAL. */
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
		field_complain(&r, "kind is not the requested one");
	if (r.why != NULL) {
		*why = r.why;
		return -EINVAL;
	}
	assert(name != NULL); /* a missing name would have caused a complaint */
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
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

/* `type` is checked first, because an ExternalName Service may still have old addresses. */
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
	o->pod.addrs = xcalloc(count + 1, sizeof *o->pod.addrs);
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(POD_IP_FIELDS)
		FIELDS_READ(json_object_array_get_idx(pod_ips, i), POD_IP_FIELDS);
		pod_add_ip(r, o, ip);
	}
	if (count == 0)
		pod_add_ip(r, o, pod_ip);
}

/* Returns the value of a label. A value longer than Kubernetes allows is treated as empty. */
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

/* Reads a JSON object whose values are strings. Returns their number; the caller frees `*items`. */
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
	*items = xcalloc((size_t)json_object_object_length(json), sizeof **items);
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
	case OBJECT_INGRESS: /* object_read_external() reads the other fields of these kinds */
	case OBJECT_GATEWAY:
	case OBJECT_LISTENERSET:
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
		[OBJECT_LISTENERSET] = "listenersets",
		[OBJECT_HTTPROUTE] = "httproutes",
		[OBJECT_GRPCROUTE] = "grpcroutes",
		[OBJECT_TLSROUTE] = "tlsroutes",
		[OBJECT_IMPORT] = "serviceimports",
	};
	assert(kind >= 0 && kind < OBJECT_KIND_COUNT);
	return names[kind];
}
