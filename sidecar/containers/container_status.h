/*
 * Reads the status of the other two containers: kubedns's /readiness, /metrics, /neighbours and
 * /top, and the nanny's /config.
 *
 *	peer: timer --> fetch --> page --> kubedns_read_*, nanny_view_read (pure)
 *	            --> struct kubedns_view, struct nanny_view
 *
 * The pages are parsed as untrusted input. A view has the values in fixed arrays, or owns them
 * until the next page. A peer that never answered has no panel, which is no error: other topologies
 * have no nanny, or no kubedns.
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
	PEER_CONFIG_MAX =
	    64 * 1024, /* ten times that once parsed; more is too much for a page to show */
	KUBEDNS_RESOURCES_MAX = 8,
	KUBEDNS_KINDS_MAX = 8,
	KUBEDNS_NEIGHBOURS_MAX = 32,
	KUBEDNS_TOP_MAX = 10,
	PEER_NAME_MAX = 40,
	PEER_TEXT_MAX = 1024,
};

/* What kubedns counts, as far as the page shows it: totals, and the last ten minutes. */
enum kubedns_count {
	KUBEDNS_NOERROR,
	KUBEDNS_NXDOMAIN,
	KUBEDNS_SERVFAIL,
	KUBEDNS_REFUSED,
	KUBEDNS_OTHER,          /* replies with another rcode */
	KUBEDNS_DROPPED,        /* by the kernel, for a full receive queue */
	KUBEDNS_SHED,           /* of clients that are held back */
	KUBEDNS_FORWARDED,      /* handed to other servers */
	KUBEDNS_FORWARD_FAILED, /* without an answer from any of them */
	KUBEDNS_COUNTS,
};

/* One of the heaviest clients, or of the most asked names, of the last minutes. */
struct kubedns_talker {
	char name[256]; /* an address, or a DNS name as text */
	char pod
	    [CLIENT_POD_MAX]; /* where pods are watched: "pod prod/web-1", "namespace prod"; else "" */
	double per_second;
	double queries, nxdomain, search_walk, aaaa, outside; /* the last four: of the first */
};

struct kubedns_view {
	bool seen;        /* has answered at least once */
	bool up;          /* answered the newest questions */
	int64_t since_ns; /* when that began, monotonic; 0 before the first */
	char error[FETCH_ERROR_MAX];
	uint64_t errors;
	double start_s;              /* wall clock of the process's start, 0: not known */
	double memory, memory_limit; /* bytes, of the container; 0: not known */
	bool api_failing;            /* the last request for some resource failed */
	int64_t api_failing_ns;      /* since when, monotonic */
	double last[KUBEDNS_COUNTS]; /* as last read */
	struct buckets recent[KUBEDNS_COUNTS];
	bool has_resolver; /* external names are sent to this one: the front topology */
	struct server resolver;
	bool has_manifests; /* it reads a directory in place of the API */
	double manifests_broken;
	bool ready;
	bool says_synced,
	    synced; /* what it says of all together, or of its manifests, if it does */
	char reasons[PEER_TEXT_MAX];  /* the text of a /readiness that is not 200 */
	char notes[PEER_TEXT_MAX];    /* of one that is 200, what follows the first line */
	enum api_problem api_problem; /* of the first resource that has one */
	size_t resource_count;
	struct kubedns_resource {
		char name[PEER_NAME_MAX];
		bool synced;
		double last_event_s; /* wall clock, 0 for none yet */
	} resources[KUBEDNS_RESOURCES_MAX];
	size_t kind_count;
	struct kubedns_kind {
		char name[PEER_NAME_MAX];
		double objects;
	} kinds[KUBEDNS_KINDS_MAX];
	size_t neighbour_count; /* the other pods of this pod's Service, by address */
	struct kubedns_neighbour {
		struct addr addr;
		bool ready;
	} neighbours[KUBEDNS_NEIGHBOURS_MAX];
	size_t client_count, name_count; /* heaviest first */
	struct kubedns_talker clients[KUBEDNS_TOP_MAX], names[KUBEDNS_TOP_MAX];
	double answers_before; /* last[] of all rcodes, when /top was read */
	struct client_rates rates;
};

/* The configuration in force, as text to show. */
struct nanny_view {
	bool seen, up;
	int64_t since_ns;     /* as above */
	uint64_t reads;       /* of /config that worked */
	double receive_drops; /* packets that the kernel dropped before dnsmasq, as last read */
	struct buckets recent_drops;
	char error[FETCH_ERROR_MAX];
	uint64_t errors;
	struct json_object *config; /* the newest /config; owned */
	int64_t unconfirmed_ns; /* since when dnsmasq has not confirmed it, monotonic; 0: it has */
};

/* Whether it is synced: what it says itself, or, where it does not, whether every resource is. */
bool kubedns_synced(const struct kubedns_view *view);

/* Whether it watches a resource of the view: the view has all resources, also those without
 * events. */
bool kubedns_watches(const struct kubedns_view *view, const struct kubedns_resource *resource);

/* The wall clock of its newest event of any resource, 0 for none. */
double kubedns_newest_event_s(const struct kubedns_view *view);

/* How long ago that was, if that is so long that it does not hear the API server; else 0. */
double kubedns_silence_s(const struct kubedns_view *view, double now_s);

/* Reads a page of metrics (text format 0.0.4) for the families that the view shows; what it cannot
 * read it skips. */
void kubedns_read_metrics(struct kubedns_view *view, const char *text, size_t len, int64_t now_ns);
/* Lines of "ADDRESS ready" or "ADDRESS not ready"; others are skipped. */
void kubedns_read_neighbours(struct kubedns_view *view, const char *text, size_t len);
/* Reads its /top?format=json, after its metrics; anything else leaves the lists empty. */
void kubedns_read_top(struct kubedns_view *view, const char *text, size_t len, int64_t now_ns);
/* Reads its /readiness?format=json; anything else, as from an older kubedns, is text for people. */
void kubedns_read_readiness(struct kubedns_view *view, int status, const char *text, size_t len);

/* Reads the nanny's /config; 0, or -EBADMSG when it is no JSON object. */
int nanny_view_read(struct nanny_view *view, const char *text, size_t len);

void nanny_view_free(struct nanny_view *view);

/* Gets a list of pages, one after the other, every PEER_INTERVAL_MS. */
struct peer {
	bool enabled;
	struct url url;
	const char *const *targets; /* NULL ends */
	int step;                   /* in targets, -1 when idle */
	int64_t due_ns;
	size_t max; /* bytes of a page */
	struct fetch fetch;
	/* Called with each page that has come, or whose fetch failed (fetch->status 0: the rest is
	 * left for the next time). */
	void (*page)(void *arg, int step, const struct fetch *fetch);
	void *arg;
};

void peer_init(struct peer *peer, const struct url *url, const char *const *targets, size_t max,
    void (*page)(void *arg, int step, const struct fetch *fetch), void *arg, int64_t now_ns);
void peer_run(struct peer *peer, short revents, int64_t now_ns);
int64_t peer_deadline(const struct peer *peer);
void peer_close(struct peer *peer);

/* The pages of each, and their `page` functions; `arg` is the view. */
extern const char *const kubedns_targets[];
extern const char *const nanny_targets[];
void kubedns_page(void *view, int step, const struct fetch *fetch);
void nanny_page(void *view, int step, const struct fetch *fetch);

#endif
