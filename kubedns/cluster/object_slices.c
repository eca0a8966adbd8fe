/*
 * Endpoints as Kubernetes has them, in both of its forms, made into one: an EndpointSlice is a
 * slice, and each subset of an old Endpoints object becomes one or two, by address family, with the
 * object's name and an index. Bounds and complaints are those of object.h.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/cluster/object_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/xalloc.h"

/* Hostname and pod of an endpoint: what an endpoint's name is made of. */
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
		/* A pod's name may hold dots: no label, and no mistake. */
		const char *pod = field_text(r, name, "targetRef.name is not a string");
		ep->pod = field_is_label(pod) ? pod : NULL;
	}
}

/* --- places --- */

/* Keeps the place unless it is none. */
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

/* The places that hints name, or without one the endpoint's own. */
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

/* Reads the slice's next endpoint; false: it has no address of the slice's family. */
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
	/* A shortcut: without a key beside those that were read there are no places. Pruned JSON has no
	 * other key, unless places are wanted; of JSON that is not pruned any other key ends it. */
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
	slice->endpoints = xmalloc(count * sizeof(*slice->endpoints));
	for (size_t i = 0; i < count; i++) {
		if (read_endpoint(r, json_object_array_get_idx(json, i), slice))
			slice->endpoint_count++;
	}
}

/* AF_INET, AF_INET6, or 0 for FQDN slices, which DNS does not use, and for unknown types. */
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

void
object_read_slice(
    struct reader *r, struct json_object *json, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(SLICE_FIELDS)
	FIELDS_DECLARE(SLICE_LABELS_FIELDS)

	FIELDS_READ(json, SLICE_FIELDS);
	uint8_t family = read_family(r, address_type);
	if (family == 0)
		return;
	struct object_slice *slice = o->slices = xcalloc(1, sizeof(*slice));
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

/* Adds those addresses of a subset's list that are of the slice's family. */
static void
read_subset_addresses(
    struct reader *r, struct json_object *json, bool ready, struct object_slice *slice)
{
	size_t count = field_bound(r, field_items(r, json, "a subset's addresses is not a list"),
	    OBJECT_ENDPOINTS_MAX - slice->endpoint_count, "more than 65,535 addresses in a subset");

	if (count == 0)
		return;
	slice->endpoints = xreallocarray(
	    slice->endpoints, slice->endpoint_count + count, sizeof(*slice->endpoints));
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

/* One family of one subset as a slice, which is kept only if it has an address. */
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

/* The older Endpoints: at most 1,000 addresses, both families, named as their Service. */
void
object_read_endpoints(struct reader *r, struct json_object *json, struct object *o)
{
	FIELDS_DECLARE(ENDPOINTS_FIELDS)

	FIELDS_READ(json, ENDPOINTS_FIELDS);
	size_t count = field_bound(r, field_items(r, subsets, "subsets is not a list"),
	    OBJECT_SLICES_MAX / 2, "more than 500 subsets");

	if (count == 0)
		return;
	o->slices = xcalloc(count * 2, sizeof(*o->slices));
	for (size_t i = 0; i < count; i++) {
		struct json_object *subset = json_object_array_get_idx(subsets, i);
		read_subset(r, subset, AF_INET, o);
		read_subset(r, subset, AF_INET6, o);
	}
}

enum { RFC3339_MAX = 64 }; /* 2026-07-01T10:00:00.123456789+02:00 has 35 */

static uint32_t
digits(const char **s, int count, bool *ok)
{
	uint32_t value = 0;
	for (int i = 0; i < count; i++, (*s)++) {
		if (**s < '0' || **s > '9') {
			*ok = false;
			return 0;
		}
		value = value * 10 + (uint32_t)(**s - '0');
	}
	return value;
}

static void
literal(const char **s, char c, bool *ok)
{
	if (*ok && **s == c)
		(*s)++;
	else
		*ok = false;
}

int64_t
object_rfc3339_ns(const char *s)
{
	bool ok = true;
	struct tm tm = { 0 };

	if (strnlen(s, RFC3339_MAX + 1) > RFC3339_MAX)
		return 0;

	tm.tm_year = (int)digits(&s, 4, &ok) - 1900;
	literal(&s, '-', &ok);
	tm.tm_mon = (int)digits(&s, 2, &ok) - 1;
	literal(&s, '-', &ok);
	tm.tm_mday = (int)digits(&s, 2, &ok);
	literal(&s, 'T', &ok);
	tm.tm_hour = (int)digits(&s, 2, &ok);
	literal(&s, ':', &ok);
	tm.tm_min = (int)digits(&s, 2, &ok);
	literal(&s, ':', &ok);
	tm.tm_sec = (int)digits(&s, 2, &ok);
	if (!ok || tm.tm_year < 70 || tm.tm_year > 300)
		return 0;
	int64_t ns = 0;
	if (*s == '.') {
		int64_t unit = 100000000;
		for (s++; *s >= '0' && *s <= '9'; s++, unit /= 10)
			ns += (*s - '0') * unit;
	}
	int offset_s = 0;
	if (*s == '+' || *s == '-') {
		int sign = *s++ == '+' ? 1 : -1;
		offset_s = (int)digits(&s, 2, &ok) * 3600;
		literal(&s, ':', &ok);
		offset_s = sign * (offset_s + (int)digits(&s, 2, &ok) * 60);
	} else {
		literal(&s, 'Z', &ok);
	}
	if (!ok || *s != '\0')
		return 0;
	return ((int64_t)timegm(&tm) - offset_s) * 1000000000 + ns;
}

void
object_read_trigger_time(struct reader *r, const struct meta *meta, struct object *o)
{
	FIELDS_DECLARE(ANNOTATIONS_FIELDS)

	FIELDS_READ(meta->annotations, ANNOTATIONS_FIELDS);
	const char *s = field_text(r, trigger_time, "an annotation is not a string");

	if (s != NULL)
		o->trigger_time_ns = object_rfc3339_ns(s);
}
