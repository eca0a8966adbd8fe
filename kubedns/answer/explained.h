/*
 * TXT at NAME._explain in our zone: why NAME is answered as it is, each line a character-string,
 * for anybody who can ask DNS. The worker makes the text itself. One explanation may cost as much
 * as a thousand answers, which wait meanwhile, so a worker makes at most EXPLANATIONS in
 * EXPLANATIONS_MS.
 */
#ifndef KUBEDNS_ANSWER_EXPLAINED_H
#define KUBEDNS_ANSWER_EXPLAINED_H

#include "kubedns/answer/reply.h"
#include "kubedns/answer/view.h"

enum { EXPLANATIONS = 4, EXPLANATIONS_MS = 200 /* for so many of them */ };

/* Whether the name, with `below` labels before the zone, asks for an explanation. With --visibility
 * it is a name like others to pods: an explanation speaks of the whole cluster. */
static inline bool
explained_asks(const struct reply *reply, const struct name *name, unsigned below)
{
	static const uint8_t label[] = "\10_explain";

	return memcmp(name->wire + name->offsets[below - 1], label, sizeof label - 1) == 0 &&
	       reply->thread != NULL && reply->thread->explain != NULL &&
	       !view_limited(reply->tree);
}

/* Answers such a name; `apex` is the offset of the zone's name in the message. */
void explained_answer(struct reply *reply, const struct name *name, unsigned below, size_t apex);

#endif
