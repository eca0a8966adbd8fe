/*
 * Reads the status of the other two containers: /readiness, /metrics, /neighbours and /top of kubedns, and /config of the nanny.
 *
 *	peer: timer --> fetch --> page --> kubedns_read_*, nanny_view_read (pure)
 *	            --> struct kubedns_view, struct nanny_view
 *
 * The pages are untrusted input. A view keeps the values in fixed arrays, or owns the values until the next page. A peer that never
 * answered has no panel on the status page. A missing peer is not an error, because some topologies have no nanny or no kubedns.
 */
#ifndef SIDECAR_CONTAINERS_CONTAINER_STATUS_H
#define SIDECAR_CONTAINERS_CONTAINER_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/api_problem.h"
#include "sidecar/containers/client_rates.h"
#include "sidecar/containers/fetch.h"
#include "sidecar/history.h"

enum {
	PEER_INTERVAL_MS = 2500,
	PEER_METRICS_MAX = 256 * 1024,
	PEER_CONFIG_MAX = 64 * 1024, /* parsing needs ten times as much memory */
	KUBEDNS_RESOURCES_MAX = 8,
	KUBEDNS_KINDS_MAX = 8,
	KUBEDNS_NEIGHBOURS_MAX = 32,
	KUBEDNS_TOP_MAX = 10,
	PEER_NAME_MAX = 40,
	PEER_TEXT_MAX = 1024,
};

/* Counters of kubedns that the page shows, as totals and for the last ten minutes. */
enum kubedns_count {
	KUBEDNS_NOERROR,
	KUBEDNS_NXDOMAIN,
	KUBEDNS_SERVFAIL,
	KUBEDNS_REFUSED,
	KUBEDNS_OTHER,     /* responses with another rcode */
	KUBEDNS_DROPPED,   /* packets dropped by the kernel, because the receive queue was full */
	KUBEDNS_SHED,      /* dropped packets of clients that exceeded their share */
	KUBEDNS_FORWARDED, /* queries sent to other servers */
	KUBEDNS_FORWARD_FAILED, /* forwarded queries that no server answered */
	KUBEDNS_DIFFERENCES,    /* objects that differed from the API and were corrected */
	KUBEDNS_COUNTS,
};

/* A client with the most queries in the last minutes, or a name with the most queries. */
struct kubedns_talker {
	char name[256]; /* address, or DNS name as text */
	char pod
	    [CLIENT_POD_MAX]; /* "pod prod/web-1" or "namespace prod"; "" if kubedns watches no pods */
	double per_second;
	double queries, nxdomain, search_walk, aaaa,
	    outside; /* `queries` includes the last four counts */
};

struct kubedns_view {
	bool seen; /* the peer has answered at least once */
	bool up;   /* the peer answered the newest requests */
	int64_t
	    since_ns; /* time of the last change of `up`, monotonic; 0 before the first request */
	bool refused; /* the newest connection was refused, so kubedns is not running */
	char error[FETCH_ERROR_MAX];
	uint64_t errors;
	double start_s;              /* start time, wall clock; 0 if unknown */
	double memory, memory_limit; /* of the container, in bytes; 0 if unknown */
	bool api_failing;            /* at least one resource cannot be read */
	int64_t api_failing_ns;      /* since when, monotonic */
	double last[KUBEDNS_COUNTS]; /* counter values at the last reading */
	struct buckets recent[KUBEDNS_COUNTS];
	bool has_resolver; /* kubedns forwards external names to a resolver (the front topology) */
	struct server resolver;
	bool has_manifests; /* kubedns reads manifests from a directory instead of the API */
	double manifests_broken;
	bool ready;
	/* whether metric kubedns_synced exists, and whether it says that everything is synced */
	bool says_synced, synced;
	char reasons[PEER_TEXT_MAX]; /* text of /readiness if the status is not 200 */
	/* text of /readiness after the first line if the status is 200 */
	char notes[PEER_TEXT_MAX];
	enum api_problem api_problem; /* the problem of the first resource that has a problem */
	size_t resource_count;
	struct kubedns_resource {
		char name[PEER_NAME_MAX];
		bool synced;
		/* time of the newest event, wall clock; 0 if there was none yet */
		double last_event_s;
	} resources[KUBEDNS_RESOURCES_MAX];
	size_t kind_count;
	struct kubedns_kind {
		char name[PEER_NAME_MAX];
		double objects;
	} kinds[KUBEDNS_KINDS_MAX];
	size_t neighbour_count; /* the other pods of this pod's Service, sorted by address */
	struct kubedns_neighbour {
		struct addr addr;
		bool ready;
	} neighbours[KUBEDNS_NEIGHBOURS_MAX];
	size_t client_count, name_count; /* highest rate first */
	struct kubedns_talker clients[KUBEDNS_TOP_MAX], names[KUBEDNS_TOP_MAX];
	double answers_before; /* number of all answers, as of the last reading of /top */
	struct client_rates rates;
};

/* The configuration that the nanny reports. */
struct nanny_view {
	bool seen, up;
	int64_t since_ns; /* time of the last change of `up`, as in struct kubedns_view */
	uint64_t reads;   /* successful reads of /config */
	/* packets to dnsmasq that the kernel dropped, as of the last reading */
	double receive_drops;
	struct buckets recent_drops;
	double own_hits; /* probes that dnsmasq has counted as hits, as of the last reading */
	bool refused;    /* the newest connection was refused, so the nanny is not running */
	char error[FETCH_ERROR_MAX];
	uint64_t errors;
	struct json_object *config; /* the newest /config; owned */
	/* since when dnsmasq has not confirmed the newest configuration, monotonic; 0 if it is
	 * confirmed */
	int64_t unconfirmed_ns;
};

/* Whether kubedns is synced. If kubedns has no metric for this, whether every resource is synced. */
bool kubedns_synced(const struct kubedns_view *view);

/* Whether kubedns watches this resource. The view also contains resources that kubedns does not watch. */
bool kubedns_watches(const struct kubedns_view *view, const struct kubedns_resource *resource);

/* Returns the time of the newest event of any resource, by the wall clock, or 0 if there was no event. */
double kubedns_newest_event_s(const struct kubedns_view *view);

/* Reads the metric families that the view needs from a page of metrics (text format 0.0.4). Skips malformed lines. */
void kubedns_read_metrics(struct kubedns_view *view, const char *text, size_t len, int64_t now_ns);
/* Reads /neighbours?format=json. If the text is not such JSON, for example from an older kubedns, the list is empty. */
void kubedns_read_neighbours(struct kubedns_view *view, const char *text, size_t len);
/* Reads /top?format=json. Called after the metrics of the same reading. If the text is not such JSON, the lists are empty. */
void kubedns_read_top(struct kubedns_view *view, const char *text, size_t len, int64_t now_ns);
/* Reads /readiness?format=json. If the page is not such JSON, for example from an older kubedns, the view shows the page as text. */
void kubedns_read_readiness(struct kubedns_view *view, int status, const char *text, size_t len);

/* Reads the nanny's /config. Returns 0, or -EBADMSG if the text is not a JSON object. */
int nanny_view_read(struct nanny_view *view, const char *text, size_t len);

void nanny_view_free(struct nanny_view *view);

enum { PEER_IDLE = -1, PEER_PUT = -2 };

/* Fetches a list of pages, one after the other, every PEER_INTERVAL_MS. Sends a PUT in between. */
struct peer {
	bool enabled;
	struct url url;
	const char *const *targets; /* ends with NULL */
	int step;                   /* index in `targets`, PEER_IDLE or PEER_PUT */
	const char *put;            /* target of the PUT that is due, or NULL */
	int64_t due_ns;
	size_t max; /* maximum size of a page in bytes */
	struct fetch fetch;
	/* Called for each page that arrived or failed. After a failure (fetch->status is 0) the remaining pages wait for the
	 * next interval. */
	void (*page)(void *arg, int step, const struct fetch *fetch);
	void *arg;
};

void peer_init(struct peer *peer, const struct url *url, const char *const *targets, size_t max,
    void (*page)(void *arg, int step, const struct fetch *fetch), void *arg, int64_t now_ns);
void peer_run(struct peer *peer, short revents, int64_t now_ns);
/* Sends a PUT for `target`, a static string, as soon as no page is being fetched. Does not send it again if it fails. */
void peer_put(struct peer *peer, const char *target);
int64_t peer_deadline(const struct peer *peer);
void peer_close(struct peer *peer);

/* The pages of each program, and the functions for `page`. The `arg` of these functions is the view. */
extern const char *const kubedns_targets[];
extern const char *const nanny_targets[];
void kubedns_page(void *view, int step, const struct fetch *fetch);
void nanny_page(void *view, int step, const struct fetch *fetch);

#endif
