/*
 * Answering is a pipeline: one table says which stages a name passes, and in which order.
 *
 *	          .--- rewritten -----.     .------ an alias's target, a search list's candidate -----.
 *	          |                   v     v                                                         |
 *	question -+--> rewrites --> local names --> zone --+--> the answer                            |
 *	                                |                  |                                          |
 *	                                |   (name missing) '--> search completion, explanation, or the denial
 *	                                v
 *	                          (other zones) --> reverse --> external --> clusterset --> upstream
 *
 * STAGES below is that table. The order has reasons:
 *	- A rewrite comes first: its result is looked up like a question for that name, local names included.
 *	- Local names come before the cluster's, because the operator wins.
 *	- The cluster's zone comes before the zones beside it: --domain may lie inside one of them.
 *	- Search completion and explanations answer only names that the cluster's zone does not have.
 *	- The client's view is no stage: it is a filter on the snapshot (view.h), which the caller sets before the first
 *	  stage, so that every lookup of every stage respects it.
 *	- Upstream comes last. --fallthrough, --filter-a and --filter-aaaa are decided there, when the other stages are done.
 *
 * stages_build() makes the lists that are walked, once per configuration. A feature that is off is in none of them. answer.c
 * walks the lists; kubedns/show/explain.c walks the same lists with the explanations.
 */
#ifndef KUBEDNS_ANSWER_STAGE_H
#define KUBEDNS_ANSWER_STAGE_H

#include "kubedns/answer/reply.h"
#include "kubedns/answer/zone_lookup.h"

/* Each stage is `stage_<first word>` here and `explain_<first word>` in kubedns/show/. To delete a feature, delete its
 * files and its line. */
#define STAGES(X)                                                                                  \
	X(rewrites, "rewrites")                                                                    \
	X(local_names, "local names")                                                              \
	X(zone, "zone")                                                                            \
	X(search, "search completion")                                                             \
	X(explanation, "explanation")                                                              \
	X(reverse, "reverse")                                                                      \
	X(external, "external")                                                                    \
	X(clusterset, "clusterset")                                                                \
	X(upstream, "upstream")

enum stage_id {
#define STAGE_ID(id, text) STAGE_##id,
	STAGES(STAGE_ID)
#undef STAGE_ID
	    STAGE_COUNT
};

/* What a stage says of a name. */
enum step {
	STEP_NEXT,  /* not this stage's name: the next stage is called */
	STEP_DONE,  /* the reply holds the answer, or the denial */
	STEP_ALIAS, /* the last record is a CNAME to info->target, where the walk goes on */
	STEP_AGAIN, /* the stage has set another name, which passes the stages from local names on */
	STEP_MISSING, /* (zone) the name does not exist: the stages that complete it are called */
	STEP_OTHERS,  /* other servers are asked: for the question's name, or for info->target */
};

/* When a stage is called. */
enum stage_turn {
	TURN_CONTEXT, /* first, where the ConfigMap has rewrites or local names */
	TURN_ZONE,    /* for names of the cluster's zone; answer.c calls it directly */
	TURN_MISSING, /* for names that the cluster's zone does not have */
	TURN_OUTSIDE, /* for all other names */
	TURN_LAST,    /* for names that no stage has; answer.c calls upstream_ask() */
	TURN_BESIDE, /* as TURN_OUTSIDE; an alias of these zones leads only to names of these zones, or away */
};

enum { CNAME_STEPS_MAX = 8 };

/* How far a search list has been tried (search_stage.c). */
struct search_state {
	unsigned step, outside;
	uint32_t ttl_s; /* of the denial, if no candidate exists */
	unsigned flags; /* the reply's, before a candidate was written into it */
	bool rejects;   /* the candidate may turn out not to exist */
};

/* A name on its way through the stages. */
struct lookup {
	struct reply *reply;
	struct answer_info *info;
	struct name name;
	int below;    /* labels of the name before the cluster's zone, -1: outside */
	size_t owner; /* offset of the name in the message */
	const struct tree_path *path; /* the name's in the tree, or NULL */
	bool
	    asked; /* the question's name, or what it was rewritten to; else a target or a candidate */
	bool beside; /* an alias of a TURN_BESIDE stage led here: other stages are not called */
	uint8_t alias_count;
	size_t aliases[CNAME_STEPS_MAX]; /* offsets of the names whose CNAMEs led here */
	size_t apex; /* offset of the cluster zone's name in the message; 0: not known */
	/* The stage that gave this name, and judges what comes of it; NULL: none. */
	const struct stage *judge;
	struct search_state search;
	struct resolved resolved; /* what the zone stage found */
	struct name_buf buf;      /* of `name`, if it is not the question's */
};

struct stage {
	enum stage_id id;
	enum stage_turn turn;
	/* Of a TURN_MISSING stage: the lengths of the labels before the zone that it answers below, bit by bit. */
	uint64_t (*lengths)(const struct answer_config *config);
	/* Whether the configuration has the feature; NULL: always. */
	bool (*on)(const struct answer_config *config);
	/* Whether the name is the stage's; `below` as in struct lookup. For explanations: answer() finds it out
	 * by itself. */
	bool (*match)(const struct answer_config *config, const struct tree *tree,
	    const struct name *name, int below);
	enum step (*answer)(struct lookup *lookup);
	/* Of a stage that returned STEP_AGAIN and set `judge`: what becomes of the outcome for that name. */
	enum step (*resume)(struct lookup *lookup, enum step step);
};

#define STAGE_DECLARE(id, text) extern const struct stage stage_##id;
STAGES(STAGE_DECLARE)
#undef STAGE_DECLARE

/* Fills config->stages. Call it after the rest of the configuration is set, and again after that changed. */
void stages_build(struct answer_config *config);

/* "rewrites", "local names", ... */
const char *stage_name(enum stage_id id);

/* Makes `name` (lower case) at offset `owner` the name that is looked up next. */
static inline void
lookup_set(struct lookup *lookup, const struct dname *name, size_t owner)
{
	lookup->name = name_copy(&lookup->buf, name->wire, name->len);
	lookup->below = name_below(&lookup->name, &lookup->reply->config->zone);
	lookup->owner = owner;
	lookup->path = NULL;
}

/* The zone stage, for answer.c: it is always there. */
enum step zone_answer(struct lookup *lookup);

/* Denies the name, for which zone_answer() returned STEP_MISSING. */
enum step zone_deny(struct lookup *lookup);

/* Records at a node of the external tree, for the clusterset stage: a name of `zone`. */
enum step external_answer(struct lookup *lookup, const struct dname *zone, const struct tree *tree);

/* The SOA of a negative answer from one of the zones beside the cluster's. */
enum step external_deny(struct lookup *lookup, const struct dname *zone, const struct tree *tree,
    enum existence existence);

/*
 * The offset in the message of `zone`, which `name` at offset `owner` ends in. A rewritten question
 * need not end in the zone's name: then the SOA is owned by the question's name.
 */
static inline size_t
zone_in_message(
    const struct reply *reply, const struct name *name, size_t owner, const struct dname *zone)
{
	return reply->rewritten ? DNS_HEADER : owner + name->len - zone->len;
}

/* Whether the CNAME of an alias is followed for this type: RFC 1034 section 4.3.2 step 3a. ANY has the
 * CNAME as its one record (RFC 8482). */
static inline bool
alias_is_followed(uint16_t qtype)
{
	return qtype != TYPE_CNAME && qtype != TYPE_ANY;
}

#endif
