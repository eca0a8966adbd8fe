/* What is watched: the API's names for it. */
#include "kubedns/api/api_stream.h"

static const char core[] = "/api/v1", discovery[] = "/apis/discovery.k8s.io/v1";

#define RESOURCE(NAME, KIND, PATH, GROUP, KEEP, OBJECT)                                            \
	.name = NAME, .kind = KIND, .list_kind = KIND "List", .group_path = PATH, .group = GROUP,  \
	.keep = KEEP, .object = OBJECT

const struct resource resources[RESOURCE_COUNT] = {
	[RESOURCE_SERVICES] = { RESOURCE(
				    "services", "Service", core, "", trim_service, OBJECT_SERVICE),
	    .namespaced = true, .required = true },
	[RESOURCE_SLICES] = { RESOURCE("endpointslices", "EndpointSlice", discovery,
				  "discovery.k8s.io", trim_slice, OBJECT_SLICES),
	    .namespaced = true, .required = true },
	[RESOURCE_ENDPOINTS] = { RESOURCE("endpoints", "Endpoints", core, "", trim_endpoints,
				     OBJECT_SLICES),
	    .namespaced = true, .required = true },
	[RESOURCE_NAMESPACES] = { RESOURCE(
	    "namespaces", "Namespace", core, "", trim_namespace, OBJECT_NAMESPACE) },
	[RESOURCE_PODS] = { RESOURCE("pods", "Pod", core, "", trim_pod, OBJECT_POD),
	    .namespaced = true },
	[RESOURCE_NODES] = { RESOURCE("nodes", "Node", core, "", trim_node, OBJECT_NODE) },
	[RESOURCE_CONFIGMAPS] = { RESOURCE("configmaps", "ConfigMap", core, "", trim_configmap,
				      OBJECT_CONFIGMAP),
	    .namespaced = true },
};

const int stream_codes[CODE_COUNT - 2] = { 200, 400, 401, 403, 404, 410, 422, 429, 500, 502, 503,
	504 };

const char *const stream_event_names[STREAM_EVENT_COUNT] = {
	[STREAM_ADDED] = "ADDED",
	[STREAM_MODIFIED] = "MODIFIED",
	[STREAM_DELETED] = "DELETED",
	[STREAM_BOOKMARK] = "BOOKMARK",
	[STREAM_ERROR] = "ERROR",
};
