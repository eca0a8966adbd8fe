/*
 * What another cluster exports to this one (KEP-1645, --clusterset-domain): a ServiceImport, and the
 * labels by which an EndpointSlice belongs to one. The rest of such a slice is read as that of any other.
 */
#include <string.h>

#include "kubedns/cluster/object_internal.h"
#include "kubedns/cluster/object.h"

/* spec.ips; one address a family, as a Service has. */
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

void
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
