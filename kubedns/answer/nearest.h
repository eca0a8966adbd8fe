/*
 * Finds the endpoints of a headless Service that are near a client, for --nearest and --zonal.
 * Pure.
 *
 *	NEAR_NODE  endpoints whose hints name the client's node; without hints, endpoints on that node
 *	NEAR_ZONE  other endpoints whose hints name the client's zone; without hints, endpoints in it
 *	NEAR_FAR   all other endpoints
 *
 * An answer has the classes in this order. Each class starts at a random endpoint and wraps around,
 * so clients that use the first address share the near endpoints evenly. The client's place is in
 * the view (view.h), unless all clients are on this node. kubedns does not cache these answers.
 * kubedns rejects --nearest if clients query it through a cache.
 *
 * Endpoints at a place are found by the place's number in each slice (slice_at_place). An endpoint
 * for a node and a zone also has a third place (place_of_both). Therefore, the endpoints of both
 * can be counted without a look at each endpoint. The cost of an answer is its own records, and two
 * or three binary searches in each slice of the Service. (Controllers make a slice for 100
 * endpoints.) kubedns also looks at each endpoint of the slices whose records the answer has. A set with more
 * than NEAREST_SLICES slices is answered in any order, and --zonal examines only that many.
 */
#ifndef KUBEDNS_ANSWER_NEAREST_H
#define KUBEDNS_ANSWER_NEAREST_H

#include "kubedns/answer/view.h"

enum { NEAREST_SLICES = 4096 };

/* The choice of --nearest, --nearest-only and --zonal. These flags determine which
 * endpoints of a set an answer has, and in which order. */
struct endpoint_choice {
	bool nearest, nearest_only;
	bool zonal;
	/* The place of all clients, or NULL if the view contains the client's place. */
	const struct client_place *place;
};

static inline bool
endpoint_choice_zonal(const struct answer_config *config)
{
	return config->choice != NULL && config->choice->zonal;
}

/* Returns the client's place. Its members are 0 if the place is unknown. `choice` must be set. */
static inline struct client_place
nearest_place(const struct endpoint_choice *choice, const struct tree *tree)
{
	const struct view *view = tree->view;

	return choice->place != NULL ? *choice->place
	       : view != NULL        ? view->place
				     : (struct client_place){ 0 };
}

/* The endpoints of a set that an answer may have, and the client's place. */
struct nearest {
	const struct endpoint_set *endpoints;
	uint64_t node, zone; /* the client's node and zone, or 0 */
	uint8_t family;      /* AF_UNSPEC means both families */
	bool doubles;        /* for SRV: also visits entries whose address another entry has */
	bool by_port;        /* for SRV: only visits slices that have ports with the label */
	uint64_t port_label; /* 0 means any label */
	/* Number of endpoints in each class, set by nearest_count(). */
	uint32_t counts[NEAR_CLASSES];
};

/* Sets nearest->counts. */
void nearest_count(struct nearest *nearest);

/* Calls `visit` once for each entry of a class, starting at number `start` and wrapping around.
 * Stops and returns false if `visit` returns false. */
bool nearest_each(const struct nearest *nearest, enum near near, uint32_t start,
    bool (*visit)(void *arg, const struct slice_endpoints *slice, unsigned i), void *arg);

/* Returns whether a near endpoint is ready. */
bool nearest_is_ready(const struct nearest *nearest);

/* The class of an entry in a slice. */
enum near nearest_class(
    const struct client_place *place, const struct slice_endpoints *slice, unsigned i);

struct name;
struct resolved;

/*
 * Resolves the names of --zonal, below an existing headless Service. `left` is the number of labels
 * before the Service's name.
 *
 *	[ZONE.]pin._zone     the endpoints in the zone, whose name may have dots
 *	[ZONE.]prefer._zone  these endpoints; if there are none, all endpoints of the Service
 *	[LABEL.]_zone        like pin, for a zone without a dot
 *
 * Without ZONE, the client's zone is used. An unknown zone counts as a zone without endpoints. A
 * zone without published endpoints gives RESOLVED_EMPTY, without `endpoints`. Returns false if the
 * name does not have this form. Otherwise sets `kind`, `endpoints` and `zone`.
 */
bool nearest_resolve(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned left, const struct endpoint_set *endpoints,
    struct resolved *resolved);

/* Returns whether the zone of such a name is known: the name contains it, or the client's zone is known. */
bool nearest_knows_zone(const struct endpoint_choice *choice, const struct tree *tree,
    const struct name *name, unsigned left);

#endif
