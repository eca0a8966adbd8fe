/*
 * The TXT record has one character-string for each line of the explanation. The worker makes the text itself. One explanation may cost as
 * much as a thousand answers, and the worker's other clients must wait. Therefore a worker makes at most EXPLANATIONS in EXPLANATIONS_MS, and
 * clients share them.
 */
#include "kubedns/answer/explanation_stage.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/stage.h"
#include "kubedns/answer/view.h"
#include "lib/addr.h"
#include "lib/own_frame.h"

/* The maximum length of a character-string, and of all strings of an explanation together. */
enum { STRING_MAX = 255, EXPLANATION_MAX = 1000 };

/* Writes the lines as character-strings to `out`, as many as fit into `capacity`. If not all fit, the last string is "...". Returns
 * the length. */
static size_t
strings_of(const char *text, size_t len, uint8_t *out, size_t capacity)
{
	static const char more[] = "\3...";
	size_t used = 0;

	while (len > 0) {
		size_t line = strcspn(text, "\n"), part = line < STRING_MAX ? line : STRING_MAX;

		if (used + 1 + part + sizeof more - 1 > capacity) {
			memcpy(out + used, more, sizeof more - 1);
			return used + sizeof more - 1;
		}
		out[used] = (uint8_t)part;
		memcpy(out + used + 1, text, part);
		used += 1 + part;
		part += part == line && part < len; /* skips the newline */
		text += part;
		len -= part;
	}
	return used;
}

/* Returns whether the worker may make another explanation for this client now. Counts the explanation, or the refusal of it. */
static bool
take_permit(struct answer_thread *thread, const struct sockaddr *from)
{
	struct server client = { 0 };
	unsigned own = 0;

	if (*thread->now_ns >= thread->refill_ns) {
		thread->explain_made = 0;
		thread->refill_ns = *thread->now_ns + EXPLANATIONS_MS * INT64_C(1000000);
	}
	if (from != NULL)
		server_from_sockaddr(from, &client);
	for (unsigned i = 0; i < thread->explain_made; i++)
		own += addr_equal(&thread->explain_clients[i], &client.addr);
	unsigned others = thread->explain_made - own;
	bool permit =
	    thread->explain_made < EXPLANATIONS && (own == 0 || own < (EXPLANATIONS - others) / 2);
	uint64_t *count = permit ? thread->explained : thread->explain_refused;
	__atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
	if (permit)
		thread->explain_clients[thread->explain_made++] = client.addr;
	return permit;
}

/* Adds the TXT record with these lines. The whole message has at most 1,232 bytes, even if the client accepts more. */
static void
put_lines(struct reply *reply, const char *text, size_t len)
{
	uint8_t rdata[EXPLANATION_MAX + 8];
	size_t around = reply->w.len + 12 + 11 + 6, capacity = EXPLANATION_MAX;

	if (DNS_UDP_PAYLOAD - around < capacity)
		capacity = DNS_UDP_PAYLOAD - around;
	reply_record(reply, DNS_HEADER, TYPE_TXT, 0, rdata, strings_of(text, len, rdata, capacity));
}

static uint64_t
explanation_lengths(const void *options)
{
	(void)options;
	return UINT64_C(1) << 8;
}

/* Returns the text for the name before the label `_explain`. */
static char *
text_for(struct lookup *l, size_t *text_len)
{
	const struct answer_config *config = l->reply->config;
	const struct explanation_config *stage = config->stage_config[STAGE_explanation];
	struct dname asked = { 0 };
	char name[DNAME_TEXT_MAX];

	size_t len = l->name.offsets[l->below - 1];
	/* the rest of `asked` is 0, which is the root label */
	memcpy(asked.wire, l->name.wire, len);
	dname_to_text(asked.wire, name);
	return stage->explain(config, l->reply->tree, name, text_len);
}

OWN_FRAME static enum step
explain_name(struct lookup *l)
{
	struct reply *reply = l->reply;
	char *text = NULL;
	size_t len;

	/* With --visibility, pods get no explanations, because these are about the whole cluster. */
	if (reply->thread == NULL || view_limited(reply->tree))
		return STEP_NEXT;
	if (reply->query->qtype != TYPE_TXT) {
		reply_existence(reply, NODATA, l->apex);
		return STEP_DONE;
	}
	if (take_permit(reply->thread, reply->client))
		text = text_for(l, &len);
	if (text == NULL) {
		reply->flags |= RCODE_REFUSED;
		reply->ede = EDE_OTHER;
		reply->ede_text = "too many explanations at once: try again in a second";
		return STEP_DONE;
	}
	reply_existence(reply, FOUND, l->apex);
	put_lines(reply, text, len);
	free(text);
	return STEP_DONE;
}

static enum step
explanation_answer(struct lookup *l)
{
	static const uint8_t label[] = "\10_explain";
	const uint8_t *top = l->name.wire + l->name.offsets[l->below - 1];

	return l->asked && memcmp(top, label, sizeof label - 1) == 0 ? explain_name(l) : STEP_NEXT;
}

const struct stage stage_explanation = { .id = STAGE_explanation,
	.order = ORDER_MISSING,
	.lengths = explanation_lengths,
	.answer = explanation_answer };
