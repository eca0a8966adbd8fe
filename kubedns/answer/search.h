/*
 * Search completion: the server walks a pod's search list, so that the pod asks once. Pure.
 *
 *	declared	X.<namespace>.s.<zone>		"what a pod of that namespace means by X"
 *	inferred	X.<namespace>.svc.<zone>	the first question of a stock pod, where it is NXDOMAIN
 *
 *	X.<namespace>.svc.<zone>  X.svc.<zone>  X.<zone>  X.<--search-extra> ...  X.
 *
 * The first of these candidates that exists is the answer, after a CNAME from the asked name to it.
 * A candidate exists unless it is NXDOMAIN, whatever the type asked for, so A and AAAA get the same
 * one.
 *
 * Candidates in our zones are looked up at once. An outside candidate ends the call with
 * ANSWER_CHASE and `asking` set, and another server is asked for it. If it denies the name,
 * answer_chases_on() resumes the walk at the next candidate; any other answer ends the walk, a
 * failure with SERVFAIL.
 *
 * A walk never starts another: names below `s` are no candidates, and of our zones' names only
 * those that --fallthrough leaves to other servers are asked of them. An inferred name that falls
 * through is not walked.
 *
 * If no candidate exists the answer is NXDOMAIN; in the inferred form it is the one that the asked
 * name would have had, and the client goes on with its own search list. A candidate that would be
 * too long for a name counts as missing.
 */
#ifndef KUBEDNS_ANSWER_SEARCH_H
#define KUBEDNS_ANSWER_SEARCH_H

#include "kubedns/answer/zone_lookup.h"

struct reply;

enum {
	SEARCH_EXTRA_MAX = 8, /* of --search-extra: each may cost a question to another server */
	SEARCH_TTL_MAX_S = 30 /* of the CNAME: a nearer candidate may come to exist */
};

/* Whether a name of our zone that does not exist may be completed: the only cost of this file for
 * all other NXDOMAINs. */
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

/* Lowers the TTL of the first record, the CNAME from the asked name, to the least of the reply. */
void search_settle_ttl(struct reply *reply);

/* --- for people: the steps of a walk --- */

enum search_step {
	SEARCH_STEP_NOTHING,  /* one of ours that does not exist */
	SEARCH_STEP_DENIED,   /* does not exist, in a zone of the operator's own */
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
