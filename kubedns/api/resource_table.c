#include "kubedns/api/resource_table.h"

static const char core[] = "/api/v1", discovery[] = "/apis/discovery.k8s.io/v1",
		  networking[] = "/apis/networking.k8s.io/v1",
		  gateway[] = "/apis/gateway.networking.k8s.io/v1",
		  imports[] = "/apis/multicluster.x-k8s.io/v1alpha1",
		  imports_beta[] = "/apis/multicluster.x-k8s.io/v1beta1";

#define RESOURCE(NAME, KIND, PATH, GROUP, KEEP, OBJECT)                                            \
	.name = NAME, .kind = KIND, .list_kind = KIND "List", .group_path = PATH, .group = GROUP,  \
	.keep = KEEP, .object = OBJECT

#define GATEWAY_RESOURCE(NAME, KIND, KEEP, OBJECT)                                                 \
	RESOURCE(NAME, KIND, gateway, "gateway.networking.k8s.io", KEEP, OBJECT)

const struct api_resource api_resources[API_COUNT] = {
	[API_SERVICES] = { RESOURCE(
			       "services", "Service", core, "", json_prune_service, OBJECT_SERVICE),
	    .namespaced = true, .required = true },
	[API_SLICES] = { RESOURCE("endpointslices", "EndpointSlice", discovery, "discovery.k8s.io",
			     json_prune_slice, OBJECT_SLICES),
	    .namespaced = true, .required = true },
	[API_ENDPOINTS] = { RESOURCE("endpoints", "Endpoints", core, "", json_prune_endpoints,
				OBJECT_SLICES),
	    .namespaced = true, .required = true },
	[API_NAMESPACES] = { RESOURCE(
	    "namespaces", "Namespace", core, "", json_prune_namespace, OBJECT_NAMESPACE) },
	[API_PODS] = { RESOURCE("pods", "Pod", core, "", json_prune_pod, OBJECT_POD),
	    .namespaced = true },
	[API_NODES] = { RESOURCE("nodes", "Node", core, "", json_prune_node, OBJECT_NODE) },
	[API_CONFIGMAPS] = { RESOURCE("configmaps", "ConfigMap", core, "", json_prune_configmap,
				 OBJECT_CONFIGMAP),
	    .namespaced = true },
	[API_INGRESSES] = { RESOURCE("ingresses", "Ingress", networking, "networking.k8s.io",
				json_prune_ingress, OBJECT_INGRESS),
	    .namespaced = true },
	[API_GATEWAYS] = { GATEWAY_RESOURCE(
			       "gateways", "Gateway", json_prune_gateway, OBJECT_GATEWAY),
	    .namespaced = true, .may_be_missing = true },
	[API_LISTENERSETS] = { GATEWAY_RESOURCE("listenersets", "ListenerSet",
				   json_prune_listenerset, OBJECT_LISTENERSET),
	    .namespaced = true, .may_be_missing = true },
	[API_HTTPROUTES] = { GATEWAY_RESOURCE(
				 "httproutes", "HTTPRoute", json_prune_route, OBJECT_HTTPROUTE),
	    .namespaced = true, .may_be_missing = true },
	[API_GRPCROUTES] = { GATEWAY_RESOURCE(
				 "grpcroutes", "GRPCRoute", json_prune_route, OBJECT_GRPCROUTE),
	    .namespaced = true, .may_be_missing = true },
	[API_TLSROUTES] = { GATEWAY_RESOURCE(
				"tlsroutes", "TLSRoute", json_prune_route, OBJECT_TLSROUTE),
	    .namespaced = true, .may_be_missing = true },
	[API_IMPORTS] = { RESOURCE("serviceimports", "ServiceImport", imports,
			      "multicluster.x-k8s.io", json_prune_import, OBJECT_IMPORT),
	    .other_path = imports_beta, .namespaced = true, .may_be_missing = true },
};

const struct api_resource api_hosts_maps_resource = { RESOURCE("configmaps", "ConfigMap", core, "",
							  json_prune_hosts, OBJECT_CONFIGMAP),
	.namespaced = true };

const int api_codes[API_CODE_COUNT - 2] = { 200, 400, 401, 403, 404, 410, 422, 429, 500, 502, 503,
	504 };

const char *const api_event_names[API_EVENT_COUNT] = {
	[API_EVENT_ADDED] = "ADDED",
	[API_EVENT_MODIFIED] = "MODIFIED",
	[API_EVENT_DELETED] = "DELETED",
	[API_EVENT_BOOKMARK] = "BOOKMARK",
	[API_EVENT_ERROR] = "ERROR",
};
