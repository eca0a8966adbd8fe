/*
 * The Kubernetes API as a source of objects: the only part that knows HTTP, list and watch.
 *
 *	API --HTTP/2--> libcurl --> framer (one by one) --> json-c --> object --event_sink--> store
 *
 *	api_source.c         which resources are watched, when they may start, libcurl's loop; when what is
 *	                     known is whole, readiness in words, metrics
 *	reflector.c          the protocol's state, and the request that it leads to
 *	reflector.c          what to request after a response: WatchList, list, watch, or wait
 *	resource_table.c     the resources, and the API's names for them
 *	resource_watch.c     a resource's requests, one after the other: made, sent, read, ended; list items,
 *	                     watch events and Status go on to the sink, by framer.c and json_prune.c
 *	request_setup.c      connection, verification, headers; api_credentials.c finds the server
 *	api_error.c          failures in words
 *
 * The main thread calls everything here. Only api_source_wait() blocks; it is the one place where
 * kubedns's main thread waits:
 *
 *	for (;;) {
 *		api_source_wait(w, fds, FD_COUNT, timeout_ms);  waits; fills revents of the fds
 *		api_source_run(w);                              reads, calls the sink; never waits
 *		...the fds, then one publish of everything that the sink was told
 *	}
 *
 * What the sink can rely on, for each kind separately:
 *   - LISTING comes before the first object, and again whenever the watch has to start over, even
 *     in the middle of a listing (the first one is then void). SYNCED ends a listing. Single
 *     changes come between SYNCED and the next LISTING. An object that is sent again unchanged has
 *     the same resource_version: the store may return at once.
 *   - A failure is no event: the store keeps what it has.
 *   - A kind that may not be read (403, 404) never gets a LISTING. Namespaces are then inferred
 *     from Services by the store, unless their labels are needed.
 *   - OBJECT_SLICES comes from EndpointSlices, or from Endpoints where those stay forbidden or
 *     missing for ten seconds; a change from one to the other is a new LISTING ... SYNCED.
 */
#ifndef KUBEDNS_API_API_SOURCE_H
#define KUBEDNS_API_API_SOURCE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"
#include "lib/api_problem.h"

struct metrics;
struct sandbox;
struct api_source;

/*
 * Strings are borrowed for the source's life unless said otherwise. All zero: in-cluster, services,
 * slices, namespaces.
 */
struct api_source_config {
	const char *kubecfg_file; /* --kubecfg-file; NULL or "": none */
	const char *master_url;   /* --kube-master-url, ${VAR} expanded here; NULL or "": none */
	const char *serviceaccount_dir; /* NULL: /var/run/secrets/kubernetes.io/serviceaccount */
	bool pods;                      /* --pods=verified, --client-pods */
	const char *pods_node;          /* only the pods of this node; NULL: all */
	bool nodes;             /* federations; api_source_want_federations() may ask later */
	const char *config_map; /* --config-map; NULL or "": none */
	const char *config_map_namespace;
	const char *const *namespaces; /* --namespaces; NULL ends; NULL: all. If it is one, only
					 * that is listed; objects in others are not handed on */
	bool visibility;               /* namespaces and pods are required */
	bool namespace_labels;         /* namespaces are read with their labels, and are required */
	bool endpoint_pods;            /* --endpoint-pod-names:
					     * object_endpoint.pod is wanted, else it stays NULL */
	const char *const *hosts_namespaces; /* --hosts-namespaces; NULL ends; NULL: none. At most
					      * API_HOSTS_MAX */
	bool places;   /* --nearest, --zonal: object_slice.places is wanted, else there are none */
	bool external; /* --external-zones: object.external is read, and Ingresses and the
			* Gateway API's objects are watched */
	bool imports;  /* --clusterset-domain: ServiceImports are watched, object.import of slices
			* is read */
	const char *endpointslice_selector; /* --endpointslice-selector; NULL or "": none */
	bool
	    headless_slices; /* only slices of headless Services, until api_source_want_federations() */
	bool one_of_many; /* relists are spread, see REFLECTOR_SPREAD_BYTES_S */
	bool no_api;      /* --objects-dir: api_source_wait() waits, nothing is watched */
};

enum { API_HOSTS_MAX = 8 };

/*
 * Takes events of the ConfigMaps labelled kubedns/hosts=true in this one of the hosts_namespaces, each
 * of which is listed and watched by itself, so that a Role in it is enough; `arg` is the event sink's.
 */
typedef void hosts_sink(
    void *arg, const char *namespace, enum event_type type, const struct object *object);

/*
 * Reads the configuration (kubeconfig, environment), connects to nothing; 0, or -EINVAL after one
 * log line. For --check.
 */
int api_source_check(const struct api_source_config *config);

/*
 * Starts watching; `hosts` may be NULL without hosts_namespaces. Returns NULL after one log line that
 * says what is wrong and what to do: a mistake in the configuration, exit 2.
 */
struct api_source *api_source_new(
    const struct api_source_config *config, event_sink sink, hosts_sink *hosts, void *arg);

/*
 * Waits until the API has something, one of the caller's `count` descriptors is ready (POLLIN,
 * POLLOUT; revents is filled), or a deadline of the source's own or `timeout_ms` (-1: none)
 * has passed. Returns the number of the caller's descriptors that are ready.
 */
int api_source_wait(struct api_source *w, struct pollfd *fds, size_t count, int timeout_ms);

/*
 * Does what is due, calling the sink; true if it called the sink. However much is waiting, a call
 * reads 64 KiB of a connection at most (libcurl: 32 KiB of HTTP/2, or one TLS record).
 */
bool api_source_run(struct api_source *w);

/*
 * From now on also watches Nodes and the slices of all Services: the answer for a federation's name
 * depends on the nodes' zone and on whether the Service has endpoints. May be called again.
 */
void api_source_want_federations(struct api_source *w);

/*
 * Every required kind has synced once, and each optional one has synced or was found to be
 * forbidden or missing. Never turns false; NULL is not ready.
 */
bool api_source_ready(const struct api_source *w);

/*
 * It is ready, and each kind that only --external-zones or --clusterset-domain reads has been listed
 * or was found to be forbidden or missing, however long that takes: until then names of those zones
 * may be missing. Never turns false; true where nothing is watched.
 */
bool api_source_external_ready(const struct api_source *w);

/* Whether readiness still waits for the above, a few seconds at most; the cluster's names do not. */
bool api_source_awaits_zones(const struct api_source *w);

/*
 * Since when Services or their endpoints, once synced, have not been watched: what is known may be
 * out of date (monotonic ms; 0: it is not).
 */
int64_t api_source_failing_since_ms(const struct api_source *w);

/*
 * A line per kind: what is synced, how many objects so far, and with `reasons` why it is not
 * ("services: list is forbidden (403): ..."), which may hold addresses, paths and what the server
 * wrote. Ends with a newline each; for /readiness and the log. Caller frees.
 */
char *api_source_status(const struct api_source *w, bool reasons);

/* What is wrong with a resource, for programs; `resource` is good until the source is freed. */
struct api_source_problem {
	const char *resource;
	enum api_problem problem;
};

enum { API_SOURCE_PROBLEMS_MAX = 32 };

/* Fills in a problem for each resource that has one, in the order of the resources; returns how many. */
size_t api_source_problems(
    const struct api_source *w, struct api_source_problem *problems, size_t room);

/*
 * Lines about what is degraded (Endpoints in place of EndpointSlices), "" if nothing is: for a
 * readiness that is 200. Caller frees.
 */
char *api_source_notes(const struct api_source *w);

/*
 * The kubedns_api_* families: requests, watch events, relists, last event, synced, received bytes,
 * endpoints fallback. kubedns_objects{kind} and kubedns_dns_programming_duration_seconds are the
 * store's and the publisher's, who know what is there and when.
 */
void api_source_metrics(const struct api_source *w, struct metrics *m);

/* Adds the credentials' files and the server's TCP port. */
void api_source_needs(const struct api_source *w, struct sandbox *s);

/* Ends every request; api_source_free(NULL) is fine. */
void api_source_free(struct api_source *w);

#endif
