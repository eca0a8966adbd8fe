/*
 * Finds misspelled members and kinds, and mistakes that an API server would reject or warn of.
 * Without these checks, `clusterIp` in a manifest would silently make a Service without an address.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/cluster/object_fields.h"
#include "kubedns/manifests/manifests_internal.h"
#include "lib/addr.h"
#include "lib/spelling.h"

/* The members of one kind of JSON object. */
struct level {
	const char *const *read;  /* members that DNS reads */
	const char *const *other; /* other members that Kubernetes defines; NULL: none */
	struct {
		const char *key;
		const struct level *level;
	} inside[3]; /* members that are objects or lists of objects */
};

#define READ_NAME(key, variable, inside) key,
#define NAMES(...)                       ((const char *const[]){ __VA_ARGS__ NULL })

static const struct level metadata = {
	NAMES(METADATA_FIELDS(READ_NAME) SLICE_METADATA_FIELDS(READ_NAME)
		POD_METADATA_FIELDS(READ_NAME)),
	NAMES("creationTimestamp", "deletionGracePeriodSeconds", "finalizers", "generateName",
	    "generation", "managedFields", "ownerReferences", "selfLink", "uid", ),
	{ { 0 } },
};
static const struct level port = {
	NAMES(PORT_FIELDS(READ_NAME)),
	NAMES("appProtocol", "nodePort", "targetPort", ),
	{ { 0 } },
};
static const struct level service_spec = {
	NAMES(SERVICE_SPEC_FIELDS(READ_NAME)),
	NAMES("allocateLoadBalancerNodePorts", "externalIPs", "externalTrafficPolicy",
	    "healthCheckNodePort", "internalTrafficPolicy", "ipFamilies", "ipFamily",
	    "ipFamilyPolicy", "loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges",
	    "selector", "sessionAffinity", "sessionAffinityConfig", "topologyKeys",
	    "trafficDistribution", ),
	{ { "ports", &port } },
};
static const struct level conditions = { NAMES(CONDITIONS_FIELDS(READ_NAME)),
	NAMES("serving", "terminating", ), { { 0 } } };
static const struct level target_ref = {
	NAMES(TARGET_REF_FIELDS(READ_NAME)),
	NAMES("apiVersion", "fieldPath", "namespace", "resourceVersion", "uid", ),
	{ { 0 } },
};
static const struct level hint = { NAMES(HINT_FIELDS(READ_NAME)), NULL, { { 0 } } };
static const struct level hints = {
	NAMES(HINTS_FIELDS(READ_NAME)),
	NULL,
	{ { "forNodes", &hint }, { "forZones", &hint } },
};
static const struct level slice_endpoint = {
	NAMES(SLICE_ENDPOINT_FIELDS(READ_NAME) ENDPOINT_TARGET_FIELDS(READ_NAME)
		ENDPOINT_PLACE_FIELDS(READ_NAME)),
	NAMES("deprecatedTopology", "topology", ),
	{ { "conditions", &conditions }, { "hints", &hints }, { "targetRef", &target_ref } },
};
static const struct level address = {
	NAMES(ADDRESS_FIELDS(READ_NAME) ENDPOINT_TARGET_FIELDS(READ_NAME)),
	NAMES("nodeName", ),
	{ { "targetRef", &target_ref } },
};
static const struct level subset = {
	NAMES(SUBSET_FIELDS(READ_NAME)),
	NULL,
	{ { "addresses", &address }, { "notReadyAddresses", &address }, { "ports", &port } },
};
static const struct level pod_status = { NAMES(POD_STATUS_FIELDS(READ_NAME)),
	NAMES("hostIP", "hostIPs", ), { { 0 } } };

#define OF_ALL "apiVersion", "kind", "spec", "status",

static const struct kind {
	const char *name;
	struct level level;
} kinds[] = {
	{ "Service", { NAMES(SERVICE_FIELDS(READ_NAME) "metadata", ), NAMES(OF_ALL),
			 { { "metadata", &metadata }, { "spec", &service_spec } } } },
	{ "EndpointSlice", { NAMES(SLICE_FIELDS(READ_NAME) "metadata", ), NAMES(OF_ALL),
			       { { "metadata", &metadata }, { "endpoints", &slice_endpoint },
				   { "ports", &port } } } },
	{ "Endpoints", { NAMES(ENDPOINTS_FIELDS(READ_NAME) "metadata", ), NAMES(OF_ALL),
			   { { "metadata", &metadata }, { "subsets", &subset } } } },
	{ "Namespace", { NAMES("metadata", ), NAMES(OF_ALL), { { "metadata", &metadata } } } },
	{ "Pod", { NAMES(POD_FIELDS(READ_NAME) "metadata", ), NAMES(OF_ALL),
		     { { "metadata", &metadata }, { "status", &pod_status } } } },
	{ "Node", { NAMES("metadata", ), NAMES(OF_ALL), { { "metadata", &metadata } } } },
};

/* Compares the first letters before it calls a function, because this code compares every member of
 * every object. */
static inline bool
same(const char *a, const char *b)
{
	return a[0] == b[0] && strcmp(a, b) == 0;
}

static inline bool
is_listed(const char *const *names, const char *name)
{
	for (; names != NULL && *names != NULL; names++)
		if (same(*names, name))
			return true;
	return false;
}

/* Returns the known member that the unknown member `name` resembles. Returns NULL if `name` is
 * known, or resembles no member that DNS reads. */
static const char *
meant(const struct level *level, const char *name)
{
	if (is_listed(level->read, name) || is_listed(level->other, name))
		return NULL;
	struct spelling spelling = spelling_of(name, strlen(name));
	for (const char *const *known = level->read; *known != NULL; known++)
		spelling_try(&spelling, *known);
	return spelling.word;
}

static bool find_misspelled(
    const struct level *level, struct json_object *json, const char **name, const char **word);

static bool
find_in_items(
    const struct level *level, struct json_object *json, const char **name, const char **word)
{
	if (!json_object_is_type(json, json_type_array))
		return find_misspelled(level, json, name, word);
	for (size_t i = 0; i < json_object_array_length(json); i++)
		if (find_misspelled(level, json_object_array_get_idx(json, i), name, word))
			return true;
	return false;
}

/* Finds the first misspelled member of `json` and of the objects in it. */
static bool
find_misspelled(
    const struct level *level, struct json_object *json, const char **name, const char **word)
{
	if (!json_object_is_type(json, json_type_object))
		return false;
	json_object_object_foreach(json, key, value)
	{
		*name = key;
		if ((*word = meant(level, key)) != NULL)
			return true;
		if (level->inside[0].key == NULL ||
		    !(json_object_is_type(value, json_type_object) ||
			json_object_is_type(value, json_type_array)))
			continue;
		for (size_t i = 0; i < 3 && level->inside[i].key != NULL; i++)
			if (same(level->inside[i].key, key) &&
			    find_in_items(level->inside[i].level, value, name, word))
				return true;
	}
	return false;
}

bool
manifests_misspelled(
    struct json_object *json, const char *kind_hint, char *what, size_t size, bool *in_kind)
{
	struct json_object *member;
	const char *kind = kind_hint, *name, *word;

	*in_kind = false;
	if (json_object_object_get_ex(json, "kind", &member) &&
	    json_object_is_type(member, json_type_string))
		kind = json_object_get_string(member);
	if (kind == NULL)
		return false;
	const size_t count = sizeof kinds / sizeof kinds[0];
	for (size_t i = 0; i < count; i++) {
		if (strcmp(kinds[i].name, kind) != 0)
			continue;
		if (!find_misspelled(&kinds[i].level, json, &name, &word))
			return false;
		snprintf(what, size, "\"%.64s\" is unknown; did you mean %s?", name, word);
		return true;
	}
	struct spelling spelling = spelling_of(kind, strlen(kind));
	for (size_t i = 0; i < count; i++)
		spelling_try(&spelling, kinds[i].name);
	*in_kind = spelling.word != NULL && strcmp(kind, "ConfigMap") != 0;
	if (*in_kind)
		snprintf(
		    what, size, "kind \"%.64s\" is unknown; did you mean %s?", kind, spelling.word);
	return *in_kind;
}

/* Returns the length of the group in an apiVersion: the length of "discovery.k8s.io" for
 * "discovery.k8s.io/v1", and 0 for "v1". */
static size_t
group_len(const char *api_version)
{
	const char *slash = strrchr(api_version, '/');

	return slash != NULL ? (size_t)(slash - api_version) : 0;
}

/* Whether the object has the group of a known kind but an unknown version. A kind of another group,
 * such as a Service of Knative, is not a known kind. */
static bool
is_other_version(struct json_object *json, const char *kind_hint, char *what, size_t size)
{
	struct json_object *member;
	const char *kind = kind_hint, *version;

	if (json_object_object_get_ex(json, "kind", &member) &&
	    json_object_is_type(member, json_type_string))
		kind = json_object_get_string(member);
	if (kind == NULL || !json_object_object_get_ex(json, "apiVersion", &member) ||
	    !json_object_is_type(member, json_type_string))
		return false;
	version = json_object_get_string(member);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		const char *ours =
		    strcmp(kind, "EndpointSlice") == 0 ? "discovery.k8s.io/v1" : "v1";

		if (strcmp(kinds[i].name, kind) != 0 || group_len(version) != group_len(ours) ||
		    strncmp(version, ours, group_len(ours)) != 0)
			continue;
		snprintf(what, size, "%s: apiVersion \"%.64s\" is unknown; did you mean %s?", kind,
		    version, ours);
		return true;
	}
	return false;
}

/* Whether the text is a host name: labels of 1 to 63 letters, digits, '-' and '_', with an optional
 * final dot. */
static bool
is_host_name(const char *text)
{
	size_t label = 0;

	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '.' && label == 0)
			return false;
		label = *c == '.' ? 0 : label + 1;
		if (label > 63 ||
		    (*c != '.' && *c != '-' && *c != '_' && !isalnum((unsigned char)*c)))
			return false;
	}
	return true;
}

static bool
has_label(struct json_object *json, const char *key)
{
	struct json_object *meta, *labels;

	return json_object_object_get_ex(json, "metadata", &meta) &&
	       json_object_object_get_ex(meta, "labels", &labels) &&
	       json_object_object_get_ex(labels, key, NULL);
}

bool
manifests_doubtful(struct json_object *json, const char *kind_hint, struct object *object, int err,
    char *what, size_t size)
{
	struct addr addr;

	if (err == -ENOTSUP)
		return is_other_version(json, kind_hint, what, size);
	if (err != 0)
		return false;
	if (object->kind == OBJECT_SERVICE && object->service.type == SERVICE_EXTERNALNAME &&
	    !is_host_name(object->service.external_name) &&
	    addr_parse(object->service.external_name, &addr) < 0) {
		snprintf(what, size,
		    "externalName \"%.64s\" is not a DNS name; use a host name such as "
		    "www.example.org",
		    object->service.external_name);
		object->service.external_name = "";
		return true;
	}
	if (object->kind == OBJECT_SLICES && !object->from_endpoints &&
	    !has_label(json, "kubernetes.io/service-name") &&
	    !has_label(json, "multicluster.kubernetes.io/service-name")) {
		snprintf(what, size,
		    "label kubernetes.io/service-name is missing, so no Service has these "
		    "endpoints");
		return true;
	}
	return false;
}
