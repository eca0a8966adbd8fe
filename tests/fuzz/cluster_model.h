/*
 * The objects of a small cluster. fuzz_events.c changes these objects. tell_*() sends the current
 * state of an object, or its deletion, to a store.
 */
#ifndef TESTS_FUZZ_CLUSTER_MODEL_H
#define TESTS_FUZZ_CLUSTER_MODEL_H

#include "kubedns/cluster/store.h"
#include "kubedns/cluster/tree_content.h"

enum {
	NAMESPACES = 2,
	SERVICES = 4,
	SLICES = 5,
	ENDPOINTS = 4,
	PODS = 4,
	NODES = 2,
	PORTS = 100,
};

struct model_slice {
	bool there;
	uint8_t service, ports, count;
	uint8_t endpoints[ENDPOINTS];
};

static struct {
	struct {
		bool there, labelled;
		uint8_t sees, visible_to; /* indexes in `lists` */
	} namespaces[NAMESPACES];
	struct {
		bool there;
		uint8_t kind, addr;
	} services[NAMESPACES][SERVICES];
	struct model_slice slices[NAMESPACES][SLICES];
	struct {
		bool there;
		/* last byte of the pod's address; bits with the pod's node and phase */
		uint8_t addr, state;
	} pods[NAMESPACES][PODS];
	bool shared[4]; /* whether two pods have, or had, the address with this last byte */
	struct {
		bool there;
		uint8_t zone;
	} nodes[NODES];
} model;

static const char *const namespaces[NAMESPACES] = { "one", "two" };
static const char *const services[SERVICES] = { "web", "db", "a", "10-0-0-1" };
static const char *const slices[SLICES] = { "s0", "s1", "s2", "s3", "s4" };
static const char *const pods[PODS] = { "p0", "p1", "p2", "p3" };
static const char *const nodes[NODES] = { "n1", "n2" };
static const char *const lists[] = { NULL, "one", "two", "*" };
static struct object_port ports[PORTS];

/* The possible ports of a slice: no port, one port, two ports that other slices have too, or many
 * ports. There are so many ports that their pairs are counted separately. */
static const struct {
	uint8_t first, count;
} port_lists[] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 1 }, { 1, 2 }, { 2, 40 }, { 30, 60 },
	{ 2, 70 } };

static struct object
named(enum object_kind kind, unsigned namespace, const char *name)
{
	return (struct object){ .kind = kind,
		.namespace = namespaces[namespace],
		.name = name,
		.resource_version = "1" };
}

static void
tell_namespace(struct store *store, unsigned n)
{
	static struct object_key_value label = { "dns", "on", 2 };
	struct object o = named(OBJECT_NAMESPACE, n, namespaces[n]);

	o.namespace = "";
	o.labels = &label;
	o.label_count = model.namespaces[n].labelled;
	o.visibility.sees = lists[model.namespaces[n].sees];
	o.visibility.visible_to = lists[model.namespaces[n].visible_to];
	store_event(store, OBJECT_NAMESPACE,
	    model.namespaces[n].there ? EVENT_MODIFIED : EVENT_DELETED, &o);
}

static void
tell_service(struct store *store, unsigned n, unsigned s)
{
	struct object o = named(OBJECT_SERVICE, n, services[s]);
	unsigned kind = model.services[n][s].kind;

	o.service = (struct object_service){ .type = kind % 4,
		.external_name =
		    kind % 4 == SERVICE_EXTERNALNAME ? "web.one.svc.cluster.local" : "",
		.publish_not_ready = kind & 4,
		.ports = ports,
		.port_count = kind / 8 % 4,
		.addr_count = kind % 4 == SERVICE_CLUSTERIP };
	o.service.addrs[0] = (struct addr){ AF_INET, { 10, 96, 0, model.services[n][s].addr % 4 } };
	store_event(
	    store, OBJECT_SERVICE, model.services[n][s].there ? EVENT_MODIFIED : EVENT_DELETED, &o);
}

static void
tell_slice(struct store *store, unsigned n, unsigned s)
{
	static const char *const hosts[] = { NULL, "a", "10-0-0-1", "db" };
	const struct model_slice *from = &model.slices[n][s];
	struct object_endpoint endpoints[ENDPOINTS];
	struct object_place places[ENDPOINTS];
	struct object_slice slice = { .name = slices[s],
		.service = from->service < SERVICES ? services[from->service] : NULL,
		.family = AF_INET,
		.ports = ports + port_lists[from->ports].first,
		.port_count = port_lists[from->ports].count,
		.endpoints = endpoints,
		.endpoint_count = from->count,
		.places = places,
		.place_count = from->count };
	struct object o = named(OBJECT_SLICES, n, slices[s]);

	for (unsigned i = 0; i < from->count; i++) {
		unsigned is = from->endpoints[i];

		endpoints[i] = (struct object_endpoint){ .addr = { AF_INET, { 10, 0, 0, is & 3 } },
			.hostname = hosts[is >> 2 & 3],
			.ready = (is >> 4 & 3) != 0,
			.pod = is & 64 ? "pod" : NULL };
		places[i] = (struct object_place){ is & 128 ? "z1" : "z2", (uint16_t)i,
			is & 1 ? PLACE_ZONE : PLACE_FOR_ZONE };
	}
	o.slices = &slice;
	o.slice_count = 1;
	store_event(store, OBJECT_SLICES, from->there ? EVENT_MODIFIED : EVENT_DELETED, &o);
}

static void
tell_pod(struct store *store, unsigned n, unsigned p)
{
	static const char *const on[] = { "n1", "n2", "n3", "" };
	struct object o = named(OBJECT_POD, n, pods[p]);
	unsigned state = model.pods[n][p].state;
	struct addr addr = { AF_INET, { 10, 0, 0, model.pods[n][p].addr % 4 } };

	o.pod.addrs = &addr;
	o.pod.addr_count = state % 16 != 0;
	o.pod.node = on[state & 3];
	o.pod.running = (state >> 2 & 3) != 0;
	o.pod.ended = (state >> 4 & 3) == 1 && !o.pod.running;
	o.pod.on_host = (state >> 4 & 3) == 2;
	store_event(store, OBJECT_POD, model.pods[n][p].there ? EVENT_MODIFIED : EVENT_DELETED, &o);
}

static void
tell_node(struct store *store, unsigned none, unsigned which)
{
	static const char *const zone[] = { "", "z1", "z2" };
	struct object o = named(OBJECT_NODE, none, nodes[which]);

	o.namespace = "";
	o.node.zone = zone[model.nodes[which].zone % 3];
	o.node.region = "";
	store_event(
	    store, OBJECT_NODE, model.nodes[which].there ? EVENT_MODIFIED : EVENT_DELETED, &o);
}

#endif
