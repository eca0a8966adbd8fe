/*
 * Kubernetes objects reduced to what DNS needs, from json-c values: api/ parses the API server's
 * JSON into them, lib/documents YAML and JSON files. What a missing, null or wrong-typed field
 * means is decided here and nowhere else; object_fields.h lists the fields that are read.
 *
 *	bytes --json-c/libyaml--> struct json_object --object_extract--> struct object
 *	      --event_sink--> store
 *
 * Every string is borrowed from the json-c tree and lives until object_clear and json_object_put;
 * the arrays belong to the object.
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
	OBJECT_SLICES, /* one EndpointSlice, or an Endpoints object as slices of our making */
	OBJECT_NAMESPACE,
	OBJECT_POD,
	OBJECT_NODE,
	OBJECT_CONFIGMAP,
	/* Only with --external-zones: see object_external.h. */
	OBJECT_INGRESS,
	OBJECT_GATEWAY,
	OBJECT_HTTPROUTE,
	OBJECT_GRPCROUTE,
	OBJECT_TLSROUTE,
	/* Only with --clusterset-domain: read into object.service. */
	OBJECT_IMPORT,
	OBJECT_KIND_COUNT,
};

struct object_port {
	const char *name;     /* "" when unnamed */
	const char *protocol; /* lower case: "tcp", "udp", "sctp"; an unknown one is kept
			       * if it is a legal label, else the port is left out */
	uint16_t port;        /* 0: no port given, so no SRV */
};

enum service_type {
	SERVICE_CLUSTERIP,
	SERVICE_HEADLESS,
	SERVICE_EXTERNALNAME,
	SERVICE_PENDING /* no address allocated yet */
};

struct object_service {
	enum service_type type; /* `type: ExternalName` decides before addresses do */
	struct addr addrs[2];   /* at most one a family */
	size_t addr_count;
	const char *external_name; /* as written, "" when missing */
	bool publish_not_ready;    /* the field, or the old annotation */
	struct object_port *ports;
	size_t port_count;
};

struct object_endpoint {
	struct addr addr;
	bool ready;           /* conditions.ready true or absent */
	const char *hostname; /* NULL unless it is a legal label */
	const char *pod;      /* targetRef.name of a Pod; NULL unless it is a legal label */
};

/* Where an endpoint is, or for whom. */
struct object_place {
	const char *name; /* not "" */
	uint16_t endpoint;
	uint8_t kind; /* enum place_kind of tree_content.h */
};

struct object_slice {
	const char *name;    /* the EndpointSlice's name; for Endpoints "<name>"
			      * with `index` counting subsets and families */
	unsigned index;      /* 0 for an EndpointSlice */
	const char *service; /* label kubernetes.io/service-name; NULL: belongs to no Service */
	uint8_t family;      /* AF_INET or AF_INET6, of every endpoint */
	struct object_port *ports;
	size_t port_count;
	struct object_endpoint *endpoints;
	size_t endpoint_count;
	struct object_place
	    *places; /* of EndpointSlices; of pruned ones only with --nearest, --zonal */
	size_t place_count;
};

struct object_key_value {
	const char *key;
	const char *value;
	size_t len;
};

/* The lists of --visibility as written; NULL when missing. */
struct object_namespace {
	const char *sees, *sees_label;
	const char *visible_to, *visible_to_label;
};

/* What is read of one object; the rest is left out, and object->cut set. Kubernetes itself allows a
 * slice 20,000 ports and 1,000 endpoints, and gives a pod two addresses. */
enum {
	OBJECT_PORTS_MAX = 20000,     /* of a Service, a slice or a subset */
	OBJECT_ENDPOINTS_MAX = 65535, /* of a slice, or of one family of a subset */
	OBJECT_SLICES_MAX = 1000,     /* made of an Endpoints object */
	POD_ADDRS_MAX = 255,
	ENDPOINT_HINTS_MAX = 8, /* zones and nodes each, as Kubernetes allows */
};

struct object {
	enum object_kind kind;
	const char *namespace; /* "" for cluster-scoped kinds */
	const char *name;
	const char *resource_version; /* opaque; "" when missing */
	int64_t trigger_time_ns; /* annotation endpoints.kubernetes.io/last-change-trigger-time,
				  * Unix; 0 when missing */
	struct object_service service; /* of a ServiceImport too, never SERVICE_EXTERNALNAME */
	struct object_slice *
	    slices; /* OBJECT_SLICES; 0 of them is legal (Endpoints without subsets, FQDN slices) */
	size_t slice_count;
	bool from_endpoints; /* the slices are made of an Endpoints object */
	struct {
		/* Labels of an EndpointSlice: the ServiceImport in its namespace, and the cluster
		 * that its endpoints are in. NULL unless both are legal labels. */
		const char *name, *cluster;
	} import;
	bool cut; /* there was more than the bounds allow */
	/* After the mistake that object_extract() names, nothing of it is of use but its name: it is left
	 * out, unless the event is its deletion. */
	bool invalid;
	struct {
		struct addr *addrs; /* status.podIPs, else podIP */
		size_t addr_count;  /* POD_ADDRS_MAX at most */
		bool running;       /* phase Running, no deletionTimestamp */
		bool ended;         /* phase Succeeded or Failed: its address may be another's */
		bool on_host;       /* spec.hostNetwork: its addresses are its node's */
		const char *node;   /* spec.nodeName; "" when missing */
	} pod;
	struct {
		/* topology.kubernetes.io/zone and /region, or the old failure-domain labels; "" */
		const char *zone;
		const char *region;
	} node;
	struct object_namespace visibility; /* OBJECT_NAMESPACE */
	bool no_search; /* OBJECT_NAMESPACE: its label kubedns/search-completion is "off" */
	struct object_key_value *data; /* OBJECT_CONFIGMAP */
	int64_t created_s; /* OBJECT_CONFIGMAP, OBJECT_NAMESPACE: Unix time; INT64_MAX: unknown */
	size_t data_count;
	struct object_key_value *labels; /* OBJECT_NAMESPACE */
	size_t label_count;
	struct object_external *external; /* object_external.h; NULL: was not read */
};

/*
 * Reads one object. `kind_hint` (such as "Service") serves for list items, which carry no kind;
 * NULL: it must be inside.
 *
 * 0: `why` is NULL, or names the first field that made no sense and was left out as if it were
 * missing. Caller calls object_clear. -ENOTSUP: a kind that DNS does not need (Deployment, or the
 * Service of another API group). -EINVAL: it cannot be told which object this is, or it is none;
 * `why` is the reason. `name` and `namespace` are then set as far as they could be read (else
 * NULL), so that a source can keep what it last knew of the object.
 *
 * `why` is good until the next call. The json tree is not changed, except that a port's unknown
 * protocol is folded to lower case in place.
 */
int object_extract(
    struct json_object *json, const char *kind_hint, struct object *object, const char **why);

/*
 * Reads the labels of an EndpointSlice that object_extract() has read into object->import; does
 * nothing to other objects. `*why` is set, if it was NULL, when a label made no sense.
 */
void object_read_import_labels(struct json_object *json, struct object *object, const char **why);

/* Frees the object's arrays, not the json tree. */
void object_clear(struct object *object);

/* "services", "endpointslices", ..., "serviceimports": as the API's paths have them. */
const char *object_kind_resource(enum object_kind kind);

enum event_type {
	EVENT_LISTING, /* every object of the kind follows, until SYNCED:
			* one that is not among them is gone; object is NULL */
	EVENT_ADDED,
	EVENT_MODIFIED, /* as ADDED: either may come for a known and for an unknown
			 * object, and gives its state */
	EVENT_DELETED,
	EVENT_SYNCED, /* object is NULL */
};

/* Where a source (watch, manifests) sends what it learns; `object` is borrowed for the call. */
typedef void (*event_sink)(
    void *arg, enum object_kind kind, enum event_type type, const struct object *object);

#endif
