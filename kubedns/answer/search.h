/*
 * Search completion. The server tries the names of a pod's search list, so the pod needs only one
 * query. Pure.
 *
 *	declared	X.<namespace>.s.<zone>		the name X, for a pod of that namespace
 *	inferred	X.<namespace>.svc.<zone>	a stock pod's first query, if it is NXDOMAIN
 *
 *	X.<namespace>.svc.<zone>  X.svc.<zone>  X.<zone>  X.<--search-extra> ...  X.
 *
 * The first of these candidates that exists is the answer, preceded by a CNAME from the query's
 * name to it. A candidate does not exist if it gives NXDOMAIN. Whether a candidate exists does not
 * depend on the type, so A and AAAA get the same candidate.
 *
 * Candidates in our zones are looked up at once. For an external candidate, answer() returns
 * ANSWER_CHASE and sets `asking`. The caller sends a query for the candidate to another server. If
 * that server replies NXDOMAIN, answer_chases_on() continues with the next candidate. Any other
 * reply ends the walk. If the server fails, the reply is SERVFAIL.
 *
 * A walk never starts another walk. Names below `s` are not candidates. Names in our zones are sent
 * to other servers only if --fallthrough allows it. An inferred name that --fallthrough sends to
 * other servers is not completed.
 *
 * If no candidate exists, the answer is NXDOMAIN. In the inferred form, the answer is the same as
 * without completion, and the client continues with its own search list. A candidate that would be
 * too long for a name counts as missing.
 */
#ifndef KUBEDNS_ANSWER_SEARCH_H
#define KUBEDNS_ANSWER_SEARCH_H

#include "kubedns/answer/reason.h"

struct reply;

enum {
	/* Number of --search-extra domains. Each of these domains may cost a query to another
	 * server. */
	SEARCH_EXTRA_MAX = 8,
	/* TTL of the CNAME; it is low because an earlier candidate may be created */
	SEARCH_TTL_MAX_S = 30
};

/* The stage's configuration. */
struct search_config {
	bool inferred;       /* --search-completion=inferred */
	struct dname *extra; /* --search-extra: lower case, not in our zones */
	size_t extra_count;
};

static inline const struct search_config *
search_config(const struct answer_config *config)
{
	return config->stage_config[STAGE_search];
}

/* Returns whether a missing name of our zone may be completed. For all other missing names, this
 * check is the only cost of search completion. */
static inline bool
search_may_complete(const struct answer_config *config, const struct name *name, unsigned below)
{
	const uint8_t *label = name->wire + name->offsets[below - 1];

	return memcmp(label, "\1s", 2) == 0 ||
	       (search_config(config)->inferred && memcmp(label, "\3svc", 4) == 0);
}

/* Returns whether the search list was walked for the name. Otherwise the name is answered like
 * any other name. */
static inline bool
search_walked(const struct search_walk *walk)
{
	return walk->form == SEARCH_DECLARED || walk->form == SEARCH_INFERRED;
}

/* Returns whether the name is `s` or below `s`. */
bool search_is_declared(const struct name *name, unsigned below);

/* The first record is the CNAME of the query's name. Lowers its TTL to the lowest TTL in the
 * reply. */
void search_settle_ttl(struct reply *reply);

/* --- for explanations: the steps along a search list --- */

/* The search stage's own reason: the search list was walked. */
enum { SEARCH_WALKED = REASON_OF_STAGE };

enum search_step {
	SEARCH_STEP_NOTHING,  /* the candidate is in our zones and does not exist */
	SEARCH_STEP_DENIED,   /* the candidate is in a local zone and does not exist */
	SEARCH_STEP_TOO_LONG, /* the candidate would be too long */
	SEARCH_STEP_FOUND,    /* the candidate is in our zones and exists: the walk ends */
	SEARCH_STEP_OUTSIDE,  /* the candidate is looked up at other servers */
};

/* Calls `each` for the candidates of a declared or inferred name, in order, up to the first
 * candidate that is found. */
void search_steps(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below,
    void (*each)(void *arg, enum search_step step, const struct dname *candidate), void *arg);

/* "type", "one_label", ...: values of the metric's label. */
const char *search_refusal_name(enum search_refusal refusal);

#endif
