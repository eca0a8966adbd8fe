#include "kubedns/answer/explained.h"

#include <stdlib.h>

#include "kubedns/answer/answer_internal.h"

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

void
explained_answer(struct reply *reply, const struct name *name, unsigned below, size_t apex)
{
	struct dname asked = { 0 };
	char text[DNAME_TEXT_MAX];

	if (reply->query->qtype != TYPE_TXT) {
		set_rcode_and_soa(reply, NODATA, apex);
		return;
	}
	if (!take_turn(reply->thread)) {
		reply->flags |= RCODE_REFUSED;
		if (reply->query->has_edns)
			reply_reason_kind(reply, REASON_EXPLAIN_BUSY);
		return;
	}
	size_t len = name->offsets[below - 1];
	memcpy(asked.wire, name->wire, len); /* the root label follows: the rest is 0 */
	dname_to_text(asked.wire, text);
	set_rcode_and_soa(reply, FOUND, apex);
	put_explanation(reply, text);
}
