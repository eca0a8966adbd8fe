#include "kubedns/cluster/external/object_external.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/field_reader.h"
#include "lib/duration.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

static struct json_object *
item(struct json_object *array, size_t i)
{
	return json_object_array_get_idx(array, i);
}

/* --- addresses and load balancers' host names --- */

static void
add_addr(struct reader *r, struct object_external *to, const struct addr *addr)
{
	for (size_t i = 0; i < to->addr_count; i++)
		if (addr_equal(&to->addrs[i], addr))
			return;
	if (to->addrs == NULL)
		to->addrs = xcalloc(EXTERNAL_ADDRS_MAX, sizeof *to->addrs);
	if (field_bound(r, to->addr_count + 1, EXTERNAL_ADDRS_MAX,
		"more than 64 addresses of load balancers") > to->addr_count)
		to->addrs[to->addr_count++] = *addr;
}

/* Adds a host name of the load balancer. A Service may have several, but a name can have only one
 * CNAME, so the lowest is used. */
static void
add_target(struct object_external *to, const char *text)
{
	to->target_count++;
	if (to->target == NULL || strcmp(text, to->target) < 0)
		to->target = text;
}

static void
add_ip(struct reader *r, struct object_external *to, struct json_object *json, const char *what)
{
	const char *s = field_text_or(r, json, "", "an address of a load balancer is not a string");
	struct addr addr;

	if (s[0] == '\0')
		return;
	if (addr_parse(s, &addr) == 0)
		add_addr(r, to, &addr);
	else
		field_complain_value(r, what, s, "is not an address");
}

static void
read_balancer(struct reader *r, struct json_object *json, struct object_external *to)
{
	FIELDS_DECLARE(BALANCED_FIELDS)
	FIELDS_DECLARE(BALANCED_STATUS_FIELDS)
	FIELDS_DECLARE(BALANCER_FIELDS)

	FIELDS_READ(json, BALANCED_FIELDS);
	FIELDS_READ(status, BALANCED_STATUS_FIELDS);
	FIELDS_READ(balancer, BALANCER_FIELDS);
	size_t count = field_items(r, ingress, "status.loadBalancer.ingress is not a list");
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(ADDRESS_FIELDS)
		FIELDS_READ(item(ingress, i), ADDRESS_FIELDS);
		add_ip(r, to, ip, "status.loadBalancer.ingress.ip");
		const char *name = field_text_or(
		    r, hostname, "", "status.loadBalancer.ingress.hostname is not a string");
		if (name[0] != '\0')
			add_target(to, name);
	}
}

/* --- host names --- */

static void
add_host(struct reader *r, struct object_external *to, const char *text, size_t len)
{
	if (len == 0)
		return;
	if (field_bound(r, to->host_count + 1, EXTERNAL_HOSTS_MAX, "more than 1,000 host names") <=
	    to->host_count)
		return;
	if ((to->host_count & (to->host_count - 1)) == 0) /* the capacity is a power of two */
		to->hosts = xreallocarray(
		    to->hosts, to->host_count == 0 ? 1 : 2 * to->host_count, sizeof *to->hosts);
	to->hosts[to->host_count++] = (struct object_text){ text, len };
}

static void
add_host_string(struct reader *r, struct object_external *to, struct json_object *json)
{
	const char *s = field_text_or(r, json, "", "a host name is not a string");

	add_host(r, to, s, strlen(s));
}

/* Adds the names of a list such as "a.example.com, *.b.example.com". */
static void
add_host_list(struct reader *r, struct object_external *to, const char *s)
{
	static const char between[] = ", \t\n";

	while (*(s += strspn(s, between)) != '\0') {
		size_t len = strcspn(s, between);

		add_host(r, to, s, len);
		s += len;
	}
}

/* Reads a TTL in seconds, or a duration such as "1m". */
static void
read_ttl(struct reader *r, const char *text, struct object_external *to)
{
	char *end;
	long long ms;
	long seconds = isdigit((unsigned char)text[0]) ? strtol(text, &end, 10) : -1;

	if (text[0] == '\0')
		return;
	if (seconds < 0 || *end != '\0')
		seconds = duration_parse(text, &ms) == 0 && ms >= 0 ? (long)(ms / 1000) : -1;
	if (seconds < 0 || seconds > EXTERNAL_TTL_MAX_S) {
		field_complain_value(r, "external-dns.alpha.kubernetes.io/ttl", text,
		    "is not a TTL: seconds from 0 to 86400, or a duration such as 1m");
		return;
	}
	to->has_ttl = true;
	to->ttl_s = (uint32_t)seconds;
}

/* Whether the object has the label with which k8s_gateway excludes objects. */
static bool
is_ignored(struct reader *r, struct json_object *labels)
{
	FIELDS_DECLARE(EXTERNAL_LABELS_FIELDS)

	FIELDS_READ(labels, EXTERNAL_LABELS_FIELDS);
	return strcmp(field_text_or(r, ignore, "", "a label is not a string"), "true") == 0;
}

/* Removes the names of an excluded object. A Gateway keeps its addresses, and a ListenerSet its
 * Gateway, because routes use them. */
static void
forget_names(struct object_external *to, enum object_kind kind)
{
	to->host_count = 0;
	if (kind == OBJECT_GATEWAY || kind == OBJECT_LISTENERSET)
		return;
	to->addr_count = to->balancer_addr_count = 0;
	to->target = NULL;
	to->target_count = 0;
	to->parent_count = 0;
	to->balanced = false;
}

/* Returns whether the object is excluded from having names. */
static bool
read_metadata(struct reader *r, struct json_object *json, struct object_external *to)
{
	FIELDS_DECLARE(EXTERNAL_ANNOTATIONS_FIELDS)
	struct json_object *metadata = NULL, *created = NULL, *annotations = NULL, *labels = NULL;

	fields_find(json, &(const struct field){ "metadata", &metadata }, 1);
	fields_find(metadata,
	    (const struct field[]){ { "creationTimestamp", &created },
		{ "annotations", &annotations }, { "labels", &labels } },
	    3);
	const char *time =
	    field_text_or(r, created, "", "metadata.creationTimestamp is not a string");
	int64_t ns = object_rfc3339_ns(time);
	to->created_s = ns == 0 ? INT64_MAX : ns / 1000000000;
	FIELDS_READ(annotations, EXTERNAL_ANNOTATIONS_FIELDS);
	add_host_list(r, to, field_text_or(r, hostname, "", "an annotation is not a string"));
	add_host_list(
	    r, to, field_text_or(r, coredns_hostname, "", "an annotation is not a string"));
	read_ttl(r, field_text_or(r, ttl, "", "an annotation is not a string"), to);
	return is_ignored(r, labels);
}

/* --- kinds --- */

static void
read_service(struct reader *r, struct json_object *json, struct object_external *to)
{
	struct json_object *spec = NULL;

	FIELDS_DECLARE(SERVICE_EXTERNAL_FIELDS)
	FIELDS_DECLARE(SERVICE_TYPE_FIELDS)

	read_balancer(r, json, to);
	fields_find(json, &(const struct field){ "spec", &spec }, 1);
	FIELDS_READ(spec, SERVICE_EXTERNAL_FIELDS);
	FIELDS_READ(spec, SERVICE_TYPE_FIELDS);
	to->balanced =
	    strcmp(field_text_or(r, type, "", "spec.type is not a string"), "LoadBalancer") == 0;
	to->balancer_addr_count = to->addr_count;
	size_t count = field_items(r, external_ips, "externalIPs is not a list");
	for (size_t i = 0; i < count; i++)
		add_ip(r, to, item(external_ips, i), "externalIPs");
}

static void
read_ingress(struct reader *r, struct json_object *json, struct object_external *to)
{
	FIELDS_DECLARE(INGRESS_FIELDS)
	FIELDS_DECLARE(INGRESS_SPEC_FIELDS)

	read_balancer(r, json, to);
	FIELDS_READ(json, INGRESS_FIELDS);
	FIELDS_READ(spec, INGRESS_SPEC_FIELDS);
	size_t count = field_items(r, rules, "spec.rules is not a list");
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(INGRESS_RULE_FIELDS)
		FIELDS_READ(item(rules, i), INGRESS_RULE_FIELDS);
		add_host_string(r, to, host);
	}
}

/* Reads a port number; 0 if it is missing or invalid. */
static uint16_t
read_port(struct reader *r, struct json_object *json)
{
	if (json == NULL)
		return 0;
	int64_t n = json_object_is_type(json, json_type_int) ? json_object_get_int64(json) : 0;
	if (n > 0 && n <= UINT16_MAX)
		return (uint16_t)n;
	field_complain(r, "a port is not a number from 1 to 65535");
	return 0;
}

static void
read_listeners(struct reader *r, struct json_object *listeners, struct object_external *to)
{
	size_t count = field_bound(r, field_items(r, listeners, "spec.listeners is not a list"),
	    EXTERNAL_LISTENERS_MAX, "more than 64 listeners");

	to->listeners = xcalloc(count + 1, sizeof *to->listeners);
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(LISTENER_FIELDS)
		FIELDS_READ(item(listeners, i), LISTENER_FIELDS);
		to->listeners[to->listener_count++] = (struct object_listener){
			.name = field_text_or(r, name, "", "a listener's name is not a string"),
			.port = read_port(r, port),
			.hostname =
			    field_text_or(r, hostname, "", "a listener's hostname is not a string"),
		};
		add_host_string(r, to, hostname);
	}
}

static void
read_gateway(struct reader *r, struct json_object *json, struct object_external *to)
{
	FIELDS_DECLARE(GATEWAY_FIELDS)
	FIELDS_DECLARE(GATEWAY_SPEC_FIELDS)
	FIELDS_DECLARE(GATEWAY_STATUS_FIELDS)

	FIELDS_READ(json, GATEWAY_FIELDS);
	FIELDS_READ(spec, GATEWAY_SPEC_FIELDS);
	FIELDS_READ(status, GATEWAY_STATUS_FIELDS);
	read_listeners(r, listeners, to);
	size_t count = field_items(r, addresses, "status.addresses is not a list");
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(GATEWAY_ADDRESS_FIELDS)
		struct addr addr;
		FIELDS_READ(item(addresses, i), GATEWAY_ADDRESS_FIELDS);
		const char *s = field_text_or(r, value, "", "an address's value is not a string");
		if (addr_parse(s, &addr) == 0)
			add_addr(r, to, &addr);
		else if (s[0] != '\0')
			add_target(to, s);
	}
}

static bool
is_accepted(struct reader *r, struct json_object *conditions)
{
	size_t count = field_items(r, conditions, "conditions is not a list");

	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(STATUS_CONDITION_FIELDS)
		FIELDS_READ(item(conditions, i), STATUS_CONDITION_FIELDS);
		if (strcmp(field_text_or(r, type, "", "a condition's type is not a string"),
			"Accepted") == 0)
			return strcmp(field_text_or(
					  r, status, "", "a condition's status is not a string"),
				   "True") == 0;
	}
	return false;
}

/* Adds the parent, if it is a Gateway or a ListenerSet that has accepted the object. */
static void
read_parent(struct reader *r, struct json_object *ref, struct json_object *conditions,
    const char *own_namespace, struct object_external *to)
{
	FIELDS_DECLARE(PARENT_REF_FIELDS)

	FIELDS_READ(ref, PARENT_REF_FIELDS);
	const char *kind_text =
	    field_text_or(r, kind, "Gateway", "a parentRef's kind is not a string");
	const char *name_text = field_text_or(r, name, "", "a parentRef's name is not a string");
	bool is_set = strcmp(kind_text, "ListenerSet") == 0;
	if ((!is_set && strcmp(kind_text, "Gateway") != 0) || name_text[0] == '\0' ||
	    !is_accepted(r, conditions))
		return;
	to->parents[to->parent_count++] = (struct object_parent){
		.kind = is_set ? OBJECT_LISTENERSET : OBJECT_GATEWAY,
		.namespace = field_text_or(
		    r, namespace, own_namespace, "a parentRef's namespace is not a string"),
		.name = name_text,
		.section =
		    field_text_or(r, section, "", "a parentRef's sectionName is not a string"),
		.port = read_port(r, port),
	};
}

static void
read_listenerset(
    struct reader *r, struct json_object *json, const char *namespace, struct object_external *to)
{
	FIELDS_DECLARE(LISTENERSET_FIELDS)
	FIELDS_DECLARE(LISTENERSET_SPEC_FIELDS)
	FIELDS_DECLARE(LISTENERSET_STATUS_FIELDS)

	FIELDS_READ(json, LISTENERSET_FIELDS);
	FIELDS_READ(spec, LISTENERSET_SPEC_FIELDS);
	FIELDS_READ(status, LISTENERSET_STATUS_FIELDS);
	read_listeners(r, listeners, to);
	to->parents = xcalloc(1, sizeof *to->parents);
	read_parent(r, ref, conditions, namespace, to);
	if (to->parent_count > 0 && to->parents[0].kind != OBJECT_GATEWAY)
		to->parent_count = 0; /* only a Gateway can accept a ListenerSet */
}

static void
read_route(
    struct reader *r, struct json_object *json, const char *namespace, struct object_external *to)
{
	FIELDS_DECLARE(ROUTE_FIELDS)
	FIELDS_DECLARE(ROUTE_SPEC_FIELDS)
	FIELDS_DECLARE(ROUTE_STATUS_FIELDS)

	FIELDS_READ(json, ROUTE_FIELDS);
	FIELDS_READ(spec, ROUTE_SPEC_FIELDS);
	FIELDS_READ(status, ROUTE_STATUS_FIELDS);
	size_t count = field_items(r, hostnames, "spec.hostnames is not a list");
	for (size_t i = 0; i < count; i++)
		add_host_string(r, to, item(hostnames, i));
	count = field_bound(r, field_items(r, parents, "status.parents is not a list"),
	    EXTERNAL_PARENTS_MAX, "more than 32 parents");
	to->parents = xcalloc(count + 1, sizeof *to->parents);
	for (size_t i = 0; i < count; i++) {
		FIELDS_DECLARE(ROUTE_PARENT_FIELDS)
		FIELDS_READ(item(parents, i), ROUTE_PARENT_FIELDS);
		read_parent(r, ref, conditions, namespace, to);
	}
}

/* Each host name gets a copy of all addresses, so a small object could ask for many records. */
static void
limit_records(struct reader *r, struct object_external *to)
{
	if (to->addr_count > 0)
		to->host_count =
		    field_bound(r, to->host_count, EXTERNAL_RECORDS_MAX / to->addr_count,
			"host names times addresses are more than 4,000");
}

void
object_read_external(struct json_object *json, struct object *object, const char **why)
{
	struct reader r = { 0 };
	struct object_external *to;

	switch (object->kind) {
	case OBJECT_SERVICE:
	case OBJECT_INGRESS:
	case OBJECT_GATEWAY:
	case OBJECT_LISTENERSET:
	case OBJECT_HTTPROUTE:
	case OBJECT_GRPCROUTE:
	case OBJECT_TLSROUTE:
		break;
	case OBJECT_SLICES:
	case OBJECT_NAMESPACE:
	case OBJECT_POD:
	case OBJECT_NODE:
	case OBJECT_CONFIGMAP:
	case OBJECT_IMPORT:
	case OBJECT_KIND_COUNT:
		return;
	}
	to = object->external = xcalloc(1, sizeof *to);
	bool ignored = read_metadata(&r, json, to);
	if (object->kind == OBJECT_SERVICE)
		read_service(&r, json, to);
	else if (object->kind == OBJECT_INGRESS)
		read_ingress(&r, json, to);
	else if (object->kind == OBJECT_GATEWAY)
		read_gateway(&r, json, to);
	else if (object->kind == OBJECT_LISTENERSET)
		read_listenerset(&r, json, object->namespace, to);
	else
		read_route(&r, json, object->namespace, to);
	limit_records(&r, to);
	if (ignored)
		forget_names(to, object->kind);
	object->cut = object->cut || r.cut;
	if (*why == NULL)
		*why = r.why;
}

void
object_external_free(struct object_external *external)
{
	if (external == NULL)
		return;
	free(external->addrs);
	free(external->hosts);
	free(external->listeners);
	free(external->parents);
	free(external);
}

/* --- digest --- */

static uint64_t
hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
	return hash64(hash64(hash, &len, sizeof len), bytes, len);
}

static uint64_t
hash_text(uint64_t hash, const char *text)
{
	return text == NULL ? hash64(hash, "\1", 2) : hash_bytes(hash, text, strlen(text));
}

static uint64_t
hash_number(uint64_t hash, uint64_t number)
{
	return hash64(hash, &number, sizeof number);
}

uint64_t
object_external_digest(uint64_t seed, const struct object_external *from)
{
	uint64_t hash = hash_number(seed, (uint64_t)from->created_s);

	hash = hash_number(hash, from->has_ttl ? from->ttl_s : UINT64_MAX);
	hash = hash_number(hash, from->balanced);
	hash = hash_number(hash, from->balancer_addr_count);
	hash = hash_text(hash, from->target);
	for (size_t i = 0; i < from->addr_count; i++)
		hash = hash_bytes(hash, from->addrs[i].bytes, addr_len(&from->addrs[i]));
	hash = hash_number(hash, from->host_count);
	for (size_t i = 0; i < from->host_count; i++)
		hash = hash_bytes(hash, from->hosts[i].text, from->hosts[i].len);
	for (size_t i = 0; i < from->listener_count; i++) {
		hash = hash_text(hash, from->listeners[i].name);
		hash = hash_text(hash, from->listeners[i].hostname);
		hash = hash_number(hash, from->listeners[i].port);
	}
	for (size_t i = 0; i < from->parent_count; i++) {
		hash = hash_number(hash, (uint64_t)from->parents[i].kind);
		hash = hash_text(hash, from->parents[i].namespace);
		hash = hash_text(hash, from->parents[i].name);
		hash = hash_text(hash, from->parents[i].section);
		hash = hash_number(hash, from->parents[i].port);
	}
	return hash;
}
