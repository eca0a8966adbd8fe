/*
 * Kubernetes objects, reduced to the fields that DNS needs. They are made from json-c values. api/
 * makes such values from the API server's JSON, and lib/documents makes them from YAML and JSON
 * files. Only this module decides the meaning of a missing, null or wrongly typed field.
 * object_fields.h lists the fields that are read.
 *
 *	bytes --json-c/libyaml--> struct json_object --object_extract--> struct object
 *	      --event_sink--> store
 *
 * Every string points into the json-c tree and is valid until object_clear() or json_object_put().
 * The arrays belong to the object.
 */
#ifndef KUBEDNS_CLUSTER_OBJECT_H
#define KUBEDNS_CLUSTER_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

struct json_object;

enum object_kind {
	OBJECT_SERVICE,
	OBJECT_SLICES, /* one EndpointSlice, or an Endpoints object converted to slices */
	OBJECT_NAMESPACE,
	OBJECT_POD,
	OBJECT_NODE,
	OBJECT_CONFIGMAP,
	/* Only with --external-zones: see object_external.h. */
	OBJECT_INGRESS,
	OBJECT_GATEWAY,
	OBJECT_LISTENERSET,
	OBJECT_HTTPROUTE,
	OBJECT_GRPCROUTE,
	OBJECT_TLSROUTE,
	/* Only with --clusterset-domain. Stored in object.service. */
	OBJECT_IMPORT,
	OBJECT_KIND_COUNT,
};

struct object_port {
	const char *name; /* "" if the port is unnamed */
	/* Lower case: "tcp", "udp", "sctp". An unknown protocol is accepted if it is a valid label;
	 * otherwise the port is ignored. */
	const char *protocol;
	uint16_t port; /* 0 if the object has no number; there is no SRV record then */
};

enum service_type {
	SERVICE_CLUSTERIP,
	SERVICE_HEADLESS,
	SERVICE_EXTERNALNAME,
	SERVICE_PENDING /* no address is allocated yet */
};

struct object_service {
	/* SERVICE_EXTERNALNAME if the object has that type, even if it has addresses */
	enum service_type type;
	struct addr addrs[2]; /* at most one for each family */
	size_t addr_count;
	const char *external_name; /* as written; "" if missing */
	bool publish_not_ready;    /* from the field, or from the old annotation */
	struct object_port *ports;
	size_t port_count;
};

struct object_endpoint {
	struct addr addr;
	bool ready;           /* conditions.ready is true or missing */
	const char *hostname; /* NULL unless it is a valid label */
	const char *pod;      /* targetRef.name if it is a Pod; NULL unless it is a valid label */
};

/* A place where an endpoint is, or for which it is meant. */
struct object_place {
	const char *name; /* never "" */
	uint16_t endpoint;
	uint8_t kind; /* enum place_kind of tree_content.h */
};

struct object_slice {
	/* Name of the EndpointSlice, or of the Endpoints object. The slices of an Endpoints object
	 * are numbered by `index`, one for each subset and family. */
	const char *name;
	unsigned index; /* 0 for an EndpointSlice */
	/* Label kubernetes.io/service-name; NULL: the slice belongs to no Service. */
	const char *service;
	uint8_t family; /* AF_INET or AF_INET6, the same for every endpoint */
	struct object_port *ports;
	size_t port_count;
	struct object_endpoint *endpoints;
	size_t endpoint_count;
	/* Places exist only for EndpointSlices. Pruned JSON has places only with --nearest or --zonal. */
	struct object_place *places;
	size_t place_count;
};

struct object_key_value {
	const char *key;
	const char *value;
	size_t len;
};

/* The lists of --visibility as written; NULL if missing. */
struct object_namespace {
	const char *sees, *sees_label;
	const char *visible_to, *visible_to_label;
};

/* Limits on one object. Excess entries are ignored, and object->cut is set. Kubernetes itself
 * allows 20,000 ports and 1,000 endpoints in a slice, and gives a pod at most two addresses. */
enum {
	OBJECT_PORTS_MAX = 20000,     /* in a Service, a slice or a subset */
	OBJECT_ENDPOINTS_MAX = 65535, /* in a slice, or in one family of a subset */
	OBJECT_SLICES_MAX = 1000,     /* slices made from one Endpoints object */
	POD_ADDRS_MAX = 255,
	ENDPOINT_HINTS_MAX = 8, /* hints for zones, and hints for nodes, as in Kubernetes */
};

struct object {
	enum object_kind kind;
	const char *namespace; /* "" for cluster-scoped kinds */
	const char *name;
	const char *resource_version; /* opaque; "" if missing */
	/* Annotation endpoints.kubernetes.io/last-change-trigger-time as Unix time; 0 if missing. */
	int64_t trigger_time_ns;
	/* Also used for a ServiceImport, whose type is never SERVICE_EXTERNALNAME. */
	struct object_service service;
	/* OBJECT_SLICES. There are no slices for Endpoints without subsets, and for FQDN slices. */
	struct object_slice *slices;
	size_t slice_count;
	bool from_endpoints; /* the slices were made from an Endpoints object */
	struct {
		/* Labels of an EndpointSlice: the name of the ServiceImport in its namespace, and
		 * the cluster of its endpoints. NULL unless both are valid labels. */
		const char *name, *cluster;
	} import;
	bool cut; /* the object exceeds a limit */
	/* The object has a mistake that leaves only its name usable. The object is ignored, unless
	 * the event is its deletion. */
	bool invalid;
	struct {
		struct addr *addrs; /* status.podIPs, or podIP if that is missing */
		size_t addr_count;  /* at most POD_ADDRS_MAX */
		bool running;       /* phase is Running and there is no deletionTimestamp */
		/* The phase is Succeeded or Failed, so another pod may have the address now. */
		bool ended;
		bool on_host;     /* spec.hostNetwork: the pod has the addresses of its node */
		const char *node; /* spec.nodeName; "" if missing */
	} pod;
	struct {
		/* topology.kubernetes.io/zone and /region, or the old failure-domain labels; "" if missing. */
		const char *zone;
		const char *region;
	} node;
	struct object_namespace visibility; /* OBJECT_NAMESPACE */
	struct object_key_value *data;      /* OBJECT_CONFIGMAP */
	int64_t created_s; /* OBJECT_CONFIGMAP, OBJECT_NAMESPACE: Unix time; INT64_MAX if unknown */
	size_t data_count;
	struct object_key_value *labels; /* OBJECT_NAMESPACE */
	size_t label_count;
	struct object_external *external; /* see object_external.h; NULL if it was not read */
};

/*
 * Reads one object. `kind_hint` (such as "Service") is the kind of list items, which have no `kind`
 * field. If it is NULL, the object must have that field.
 *
 * Returns 0 if the object was read; the caller then calls object_clear(). `why` is NULL, or names
 * the first invalid field, which was treated as missing. Returns -ENOTSUP for a kind that DNS does
 * not need (Deployment, or the Service of another API group). Returns -EINVAL if the value is no
 * object or cannot be identified. `why` is then the reason. In that case, `name` and `namespace`
 * are set if they could be read, else NULL. A source can thus keep the last known state of the
 * object.
 *
 * `why` is valid until the next call. The json tree does not change, with one exception: an unknown
 * protocol of a port is converted to lower case in place.
 */
int object_extract(
    struct json_object *json, const char *kind_hint, struct object *object, const char **why);

/*
 * Reads the labels of an EndpointSlice into object->import, after object_extract(). Does nothing to
 * other objects. If a label is invalid and `*why` is NULL, sets `*why`.
 */
void object_read_import_labels(struct json_object *json, struct object *object, const char **why);

/* Frees the object's arrays. The json tree stays. */
void object_clear(struct object *object);

/* Returns the name of the kind in API paths: "services", "endpointslices", ...,
 * "serviceimports". */
const char *object_kind_resource(enum object_kind kind);

enum event_type {
	/* Every object of the kind follows, then SYNCED. An object that does not follow has been
	 * deleted. `object` is NULL. */
	EVENT_LISTING,
	EVENT_ADDED,
	/* The same as ADDED. Either event may arrive for a known or an unknown object. The event
	 * has the complete state of the object. */
	EVENT_MODIFIED,
	EVENT_DELETED,
	EVENT_SYNCED, /* `object` is NULL */
};

/* The function to which a source (watch, manifests) reports each event. `object` is valid during
 * the call only. */
typedef void (*event_sink)(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

#endif
