/* The resources that are watched, and the API's names for resources, verbs, codes and events. */
#ifndef KUBEDNS_API_RESOURCE_TABLE_H
#define KUBEDNS_API_RESOURCE_TABLE_H

#include <stdbool.h>

#include "kubedns/api/json_prune.h"
#include "kubedns/cluster/object.h"

enum api_resource_id {
	API_SERVICES,
	API_SLICES,
	API_ENDPOINTS, /* used instead of slices if slices are denied */
	API_NAMESPACES,
	API_PODS,
	API_NODES,
	API_CONFIGMAPS,
	API_INGRESSES, /* this and the resources up to API_TLSROUTES: used only with
		        * --external-zones */
	API_GATEWAYS,
	API_LISTENERSETS,
	API_HTTPROUTES,
	API_GRPCROUTES,
	API_TLSROUTES,
	API_IMPORTS, /* used only with --clusterset-domain */
	API_COUNT,
};

struct api_resource {
	const char *name, *group_path, *kind, *list_kind;
	/* Path of another version of the group, which is tried if this version is missing; or NULL. */
	const char *other_path;
	const char *group; /* the API group, as in RBAC rules */
	const struct json_prune_keep *keep;
	enum object_kind object;
	bool namespaced;
	bool may_be_missing; /* a 404 is no error, because the CRD need not be installed */
	/* Readiness waits without limit for this resource (or for Endpoints in its place). */
	bool required;
};

extern const struct api_resource api_resources[API_COUNT];

/* The ConfigMaps of --hosts-namespaces. API_CONFIGMAPS is for the ConfigMap of --config-map. */
extern const struct api_resource api_hosts_maps_resource;

enum api_verb { API_VERB_LIST, API_VERB_WATCH, API_VERB_COUNT };

/* HTTP codes that have their own metric. The last two entries are for any other code, and for no
 * response. */
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
