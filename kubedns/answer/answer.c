#include <string.h>

#include "kubedns/answer/message.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "lib/own_frame.h"

/* --- CHAOS --- */

static void
answer_chaos(struct reply *reply)
{
	static const struct {
		const char *name; /* in wire format */
		size_t offset;    /* offset of the text in struct answer_config */
	} names[] = { { "\7version\4bind", offsetof(struct answer_config, version) },
		{ "\7version\6server", offsetof(struct answer_config, version) },
		{ "\10hostname\4bind", offsetof(struct answer_config, hostname) },
		{ "\2id\6server", offsetof(struct answer_config, hostname) } };
	const struct query *query = reply->query;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *text = (const char *)reply->config + names[i].offset;
		uint8_t rdata[256] = { (uint8_t)strlen(text) };

		if (strlen(names[i].name) + 1 != query->qname_len ||
		    memcmp(names[i].name, query->qname, query->qname_len) != 0)
			continue;
		if (query->qtype != TYPE_TXT && query->qtype != TYPE_ANY)
			break;
		memcpy(rdata + 1, text, rdata[0]);
		size_t at = reply->w.len;
		reply_record(reply, DNS_HEADER, TYPE_TXT, 0, rdata, 1u + rdata[0]);
		wire_put16(reply->w.buf + at + 4, CLASS_CH);
		reply_existence(reply, FOUND, 0);
		return;
	}
	reply->flags |= RCODE_REFUSED;
}

/* --- from the query to the reply --- */

static inline bool
has_context_stages(const struct reply *reply)
{
	const struct answer_context *context = reply->tree->context;

	return context != NULL && context->own;
}

/* Returns the rcode of a query that is rejected regardless of its name, or RCODE_NOERROR. */
static inline __attribute__((always_inline)) unsigned
refusal_of_kind(const struct query *query)
{
	if (query->opcode != 0)
		return RCODE_NOTIMP;
	if (query->edns_version > 0)
		return RCODE_BADVERS;
	if ((query->qclass != CLASS_IN && query->qclass != CLASS_CH) || query->qtype == TYPE_AXFR ||
	    query->qtype == TYPE_IXFR)
		return RCODE_REFUSED;
	return RCODE_NOERROR;
}

/* Returns the handler of a module that takes the query, or NULL. */
OWN_FRAME static const struct message_handler *
find_handler(const struct answer_config *config, const struct query *query, bool has_tsig)
{
	if (query->qclass != CLASS_IN)
		return NULL;
	for (const struct message_handler *const *handler = config->handlers;
	     handler != NULL && *handler != NULL; handler++)
		if ((*handler)->takes((*handler)->state, config, query, has_tsig))
			return *handler;
	return NULL;
}

/* Continues with the target of an alias. The target's name is the last one in the message. The chain ends if the client asked for the
 * CNAME itself, or if the chain is a loop or too long. */
OWN_FRAME static enum step
follow(struct lookup *l)
{
	struct reply *reply = l->reply;
	const struct dname *target = &l->info->target;

	if (!alias_is_followed(reply->query->qtype) || reply->truncated)
		return STEP_DONE;
	l->aliases[l->alias_count++] = l->owner;
	if (l->alias_count == CNAME_STEPS_MAX)
		return STEP_DONE;
	for (unsigned i = 0; i < l->alias_count; i++)
		if (dname_equal(reply->w.buf + l->aliases[i], target->wire))
			return STEP_DONE;
	l->asked = false;
	lookup_set(l, target, reply->w.len - target->len);
	return STEP_AGAIN;
}

static inline enum step
first_of(const struct stage *const *stage, struct lookup *l)
{
	enum step step = STEP_NEXT;

	for (; step == STEP_NEXT && *stage != NULL; stage++) {
		l->stage = *stage;
		step = (*stage)->answer(l);
	}
	return step;
}

/* Calls the stages for the target of an alias in an external or clusterset zone. */
OWN_FRAME static enum step
beside_stages(struct lookup *l)
{
	const struct stage *const *stage = l->reply->config->stages.outside;
	enum step step = STEP_NEXT;

	for (; step == STEP_NEXT && *stage != NULL; stage++)
		if ((*stage)->order == ORDER_BESIDE) {
			l->stage = *stage;
			step = (*stage)->answer(l);
		}
	return step == STEP_NEXT ? STEP_OTHERS : step;
}

/* Calls the stages for a name until one of them has answered it. */
static inline enum step
pass_stages(struct lookup *l)
{
	const struct stages *stages = &l->reply->config->stages;

	if (l->beside)
		return beside_stages(l);
	if (has_context_stages(l->reply)) {
		enum step step = first_of(stages->context, l);

		if (step != STEP_NEXT)
			return step;
	}
	if (l->below < 0) {
		enum step step = first_of(stages->outside, l);

		return step == STEP_NEXT ? STEP_OTHERS : step;
	}
	enum step step = zone_answer(l);
	if (step != STEP_MISSING)
		return step;
	unsigned length = l->name.wire[l->name.offsets[l->below - 1]];
	if ((stages->missing_lengths >> length & 1) == 0)
		return zone_deny(l);
	step = first_of(stages->missing, l);
	if (step != STEP_NEXT)
		return step;
	step = first_of(stages->modules, l);
	if (step == STEP_NEXT)
		return zone_deny(l);
	lookup_reason(l, STAGE_MODULE, REASON_EXISTS, l->stage);
	return step;
}

/* Passes the query's name through the stages. Then passes the targets of its aliases and the candidates of a stage through the stages. */
static enum answer_outcome
answer_question(struct reply *reply, const struct tree_path *path, struct answer_info *info)
{
	const struct query *query = reply->query;
	struct lookup l;
	enum step step;

	l.reply = reply;
	l.info = info;
	l.name = (struct name){ query->qname, query->labels, query->qname_len, query->label_count };
	l.below = info->below;
	l.owner = DNS_HEADER;
	l.path = path;
	l.asked = true;
	l.beside = false;
	l.alias_count = 0;
	l.apex = 0;
	l.judge = NULL;
	do {
		bool alias = false;

		step = pass_stages(&l);
		if (step == STEP_DONE && l.judge == NULL)
			return ANSWER_REPLY;
		if (step == STEP_ALIAS) {
			step = follow(&l);
			alias = step == STEP_DONE;
		}
		if (alias || (step == STEP_OTHERS && !l.asked))
			reply_existence(reply, FOUND, 0); /* our CNAMEs exist */
		if (step != STEP_AGAIN && l.judge != NULL) {
			l.stage = l.judge;
			step = l.judge->resume(&l, step);
		}
	} while (step == STEP_AGAIN);
	if (step != STEP_OTHERS)
		return ANSWER_REPLY;
	lookup_reason(&l, STAGE_upstream, REASON_SENT, NULL);
	return l.asked ? ANSWER_FORWARD : ANSWER_CHASE;
}

/* Answers a query whose records point to hosts. The addresses of these hosts are in the additional section. The function's buffers take
 * 32 KB of the stack. */
OWN_FRAME static enum answer_outcome
answer_with_glue(struct reply *reply, const struct tree_path *path, struct answer_info *info)
{
	/* Not initialized: reply.glue_count is the number of valid entries. */
	struct glue glue[GLUE_MAX];
	struct record_table table;

	table.mask = 0;
	reply->glue = glue;
	reply->table = &table;
	enum answer_outcome outcome = answer_question(reply, path, info);
	reply_glue(reply);
	reply->glue = NULL;
	reply->table = NULL;
	return outcome;
}

static enum answer_outcome
finish(struct reply *reply, struct answer_info *info, enum answer_outcome outcome)
{
	info->len = reply_end(reply);
	info->rcode = (uint8_t)((reply->flags & 15) | reply->extended_rcode << 4);
	info->truncated = reply->truncated;
	return outcome;
}

/* Returns whether --external-address answers the name. The zone of --domain may be inside an external zone, but --external-address does
 * not answer names of that zone. An external zone cannot contain reverse zones (zone_options.c). */
OWN_FRAME static bool
is_in_zone_beside(const struct answer_config *config, const struct query *query)
{
	const struct name name = { query->qname, query->labels, query->qname_len,
		query->label_count };

	return name_below(&name, &config->zone) < 0 &&
	       external_zone_of(config, &name).kind != ZONE_NONE;
}

void
answer_read(const struct answer_config *config, const uint8_t *query, size_t query_len,
    struct answer_info *info, struct tree_path *path)
{
	const struct query *q = &info->query;

	info->claim.owner = NULL;
	info->handler = NULL;
	info->below = -1;
	info->read = query_read(&info->query, query, query_len);
	path->labels = 0;
	if (info->read == QUERY_IGNORE)
		return;
	info->refused = (uint8_t)(info->read == QUERY_FORMERR ? RCODE_FORMERR : refusal_of_kind(q));
	if (config->stages.beside_only && info->refused == RCODE_NOERROR &&
	    (q->qclass == CLASS_CH || !is_in_zone_beside(config, q)))
		info->refused = RCODE_REFUSED;
	if (info->refused == RCODE_REFUSED ||
	    (info->refused == RCODE_NOERROR && info->read == QUERY_SIGNED))
		info->handler = find_handler(config, q, info->read == QUERY_SIGNED);
	if (info->refused != RCODE_NOERROR || info->handler != NULL || q->qclass == CLASS_CH)
		return;
	const struct name name = { q->qname, q->labels, q->qname_len, q->label_count };
	info->below = name_labels_below(&name, &config->zone);
	if (info->below > 0) {
		path->wire = q->qname;
		path->offsets = q->labels;
		path->labels = (unsigned)info->below;
	}
}

/* Returns whether the query is sent to the servers of --until-synced, because kubedns has not read the cluster yet. Queries for
 * dns-version are never sent there. The node's guard uses them to find out whether this kubedns itself answers. */
static bool
asks_until_synced(const struct reply *reply, const struct answer_info *info)
{
	static const uint8_t version[] = "\13dns-version";
	const struct query *q = reply->query;

	return upstream_config(reply->config)->until_synced && (q->flags & FLAG_RD) != 0 &&
	       !info->rewritten &&
	       !(info->below == 1 && memcmp(q->qname, version, sizeof version - 1) == 0);
}

enum answer_outcome
answer_found(
    const struct answer_request *request, const struct tree_path *path, struct answer_info *info)
{
	const struct answer_context *context = request->tree->context;
	bool forwarding =
	    context != NULL && context->forwarding && !request->config->stages.beside_only;
	struct reply reply;

	info->system = SYSTEM_AUTH;
	info->len = 0;
	info->claim.stage = NULL;
	info->claim.candidate = false;
	info->filtered = info->direct = false;
	info->rewritten = info->rewrite_limit = info->fell_through = info->until_synced = false;
	if (info->read == QUERY_IGNORE)
		return ANSWER_DROP;
	if (info->handler != NULL)
		return ANSWER_MODULE;
	reply_begin(&reply, request, &info->query, forwarding);
	if (info->refused != RCODE_NOERROR) {
		/* The flags RD and CD exist only for the opcode QUERY (RFC 8906 section 3). */
		if (info->refused == RCODE_NOTIMP)
			reply.flags &= ~(unsigned)(FLAG_RA | FLAG_RD | FLAG_CD);
		reply.flags |= info->refused & 15u;
		reply.extended_rcode = info->refused >> 4;
		return finish(&reply, info, ANSWER_REPLY);
	}
	if (info->query.qclass == CLASS_CH) {
		answer_chaos(&reply);
		return finish(&reply, info, ANSWER_REPLY);
	}
	bool names_hosts = info->query.qtype == TYPE_SRV || info->query.qtype == TYPE_NS;
	enum answer_outcome outcome = names_hosts ? answer_with_glue(&reply, path, info)
						  : answer_question(&reply, path, info);
	info->rewrite_limit = info->rewrite_limit || reply.rewrite_limit;
	/* If a stage has claimed the query, other servers have already been queried for its candidates. */
	bool falls = upstream_config(request->config)->fallthrough_count > 0 &&
		     outcome == ANSWER_REPLY && forwarding && info->query.flags & FLAG_RD &&
		     info->claim.stage == NULL && upstream_takes_denial(&reply, &info->target);
	if (falls) { /* the answer of other servers replaces our negative answer */
		reply_begin(&reply, request, &info->query, forwarding);
		reply.rewritten = info->rewritten;
		outcome = ANSWER_FORWARD;
	}
	if (reply.not_ready && asks_until_synced(&reply, info)) {
		info->until_synced = true;
		return ANSWER_FORWARD;
	}
	if (outcome == ANSWER_REPLY)
		return finish(&reply, info, outcome);
	outcome = upstream_ask(&reply, info, outcome);
	if (outcome != ANSWER_FORWARD)
		finish(&reply, info, outcome);
	info->fell_through = falls && outcome != ANSWER_REPLY;
	return outcome;
}

enum answer_outcome
answer(const struct answer_request *request, struct answer_info *info)
{
	struct tree_path path;

	answer_read(request->config, request->query, request->query_len, info, &path);
	tree_find_paths(request->tree, &path, 1);
	return answer_found(request, &path, info);
}

size_t
answer_rcode(const struct query *query, const uint8_t *wire, size_t wire_len, unsigned rcode,
    uint8_t *out, size_t max)
{
	static const struct answer_config none;
	const struct answer_request request = {
		.config = &none, .query = wire, .query_len = wire_len, .out = out, .max = max
	};
	struct query plain = *query;
	struct reply reply;

	plain.wants_nsid = false;
	/* this function is only called for names that are forwarded */
	reply_begin(&reply, &request, &plain, true);
	reply.flags |= rcode & 15;
	reply.extended_rcode = rcode >> 4;
	return reply_end(&reply);
}

void
answer_replied(struct answer_info *info, const uint8_t *reply, size_t len)
{
	unsigned flags = wire_get16(reply + 2);

	info->len = len;
	info->rcode = flags & 15u;
	info->truncated = (flags & FLAG_TC) != 0;
}
