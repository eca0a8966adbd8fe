#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/format.h"
#include "sidecar/verdict/verdict_internal.h"

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

const char *
verdict_cause_name(enum verdict_cause cause)
{
	static const char *const names[VERDICT_CAUSES] = {
		[VERDICT_DNSMASQ] = "dnsmasq",
		[VERDICT_KUBEDNS] = "kubedns",
		[VERDICT_SYNC] = "sync",
		[VERDICT_HOST] = "host",
		[VERDICT_SERVER] = "server",
		[VERDICT_OUTSIDE] = "outside",
		[VERDICT_UPSTREAM] = "upstream",
		[VERDICT_FORWARDING] = "forwarding",
		[VERDICT_CONFIGURATION] = "configuration",
		[VERDICT_LOOP] = "loop",
		[VERDICT_STUB_NAME] = "stub_name",
		[VERDICT_MANIFESTS] = "manifests",
		[VERDICT_API] = "api",
		[VERDICT_LOAD] = "load",
		[VERDICT_MEMORY] = "memory",
		[VERDICT_CLOCK] = "clock",
		[VERDICT_STATISTICS] = "statistics",
	};

	return names[cause];
}

struct finding *
finding_add(struct judgement *j, enum level level, int64_t since_ns, const char *fmt, ...)
{
	static struct finding surplus;
	struct verdict *verdict = j->verdict;
	va_list ap;

	if (level != LEVEL_NOTE && level > verdict->level)
		verdict->level = level;
	struct finding *finding = &surplus;
	if (verdict->count < FINDINGS_MAX)
		finding = &verdict->findings[verdict->count++];
	else
		verdict->more++;
	*finding = (struct finding){ .level = level, .cause = j->cause, .since_ns = since_ns };
	va_start(ap, fmt);
	vsnprintf(finding->what, sizeof finding->what, fmt, ap);
	va_end(ap);
	return finding;
}

void
finding_brief(struct finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->brief, sizeof finding->brief, fmt, ap);
	va_end(ap);
}

void
finding_explain(const struct judgement *j, struct finding *finding, const char *meaning,
    const char *todo, enum command command)
{
	snprintf(finding->meaning, sizeof finding->meaning, "%s", meaning);
	snprintf(finding->todo, sizeof finding->todo, "%s", todo);
	snprintf(finding->command, sizeof finding->command, "%s",
	    surroundings_command(j->view->surroundings, command));
}

void
finding_past(struct judgement *j, struct finding *finding)
{
	finding->past = true;
	j->past++;
}

const char *
in_pod(const struct judgement *j, const char *pod, const char *elsewhere)
{
	return j->view->surroundings == SURROUNDINGS_POD ? pod : elsewhere;
}

enum topology
topology_of(const struct view *view)
{
	const struct kubedns_view *kubedns = view->kubedns;
	bool front = false;

	if (kubedns != NULL && kubedns->seen)
		return kubedns->has_resolver && server_equal(&kubedns->resolver, &view->dnsmasq)
			   ? TOPOLOGY_FRONT
			   : TOPOLOGY_CLASSIC;
	/* kubedns has said nothing yet: then by whom the probes ask. */
	for (size_t i = 0; i < view->probe_count; i++) {
		const struct server *server = &view->probes[i].spec.server;
		if (server_equal(server, &view->dnsmasq))
			return TOPOLOGY_CLASSIC;
		front |= server->port == 53;
	}
	return front ? TOPOLOGY_FRONT : TOPOLOGY_UNKNOWN;
}

const char *
verdict_ago(const struct view *view, int64_t then_ns, char *text)
{
	return format_duration((double)(view->now_ns - then_ns) / 1e9, text);
}

bool
is_client_path(const struct view *view, const struct probe *probe)
{
	bool dnsmasq = server_equal(&probe->spec.server, &view->dnsmasq);

	if (topology_of(view) == TOPOLOGY_FRONT)
		return !dnsmasq;
	return dnsmasq || probe->spec.server.port == 53;
}

bool
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

bool
clients_get_none(const struct judgement *j)
{
	const struct tally *tally = &j->tally;

	if (tally->asked == 0)
		return false;
	return tally->client > 0 ? tally->client_answered == 0 : tally->answered == 0;
}

/* Notes last; what is wrong stays in the order in which it was found, which is that of blame. */
static void
sort_findings(struct verdict *verdict)
{
	for (size_t i = 1; i < verdict->count; i++) {
		struct finding finding = verdict->findings[i];
		size_t k = i;
		for (; k > 0 && finding.level != LEVEL_NOTE &&
		       verdict->findings[k - 1].level == LEVEL_NOTE;
		     k--)
			verdict->findings[k] = verdict->findings[k - 1];
		verdict->findings[k] = finding;
	}
}

/* When something is wrong the sentence names the first thing that is as bad as all of it, and counts the
 * rest: a dead server of two is not why clients get no answer at all. */
static void
say_problem(struct verdict *verdict, const struct view *view)
{
	const struct finding *first = &verdict->findings[0];
	char since[FORMAT_MAX], more[48] = "";
	size_t problems = verdict->more;

	if (verdict->level == LEVEL_DOWN) {
		for (size_t i = 0; first->level != LEVEL_DOWN && i < verdict->count; i++)
			first = &verdict->findings[i];
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is down: %.150s, for %s.", first->brief,
		    verdict_ago(view, first->since_ns, since));
		return;
	}
	for (size_t i = 0; i < verdict->count; i++)
		problems += verdict->findings[i].level == LEVEL_DEGRADED;
	if (problems > 1)
		snprintf(more, sizeof more, "; %zu more below", problems - 1);
	snprintf(verdict->sentence, sizeof verdict->sentence, "%s, but %.150s%s.",
	    first->scope != NULL ? first->scope : "DNS answers", first->brief, more);
}

static void
say_well(struct verdict *verdict, const struct view *view, const struct tally *tally)
{
	char ms[FORMAT_MAX], all[FORMAT_MAX] = "both";

	if (tally->answered != 2)
		snprintf(all, sizeof all, "all %zu", tally->answered);
	if (view->probe_count == 0)
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    view->cache->up ? "dnsmasq is alive; no probe asks whether it answers names."
				    : "Nothing is probed: give the sidecar a --probe.");
	else if (tally->answered == 1)
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is well: the probe is answered, typically in %s.",
		    format_ms(tally->slowest_p50_ms, ms));
	else
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is well: %s probes are answered, typically within %s.", all,
		    format_ms(tally->slowest_p50_ms, ms));
}

void
verdict_make(struct verdict *verdict, const struct view *view)
{
	struct judgement j = {
		.verdict = verdict, .view = view, .dnsmasq_answers = view->cache->up
	};

	*verdict = (struct verdict){ .level = LEVEL_WELL };
	for (size_t i = 0; i < view->probe_count; i++)
		tally_probe(&j.tally, view, &view->probes[i]);
	judge_causes(&j);
	judge_probes(&j);
	sort_findings(verdict);

	if (verdict->level < LEVEL_DEGRADED && j.tally.asked < view->probe_count)
		verdict->level = LEVEL_STARTING;
	if (verdict->level == LEVEL_STARTING)
		snprintf(
		    verdict->sentence, sizeof verdict->sentence, "Waiting for the first answers.");
	else if (verdict->level == LEVEL_WELL)
		say_well(verdict, view, &j.tally);
	else
		say_problem(verdict, view);
}
