/*
 * Is DNS well? One sentence, and for everything that is not well what it means and what to do.
 * Pure: a view in, words out.
 *
 * Clients talk to dnsmasq (or, in the front topology, to kubedns), so a probe of the address that
 * clients use decides between "down" and "degraded"; what the statistics, kubedns and the nanny say
 * can only degrade.
 */
#ifndef SIDECAR_VERDICT_H
#define SIDECAR_VERDICT_H

#include <stddef.h>

#include "sidecar/view.h"

enum level {
	LEVEL_WELL,
	LEVEL_NOTE,     /* of a finding only: worth reading, DNS is well */
	LEVEL_STARTING, /* nothing has been asked yet */
	LEVEL_DEGRADED, /* clients get answers, but something is wrong */
	LEVEL_DOWN,     /* clients get none */
	LEVEL_COUNT,
};

enum { FINDINGS_MAX = 16, SENTENCE_MAX = 256, FINDING_MAX = 512 };

struct finding {
	enum level level;
	char brief[SENTENCE_MAX];   /* "dnsmasq refuses connections":
				     * the part of the sentence after "but" */
	char what[SENTENCE_MAX];    /* "Probe dnsmasq: 127.0.0.1:53
				     * refuses connections, for 35 seconds" */
	char meaning[FINDING_MAX];  /* one or two sentences */
	char todo[FINDING_MAX];     /* what to look at */
	char command[SENTENCE_MAX]; /* with which command; "" without */
};

struct verdict {
	enum level level; /* of the worst finding; never LEVEL_NOTE */
	char sentence[SENTENCE_MAX];
	size_t count; /* of findings, worst first */
	struct finding findings[FINDINGS_MAX];
	size_t more; /* that there was no room for */
};

void verdict_make(struct verdict *verdict, const struct view *view);

/* "well", "note", "starting", "degraded", "down". */
const char *level_name(enum level level);

#endif
