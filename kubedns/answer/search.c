#include <string.h>

#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/negative_ttl.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/answer/search.h"
#include "kubedns/answer/view.h"

enum { STEP_NAMESPACE, STEP_SVC, STEP_ZONE, STEP_EXTRA };

/* The name to complete: X, and the namespace whose search list is walked. */
struct asked {
	const struct name *name;
	unsigned below;
	size_t x_len; /* bytes of X, which is what the name begins with */
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

/* --- the inferred form's conditions --- */

static bool
has_underscore(const struct asked *asked)
{
	for (unsigned i = 0; i + 2 < asked->below; i++)
		if (label_at(asked->name, i)[1] == '_')
			return true;
	return false;
}

/* Why an inferred name is not walked, or SEARCH_REFUSALS. */
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
	/* A Service without ready endpoints has a node too: one may become ready at any moment. */
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

/* --- candidates --- */

static unsigned
candidate_count(const struct answer_config *config)
{
	return STEP_EXTRA + (unsigned)config->search_extra_count + 1; /* and X. itself */
}

/* The candidate of step `i`; 0 or -ENAMETOOLONG. */
static int
candidate_name(
    const struct answer_config *config, const struct asked *asked, unsigned i, struct dname *name)
{
	struct dname suffix = { .len = 1 };

	if (i < STEP_EXTRA)
		suffix = config->zone;
	else if (i - STEP_EXTRA < config->search_extra_count)
		suffix = config->search_extra[i - STEP_EXTRA];
	if (i <= STEP_SVC)
		dname_prepend(&suffix, "svc", 3);
	if (i == STEP_NAMESPACE)
		dname_prepend(&suffix, asked->namespace + 1, *asked->namespace);
	memcpy(name->wire, asked->name->wire, asked->x_len);
	name->wire[asked->x_len] = 0;
	name->len = (uint8_t)(asked->x_len + 1);
	return dname_append(name, suffix.wire);
}

/* A candidate with its labels' offsets, as the look-ups need it. */
struct candidate {
	struct dname text;
	struct name name;
	int below; /* labels before our zone, or -1 */
	bool own;  /* the operator's (own_names.h) */
	struct resolved resolved;
	struct name_buf buf;
};

static void
candidate_cut(struct candidate *c)
{
	c->name = name_copy(&c->buf, c->text.wire, c->text.len);
}

/* Makes the candidate what it is rewritten to. After a pattern has ended at its bound (`limit`) the
 * walk tries no more of them: a walk costs no more than one name that provokes it. */
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

/* Makes the candidate of step `i`, or what it is rewritten to, and looks it up if it is in our zone. */
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
	bool others = config->fallthrough_count > 0 && answer_falls_through(config, &c->name) &&
		      !search_is_declared(&c->name, (unsigned)c->below);
	return others ? SEARCH_STEP_OUTSIDE : SEARCH_STEP_NOTHING;
}

/* --- the walk --- */

/* The state of the reply before a candidate was written into it. */
struct mark {
	size_t len;
	unsigned flags;
};

static void
go_back(struct reply *reply, const struct mark *mark)
{
	reply->w.len = mark->len;
	reply->flags = mark->flags;
	memset(reply->counts, 0, sizeof reply->counts);
	reply->section = SECTION_ANSWER;
	reply->full = reply->truncated = false;
}

/* Puts the CNAME from the asked name; returns the offset of its target. */
static size_t
put_alias(struct reply *reply, const struct dname *target)
{
	reply_record(reply, DNS_HEADER, TYPE_CNAME, SEARCH_TTL_MAX_S, target->wire, target->len);
	return reply->w.len - target->len;
}

/* A candidate in our zone that exists. */
static enum answer_outcome
put_found(struct reply *reply, const struct candidate *c, size_t apex, struct dname *chase)
{
	enum answer_outcome outcome = ANSWER_REPLY;
	uint16_t qtype = reply->query->qtype;
	size_t owner = put_alias(reply, &c->text);

	/* RFC 1034 section 3.6.2: a CNAME answers these by itself. */
	if (reply->truncated || qtype == TYPE_CNAME || qtype == TYPE_ANY)
		set_rcode_and_soa(reply, FOUND, apex);
	else if (c->own)
		answer_own(reply, &c->name, owner, chase, &outcome);
	else if (c->below == 0)
		set_rcode_and_soa(reply, zone_apex(reply, qtype, owner) ? FOUND : NODATA, apex);
	else
		outcome = zone_resolved(
		    reply, owner, &c->name, (unsigned)c->below, &c->resolved, apex, chase);
	search_settle_ttl(reply);
	return outcome;
}

/* A candidate outside of our zone. ANSWER_REPLY: it was in a reverse zone of ours, or in a zone for
 * the world outside. ANSWER_CHASE: there too, an alias that leads to `chase`. */
static enum answer_outcome
put_outside(struct reply *reply, const struct candidate *c, struct dname *chase)
{
	size_t owner = put_alias(reply, &c->text);
	struct addr addr;
	int bits = resolve_reverse_name(&c->name, &addr);

	if (reply->truncated) {
		reply->flags |= FLAG_AA;
		return ANSWER_REPLY;
	}
	return bits >= 0 ? answer_reverse(reply, &c->name, owner, &addr, (unsigned)bits)
			 : answer_odd_reverse(reply, &c->name, owner, chase);
}

/* The next candidate is an outside name, and no other server may be asked. A declared name is
 * REFUSED; false: an inferred one is answered as if it had not been walked for. */
static bool
cannot_ask(struct reply *reply)
{
	struct search_walk *walk = reply->search;

	if (walk->form == SEARCH_INFERRED) {
		walk->form = SEARCH_REFUSED;
		walk->refusal = SEARCH_NO_RESOLVER;
		return false;
	}
	reply->flags |= RCODE_REFUSED;
	if (reply->query->has_edns)
		reply_reason_kind(reply, REASON_NO_FORWARDER);
	return true;
}

/* The lesser of `ttl_s` and the negative TTL of this candidate. */
static uint32_t
shorter(uint32_t ttl_s, const struct reply *reply, const struct candidate *c)
{
	enum denial denial =
	    denial_of(reply->config, reply->tree, &c->name, (unsigned)c->below, &c->resolved);
	uint32_t own_s = denial_ttl_s(reply->config, denial);

	return own_s < ttl_s ? own_s : ttl_s;
}

/* Goes through the candidates and completes the reply; false: none exists, a denial that may be
 * kept for `*ttl_s`. */
static bool
walk_on(struct reply *reply, const struct asked *asked, size_t apex, struct dname *chase,
    enum answer_outcome *outcome, uint32_t *ttl_s)
{
	const struct answer_config *config = reply->config;
	const struct mark mark = { reply->w.len, reply->flags };
	struct search_walk *walk = reply->search;
	struct candidate c;
	unsigned outside = 0;

	*ttl_s = walk->ttl_s;
	*outcome = ANSWER_REPLY;
	/* The inferred form's first step is the asked name, which does not exist. */
	for (unsigned i = asked->declared ? 0 : STEP_SVC; i < candidate_count(config); i++) {
		enum search_step step =
		    candidate_make(config, reply->tree, asked, i, &reply->rewrite_limit, &c);
		if (step == SEARCH_STEP_FOUND) {
			*outcome = put_found(reply, &c, apex, chase);
			return true;
		}
		if (step == SEARCH_STEP_NOTHING)
			*ttl_s = shorter(*ttl_s, reply, &c);
		if (step != SEARCH_STEP_OUTSIDE)
			continue;
		*outcome = put_outside(reply, &c, chase);
		bool ours = *outcome != ANSWER_FORWARD;
		if (ours && (reply->flags & 15) != RCODE_NXDOMAIN) {
			search_settle_ttl(reply);
			return true;
		}
		if (!ours && outside++ >= walk->denied && may_chase(reply)) {
			walk->asking = true;
			walk->last = i + 1 == candidate_count(config);
			*chase = c.text;
			reply->flags |= FLAG_AA;
			*outcome = ANSWER_CHASE;
			return true;
		}
		*outcome = ANSWER_REPLY;
		go_back(reply, &mark);
		if (!ours && outside > walk->denied)
			return cannot_ask(reply);
	}
	return false;
}

enum answer_outcome
answer_search(struct reply *reply, const struct name *qname, unsigned below,
    const struct resolved *resolved, size_t apex, struct dname *chase)
{
	struct search_walk *walk = reply->search;
	enum answer_outcome outcome;
	enum search_refusal refusal;
	uint32_t ttl_s;

	walk->asking = false;
	if (below < 3 && search_is_declared(qname, below)) { /* `s`, and a namespace in it */
		set_rcode_and_soa(reply, NODATA, apex);
		return ANSWER_REPLY;
	}
	walk->form = (uint8_t)search_form(
	    reply->config, reply->tree, qname, below, reply->query->qtype, &refusal);
	if (walk->form == SEARCH_REFUSED)
		walk->refusal = (uint8_t)refusal;
	if (search_walked(walk)) {
		const struct asked asked = asked_of(qname, below);
		if (walk_on(reply, &asked, apex, chase, &outcome, &ttl_s))
			return outcome;
		if (asked.declared) {
			set_negative(reply, NXDOMAIN, apex, ttl_s);
			return ANSWER_REPLY;
		}
	}
	return zone_resolved(reply, DNS_HEADER, qname, below, resolved, apex, chase);
}

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
			return; /* cannot be: it was written here */
		if (record.ttl_s < ttl_s)
			ttl_s = record.ttl_s;
	}
	if (reply->counts[SECTION_ANSWER] > 0)
		wire_put32(wire + first + 6, ttl_s);
}

/* --- for people --- */

enum search_form
search_form(const struct answer_config *config, const struct tree *tree, const struct name *name,
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
