/* The resources that are watched, and the API's own names for them and for what it answers. */
#ifndef KUBEDNS_API_RESOURCE_TABLE_H
#define KUBEDNS_API_RESOURCE_TABLE_H

#include <stdbool.h>

#include "kubedns/api/json_prune.h"
#include "kubedns/cluster/object.h"

enum api_resource_id {
	API_SERVICES,
	API_SLICES,
	API_ENDPOINTS, /* in place of slices where those are denied */
	API_NAMESPACES,
	API_PODS,
	API_NODES,
	API_CONFIGMAPS,
	API_INGRESSES, /* this one and those behind it only with --external-zones */
	API_GATEWAYS,
	API_HTTPROUTES,
	API_GRPCROUTES,
	API_TLSROUTES,
	API_IMPORTS, /* only with --clusterset-domain */
	API_COUNT,
};

struct api_resource {
	const char *name, *group_path, *kind, *list_kind;
	const char
	    *other_path; /* of another version of the group, tried where that is missing; or NULL */
	const char *group; /* as RBAC spells it */
	const struct json_prune_keep *keep;
	enum object_kind object;
	bool namespaced;
	bool may_be_missing; /* its CRD need not be installed: 404 is no fault */
	bool required; /* readiness waits for it (or for Endpoints in its place) without limit */
};

extern const struct api_resource api_resources[API_COUNT];

/* The ConfigMaps of --hosts-namespaces, beside the one of API_CONFIGMAPS. */
extern const struct api_resource api_hosts_maps_resource;

enum api_verb { API_VERB_LIST, API_VERB_WATCH, API_VERB_COUNT };

/* HTTP codes with a metric of their own; the last two are any other code, and no answer. */
enum {
	API_CODE_COUNT = 14,
	API_CODE_OTHER = API_CODE_COUNT - 2,
	API_CODE_NONE = API_CODE_COUNT - 1
};
extern const int api_codes[API_CODE_COUNT - 2];

enum api_event {
	API_EVENT_ADDED,
	API_EVENT_MODIFIED,
	API_EVENT_DELETED,
	API_EVENT_BOOKMARK,
	API_EVENT_ERROR,
	API_EVENT_COUNT
};
extern const char *const api_event_names[API_EVENT_COUNT];

#endif
