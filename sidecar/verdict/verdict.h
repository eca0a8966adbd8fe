/*
 * The verdict on DNS: one sentence, and for each problem its effect on clients and what to do.
 * Pure: a view in, text out.
 *
 * Causes come before symptoms. The table of causes (verdict.c) is in the order of blame:
 * dead processes, the first sync, the servers that are asked, the configuration, then load. The
 * sentence names the first cause that holds; a probe that fails because of a cause is only a note.
 * A probe that no cause explains is a finding of its own.
 *
 * Clients ask dnsmasq (or, in the front topology, kubedns), so a probe of the address that clients
 * use decides between "down" and "degraded". Which topology it is, kubedns says: in the front
 * topology its --resolver is dnsmasq.
 *
 * The sentences fit the surroundings: commands and words of Kubernetes stand there only in a pod.
 */
#ifndef SIDECAR_VERDICT_VERDICT_H
#define SIDECAR_VERDICT_VERDICT_H

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

/* In the order of blame. */
enum verdict_cause {
	VERDICT_DNSMASQ,       /* its process is dead, or hangs */
	VERDICT_KUBEDNS,       /* the same */
	VERDICT_SYNC,          /* kubedns has not read the cluster */
	VERDICT_HOST,          /* another program in the host's network is in the way */
	VERDICT_SERVER,        /* an upstream or stub server does not answer */
	VERDICT_OUTSIDE,       /* they answer, and outside names fail through dnsmasq */
	VERDICT_UPSTREAM,      /* a server answers with errors, by dnsmasq's counts */
	VERDICT_FORWARDING,    /* what kubedns hands on fails, by its counts */
	VERDICT_CONFIGURATION, /* a key is refused, or dnsmasq has not confirmed the newest */
	VERDICT_LOOP,          /* a server leads back to dnsmasq */
	VERDICT_STUB_NAME,     /* a stub server's name has no address */
	VERDICT_MANIFESTS,     /* a file of --objects-dir has a mistake */
	VERDICT_API,           /* what kubedns knows grows old */
	VERDICT_LOAD,          /* packets are being dropped, clients held back */
	VERDICT_MEMORY,        /* a container is near its limit */
	VERDICT_CLOCK,         /* the node's clock was set */
	VERDICT_STATISTICS,    /* dnsmasq's cannot be read */
	VERDICT_CAUSES,
};

enum { FINDINGS_MAX = 16, SENTENCE_MAX = 256, FINDING_MAX = 512 };

struct finding {
	enum level level;
	enum verdict_cause cause;   /* VERDICT_CAUSES: a probe that no cause explains */
	bool past;                  /* it is over: worth reading, and holds no more */
	int64_t since_ns;           /* monotonic */
	const char *scope;          /* what still works, for the sentence; NULL: "DNS answers" */
	char brief[SENTENCE_MAX];   /* "kubedns is not running", for the sentence */
	char what[SENTENCE_MAX];    /* "kubedns is not running: connection refused, for 35 s" */
	char meaning[FINDING_MAX];  /* one or two sentences */
	char todo[FINDING_MAX];     /* what to look at */
	char command[SENTENCE_MAX]; /* with which command; "" without */
};

struct verdict {
	enum level level; /* of the worst finding; never LEVEL_NOTE */
	char sentence[SENTENCE_MAX];
	size_t count; /* of findings, in the order of blame, notes last */
	struct finding findings[FINDINGS_MAX];
	size_t more; /* that there was no room for */
	bool holds[VERDICT_CAUSES];
};

void verdict_make(struct verdict *verdict, const struct view *view);

/* "dnsmasq", "kubedns", "sync", ... */
const char *verdict_cause_name(enum verdict_cause cause);

/* "does not answer", "refuses connections", ... */
const char *cause_says(enum cause cause);

/* "well", "note", "starting", "degraded", "down". */
const char *level_name(enum level level);

#endif
