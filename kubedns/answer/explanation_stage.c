/*
 * The explanation stage: a TXT query for NAME._explain in our zone tells why NAME is answered as it is, one
 * character-string for each line. The worker makes the text itself. One explanation may cost as much
 * as a thousand answers, which wait meanwhile, so a worker makes at most EXPLANATIONS in
 * EXPLANATIONS_MS.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/stage.h"
#include "kubedns/answer/view.h"
#include "lib/own_frame.h"

/* The most bytes of a character-string, and of all strings of an explanation. */
enum { STRING_MAX = 255, EXPLANATION_MAX = 1000 };

/* Writes the lines as character-strings, as many as fit into `room`; the last is "..." if not all
 * do. Returns the length. */
static size_t
strings_of(const char *text, size_t len, uint8_t *out, size_t room)
{
	static const char more[] = "\3...";
	size_t used = 0;

	while (len > 0) {
		size_t line = strcspn(text, "\n"), part = line < STRING_MAX ? line : STRING_MAX;

		if (used + 1 + part + sizeof more - 1 > room) {
			memcpy(out + used, more, sizeof more - 1);
			return used + sizeof more - 1;
		}
		out[used] = (uint8_t)part;
		memcpy(out + used + 1, text, part);
		used += 1 + part;
		part += part == line && part < len; /* the line's end */
		text += part;
		len -= part;
	}
	return used;
}

/* Whether the worker may make another explanation now; counts it, or the refusal. */
static bool
take_turn(struct answer_thread *thread)
{
	if (*thread->now_ns >= thread->refill_ns) {
		thread->explain_left = EXPLANATIONS;
		thread->refill_ns = *thread->now_ns + EXPLANATIONS_MS * INT64_C(1000000);
	}
	uint64_t *count = thread->explain_left > 0 ? thread->explained : thread->explain_refused;
	__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
	if (thread->explain_left == 0)
		return false;
	thread->explain_left--;
	return true;
}

/* Adds the TXT record: the whole message is at most 1,232 bytes, whatever the client takes. */
static void
put_explanation(struct reply *reply, const char *name)
{
	uint8_t rdata[EXPLANATION_MAX + 8];
	size_t len, around = reply->w.len + 12 + 11 + 6, room = EXPLANATION_MAX;
	char *text = reply->thread->explain(reply->config, reply->tree, name, &len);

	if (DNS_UDP_PAYLOAD - around < room)
		room = DNS_UDP_PAYLOAD - around;
	reply_record(reply, DNS_HEADER, TYPE_TXT, 0, rdata, strings_of(text, len, rdata, room));
	free(text);
}

static bool
explanation_match(
    const struct answer_config *config, const struct tree *tree, const struct name *name, int below)
{
	static const uint8_t label[] = "\10_explain";

	(void)config, (void)tree;
	return below > 0 &&
	       memcmp(name->wire + name->offsets[below - 1], label, sizeof label - 1) == 0;
}

static uint64_t
explanation_lengths(const struct answer_config *config)
{
	(void)config;
	return UINT64_C(1) << 8;
}

OWN_FRAME static enum step
explain_name(struct lookup *l)
{
	struct reply *reply = l->reply;
	struct dname asked = { 0 };
	char text[DNAME_TEXT_MAX];

	/* With --visibility it is a name like others to pods: an explanation speaks of the whole cluster. */
	if (reply->thread == NULL || reply->thread->explain == NULL || view_limited(reply->tree))
		return STEP_NEXT;
	if (reply->query->qtype != TYPE_TXT) {
		reply_existence(reply, NODATA, l->apex);
		return STEP_DONE;
	}
	if (!take_turn(reply->thread)) {
		reply->flags |= RCODE_REFUSED;
		if (reply->query->has_edns)
			reply_reason_kind(reply, REASON_EXPLAIN_BUSY);
		return STEP_DONE;
	}
	size_t len = l->name.offsets[l->below - 1];
	memcpy(asked.wire, l->name.wire, len); /* the root label follows: the rest is 0 */
	dname_to_text(asked.wire, text);
	reply_existence(reply, FOUND, l->apex);
	put_explanation(reply, text);
	return STEP_DONE;
}

static enum step
explanation_answer(struct lookup *l)
{
	return explanation_match(l->reply->config, l->reply->tree, &l->name, l->below)
		   ? explain_name(l)
		   : STEP_NEXT;
}

const struct stage stage_explanation = { .id = STAGE_explanation,
	.turn = TURN_MISSING,
	.lengths = explanation_lengths,
	.match = explanation_match,
	.answer = explanation_answer };
