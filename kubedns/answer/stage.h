/*
 * A stage of answering, and the state of a name while the stages handle it. stages.h has the table of stages and their order.
 */
#ifndef KUBEDNS_ANSWER_STAGE_H
#define KUBEDNS_ANSWER_STAGE_H

#include <stdio.h>
#include <string.h>

#include "kubedns/answer/reply.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/zones.h"

/* The result of a stage for a name. */
enum step {
	STEP_NEXT,  /* the name does not belong to this stage: call the next one */
	STEP_DONE,  /* the reply is complete, positive or negative */
	STEP_ALIAS, /* the last record is a CNAME to info->target, where the lookup continues */
	/* The stage has set another name, which passes all stages from local names on. */
	STEP_AGAIN,
	/* only from the zone stage: the name does not exist; call the stages for missing names */
	STEP_MISSING,
	STEP_OTHERS, /* other servers must be queried for the query's name or for info->target */
};

/* When a stage is called. */
enum stage_order {
	ORDER_CONTEXT, /* first, if the ConfigMap has rewrites or local names */
	ORDER_ZONE,    /* for names of the cluster's zone; answer.c calls it directly */
	ORDER_MISSING, /* for names that the cluster's zone does not have */
	ORDER_OUTSIDE, /* for all other names */
	/* for names that no stage has answered; answer.c calls upstream_ask() for these */
	ORDER_LAST,
	/* Like ORDER_OUTSIDE, but an alias in these zones is only followed within them, or to other
	 * servers. */
	ORDER_BESIDE,
};

enum { CNAME_STEPS_MAX = 8 };

/* The state of a name while the stages handle it. */
struct lookup {
	struct reply *reply;
	struct answer_info *info;
	struct name name;
	int below;    /* number of labels before the cluster zone's name; -1 if outside that zone */
	size_t owner; /* offset of the name in the message */
	const struct tree_path *path; /* path of the name in the tree, or NULL */
	/* True if `name` is the query's name or its rewritten form. False if it is the target of an alias, or a candidate. */
	bool asked;
	bool beside; /* an alias of an ORDER_BESIDE stage led here: other stages are not called */
	uint8_t alias_count;
	size_t aliases[CNAME_STEPS_MAX]; /* offsets of the names whose CNAMEs led here */
	size_t apex; /* offset of the cluster zone's name in the message, or 0 if it is unknown */
	const struct stage *stage; /* the stage that is called */
	/* The stage that set this name and handles the result for it, or NULL. */
	const struct stage *judge;
	struct resolved resolved; /* the result of the zone stage */
	struct name_buf buf;      /* memory of `name` if it is not the query's name */
};

/* An answer that a stage explains. */
struct stage_explanation {
	const struct answer_config *config;
	const struct tree *tree;
	const struct answer_info *info;
	const struct answer_reason *reason;
};

struct stage {
	enum stage_id id;
	enum stage_order order;
	/* Only for an ORDER_MISSING stage. The stage answers names that end in LABEL.ZONE, for one or more LABELs. Returns the lengths
	 * of these LABELs as a bitmap. `options` is the stage's configuration, or the module's options. */
	uint64_t (*lengths)(const void *options);
	/* The stage's configuration if the options set none. If `standard` is NULL too, the stage is disabled. */
	const void *standard;
	enum step (*answer)(struct lookup *lookup);
	/* Only for a stage that calls lookup_judge(). Handles the result for the name that the stage has set. */
	enum step (*resume)(struct lookup *lookup, enum step step);
	/*
	 * The following hooks are only for a stage that claims queries (stage_claim()).
	 *
	 * Other servers do not have the candidate, which may be cached for `ttl_s`, or UINT32_MAX if that is unknown. Then answer() is
	 * called again.
	 */
	void (*denied)(void *block, uint32_t ttl_s);
	/* Changes the reply that ends with other servers' records of a candidate, or with none of them because of a filter. */
	void (*finish)(struct reply *reply);
	/* Counts the reply to the client. */
	void (*replied)(const struct answer_info *info, uint64_t *counters);
	/* Only for a stage of a module (kubedns/module.h): the sentence that explains a name, or the function that explains it. A stage that
	 * claims queries has the function. If the reason is of another stage, the function writes why the stage has left the query. */
	const char *sentence;
	void (*explain)(const struct stage *stage, FILE *out, const struct stage_explanation *what);
	/* The core sets these and `order` for a stage of a module: the module's options and state, the index of its first counter, and
	 * the flag of namespaces' nodes that have its label. */
	const void *options;
	void *state;
	size_t first_counter;
	uint8_t namespace_flag;
};

/* The value of stage->standard for stages that are always enabled and have no options. */
static const char stage_without_options[] = "";

#define STAGE_DECLARE(id, text) extern const struct stage stage_##id;
STAGES(STAGE_DECLARE)
#undef STAGE_DECLARE

/* Increments a counter of a module, which only the calling thread writes. */
static inline void
stage_add(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

/* Increments a counter of the module that has the stage. An explanation is not counted. */
static inline void
stage_count(const struct lookup *lookup, size_t counter)
{
	const struct answer_thread *thread = lookup->reply->thread;

	if (thread != NULL)
		stage_add(&thread->modules[lookup->stage->first_counter + counter]);
}

/* Sets `name` (lower case) at offset `owner` as the name to look up next. */
static inline void
lookup_set(struct lookup *lookup, const struct dname *name, size_t owner)
{
	lookup->name = name_copy(&lookup->buf, name->wire, name->len);
	lookup->below = name_below(&lookup->name, &lookup->reply->config->zone);
	lookup->owner = owner;
	lookup->path = NULL;
}

/*
 * Claims the query for the stage that is called, which then makes the answer. Returns its block. The block of a new query has only
 * zeroes. If the query was sent to another server, the block is as the stage has left it.
 */
static inline void *
stage_claim(struct lookup *lookup)
{
	struct claim *claim = &lookup->info->claim;

	if (claim->owner != lookup->stage)
		memset(claim->block, 0, sizeof claim->block);
	claim->owner = claim->stage = lookup->stage;
	return claim->block;
}

/* Leaves the query to the core. The block remains, for explanations. */
static inline void
stage_unclaim(struct lookup *lookup)
{
	lookup->info->claim.stage = NULL;
}

/* The stage that is called handles the result for the name that it sets next (stage->resume), until lookup_judge_none(). */
static inline void
lookup_judge(struct lookup *lookup)
{
	lookup->judge = lookup->stage;
}

static inline void
lookup_judge_none(struct lookup *lookup)
{
	lookup->judge = NULL;
}

/* Does the work of lookup_reason(). */
void lookup_report(struct lookup *lookup, enum stage_id stage, unsigned kind, const void *object);

/* Reports how the stage answers the name, if the request asks for the reason. Only the first report about the query's name counts. */
static inline void
lookup_reason(struct lookup *lookup, enum stage_id stage, unsigned kind, const void *object)
{
	if (__builtin_expect(lookup->reply->reason != NULL, 0))
		lookup_report(lookup, stage, kind, object);
}

/* The zone stage, which always exists, for answer.c. */
enum step zone_answer(struct lookup *lookup);

/* Gives the negative answer for a name for which zone_answer() returned STEP_MISSING. With --fallthrough, other servers may be
 * queried for the target of an alias instead. */
enum step zone_deny(struct lookup *lookup);

/* Writes the records of the query's type for a name that has no records in the external tree, but exists because of endpoints. Returns
 * false if there are no such endpoints. */
typedef bool external_put(struct lookup *lookup, const struct dname *zone, const struct tree *tree);

/* Answers a name in `zone`, for `stage`, which is external or clusterset. */
enum step external_answer(
    struct lookup *lookup, enum stage_id stage, struct zone zone, external_put *put_endpoints);

/*
 * Returns the offset of `zone` in the message. `name` is in this zone, and is at offset `owner`. If the query was rewritten, its name may
 * be outside the zone. The query's name is then the owner of the SOA.
 */
static inline size_t
zone_in_message(
    const struct reply *reply, const struct name *name, size_t owner, const struct dname *zone)
{
	return reply->rewritten ? DNS_HEADER : owner + name->len - zone->len;
}

/* Returns whether the CNAME of an alias is followed for this type (RFC 1034 section 4.3.2 step 3a). For ANY, the CNAME is the only
 * record (RFC 8482). */
static inline bool
alias_is_followed(uint16_t qtype)
{
	return qtype != TYPE_CNAME && qtype != TYPE_ANY;
}

#endif
