/*
 * Search completion: the server walks a pod's search list, so that the pod asks once. Pure.
 *
 *	declared	X.<namespace>.s.<zone>		"what a pod of that namespace means by X"
 *	inferred	X.<namespace>.svc.<zone>	the first question of a stock pod, where it is NXDOMAIN
 *
 *	X.<namespace>.svc.<zone>  X.svc.<zone>  X.<zone>  X.<--search-extra> ...  X.
 *
 * The first of these candidates that exists answers, below a CNAME from the asked name to it. One
 * exists if it is not NXDOMAIN, whatever the type asked for, so that A and AAAA of a name go the same
 * way. Candidates of our zones are looked up at once. Others make ANSWER_CHASE with `asking` set,
 * one at a time: answer_chases_on() goes on from a denial, and anything else ends the walk, a failure
 * with SERVFAIL. Names below `s` are never candidates, so that no walk is part of another, and of our
 * zones' names only those that --fallthrough leaves to other servers are asked of these, so that no
 * question can lead back to a walk. An inferred name that falls through is not walked.
 *
 * Nothing found: NXDOMAIN; with the inferred form that of the first step, and the client goes on by
 * itself. A candidate that would be longer than a name can be does not exist.
 */
#ifndef KUBEDNS_ANSWER_SEARCH_H
#define KUBEDNS_ANSWER_SEARCH_H

#include "kubedns/answer/resolve.h"

struct reply;

enum {
	SEARCH_EXTRA_MAX = 8, /* of --search-extra: each may cost a question to another server */
	SEARCH_TTL_MAX_S = 30 /* of the CNAME: a nearer candidate may come to exist */
};

/* Whether a name of our zone that does not exist may be completed; all other NXDOMAINs pay for no
 * more than this. */
static inline bool
search_may_complete(const struct answer_config *config, const struct name *name, unsigned below)
{
	const uint8_t *label = name->wire + name->offsets[below - 1];

	return memcmp(label, "\1s", 2) == 0 ||
	       (config->search_inferred && memcmp(label, "\3svc", 4) == 0);
}

/* Whether the name was walked for; else it is answered as every other. */
static inline bool
search_walked(const struct search_walk *walk)
{
	return walk->form == SEARCH_DECLARED || walk->form == SEARCH_INFERRED;
}

/* Whether the name is `s` or below it. */
bool search_is_declared(const struct name *name, unsigned below);

/*
 * Answers such a name, which was resolved to nothing. `below`, `apex` and `chase` as in
 * answer_zone(); reply->search says how far the walk is, and is told how it went on.
 */
enum answer_outcome answer_search(struct reply *reply, const struct name *qname, unsigned below,
    const struct resolved *resolved, size_t apex, struct dname *chase);

/* The CNAME from the asked name, the first record, lives no longer than any other record. */
void search_settle_ttl(struct reply *reply);

/* --- for people: the steps of a walk --- */

enum search_step {
	SEARCH_STEP_NOTHING,  /* one of ours that does not exist */
	SEARCH_STEP_TOO_LONG, /* cannot be a name */
	SEARCH_STEP_FOUND,    /* one of ours that exists: the walk ends */
	SEARCH_STEP_OUTSIDE,  /* other servers are asked */
};

/* What becomes of a question for a name that does not exist; SEARCH_REFUSED: `refusal` says why. */
enum search_form search_form(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below, uint16_t qtype, enum search_refusal *refusal);

/* Calls `each` for the candidates of a declared or inferred name, in order, up to the first that is
 * found. */
void search_steps(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below,
    void (*each)(void *arg, enum search_step step, const struct dname *candidate), void *arg);

/* "type", "one_label", ...: the metric's words. */
const char *search_refusal_name(enum search_refusal refusal);

#endif
