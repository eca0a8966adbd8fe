#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/answer/search.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "kubedns/answer/view.h"
#include "lib/own_frame.h"

enum { STEP_NAMESPACE, STEP_SVC, STEP_ZONE, STEP_EXTRA };

/* The name to complete: X followed by the namespace whose search list is walked. */
struct asked {
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

bool
search_is_declared(const struct name *name, unsigned below)
{
	const uint8_t *label = label_at(name, below - 1);

	return label[0] == 1 && label[1] == 's';
}

static struct asked
asked_of(const struct name *name, unsigned below)
{
	return (struct asked){ .name = name,
		.below = below,
		.x_len = name->offsets[below - 2],
		.namespace = label_at(name, below - 2),
		.declared = search_is_declared(name, below) };
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
	if (node->flags & NODE_NO_SEARCH)
		return SEARCH_OPTED_OUT;
	/* A Service without ready endpoints also has a node, because an endpoint may become ready at any time. */
	if (tree_child(tree, node, label_at(asked->name, asked->below - 3)) != NULL)
		return SEARCH_SERVICE;
	if (answer_falls_through(config, asked->name))
		return SEARCH_FALLS_THROUGH;
	return SEARCH_REFUSALS;
}

const char *
search_refusal_name(enum search_refusal refusal)
{
	static const char *const names[SEARCH_REFUSALS] = {
		[SEARCH_TYPE] = "type",
		[SEARCH_ONE_LABEL] = "one_label",
		[SEARCH_UNDERSCORE] = "underscore",
		[SEARCH_NO_NAMESPACE] = "no_namespace",
		[SEARCH_OPTED_OUT] = "opted_out",
		[SEARCH_SERVICE] = "below_service",
		[SEARCH_FALLS_THROUGH] = "falls_through",
		[SEARCH_NO_RESOLVER] = "no_resolver",
	};

	return names[refusal];
}

/* --- the TTL of the alias --- */

void
search_settle_ttl(struct reply *reply)
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
candidate_count(const struct answer_config *config)
{
	_Static_assert(STEP_EXTRA + SEARCH_EXTRA_MAX + 1 <= 16, "search_walk.denied has 16 bits");
	/* the last candidate is X itself */
	return STEP_EXTRA + (unsigned)search_config(config)->extra_count + 1;
}

/* Makes the candidate of step `i`. Returns 0 or -ENAMETOOLONG. */
static int
candidate_name(
    const struct answer_config *config, const struct asked *asked, unsigned i, struct dname *name)
{
	struct dname suffix = { .len = 1 };

	if (i < STEP_EXTRA)
		suffix = config->zone;
	else if (i - STEP_EXTRA < search_config(config)->extra_count)
		suffix = search_config(config)->extra[i - STEP_EXTRA];
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
		      !search_is_declared(&c->name, (unsigned)c->below);
	return others ? SEARCH_STEP_OUTSIDE : SEARCH_STEP_NOTHING;
}

/* --- for explanations --- */

void
search_steps(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, void (*each)(void *arg, enum search_step step, const struct dname *candidate),
    void *arg)
{
	const struct asked asked = asked_of(name, below);
	enum search_step step = SEARCH_STEP_NOTHING;
	struct candidate c;
	bool limit = false;

	for (unsigned i = 0; i < candidate_count(config) && step != SEARCH_STEP_FOUND; i++) {
		step = candidate_make(config, tree, &asked, i, &limit, &c);
		each(arg, step, &c.text);
	}
}

/* --- walking along the search list --- */

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
	reply->flags = l->search.flags;
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
	if (reply->truncated || (!l->search.rejects && !alias_is_followed(qtype))) {
		reply_existence(reply, FOUND, 0);
		search_settle_ttl(reply);
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
	if (l->info->search.form != SEARCH_DECLARED)
		return zone_deny(l);
	reply_negative(l->reply, NXDOMAIN, l->apex, l->search.ttl_s);
	return STEP_DONE;
}

/* Handles a candidate that no stage has. Other servers are queried for it unless they have already replied NXDOMAIN. */
static enum step
ask_outside(struct lookup *l, const struct name *candidate)
{
	struct search_walk *walk = l->reply->search;
	struct reply *reply = l->reply;
	unsigned i = l->search.step - 1;

	if ((walk->denied & 1u << i) != 0)
		return STEP_NEXT;
	if (may_chase(reply)) {
		walk->asking = true;
		walk->asked = (uint8_t)i;
		walk->last = l->search.step == candidate_count(reply->config);
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
		walk->form = SEARCH_REFUSED;
		walk->refusal = SEARCH_NO_RESOLVER;
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
	const struct answer_config *config = reply->config;
	const struct name name = question_name(l);
	const struct asked asked = asked_of(&name, (unsigned)name_below(&name, &config->zone));
	struct candidate c;

	while (l->search.step < candidate_count(config)) {
		enum search_step found = candidate_make(
		    config, reply->tree, &asked, l->search.step++, &reply->rewrite_limit, &c);

		if (found == SEARCH_STEP_NOTHING)
			l->search.ttl_s = shorter(l->search.ttl_s, reply, &c);
		l->search.rejects = found == SEARCH_STEP_OUTSIDE;
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
	const struct search_config *config = options;

	return UINT64_C(1) << 1 | (config->inferred ? UINT64_C(1) << 3 : 0);
}

/* Returns what happens to a query for a name that does not exist. For SEARCH_REFUSED, sets `*refusal` to the reason. */
static enum search_form
form_of(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, uint16_t qtype, enum search_refusal *refusal)
{
	if (below < 3 || !search_may_complete(config, name, below))
		return SEARCH_NONE;
	const struct asked asked = asked_of(name, below);
	if (asked.declared)
		return SEARCH_DECLARED;
	*refusal = refusal_of(config, tree, &asked, qtype);
	return *refusal == SEARCH_REFUSALS ? SEARCH_INFERRED : SEARCH_REFUSED;
}

OWN_FRAME static enum step
search_begin(struct lookup *l)
{
	struct reply *reply = l->reply;
	struct search_walk *walk = reply->search;
	enum search_refusal refusal;
	unsigned below = (unsigned)l->below;

	/* The target of a rewrite does not come from a search list. */
	if (reply->rewritten)
		return STEP_NEXT;
	walk->asking = false;
	if (below < 3 && search_is_declared(&l->name, below)) { /* `s`, or a namespace below it */
		lookup_reason(l, STAGE_search, REASON_EMPTY, NULL);
		reply_existence(reply, NODATA, l->apex);
		return STEP_DONE;
	}
	walk->form = (uint8_t)form_of(
	    reply->config, reply->tree, &l->name, below, reply->query->qtype, &refusal);
	if (walk->form == SEARCH_REFUSED)
		walk->refusal = (uint8_t)refusal;
	if (!search_walked(walk))
		return STEP_NEXT;
	lookup_reason(l, STAGE_search, SEARCH_WALKED, NULL);
	/* In the inferred form, the first step is the query's name, which does not exist. */
	l->search = (struct search_state){ .step = walk->form == SEARCH_DECLARED ? 0 : STEP_SVC,
		.ttl_s = walk->ttl_s,
		.flags = reply->flags };
	lookup_judge(l);
	return walk_on(l);
}

static enum step
search_answer(struct lookup *l)
{
	return search_may_complete(l->reply->config, &l->name, (unsigned)l->below) ? search_begin(l)
										   : STEP_NEXT;
}

/* Handles the stages' result for a candidate. */
static enum step
search_resume(struct lookup *l, enum step step)
{
	struct reply *reply = l->reply;
	bool alias = l->alias_count > 0;

	if (l->search.rejects && step == STEP_OTHERS && !alias) {
		step = ask_outside(l, &l->name);
		if (step != STEP_NEXT)
			return step;
	} else if (!l->search.rejects || (reply->flags & 15) != RCODE_NXDOMAIN) {
		if (step == STEP_OTHERS)
			reply_existence(reply, FOUND, 0);
		search_settle_ttl(reply);
		lookup_judge_none(l);
		return step;
	}
	go_back(l);
	return walk_on(l);
}

static const struct search_config standard;

const struct stage stage_search = { .id = STAGE_search,
	.order = ORDER_MISSING,
	.standard = &standard,
	.lengths = search_lengths,
	.answer = search_answer,
	.resume = search_resume };
