/*
 * The Kubernetes API as a source of objects. Only this part of the program uses HTTP, list and
 * watch.
 *
 *	API --HTTP/2--> libcurl --> framer (one by one) --> json-c --> object --event_sink--> store
 *
 *	api_source.c         which resources are watched, and when they may start; libcurl's loop;
 *	                     when the data is complete; readiness as text; metrics
 *	reflector.c          state of the protocol: the next request after each response (WatchList,
 *	                     list, watch, or wait)
 *	resource_table.c     the resources, and the API's names for them
 *	resource_watch.c     sends, reads and ends the requests of one resource; list items, watch
 *	                     events and Status go to the sink, through framer.c and json_prune.c
 *	exact_list.c         one list at an exact version, for the audit
 *	request_setup.c      connection, verification, headers; api_credentials.c finds the server
 *	api_error.c          failures as text
 *
 * The main thread calls every function here. Only api_source_wait() blocks; it is the one place
 * where kubedns's main thread waits:
 *
 *	for (;;) {
 *		api_source_wait(w, fds, FD_COUNT, deadline_ms); waits; fills revents of the fds
 *		api_source_run(w);                              reads, calls the sink; never waits
 *		...the fds, then one publish of everything that the sink received
 *	}
 *
 * The sink can rely on these rules, for each kind separately:
 *   - LISTING precedes the first object, and is repeated whenever the watch has to start over, even
 *     during a listing (which is then void). SYNCED ends a listing. Single changes arrive between
 *     SYNCED and the next LISTING. An object that is sent again unchanged has the same
 *     resource_version, so the store may ignore it.
 *   - A failure causes no event: the store keeps its data.
 *   - A kind that may not be read (403, 404) never gets a LISTING. The store then infers namespaces
 *     from Services, unless their labels are needed.
 *   - OBJECT_SLICES is read from EndpointSlices, or from Endpoints if EndpointSlices have been
 *     forbidden or missing for ten seconds. A change between the two starts a new LISTING ...
 *     SYNCED.
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
 * Strings must stay valid as long as the source, unless a comment says otherwise. If all members
 * are zero, the source uses the in-cluster configuration and watches Services, slices and
 * namespaces.
 */
struct api_source_config {
	const char *kubecfg_file; /* --kubecfg-file; NULL or "": none */
	const char *master_url;   /* --kube-master-url; ${VAR} is expanded here; NULL or "": none */
	const char *serviceaccount_dir; /* NULL: /var/run/secrets/kubernetes.io/serviceaccount */
	bool pods;                      /* watch pods, for --pods=verified and --client-pods */
	const char *pods_node;          /* watch only the pods of this node; NULL: watch all pods */
	/* Watch Nodes, for federations. api_source_want_federations() can enable this later. */
	bool nodes;
	const char *config_map; /* --config-map; NULL or "": none */
	const char *config_map_namespace;
	/* The NULL-terminated list of --namespaces; NULL: all namespaces. If it has one namespace,
	 * only that namespace is listed. Objects in other namespaces are ignored. */
	const char *const *namespaces;
	bool visibility;       /* --visibility: namespaces and pods are required */
	bool namespace_labels; /* namespaces are required, and are read with their labels */
	bool all_labels;       /* namespaces are read with their labels, for a module */
	/* --endpoint-pod-names: read object_endpoint.pod, which otherwise stays NULL. */
	bool endpoint_pods;
	/* --hosts-namespaces, NULL-terminated, at most API_HOSTS_MAX; NULL: none. */
	const char *const *hosts_namespaces;
	bool places; /* --nearest, --zonal: read object_slice.places */
	/* --external-zones: read object.external, and watch Ingresses and the objects of the
	 * Gateway API. */
	bool external;
	/* --clusterset-domain: watch ServiceImports, and read object.import of slices. */
	bool imports;
	const char *endpointslice_selector; /* --endpointslice-selector; NULL or "": none */
	/* Read only slices of headless Services, until api_source_want_federations(). */
	bool headless_slices;
	bool one_of_many; /* relists are spread over time (REFLECTOR_SPREAD_BYTES_S) */
	bool no_api;      /* --objects-dir: nothing is watched, and api_source_wait() only waits */
};

enum { API_HOSTS_MAX = 8 };

/*
 * Receives the events of ConfigMaps with the label kubedns/hosts=true in one of the
 * hosts_namespaces. Each of these namespaces is listed and watched separately, so a Role in it is
 * enough. `arg` is the argument of the event sink.
 */
typedef void hosts_sink(
    void *arg, const char *namespace, enum event_type type, const struct object *object);

/* For --check. Reads the configuration (kubeconfig, environment) without making a connection.
 * Returns 0, or -EINVAL after one log line. */
int api_source_check(const struct api_source_config *config);

/*
 * Starts watching. `hosts` may be NULL without hosts_namespaces. If the configuration has a
 * mistake, logs one line with the mistake and the fix and returns NULL. The program then exits with
 * status 2.
 */
struct api_source *api_source_new(
    const struct api_source_config *config, event_sink sink, hosts_sink *hosts, void *arg);

/*
 * Waits until the API has sent data, one of the caller's `count` descriptors is ready, or a
 * deadline has passed. The deadlines are `deadline_ms` and the source's own deadlines. The
 * descriptors are polled for POLLIN and POLLOUT, and their revents are set. Returns how many of the
 * caller's descriptors are ready.
 */
int api_source_wait(struct api_source *w, struct pollfd *fds, size_t count, int64_t deadline_ms);

/*
 * Does all pending work and calls the sink. Returns true if it called the sink. A call reads at
 * most 64 KiB from a connection, even if more data is pending (libcurl: 32 KiB of HTTP/2, or one
 * TLS record).
 */
bool api_source_run(struct api_source *w);

/*
 * From now on, watches Nodes and the slices of all Services too. The answer for a federation's name
 * depends on the nodes' zone, and on whether the Service has endpoints. May be called repeatedly.
 */
void api_source_want_federations(struct api_source *w);

/* Whether every required kind has synced once, and each optional kind has synced or was found to be
 * forbidden or missing. Never becomes false again. Returns false if `w` is NULL. */
bool api_source_ready(const struct api_source *w);

/*
 * Whether the source is ready and the zones of --external-zones and --clusterset-domain are
 * complete. For that, each kind that only these zones use must have been listed, or found to be
 * forbidden or missing. There is no time limit. Until then, names of these zones may be missing.
 * Never becomes false again. Returns true if nothing is watched.
 */
bool api_source_external_ready(const struct api_source *w);

/* Whether readiness still waits for external and clusterset zones. It waits a few seconds at most.
 * The cluster's names do not wait for these zones. */
bool api_source_awaits_zones(const struct api_source *w);

/* --- one list at an exact version, for the audit (exact_list.c) --- */

/* How a list ended. */
struct api_list_end {
	bool whole;      /* every object of the list went to the sink */
	int status;      /* HTTP status of the last page; 0: there was no response */
	uint64_t cpu_ns; /* CPU time that reading it took */
	/* The server demands no request before this time (Retry-After); CLOCK_NEVER: no demand. */
	int64_t not_before_ms;
};

enum api_list_start {
	API_LIST_STARTED,
	/* Not possible now: another list is running, the watch of a resource is not complete, or the
	 * server does not answer. */
	API_LIST_LATER,
	API_LIST_DENIED, /* this kind is not watched, or may not be read */
};

/*
 * Starts a list of the Services, slices or namespaces of one namespace ("" for all), at exactly the
 * version that the watch of this kind has reached now. The sink gets LISTING, an ADDED for each
 * object, and SYNCED if the list is whole.
 */
enum api_list_start api_source_list(
    struct api_source *w, enum object_kind kind, const char *namespace, event_sink sink, void *arg);

/*
 * The audit has found proof that the server's versions went back: an object here is newer than in the
 * list, and no event has changed it since. The next api_source_run() begins to list all resources
 * again.
 */
void api_source_versions_went_back(struct api_source *w);

/* Whether the last list has ended, and how. Returns false while it runs, and if there was none. */
bool api_source_listed(struct api_source *w, struct api_list_end *end);

/*
 * Returns since when Services or their endpoints have not been watched although they were synced
 * before. Their data may be outdated. The result is monotonic time in ms, or 0 if both are watched.
 */
int64_t api_source_failing_since_ms(const struct api_source *w);

/*
 * Returns the text for /readiness and the log. It has one line for each kind: whether the kind is
 * synced, and the number of objects so far. With `reasons`, the line also tells why the kind is not
 * synced ("services: list is forbidden (403): ..."). A reason may contain addresses, paths and text
 * from the server. Each line ends with a newline. The caller frees the text.
 */
char *api_source_status(const struct api_source *w, bool reasons);

/* The problem of a resource, for programs. `resource` is valid until the source is freed. */
struct api_source_problem {
	const char *resource;
	enum api_problem problem;
};

enum { API_SOURCE_PROBLEMS_MAX = 32 };

/* Writes a problem for each resource that has one, in the order of the resources. Returns their number. */
size_t api_source_problems(
    const struct api_source *w, struct api_source_problem *problems, size_t capacity);

/* The versions of one resource that the sink has received (reflector_versions()). Both are 0 if
 * they are unknown. `resource` is valid until the source is freed. */
struct api_source_version {
	const char *resource;
	uint64_t first, last;
};

enum { API_SOURCE_VERSIONS_MAX = 4 };

/* Writes the versions of each resource that the cluster's names depend on: Services, their slices
 * or Endpoints, and namespaces. A resource that may not be read is omitted. Returns their number.
 * Returns 0 if nothing is watched. */
size_t api_source_versions(
    const struct api_source *w, struct api_source_version versions[API_SOURCE_VERSIONS_MAX]);

/* Returns lines about degraded operation (Endpoints instead of EndpointSlices), or "". The lines
 * are added to a /readiness response with status 200. The caller frees them. */
char *api_source_notes(const struct api_source *w);

/*
 * Writes the metric families kubedns_api_*: requests, watch events, relists, last event, synced,
 * received bytes, endpoints fallback. The store writes kubedns_objects{kind}, and the publisher
 * writes kubedns_dns_programming_duration_seconds.
 */
void api_source_metrics(const struct api_source *w, struct metrics *m);

/* Allows in the sandbox the files with credentials and the server's TCP port. */
void api_source_needs(const struct api_source *w, struct sandbox *s);

/* Cancels all requests and frees the source. NULL is fine. */
void api_source_free(struct api_source *w);

#endif
