#include <stdio.h>
#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/modules/search/search.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "kubedns/answer/view.h"
#include "lib/metrics.h"
#include "lib/own_frame.h"

enum { STEP_NAMESPACE, STEP_SVC, STEP_ZONE, STEP_EXTRA };

enum search_step {
	SEARCH_STEP_NOTHING,  /* the candidate is in our zones and does not exist */
	SEARCH_STEP_DENIED,   /* the candidate is in a local zone and does not exist */
	SEARCH_STEP_TOO_LONG, /* the candidate would be too long */
	SEARCH_STEP_FOUND,    /* the candidate is in our zones and exists: the walk ends */
	SEARCH_STEP_OUTSIDE,  /* the candidate is looked up at other servers */
};

/* Results of a walk. */
enum { RESULT_FOUND, RESULT_NOTHING, RESULT_FAILED, RESULTS };

/* The counters of the stage. */
enum {
	COUNT_DECLARED,
	COUNT_INFERRED = COUNT_DECLARED + RESULTS,
	COUNT_REFUSED = COUNT_INFERRED + RESULTS
};
_Static_assert((int)COUNT_REFUSED + (int)SEARCH_REFUSALS == (int)SEARCH_COUNTERS,
    "the module has this number of counters");

/* The name to complete: X followed by the namespace whose search list is walked. */
struct asked {
	const struct stage *stage; /* with the options of the module */
	const struct name *name;
	unsigned below;
	size_t x_len; /* the name begins with X, which has this number of bytes */
	const uint8_t *namespace;
	bool declared;
};

static const uint8_t *
label_at(const struct name *name, unsigned i)
{
	return name->wire + name->offsets[i];
}

/* Returns whether the name is `s` or below `s`. */
static bool
is_declared(const struct name *name, unsigned below)
{
	const uint8_t *label = label_at(name, below - 1);

	return label[0] == 1 && label[1] == 's';
}

static const struct search_options *
options_of(const struct stage *stage)
{
	return stage->options;
}

static struct asked
asked_of(const struct stage *stage, const struct name *name, unsigned below)
{
	return (struct asked){ .stage = stage,
		.name = name,
		.below = below,
		.x_len = name->offsets[below - 2],
		.namespace = label_at(name, below - 2),
		.declared = is_declared(name, below) };
}

/* --- conditions of the inferred form --- */

static bool
has_underscore(const struct asked *asked)
{
	for (unsigned i = 0; i + 2 < asked->below; i++)
		if (label_at(asked->name, i)[1] == '_')
			return true;
	return false;
}

/* Returns why an inferred name is not completed, or SEARCH_REFUSALS if it is completed. */
static enum search_refusal
refusal_of(const struct answer_config *config, const struct tree *tree, const struct asked *asked,
    uint16_t qtype)
{
	const struct node *node;

	if (qtype != TYPE_A && qtype != TYPE_AAAA)
		return SEARCH_TYPE;
	if (asked->below < 4)
		return SEARCH_ONE_LABEL;
	if (has_underscore(asked))
		return SEARCH_UNDERSCORE;
	node = view_namespace(tree, asked->namespace);
	if (node == NULL || !view_sees(tree, node))
		return SEARCH_NO_NAMESPACE;
	if (node->flags & asked->stage->namespace_flag)
		return SEARCH_OPTED_OUT;
	/* A Service without ready endpoints also has a node, because an endpoint may become ready at any time. */
	if (tree_child(tree, node, label_at(asked->name, asked->below - 3)) != NULL)
		return SEARCH_SERVICE;
	if (answer_falls_through(config, asked->name))
		return SEARCH_FALLS_THROUGH;
	return SEARCH_REFUSALS;
}

/* --- the TTL of the alias --- */

/* The first record is the CNAME of the query's name. Lowers its TTL to the lowest TTL in the reply. */
static void
settle_ttl(struct reply *reply)
{
	uint8_t *wire = reply->w.buf;
	size_t first = DNS_HEADER + (size_t)reply->query->question_len, at = first;
	unsigned count = reply->counts[SECTION_ANSWER] + reply->counts[SECTION_AUTHORITY];
	uint32_t ttl_s = SEARCH_TTL_MAX_S;
	struct record record;

	for (unsigned i = 0; i < count; i++) {
		if (wire_read_record(wire, reply->w.len, &at, &record) < 0)
			return; /* cannot happen, because this code has written the message */
		if (record.ttl_s < ttl_s)
			ttl_s = record.ttl_s;
	}
	if (reply->counts[SECTION_ANSWER] > 0)
		wire_put32(wire + first + 6, ttl_s);
}

/* --- candidates --- */

static unsigned
candidate_count(const struct stage *stage)
{
	_Static_assert(STEP_EXTRA + SEARCH_EXTRA_MAX + 1 <= 16, "`denied` has 16 bits");
	/* the last candidate is X itself */
	return STEP_EXTRA + (unsigned)options_of(stage)->extra_count + 1;
}

/* Makes the candidate of step `i`. Returns 0 or -ENAMETOOLONG. */
static int
candidate_name(
    const struct answer_config *config, const struct asked *asked, unsigned i, struct dname *name)
{
	const struct search_options *options = options_of(asked->stage);
	struct dname suffix = { .len = 1 };

	if (i < STEP_EXTRA)
		suffix = config->zone;
	else if (i - STEP_EXTRA < options->extra_count)
		suffix = options->extra[i - STEP_EXTRA];
	if (i <= STEP_SVC)
		dname_prepend(&suffix, "svc", 3);
	if (i == STEP_NAMESPACE)
		dname_prepend(&suffix, asked->namespace + 1, *asked->namespace);
	memcpy(name->wire, asked->name->wire, asked->x_len);
	name->wire[asked->x_len] = 0;
	name->len = (uint8_t)(asked->x_len + 1);
	return dname_append(name, suffix.wire);
}

/* A candidate and the offsets of its labels, which lookups need. */
struct candidate {
	struct dname text;
	struct name name;
	int below; /* number of labels before our zone's name, or -1 */
	bool own;  /* the candidate is a local name (local_names.h) */
	struct resolved resolved;
	struct name_buf buf;
};

static void
candidate_cut(struct candidate *c)
{
	c->name = name_copy(&c->buf, c->text.wire, c->text.len);
}

/* Rewrites the candidate if a rewrite matches it. After a pattern has reached its limit (`limit`), no more patterns are tried for this
 * search list. Otherwise each candidate could cost the time of that limit. */
static void
candidate_rewrite(const struct rewrites *rewrites, struct candidate *c, bool *limit)
{
	enum rewrite_outcome outcome;

	if (*limit)
		outcome = rewrites_apply_names(rewrites, &c->name, &c->text) ? REWRITE_DONE
									     : REWRITE_NONE;
	else
		outcome = rewrites_apply(rewrites, &c->name, &c->text);
	*limit = *limit || outcome == REWRITE_LIMIT;
	if (outcome == REWRITE_DONE)
		candidate_cut(c);
}

/* Makes the candidate of step `i`, rewrites it if necessary, and looks it up if it is in our zone. */
static enum search_step
candidate_make(const struct answer_config *config, const struct tree *tree,
    const struct asked *asked, unsigned i, bool *limit, struct candidate *c)
{
	const struct answer_context *context = tree->context;

	if (candidate_name(config, asked, i, &c->text) < 0)
		return SEARCH_STEP_TOO_LONG;
	candidate_cut(c);
	if (context != NULL && context->rewrites != NULL)
		candidate_rewrite(context->rewrites, c, limit);
	c->below = name_below(&c->name, &config->zone);
	enum own_kind own = own_ask(config, tree, &c->name).kind;
	c->own = own == OWN_FOUND || own == OWN_EMPTY;
	if (own != OWN_NONE)
		return c->own ? SEARCH_STEP_FOUND : SEARCH_STEP_DENIED;
	if (c->below < 0)
		return SEARCH_STEP_OUTSIDE;
	if (c->below == 0)
		return SEARCH_STEP_FOUND;
	resolve(config, tree, &c->name, (unsigned)c->below, NULL, &c->resolved);
	if (c->resolved.kind != RESOLVED_NOTHING)
		return SEARCH_STEP_FOUND;
	bool others = upstream_config(config)->fallthrough_count > 0 &&
		      answer_falls_through(config, &c->name) &&
		      !is_declared(&c->name, (unsigned)c->below);
	return others ? SEARCH_STEP_OUTSIDE : SEARCH_STEP_NOTHING;
}

/* --- walking along the search list --- */

static struct search_progress *
walk_of(struct lookup *l)
{
	return (struct search_progress *)l->info->claim.block;
}

/* Returns the name in the query, which is to be completed. */
static struct name
question_name(const struct lookup *l)
{
	const struct query *q = l->reply->query;

	return (struct name){ q->qname, q->labels, q->qname_len, q->label_count };
}

/* Removes everything that was written for a candidate. */
static void
go_back(struct lookup *l)
{
	struct reply *reply = l->reply;

	reply->w.len = DNS_HEADER + (size_t)reply->query->question_len;
	reply->flags = walk_of(l)->flags;
	memset(reply->counts, 0, sizeof reply->counts);
	reply->section = SECTION_ANSWER;
	reply->full = reply->truncated = false;
}

/* Writes a CNAME from the query's name to the candidate. The candidate is the next name to look up. */
static enum step
try_candidate(struct lookup *l, const struct candidate *c)
{
	struct reply *reply = l->reply;
	uint16_t qtype = reply->query->qtype;

	reply_record(reply, DNS_HEADER, TYPE_CNAME, SEARCH_TTL_MAX_S, c->text.wire, c->text.len);
	/* For these types the CNAME itself is the answer (RFC 1034 section 3.6.2). */
	if (reply->truncated || (!walk_of(l)->rejects && !alias_is_followed(qtype))) {
		reply_existence(reply, FOUND, 0);
		settle_ttl(reply);
		lookup_judge_none(l);
		return STEP_DONE;
	}
	l->alias_count = 0;
	l->asked = l->beside = false;
	lookup_set(l, &c->text, reply->w.len - c->text.len);
	return STEP_AGAIN;
}

/* Returns `ttl_s` or the negative TTL of this candidate, whichever is lower. */
static uint32_t
shorter(uint32_t ttl_s, const struct reply *reply, const struct candidate *c)
{
	enum denial denial =
	    denial_of(reply->config, reply->tree, &c->name, (unsigned)c->below, &c->resolved);
	uint32_t own_s = denial_ttl_s(reply->config, denial);

	return own_s < ttl_s ? own_s : ttl_s;
}

/* The query's name is not completed. */
static void
refuse(struct lookup *l, enum search_refusal refusal)
{
	struct search_progress *walk = walk_of(l);

	walk->form = SEARCH_REFUSED;
	walk->refusal = (uint8_t)refusal;
	stage_unclaim(l);
	stage_count(l, COUNT_REFUSED + refusal);
}

/* Returns to the query's name, for the negative answer. */
static void
back_to_question(struct lookup *l)
{
	lookup_judge_none(l);
	if (l->asked)
		return;
	l->name = question_name(l);
	l->below = name_below(&l->name, &l->reply->config->zone);
	l->owner = DNS_HEADER;
	l->asked = true;
	resolve(l->reply->config, l->reply->tree, &l->name, (unsigned)l->below, NULL, &l->resolved);
}

/* Gives the answer when no candidate exists. */
static enum step
no_candidate(struct lookup *l)
{
	back_to_question(l);
	if (walk_of(l)->form != SEARCH_DECLARED)
		return zone_deny(l);
	reply_negative(l->reply, NXDOMAIN, l->apex, walk_of(l)->ttl_s);
	return STEP_DONE;
}

/* Handles a candidate that no stage has. Other servers are queried for it unless they have already replied NXDOMAIN. */
static enum step
ask_outside(struct lookup *l, const struct name *candidate)
{
	struct search_progress *walk = walk_of(l);
	struct reply *reply = l->reply;
	unsigned i = walk->step - 1;

	if ((walk->denied & 1u << i) != 0)
		return STEP_NEXT;
	if (may_chase(reply)) {
		stage_claim(l);
		walk->asked = (uint8_t)i;
		l->info->claim.candidate = true;
		l->info->claim.last = walk->step == candidate_count(l->stage);
		l->info->target.len = candidate->len;
		memcpy(l->info->target.wire, candidate->wire, candidate->len);
		reply_existence(reply, FOUND, 0);
		l->asked = false;
		lookup_judge_none(l);
		return STEP_OTHERS;
	}
	go_back(l);
	/* There is no server to query. A declared name gets REFUSED. An inferred name is answered as if it had not been completed. */
	if (walk->form == SEARCH_INFERRED) {
		refuse(l, SEARCH_NO_RESOLVER);
		return no_candidate(l);
	}
	reply->flags |= RCODE_REFUSED;
	if (reply_has_reason(reply))
		reply_reason_kind(reply, REASON_NO_FORWARDER);
	lookup_judge_none(l);
	return STEP_DONE;
}

/* Continues with the remaining candidates, up to one that the stages must answer. */
static enum step
walk_on(struct lookup *l)
{
	struct reply *reply = l->reply;
	struct search_progress *walk = walk_of(l);
	const struct answer_config *config = reply->config;
	const struct name name = question_name(l);
	const struct asked asked =
	    asked_of(l->stage, &name, (unsigned)name_below(&name, &config->zone));
	struct candidate c;

	while (walk->step < candidate_count(l->stage)) {
		enum search_step found = candidate_make(
		    config, reply->tree, &asked, walk->step++, &reply->rewrite_limit, &c);

		if (found == SEARCH_STEP_NOTHING)
			walk->ttl_s = shorter(walk->ttl_s, reply, &c);
		walk->rejects = found == SEARCH_STEP_OUTSIDE;
		if (found == SEARCH_STEP_FOUND || (found == SEARCH_STEP_OUTSIDE && c.below < 0))
			return try_candidate(l, &c);
		if (found != SEARCH_STEP_OUTSIDE)
			continue;
		/* The candidate is a name of the cluster's zone. The query for it is sent to other servers because of --fallthrough. */
		reply_record(
		    reply, DNS_HEADER, TYPE_CNAME, SEARCH_TTL_MAX_S, c.text.wire, c.text.len);
		enum step step = ask_outside(l, &c.name);
		if (step != STEP_NEXT)
			return step;
		go_back(l);
	}
	return no_candidate(l);
}

/* --- the stage --- */

/* Returns a bitmap with the length of `s` and, with the inferred form, the length of `svc`. */
static uint64_t
search_lengths(const void *options)
{
	bool inferred = ((const struct search_options *)options)->inferred;

	return UINT64_C(1) << 1 | (inferred ? UINT64_C(1) << 3 : 0);
}

OWN_FRAME static enum step
begin(struct lookup *l)
{
	struct reply *reply = l->reply;
	unsigned below = (unsigned)l->below;

	/* The target of a rewrite or of an alias does not come from a search list. */
	if (reply->rewritten || !l->asked)
		return STEP_NEXT;
	const bool declared = is_declared(&l->name, below);
	if (below < 3 && declared) { /* `s`, or a namespace below it */
		lookup_reason(l, STAGE_MODULE, REASON_EMPTY, l->stage);
		reply_existence(reply, NODATA, l->apex);
		return STEP_DONE;
	}
	if (below < 3)
		return STEP_NEXT;
	struct search_progress *walk = stage_claim(l);
	const struct asked asked = asked_of(l->stage, &l->name, below);
	enum search_refusal refusal =
	    declared ? SEARCH_REFUSALS
		     : refusal_of(reply->config, reply->tree, &asked, reply->query->qtype);
	if (refusal != SEARCH_REFUSALS) {
		refuse(l, refusal);
		return STEP_NEXT;
	}
	lookup_reason(l, STAGE_MODULE, REASON_EXISTS, l->stage);
	if (walk->denied == 0)
		walk->denied_ttl_s = SEARCH_TTL_MAX_S;
	walk->form = declared ? SEARCH_DECLARED : SEARCH_INFERRED;
	/* In the inferred form, the first step is the query's name, which does not exist. */
	walk->step = declared ? 0 : STEP_SVC;
	walk->ttl_s = walk->denied_ttl_s;
	walk->flags = reply->flags;
	lookup_judge(l);
	return walk_on(l);
}

static enum step
search_answer(struct lookup *l)
{
	/* For all other missing names, this check is the only cost of search completion. */
	const uint8_t *label = label_at(&l->name, (unsigned)l->below - 1);

	return memcmp(label, "\1s", 2) == 0 ||
		       (options_of(l->stage)->inferred && memcmp(label, "\3svc", 4) == 0)
		   ? begin(l)
		   : STEP_NEXT;
}

/* Handles the stages' result for a candidate. */
static enum step
search_resume(struct lookup *l, enum step step)
{
	struct reply *reply = l->reply;
	const struct search_progress *walk = walk_of(l);
	bool alias = l->alias_count > 0;

	if (walk->rejects && step == STEP_OTHERS && !alias) {
		step = ask_outside(l, &l->name);
		if (step != STEP_NEXT)
			return step;
	} else if (!walk->rejects || (reply->flags & 15) != RCODE_NXDOMAIN) {
		if (step == STEP_OTHERS)
			reply_existence(reply, FOUND, 0);
		settle_ttl(reply);
		lookup_judge_none(l);
		return step;
	}
	go_back(l);
	return walk_on(l);
}

static void
search_denied(void *block, uint32_t ttl_s)
{
	struct search_progress *walk = block;

	walk->denied |= (uint16_t)(1u << walk->asked);
	if (ttl_s < walk->denied_ttl_s)
		walk->denied_ttl_s = ttl_s;
}

/* --- counters --- */

static void
search_replied(const struct answer_info *info, uint64_t *counters)
{
	const struct search_progress *walk = (const void *)info->claim.block;
	unsigned result = info->rcode == RCODE_NOERROR    ? RESULT_FOUND
			  : info->rcode == RCODE_NXDOMAIN ? RESULT_NOTHING
							  : RESULT_FAILED;

	stage_add(
	    &counters[(walk->form == SEARCH_DECLARED ? COUNT_DECLARED : COUNT_INFERRED) + result]);
}

void
search_metrics(const uint64_t *counters, struct metrics *m)
{
	static const char *const results[] = {
		[RESULT_FOUND] = "found", [RESULT_NOTHING] = "nothing", [RESULT_FAILED] = "failed"
	};
	static const char *const reasons[SEARCH_REFUSALS] = {
		[SEARCH_TYPE] = "type",
		[SEARCH_ONE_LABEL] = "one_label",
		[SEARCH_UNDERSCORE] = "underscore",
		[SEARCH_NO_NAMESPACE] = "no_namespace",
		[SEARCH_OPTED_OUT] = "opted_out",
		[SEARCH_SERVICE] = "below_service",
		[SEARCH_FALLS_THROUGH] = "falls_through",
		[SEARCH_NO_RESOLVER] = "no_resolver",
	};

	metrics_family(m, "kubedns_search_completed_total", METRIC_COUNTER,
	    "Search lists that kubedns walked for a client, by result.");
	for (unsigned r = 0; r < RESULTS; r++)
		metrics_value(m, (double)counters[COUNT_DECLARED + r], "form", "declared", "result",
		    results[r], (char *)NULL);
	for (unsigned r = 0; r < RESULTS; r++)
		metrics_value(m, (double)counters[COUNT_INFERRED + r], "form", "inferred", "result",
		    results[r], (char *)NULL);
	metrics_family(m, "kubedns_search_refused_total", METRIC_COUNTER,
	    "Names below svc that do not exist, and for which no search list was walked, by "
	    "reason.");
	for (unsigned r = 0; r < SEARCH_REFUSALS; r++)
		metrics_value(
		    m, (double)counters[COUNT_REFUSED + r], "reason", reasons[r], (char *)NULL);
}

/* --- for explanations --- */

static void
say_step(FILE *out, enum search_step step, const struct dname *candidate)
{
	static const char *const words[] = {
		[SEARCH_STEP_NOTHING] = "does not exist",
		[SEARCH_STEP_DENIED] = "does not exist",
		[SEARCH_STEP_TOO_LONG] = "",
		[SEARCH_STEP_FOUND] = "exists: this is the answer",
		[SEARCH_STEP_OUTSIDE] = "is sent to other servers, and used if it exists there",
	};
	char text[DNAME_TEXT_MAX];

	if (step == SEARCH_STEP_TOO_LONG)
		fprintf(out, "  one of these names is left out: it is longer than 255 bytes\n");
	else
		fprintf(out, "  %s %s\n", dname_to_text(candidate->wire, text), words[step]);
}

static void
say_refusal(FILE *out, const struct search_progress *walk)
{
	static const char *const words[SEARCH_REFUSALS] = {
		[SEARCH_TYPE] = "only A and AAAA queries are completed",
		[SEARCH_ONE_LABEL] = "the part before the namespace has no dot",
		[SEARCH_UNDERSCORE] = "a label begins with '_'",
		[SEARCH_NO_NAMESPACE] = "the namespace does not exist",
		[SEARCH_OPTED_OUT] = "the namespace has the label kubedns/search-completion=off",
		[SEARCH_SERVICE] = "the name is below a Service of the namespace",
		[SEARCH_FALLS_THROUGH] = "--fallthrough sends it to other servers",
		[SEARCH_NO_RESOLVER] = "there is no server for external names",
	};

	/* The answer to TXT stands for the filtered answers to A and AAAA. */
	if (walk->form == SEARCH_REFUSED && walk->refusal != SEARCH_TYPE)
		fprintf(out, "Search completion does not apply: %s.\n", words[walk->refusal]);
}

/* Prints the candidates in order, up to the first candidate that is found. */
static void
say_steps(FILE *out, const struct stage_explanation *what, const struct asked *asked)
{
	enum search_step step = SEARCH_STEP_NOTHING;
	struct candidate c;
	bool limit = false;

	for (unsigned i = 0; i < candidate_count(asked->stage) && step != SEARCH_STEP_FOUND; i++) {
		step = candidate_make(what->config, what->tree, asked, i, &limit, &c);
		say_step(out, step, &c.text);
	}
}

static void
search_explain(const struct stage *stage, FILE *out, const struct stage_explanation *what)
{
	const struct answer_reason *reason = what->reason;
	char text[DNAME_TEXT_MAX];

	if (reason->object == stage && reason->kind == REASON_EMPTY) {
		fprintf(out,
		    "%s has no records (NODATA); search lists are walked below it, for "
		    "X.NAMESPACE.s.\n",
		    dname_to_text(reason->name.wire, text));
		return;
	}
	if (reason->object == stage) {
		const struct asked asked = asked_of(stage, &reason->name, (unsigned)reason->below);

		fputs(asked.declared
			  ? "Search completion, because the name ends in a declared search list: "
			    "the first of these names that exists answers.\n"
			  : "The name itself does not exist. Search completion is inferred for A "
			    "and AAAA: the first of these names that exists answers.\n",
		    out);
		say_steps(out, what, &asked);
	}
	say_refusal(out, (const void *)what->info->claim.block);
}

const struct stage search_stage = { .lengths = search_lengths,
	.answer = search_answer,
	.resume = search_resume,
	.denied = search_denied,
	.finish = settle_ttl,
	.replied = search_replied,
	.explain = search_explain };
