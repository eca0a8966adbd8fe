/*
 * TXT at NAME._explain in our zone: why NAME is answered as it is, a line a string, for anybody who can
 * ask DNS. The words are made by the request's thread, a few at a time for each worker, since an
 * explanation may cost as much as a thousand answers, and others wait for it.
 */
#ifndef KUBEDNS_ANSWER_EXPLAINED_H
#define KUBEDNS_ANSWER_EXPLAINED_H

#include "kubedns/answer/reply.h"

enum { EXPLANATIONS = 4, EXPLANATIONS_MS = 200 /* for so many of them */ };

/* Whether the name, of which so many labels are before the zone, asks for an explanation. */
static inline bool
explained_asks(const struct reply *reply, const struct name *name, unsigned below)
{
	static const uint8_t label[] = "\10_explain";

	return memcmp(name->wire + name->offsets[below - 1], label, sizeof label - 1) == 0 &&
	       reply->thread != NULL && reply->thread->explain != NULL;
}

/* Answers it: `apex` is where the zone's name is in the message. */
void explained_answer(struct reply *reply, const struct name *name, unsigned below, size_t apex);

#endif
