#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/config.h"
#include "sidecar/text.h"
#include "sidecar/verdict.h"

#define LOGS(container) "kubectl -n kube-system logs -l k8s-app=kube-dns -c " container " --tail=50"
#define TOP             "kubectl -n kube-system top pods -l k8s-app=kube-dns --containers"
#define PODS            "kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"

enum {
	PAST_MIN = 20, /* fewer questions say nothing about a ratio */
	FAILED_PERCENT = 10,
	UNCONFIRMED_S = 10,
};

const char *
level_name(enum level level)
{
	static const char *const names[] = {
		[LEVEL_WELL] = "well",
		[LEVEL_NOTE] = "note",
		[LEVEL_STARTING] = "starting",
		[LEVEL_DEGRADED] = "degraded",
		[LEVEL_DOWN] = "down",
	};

	return names[level];
}

/* What each way to fail means, and where to look. */
static const struct {
	const char *says, *meaning, *todo, *command;
} causes[CAUSE_COUNT] = {
	[CAUSE_NOT_READY] = { "is waiting for its first sync",
	    "The server is alive, but it has not read the cluster's Services yet. Until it has, "
	    "cluster names are answered with SERVFAIL; other names work.",
	    "Can kubedns reach the API server, and may it list services and endpointslices?",
	    LOGS("kubedns") },
	[CAUSE_TIMEOUT] = { "does not answer",
	    "The question was sent and nothing came back in time: the process hangs, is starved of "
	    "CPU, or its packets are dropped.",
	    "Is a container throttled or restarting?", TOP },
	[CAUSE_CONNECTION_REFUSED] = { "refuses connections",
	    "No process listens at that address and port.",
	    "Is its container running, and does it listen there?", PODS },
	[CAUSE_UNREACHABLE] = { "cannot be reached",
	    "The network says that there is no way to that address.",
	    "Check the address in --probe, and the pod's interfaces.", "" },
	[CAUSE_MALFORMED] = { "answers with something that is not DNS",
	    "Bytes came back that are no DNS message, or that answer another question.",
	    "Check the address and port in --probe: another program may be listening there.", "" },
	[CAUSE_WRONG_ID] = { "answers with the wrong ID",
	    "Replies came back whose ID is not that of the question: a broken server or proxy, or "
	    "somebody who guesses.",
	    "See who answers there; the replies were not used.", "" },
	[CAUSE_NXDOMAIN] = { "says that the name does not exist",
	    "The server is alive and answers, but the probed name is unknown to it.",
	    "Does the probed Service exist, and is --domain the cluster's domain?",
	    "kubectl get services -A" },
	[CAUSE_SERVFAIL] = { "answers with SERVFAIL",
	    "The server is alive, but it could not find an answer: usually whoever it asks in turn "
	    "is away.",
	    "For dnsmasq look at kubedns and the upstream servers below, for kubedns at its "
	    "upstreams.",
	    LOGS("kubedns") },
	[CAUSE_REFUSED] = { "answers with REFUSED",
	    "The server will not answer: it has no server for this name, or too many questions are "
	    "waiting already.",
	    "Check the servers in force below, and dnsmasq's --dns-forward-max.", LOGS("dnsmasq") },
	[CAUSE_RCODE] = { "answers with an error",
	    "The server is alive, and rejects the question itself.",
	    "Is it a DNS server for this zone? The error code is shown with the probe.", "" },
	[CAUSE_NO_RECORDS] = { "has no such records",
	    "The name exists, but not with the record type that the probe asks for.",
	    "Check name and type in --probe.", "" },
};

static struct finding *add(struct verdict *verdict, enum level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static struct finding *
add(struct verdict *verdict, enum level level, const char *fmt, ...)
{
	static struct finding surplus;
	va_list ap;

	if (level != LEVEL_NOTE && level > verdict->level)
		verdict->level = level;
	struct finding *finding = &surplus;
	if (verdict->count < FINDINGS_MAX)
		finding = &verdict->findings[verdict->count++];
	else
		verdict->more++;
	*finding = (struct finding){ .level = level };
	va_start(ap, fmt);
	vsnprintf(finding->what, sizeof finding->what, fmt, ap);
	va_end(ap);
	return finding;
}

static void brief(struct finding *finding, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
brief(struct finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->brief, sizeof finding->brief, fmt, ap);
	va_end(ap);
}

static void
explain(struct finding *finding, const char *meaning, const char *todo, const char *command)
{
	snprintf(finding->meaning, sizeof finding->meaning, "%s", meaning);
	snprintf(finding->todo, sizeof finding->todo, "%s", todo);
	snprintf(finding->command, sizeof finding->command, "%s", command);
}

static const char *
ago(int64_t now_ns, int64_t then_ns, char *text)
{
	return text_duration((double)(now_ns - then_ns) / 1e9, text);
}

/* Whether it asks the address that clients use: port 53, or the dnsmasq that was named. */
static bool
is_client_path(const struct view *view, const struct probe *probe)
{
	return probe->spec.server.port == 53 || server_equal(&probe->spec.server, &view->dnsmasq);
}

/* What the probes come to. */
struct tally {
	size_t asked, answered;
	size_t client, client_answered; /* of those that ask where clients ask */
	const struct probe
	    *worst; /* the failing one to name in the sentence: the clients' own before others */
	double slowest_p50_ms;
};

/* Whether somebody is there who answers questions, be it not this one as it should. */
static bool
is_answering(enum cause cause)
{
	return cause_is_alive(cause) || cause == CAUSE_NXDOMAIN || cause == CAUSE_NO_RECORDS;
}

static void
tally_probe(struct tally *tally, const struct view *view, const struct probe *probe)
{
	bool answering = is_answering(probe->cause), client = is_client_path(view, probe);
	struct history_summary summary;

	if (!probe->asked)
		return;
	tally->asked++;
	tally->answered += answering;
	tally->client += client;
	tally->client_answered += client && answering;
	if (!answering && (tally->worst == NULL || (client && !is_client_path(view, tally->worst))))
		tally->worst = probe;
	history_summary(&probe->history, view->now_ns - HISTORY_S * NS_PER_S, &summary);
	if (!isnan(summary.p50_ms) && summary.p50_ms > tally->slowest_p50_ms)
		tally->slowest_p50_ms = summary.p50_ms;
}

static bool
is_down(const struct tally *tally)
{
	if (tally->asked == 0)
		return false;
	return tally->client > 0 ? tally->client_answered == 0 : tally->answered == 0;
}

/* Answered now, but often not in the last minutes: worth knowing, no reason for alarm. */
static void
judge_past(struct verdict *verdict, const struct view *view, const struct probe *probe)
{
	struct history_summary summary;

	history_summary(&probe->history, view->now_ns - HISTORY_S * NS_PER_S, &summary);
	if (summary.total < PAST_MIN || summary.failed * 100 < summary.total * FAILED_PERCENT)
		return;
	explain(add(verdict, LEVEL_NOTE, "Probe %s failed %u of %u times in the last 10 minutes",
		    probe->spec.label, summary.failed, summary.total),
	    "It is answered now. The chart shows when it was not, and the figures under it why.",
	    "If it happens again, look for restarts and for a CPU limit that is too low.", TOP);
}

static void
judge_probe(struct verdict *verdict, const struct view *view, const struct probe *probe,
    const struct tally *tally)
{
	char server[SERVER_TEXT_MAX], since[TEXT_MAX];
	bool decides = tally->client == 0 || is_client_path(view, probe);

	if (!probe->asked)
		return;
	if (probe->cause == CAUSE_OK) {
		judge_past(verdict, view, probe);
		return;
	}
	enum level level = is_down(tally) && decides ? LEVEL_DOWN : LEVEL_DEGRADED;
	struct finding *finding = add(verdict, level, "Probe %s: %s %s, for %s", probe->spec.label,
	    server_format(&probe->spec.server, server), causes[probe->cause].says,
	    ago(view->now_ns, probe->since_ns, since));
	brief(finding, "%s %s", probe->spec.label, causes[probe->cause].says);
	explain(finding, causes[probe->cause].meaning, causes[probe->cause].todo,
	    causes[probe->cause].command);
}

static void
judge_statistics(struct verdict *verdict, const struct view *view, const struct tally *tally)
{
	char server[SERVER_TEXT_MAX];

	/* Where the clients' own probe has said that nobody is there, this says nothing new. */
	if (view->cache->up || view->cache->errors == 0 || is_down(tally))
		return;
	struct finding *finding = add(verdict, tally->client > 0 ? LEVEL_NOTE : LEVEL_DEGRADED,
	    "dnsmasq at %s gives no statistics: %s", server_format(&view->dnsmasq, server),
	    view->cache->error);
	brief(finding, "dnsmasq gives no statistics");
	explain(finding, "Cache and upstream figures on this page stand still until it does.",
	    "If dnsmasq itself answers, it may run with --no-ident, or --dnsmasq-addr and "
	    "--dnsmasq-port may name another server.",
	    "");
}

static void
judge_upstream(struct verdict *verdict, const struct view *view, const struct upstream *upstream)
{
	char server[SERVER_TEXT_MAX], queries[TEXT_MAX], failed[TEXT_MAX];
	uint64_t asked = buckets_sum(&upstream->recent_queries, view->now_ns);
	uint64_t bad = buckets_sum(&upstream->recent_failed, view->now_ns);

	if (asked < PAST_MIN || bad * 100 < asked * FAILED_PERCENT)
		return;
	struct finding *finding = add(verdict, LEVEL_DEGRADED,
	    "Upstream %s failed %s of %s queries in the last 10 minutes",
	    server_format(&upstream->server, server), text_count(bad, failed),
	    text_count(asked, queries));
	brief(finding, "upstream %s fails", server);
	explain(finding,
	    "Names that this server is asked for are slow or fail; dnsmasq tries the others of the "
	    "same domain, if there are any.",
	    "Is it up and reachable from the node? If it is gone for good, take it out of the "
	    "ConfigMap kube-system/kube-dns or the node's resolv.conf.",
	    "kubectl -n kube-system get configmap kube-dns -o yaml");
}

static void
judge_events(struct verdict *verdict, const struct view *view)
{
	double silence_s = kubedns_silence_s(view->kubedns, view->now_s);
	char text[TEXT_MAX];

	if (silence_s <= 0)
		return;
	struct finding *finding = add(verdict, LEVEL_DEGRADED,
	    "kubedns has heard nothing from the API server for %s", text_duration(silence_s, text));
	brief(finding, "kubedns has heard nothing from the API server for %s", text);
	explain(finding,
	    "Names are answered from what was known then; Services and pods that changed since are "
	    "missing or wrong.",
	    "Is the API server up, and is the way from the pod to it open?", LOGS("kubedns"));
}

static void
judge_kubedns(struct verdict *verdict, const struct view *view)
{
	const struct kubedns_view *kubedns = view->kubedns;

	if (kubedns == NULL || !kubedns->seen)
		return;
	if (!kubedns->up) {
		explain(add(verdict, LEVEL_NOTE, "kubedns does not answer at its health port: %s",
			    kubedns->error),
		    "What this page shows of kubedns is old.", "Is its container running?",
		    LOGS("kubedns"));
		return;
	}
	if (!kubedns->ready) {
		struct finding *finding =
		    add(verdict, LEVEL_DEGRADED, "kubedns is not ready%s%.160s",
			kubedns->reasons[0] != '\0' ? ": " : "", kubedns->reasons);
		brief(finding, "kubedns is not ready");
		explain(finding,
		    "Until its first sync it answers cluster names with SERVFAIL; while it drains "
		    "it goes on answering.",
		    "Can it reach the API server, and may it list services and endpointslices?",
		    LOGS("kubedns"));
	}
	judge_events(verdict, view);
}

static void
judge_refusal(
    struct verdict *verdict, const struct view *view, const struct config_refusal *refusal)
{
	/* The reason quotes the ConfigMap, which is not for every peer to read. */
	struct finding *finding =
	    add(verdict, LEVEL_DEGRADED, "The ConfigMap's %.64s was refused%s%.170s", refusal->key,
		view->may_ask ? ": " : "", view->may_ask ? refusal->reason : "");

	brief(finding, "the ConfigMap's %.64s was refused", refusal->key);
	explain(finding,
	    "The last good value of this key stays in force; the other keys are not affected.",
	    "Correct the key; the nanny takes it as soon as the volume has it.",
	    "kubectl -n kube-system edit configmap kube-dns");
}

static void
judge_names(struct verdict *verdict, const struct view *view)
{
	const char *why, *name = config_unresolved(view->nanny->config, 0, &why);

	if (name == NULL)
		return;
	/* Names of stub servers come from the ConfigMap too. */
	struct finding *finding =
	    add(verdict, LEVEL_DEGRADED, "A stub domain's server has no address%s%.120s%s%.80s",
		view->may_ask ? ": " : "", view->may_ask ? name : "",
		view->may_ask && why[0] != '\0' ? ": " : "", view->may_ask ? why : "");
	brief(finding, "a stub domain's server has no address");
	explain(finding,
	    "It is given by name, and that name cannot be resolved; the stub domain's names are "
	    "not "
	    "answered unless it has other servers.",
	    "Does the name exist, and do the upstream servers answer for it? An address in its "
	    "place needs no resolving.",
	    "kubectl -n kube-system get configmap kube-dns -o yaml");
}

static void
judge_nanny(struct verdict *verdict, const struct view *view)
{
	struct config_refusal refusal;

	if (view->nanny == NULL || !view->nanny->up)
		return;
	for (size_t i = 0; config_refusal_get(view->nanny->config, i, &refusal); i++)
		judge_refusal(verdict, view, &refusal);
	judge_names(verdict, view);
	/* A change takes a moment to be confirmed: only one that is not is worth a word. */
	if (view->nanny->unconfirmed_ns == 0 ||
	    view->now_ns - view->nanny->unconfirmed_ns < UNCONFIRMED_S * NS_PER_S)
		return;
	struct finding *finding =
	    add(verdict, LEVEL_DEGRADED, "dnsmasq has not confirmed the newest configuration");
	brief(finding, "dnsmasq has not confirmed the newest configuration");
	explain(finding,
	    "The nanny has written it and told dnsmasq, and dnsmasq still shows the one before.",
	    "Wait a few seconds; if it stays so, read what dnsmasq and the nanny say.",
	    LOGS("dnsmasq"));
}

/* Worst first, and among equals in the order in which they were found:
 * probes before what explains them. */
static void
sort_findings(struct verdict *verdict)
{
	for (size_t i = 1; i < verdict->count; i++) {
		struct finding finding = verdict->findings[i];
		size_t j = i;
		for (; j > 0 && verdict->findings[j - 1].level < finding.level; j--)
			verdict->findings[j] = verdict->findings[j - 1];
		verdict->findings[j] = finding;
	}
}

/* When something is wrong the sentence names the first thing and counts the rest. */
static void
say_problem(struct verdict *verdict, const struct view *view, const struct tally *tally)
{
	char since[TEXT_MAX], more[48] = "";
	size_t problems = verdict->more;

	if (verdict->level == LEVEL_DOWN) {
		assert(tally->worst != NULL); /* a failing probe is what made it so */
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is down: %.150s, for %s.", verdict->findings[0].brief,
		    ago(view->now_ns, tally->worst->since_ns, since));
		return;
	}
	for (size_t i = 0; i < verdict->count; i++)
		problems += verdict->findings[i].level == LEVEL_DEGRADED;
	if (problems > 1)
		snprintf(more, sizeof more, "; %zu more below", problems - 1);
	snprintf(verdict->sentence, sizeof verdict->sentence, "DNS answers, but %.150s%s.",
	    verdict->findings[0].brief, more);
}

static void
say_well(struct verdict *verdict, const struct view *view, const struct tally *tally)
{
	char ms[TEXT_MAX], all[TEXT_MAX] = "both";

	if (tally->answered != 2)
		snprintf(all, sizeof all, "all %zu", tally->answered);
	if (view->probe_count == 0)
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    view->cache->up ? "dnsmasq is alive; no probe asks whether it answers names."
				    : "Nothing is probed: give the sidecar a --probe.");
	else if (tally->answered == 1)
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is well: the probe is answered, typically in %s.",
		    text_ms(tally->slowest_p50_ms, ms));
	else
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is well: %s probes are answered, typically within %s.", all,
		    text_ms(tally->slowest_p50_ms, ms));
}

void
verdict_make(struct verdict *verdict, const struct view *view)
{
	struct tally tally = { 0 };

	*verdict = (struct verdict){ .level = LEVEL_WELL };
	for (size_t i = 0; i < view->probe_count; i++)
		tally_probe(&tally, view, &view->probes[i]);
	for (size_t i = 0; i < view->probe_count; i++)
		judge_probe(verdict, view, &view->probes[i], &tally);
	judge_statistics(verdict, view, &tally);
	for (size_t i = 0; i < view->cache->upstream_count; i++)
		judge_upstream(verdict, view, &view->cache->upstreams[i]);
	judge_kubedns(verdict, view);
	judge_nanny(verdict, view);
	sort_findings(verdict);

	if (verdict->level < LEVEL_DEGRADED && tally.asked < view->probe_count)
		verdict->level = LEVEL_STARTING;
	if (verdict->level == LEVEL_STARTING)
		snprintf(
		    verdict->sentence, sizeof verdict->sentence, "Waiting for the first answers.");
	else if (verdict->level == LEVEL_WELL)
		say_well(verdict, view, &tally);
	else
		say_problem(verdict, view, &tally);
}
