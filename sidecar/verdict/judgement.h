/*
 * The judgement is the state that the rules (rules.h) use while they find the verdict.
 *
 *	view --tally--> judgement --rules, in the order of blame--> findings --> sentence
 *
 * A rule reads the view and the judgement, and adds findings. The rule also adds the failures that its findings explain to `blamed`. Later
 * rules do not report these failures again. No function in judgement.c depends on a rule.
 */
#ifndef SIDECAR_VERDICT_JUDGEMENT_H
#define SIDECAR_VERDICT_JUDGEMENT_H

#include "sidecar/verdict/verdict.h"

enum {
	PAST_MIN = 20, /* with fewer queries, a ratio is not meaningful */
	FAILED_PERCENT = 10,
};

/* The failures that an earlier finding explains. */
enum blamed {
	BLAMED_DNSMASQ = 1 << 0, /* queries to dnsmasq */
	/* queries to kubedns, and queries for cluster names through dnsmasq */
	BLAMED_KUBEDNS = 1 << 1,
	BLAMED_UPSTREAM = 1 << 2, /* queries for external names through dnsmasq */
	BLAMED_SYNC = 1 << 3,     /* CAUSE_NOT_READY, from either server */
};

/* Which server clients query. In the classic topology this is dnsmasq. In the front topology it is kubedns, which forwards external names
 * to dnsmasq. */
enum topology { TOPOLOGY_UNKNOWN, TOPOLOGY_CLASSIC, TOPOLOGY_FRONT };

/* The results of the probes in numbers. */
struct tally {
	size_t asked, answered;
	size_t client, client_answered; /* the same for probes on the path of clients */
	const struct probe
	    *worst; /* the failing probe to report; if possible, a probe on the path of clients */
	double slowest_p50_ms;
};

struct judgement {
	struct verdict *verdict;
	const struct view *view;
	struct tally tally;
	enum verdict_cause cause; /* cause of the rule that is running */
	bool dnsmasq_answers;     /* dnsmasq returns its statistics, which no other server has */
	unsigned blamed;          /* bits of enum blamed */
	size_t past;              /* number of findings that are over */
};

/* In the texts of a finding, $engine stands for the name of the nanny's engine: dnsmasq or unbound. */

/* Adds a finding. If there are already FINDINGS_MAX findings, only counts it. */
struct finding *finding_add(struct judgement *j, enum level level, int64_t since_ns,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Sets the finding's part of the verdict's sentence. */
void finding_brief(struct finding *finding, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

void finding_explain(const struct judgement *j, struct finding *finding, const char *meaning,
    const char *todo, enum command command);

/* Marks the finding as over. The page still shows the finding, but its cause does not hold any more. */
void finding_past(struct judgement *j, struct finding *finding);

/* Returns the text `pod` if the sidecar runs in a pod, where there are containers, a kubelet and a ConfigMap. Otherwise returns
 * `elsewhere`. */
const char *in_pod(const struct judgement *j, const char *pod, const char *elsewhere);

/* Whether the nanny runs unbound in place of dnsmasq. */
bool runs_unbound(const struct view *view);

enum topology topology_of(const struct view *view);

/* Whether no probe on the path of clients is answered. */
bool clients_get_none(const struct judgement *j);

/* Whether the probe is on the path of clients. In the front topology, every probe is on this path, except probes of the dnsmasq of
 * --dnsmasq-addr. In other topologies, probes of this dnsmasq and of port 53 are on this path. */
bool is_client_path(const struct view *view, const struct probe *probe);

/* Whether the server answers the query, even if the name or the record is missing. */
bool is_answering(enum cause cause);

/* Writes how long ago `then_ns` was to `text` of FORMAT_MAX bytes, and returns `text`. */
const char *verdict_ago(const struct view *view, int64_t then_ns, char *text);

#endif
