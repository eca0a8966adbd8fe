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
 * ANSWER_CHASE and sets claim.candidate. The caller sends a query for the candidate to another server. If
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
#ifndef KUBEDNS_MODULES_SEARCH_SEARCH_H
#define KUBEDNS_MODULES_SEARCH_SEARCH_H

#include "kubedns/answer/stage.h"
#include "lib/flags.h"

struct metrics;

enum {
	/* Number of --search-extra domains. Each of these domains may cost a query to another
	 * server. */
	SEARCH_EXTRA_MAX = 8,
	/* TTL of the CNAME; it is low because an earlier candidate may be created */
	SEARCH_TTL_MAX_S = 30
};

enum search_form { SEARCH_NONE, SEARCH_DECLARED, SEARCH_INFERRED, SEARCH_REFUSED };

/* The reason why a name was not completed with --search-completion=inferred. X is the part of
 * the name before the namespace. */
enum search_refusal {
	SEARCH_TYPE,          /* the type is neither A nor AAAA */
	SEARCH_ONE_LABEL,     /* X has a single label */
	SEARCH_UNDERSCORE,    /* a label of X starts with an underscore */
	SEARCH_NO_NAMESPACE,  /* the namespace does not exist */
	SEARCH_OPTED_OUT,     /* the namespace's label disables completion */
	SEARCH_SERVICE,       /* X is below a Service of the namespace */
	SEARCH_FALLS_THROUGH, /* the name is sent unchanged to other servers (--fallthrough) */
	SEARCH_NO_RESOLVER,   /* the next name to try is external, and there is no resolver */
	SEARCH_REFUSALS
};

/* The block of a query whose name may be completed (struct claim). */
struct search_progress {
	/* These members are kept while other servers are queried. */
	uint8_t form;    /* enum search_form */
	uint8_t refusal; /* an enum search_refusal, if `form` is SEARCH_REFUSED */
	uint8_t asked;   /* with claim.candidate: the number of the candidate */
	/* Bit i: other servers replied NXDOMAIN for candidate i. A count would not do, because a
	 * candidate may become a name of ours, or no longer be one, during the walk. */
	uint16_t denied;
	uint32_t denied_ttl_s; /* the lowest TTL of these replies, which limits the reply's TTL */
	/* The progress along the search list, which begins again after each reply of another server. */
	unsigned step;  /* number of the next candidate */
	uint32_t ttl_s; /* TTL of the negative answer, if no candidate exists */
	unsigned flags; /* flags of the reply before a candidate was written into it */
	bool rejects;   /* the candidate may turn out not to exist */
};
_Static_assert(sizeof(struct search_progress) <= CLAIM_BYTES, "fits into a claim");

/* The module's options, which are the options of its stage. */
struct search_options {
	enum { SEARCH_COMPLETION_DECLARED, SEARCH_COMPLETION_INFERRED } completion;
	struct flag_list extra_texts;
	bool inferred; /* --search-completion=inferred */
	/* --search-extra: lower case, not in our zones */
	struct dname extra[SEARCH_EXTRA_MAX];
	size_t extra_count;
};

/* The label of a namespace that disables search completion there, if its value is "off". */
#define SEARCH_LABEL "kubedns/search-completion"

enum { SEARCH_COUNTERS = 6 + SEARCH_REFUSALS };

extern const struct stage search_stage;

/* Writes the metric families. `counters` are those of the stage. */
void search_metrics(const uint64_t *counters, struct metrics *m);

#endif
