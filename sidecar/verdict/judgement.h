/*
 * The judgement: the state that the rules (rules.h) read and write while a verdict is made.
 *
 *	view --tally--> judgement --rules, in the order of blame--> findings --> sentence
 *
 * A rule reads the view and the facts here, adds findings, and sets `blamed` for the failures that it
 * explains, so that later rules do not report them again. No function here knows a rule.
 */
#ifndef SIDECAR_VERDICT_JUDGEMENT_H
#define SIDECAR_VERDICT_JUDGEMENT_H

#include "sidecar/verdict/verdict.h"

enum {
	PAST_MIN = 20, /* with fewer queries a ratio means nothing */
	FAILED_PERCENT = 10,
};

/* Why clients of a server get no answer, when that is not the server's own fault. */
enum blamed {
	BLAMED_DNSMASQ = 1 << 0,  /* what is asked of dnsmasq */
	BLAMED_KUBEDNS = 1 << 1,  /* what is asked of kubedns, and cluster names through dnsmasq */
	BLAMED_UPSTREAM = 1 << 2, /* outside names through dnsmasq */
	BLAMED_SYNC = 1 << 3,     /* NOT_READY, of whoever is asked */
};

/* Whom clients ask: dnsmasq, or kubedns, which sends dnsmasq the external names. */
enum topology { TOPOLOGY_UNKNOWN, TOPOLOGY_CLASSIC, TOPOLOGY_FRONT };

/* What the probes come to. */
struct tally {
	size_t asked, answered;
	size_t client, client_answered; /* of those that ask where clients ask */
	const struct probe *worst; /* the failing one to name: the clients' own before others */
	double slowest_p50_ms;
};

struct judgement {
	struct verdict *verdict;
	const struct view *view;
	struct tally tally;
	enum verdict_cause cause; /* that is being judged */
	bool dnsmasq_answers;     /* it gives its statistics, which no other server has */
	unsigned blamed;          /* enum blamed: explained by a finding that is already there */
	size_t past;              /* findings that are over */
};

/* Adds a finding; one that there is no room for is counted only. */
struct finding *finding_add(struct judgement *j, enum level level, int64_t since_ns,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The part of the sentence. */
void finding_brief(struct finding *finding, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void finding_explain(const struct judgement *j, struct finding *finding, const char *meaning,
    const char *todo, enum command command);

/* Marks the finding as over: it is shown, but it does not make its cause hold. */
void finding_past(struct judgement *j, struct finding *finding);

/* `pod` in a pod, where there are containers, a kubelet and a ConfigMap; else `elsewhere`. */
const char *in_pod(const struct judgement *j, const char *pod, const char *elsewhere);

enum topology topology_of(const struct view *view);

/* Whether probes on the clients' path get no answer. */
bool clients_get_none(const struct judgement *j);

/* Whether the probe asks the address that clients use: port 53, or the dnsmasq that was named. */
bool is_client_path(const struct view *view, const struct probe *probe);

/* Whether the server replies at all, even with an error. */
bool is_answering(enum cause cause);

/* How long ago, into `text` of FORMAT_MAX bytes. */
const char *verdict_ago(const struct view *view, int64_t then_ns, char *text);

#endif
