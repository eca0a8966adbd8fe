/*
 * The members of Kubernetes objects that DNS reads, one list for each JSON object:
 *
 *	X("its key", variable, inside)
 *
 * object.c reads the member into `variable`. `inside` names the list of members that are read
 * inside its value, or is `whole`. kubedns/api/json_prune.c makes its tables from the same lists,
 * so pruning keeps exactly the members that are read. Code that uses a variable without a list
 * entry does not compile.
 */
#ifndef KUBEDNS_CLUSTER_OBJECT_FIELDS_H
#define KUBEDNS_CLUSTER_OBJECT_FIELDS_H

#define METADATA_FIELDS(X)                                                                         \
	X("name", name, whole)                                                                     \
	X("namespace", namespace, whole)                                                           \
	X("resourceVersion", version, whole)                                                       \
	X("annotations", annotations, annotations)

/* More metadata, which only some kinds keep in pruned JSON. object.c reads it from every object
 * that has it. */
#define SLICE_METADATA_FIELDS(X)     X("labels", labels, slice_labels)
#define NODE_METADATA_FIELDS(X)      X("labels", labels, node_labels)
#define POD_METADATA_FIELDS(X)       X("deletionTimestamp", deletion, whole)
#define NAMESPACE_METADATA_FIELDS(X) X("labels", labels, namespace_labels)

/* The creation time of a ConfigMap of --hosts-namespaces, of a Namespace and, with
 * --external-zones, of the objects that claim names. */
#define CREATED_METADATA_FIELDS(X) X("creationTimestamp", created, whole)

/* Annotations or labels of a Namespace, described in kubedns/cluster/store_namespaces.c. */
#define VISIBILITY_FIELDS(X)                                                                       \
	X("kubedns/sees", sees, whole)                                                             \
	X("kubedns/visible-to", visible_to, whole)

#define ANNOTATIONS_FIELDS(X)                                                                      \
	X("endpoints.kubernetes.io/last-change-trigger-time", trigger_time, whole)                 \
	X("service.alpha.kubernetes.io/tolerate-unready-endpoints", tolerate_unready, whole)       \
	VISIBILITY_FIELDS(X)

#define SERVICE_FIELDS(X) X("spec", spec, service_spec)
#define SERVICE_SPEC_FIELDS(X)                                                                     \
	X("type", type, whole)                                                                     \
	X("clusterIP", cluster_ip, whole)                                                          \
	X("clusterIPs", cluster_ips, whole)                                                        \
	X("ports", ports, port)                                                                    \
	X("externalName", external_name, whole)                                                    \
	X("publishNotReadyAddresses", publish_not_ready, whole)

#define PORT_FIELDS(X)                                                                             \
	X("name", name, whole)                                                                     \
	X("protocol", protocol, whole)                                                             \
	X("port", number, whole)

#define SLICE_LABELS_FIELDS(X) X("kubernetes.io/service-name", service_name, whole)
#define SLICE_FIELDS(X)                                                                            \
	X("addressType", address_type, whole)                                                      \
	X("endpoints", endpoints, slice_endpoint)                                                  \
	X("ports", ports, port)
#define SLICE_ENDPOINT_FIELDS(X)                                                                   \
	X("addresses", addresses, whole)                                                           \
	X("conditions", conditions, conditions)                                                    \
	X("hostname", hostname, whole)
#define CONDITIONS_FIELDS(X) X("ready", ready, whole)

/* Where an endpoint is, and for which nodes and zones it is meant. Read only with --nearest or --zonal. */
#define ENDPOINT_PLACE_FIELDS(X)                                                                   \
	X("zone", zone, whole)                                                                     \
	X("nodeName", node, whole)                                                                 \
	X("hints", hints, hints)
#define HINTS_FIELDS(X)                                                                            \
	X("forZones", for_zones, hint)                                                             \
	X("forNodes", for_nodes, hint)
#define HINT_FIELDS(X) X("name", name, whole)

/* The target of an endpoint. It is kept for Endpoints objects and, with --endpoint-pod-names, for
 * EndpointSlices. */
#define ENDPOINT_TARGET_FIELDS(X) X("targetRef", target_ref, target_ref)
#define TARGET_REF_FIELDS(X)                                                                       \
	X("kind", kind, whole)                                                                     \
	X("name", name, whole)

#define ENDPOINTS_FIELDS(X) X("subsets", subsets, subset)
#define SUBSET_FIELDS(X)                                                                           \
	X("addresses", ready, address)                                                             \
	X("notReadyAddresses", not_ready, address)                                                 \
	X("ports", ports, port)
#define ADDRESS_FIELDS(X)                                                                          \
	X("ip", ip, whole)                                                                         \
	X("hostname", hostname, whole)

#define POD_FIELDS(X)                                                                              \
	X("spec", spec, pod_spec)                                                                  \
	X("status", status, pod_status)
#define POD_SPEC_FIELDS(X)                                                                         \
	X("nodeName", node, whole)                                                                 \
	X("hostNetwork", host_network, whole)
#define POD_STATUS_FIELDS(X)                                                                       \
	X("phase", phase, whole)                                                                   \
	X("podIP", pod_ip, whole)                                                                  \
	X("podIPs", pod_ips, pod_ip)
#define POD_IP_FIELDS(X) X("ip", ip, whole)

#define NODE_LABELS_FIELDS(X)                                                                      \
	X("topology.kubernetes.io/zone", zone, whole)                                              \
	X("topology.kubernetes.io/region", region, whole)                                          \
	X("failure-domain.beta.kubernetes.io/zone", old_zone, whole)                               \
	X("failure-domain.beta.kubernetes.io/region", old_region, whole)

#define NAMESPACE_LABELS_FIELDS(X) VISIBILITY_FIELDS(X)

#define CONFIGMAP_FIELDS(X) X("data", data, whole)

/* --- read only with --clusterset-domain, by object.c --- */

/* Labels of an EndpointSlice, in addition to SLICE_LABELS_FIELDS. */
#define IMPORTED_LABELS_FIELDS(X)                                                                  \
	X("multicluster.kubernetes.io/service-name", import_name, whole)                           \
	X("multicluster.kubernetes.io/source-cluster", cluster, whole)

#define IMPORT_FIELDS(X) X("spec", spec, import_spec)
#define IMPORT_SPEC_FIELDS(X)                                                                      \
	X("type", type, whole)                                                                     \
	X("ips", ips, whole)                                                                       \
	X("ports", ports, port)

/* --- read only with --external-zones, by object_external.c --- */

/* The labels and annotations of external-dns and k8s_gateway. A cluster that has them already needs
 * no new annotations. */
#define EXTERNAL_METADATA_FIELDS(X) X("labels", labels, external_labels)
#define EXTERNAL_LABELS_FIELDS(X)   X("k8s-gateway.dns/ignore", ignore, whole)
#define EXTERNAL_ANNOTATIONS_FIELDS(X)                                                             \
	X("coredns.io/hostname", coredns_hostname, whole)                                          \
	X("external-dns.alpha.kubernetes.io/hostname", hostname, whole)                            \
	X("external-dns.alpha.kubernetes.io/ttl", ttl, whole)

/* The fields of a Service and of an Ingress. */
#define BALANCED_FIELDS(X)         X("status", status, balanced_status)
#define BALANCED_STATUS_FIELDS(X)  X("loadBalancer", balancer, balancer)
#define BALANCER_FIELDS(X)         X("ingress", ingress, address)
#define SERVICE_EXTERNAL_FIELDS(X) X("externalIPs", external_ips, whole)
#define SERVICE_TYPE_FIELDS(X)     X("type", type, whole) /* also in SERVICE_SPEC_FIELDS */
#define INGRESS_FIELDS(X)          X("spec", spec, ingress_spec)
#define INGRESS_SPEC_FIELDS(X)     X("rules", rules, ingress_rule)
#define INGRESS_RULE_FIELDS(X)     X("host", host, whole)

#define GATEWAY_FIELDS(X)                                                                          \
	X("spec", spec, gateway_spec)                                                              \
	X("status", status, gateway_status)
#define GATEWAY_SPEC_FIELDS(X)   X("listeners", listeners, listener)
#define GATEWAY_STATUS_FIELDS(X) X("addresses", addresses, gateway_address)
#define LISTENER_FIELDS(X)                                                                         \
	X("name", name, whole)                                                                     \
	X("port", port, whole)                                                                     \
	X("hostname", hostname, whole)
#define GATEWAY_ADDRESS_FIELDS(X) X("value", value, whole)

#define LISTENERSET_FIELDS(X)                                                                      \
	X("spec", spec, listenerset_spec)                                                          \
	X("status", status, listenerset_status)
#define LISTENERSET_SPEC_FIELDS(X)                                                                 \
	X("parentRef", ref, parent_ref)                                                            \
	X("listeners", listeners, listener)
#define LISTENERSET_STATUS_FIELDS(X) X("conditions", conditions, status_condition)

#define ROUTE_FIELDS(X)                                                                            \
	X("spec", spec, route_spec)                                                                \
	X("status", status, route_status)
#define ROUTE_SPEC_FIELDS(X)   X("hostnames", hostnames, whole)
#define ROUTE_STATUS_FIELDS(X) X("parents", parents, route_parent)
#define ROUTE_PARENT_FIELDS(X)                                                                     \
	X("parentRef", ref, parent_ref)                                                            \
	X("conditions", conditions, status_condition)
#define PARENT_REF_FIELDS(X)                                                                       \
	X("kind", kind, whole)                                                                     \
	X("namespace", namespace, whole)                                                           \
	X("name", name, whole)                                                                     \
	X("sectionName", section, whole)                                                           \
	X("port", port, whole)
#define STATUS_CONDITION_FIELDS(X)                                                                 \
	X("type", type, whole)                                                                     \
	X("status", status, whole)

#endif
