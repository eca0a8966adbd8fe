/*
 * The verdict on DNS is one sentence, and for each problem the effect on clients and what to do. Pure.
 *
 * Causes come before symptoms. The table of causes (verdict.c) has the order of blame: dead processes, the first sync, upstream and stub
 * servers, the configuration, then load. The sentence names the first cause that holds. If a cause explains why a probe fails, the probe is
 * only a note. Otherwise the failing probe is a separate finding.
 *
 * Clients query dnsmasq or, in the front topology, kubedns. The probes on this path decide between "down" and "degraded". In the front
 * topology, the --resolver of kubedns is dnsmasq. kubedns reports its --resolver as a metric.
 *
 * The texts depend on the surroundings: they mention Kubernetes and kubectl only in a pod.
 */
#ifndef SIDECAR_VERDICT_VERDICT_H
#define SIDECAR_VERDICT_VERDICT_H

#include <stddef.h>

#include "sidecar/view.h"

enum level {
	LEVEL_WELL,
	LEVEL_NOTE,     /* worth reading, but DNS works; only findings have this level */
	LEVEL_STARTING, /* no probe has a result yet */
	LEVEL_DEGRADED, /* clients get answers, but something is wrong */
	LEVEL_DOWN,     /* clients get no answers */
	LEVEL_COUNT,
};

/* The causes, in the order of blame. */
enum verdict_cause {
	VERDICT_DNSMASQ,    /* dnsmasq is dead or hangs */
	VERDICT_KUBEDNS,    /* kubedns is dead or hangs */
	VERDICT_SYNC,       /* kubedns has not read the cluster yet */
	VERDICT_HOST,       /* another program on the host interferes */
	VERDICT_SERVER,     /* an upstream or stub server does not answer */
	VERDICT_OUTSIDE,    /* external names fail through dnsmasq, although the servers answer */
	VERDICT_UPSTREAM,   /* an upstream returns errors, according to dnsmasq's counts */
	VERDICT_FORWARDING, /* queries that kubedns forwards fail, according to kubedns's counts */
	VERDICT_CONFIGURATION, /* a key is refused, or dnsmasq has not confirmed the configuration */
	VERDICT_LOOP,          /* a server forwards queries back to dnsmasq */
	VERDICT_STUB_NAME,     /* a stub server's name has no address */
	VERDICT_MANIFESTS,     /* a file of --objects-dir has a mistake */
	VERDICT_API,           /* kubedns's data are getting old */
	VERDICT_LOAD,          /* packets are dropped, or clients exceed their share */
	VERDICT_MEMORY,        /* a container is near its limit */
	VERDICT_DRIFT,         /* kubedns's data differed from the API */
	VERDICT_CLOCK,         /* the node's clock was set */
	VERDICT_STATISTICS,    /* dnsmasq's statistics cannot be read */
	VERDICT_CAUSES,
};

enum { FINDINGS_MAX = 16, SENTENCE_MAX = 256, FINDING_MAX = 512 };

struct finding {
	enum level level;
	enum verdict_cause cause; /* VERDICT_CAUSES for a failing probe */
	bool past;                /* the cause does not hold any more, but is worth reading */
	int64_t since_ns;         /* monotonic */
	/* start of the sentence, which says what still works; NULL for "DNS answers" */
	const char *scope;
	char brief[SENTENCE_MAX];   /* part of the sentence: "kubedns is not running" */
	char what[SENTENCE_MAX];    /* "kubedns is not running: connection refused, for 35 s" */
	char meaning[FINDING_MAX];  /* one or two sentences */
	char todo[FINDING_MAX];     /* what to do */
	char command[SENTENCE_MAX]; /* command to run; "" without one */
};

struct verdict {
	enum level level; /* level of the worst finding; never LEVEL_NOTE */
	char sentence[SENTENCE_MAX];
	size_t count; /* number of findings; they are in the order of blame, with notes last */
	struct finding findings[FINDINGS_MAX];
	size_t more; /* number of findings beyond FINDINGS_MAX */
	bool holds[VERDICT_CAUSES];
};

void verdict_make(struct verdict *verdict, const struct view *view);

/* Returns the name of the cause: "dnsmasq", "kubedns", "sync", ... */
const char *verdict_cause_name(enum verdict_cause cause);

/* Returns the cause of a failed probe as the end of a sentence: "does not answer", "refuses connections", ... */
const char *cause_says(enum cause cause);

/* Returns what this cause means, and what an operator does about it. */
const char *cause_meaning(enum cause cause);
const char *cause_todo(enum cause cause);

/* Returns the name of the level: "well", "note", "starting", "degraded" or "down". */
const char *level_name(enum level level);

#endif
