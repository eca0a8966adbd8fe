#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

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
		[VERDICT_DRIFT] = "drift",
		[VERDICT_CLOCK] = "clock",
		[VERDICT_STATISTICS] = "statistics",
	};

	return names[cause];
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

/* The table of causes and their rules. */
static void (*const rules[VERDICT_CAUSES])(struct judgement *) = {
	[VERDICT_DNSMASQ] = judge_dnsmasq,
	[VERDICT_KUBEDNS] = judge_kubedns,
	[VERDICT_SYNC] = judge_sync,
	[VERDICT_HOST] = judge_host,
	[VERDICT_SERVER] = judge_servers,
	[VERDICT_OUTSIDE] = judge_outside,
	[VERDICT_UPSTREAM] = judge_upstreams,
	[VERDICT_FORWARDING] = judge_forwarding,
	[VERDICT_CONFIGURATION] = judge_configuration,
	[VERDICT_LOOP] = judge_loop,
	[VERDICT_STUB_NAME] = judge_stub_name,
	[VERDICT_MANIFESTS] = judge_manifests,
	[VERDICT_API] = judge_api,
	[VERDICT_LOAD] = judge_load,
	[VERDICT_MEMORY] = judge_memory,
	[VERDICT_DRIFT] = judge_drift,
	[VERDICT_CLOCK] = judge_clock,
	[VERDICT_STATISTICS] = judge_statistics,
};

/* Applies the rules in the order of blame: the order of the enum. */
static void
judge_causes(struct judgement *j)
{
	for (int i = 0; i < VERDICT_CAUSES; i++) {
		size_t before = j->verdict->count + j->verdict->more - j->past;

		j->cause = (enum verdict_cause)i;
		rules[i](j);
		j->verdict->holds[i] = j->verdict->count + j->verdict->more - j->past > before;
	}
	j->cause = VERDICT_CAUSES;
}

/* Moves notes to the end. Problems keep their order, the order of blame. */
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

/* Writes the verdict's sentence. The sentence names the first finding of the verdict's level, and counts the other problems. If DNS is
 * down, a problem that only degrades DNS is therefore not named. */
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
		    view->cache->up ? "$engine is alive, but no probe checks whether it answers."
				    : "The sidecar has no probe: add --probe to its flags.");
	else if (tally->answered == 1)
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is healthy: the probe is answered, typically in %s.",
		    format_ms(tally->slowest_p50_ms, ms));
	else
		snprintf(verdict->sentence, sizeof verdict->sentence,
		    "DNS is healthy: %s probes are answered, typically within %s.", all,
		    format_ms(tally->slowest_p50_ms, ms));
}

/* Replaces each $engine in a text of `size` bytes by the name of the engine. */
static void
name_engine(char *text, size_t size, const char *engine)
{
	static const char marker[] = "$engine";
	char *at = text, copy[FINDING_MAX];

	assert(size <= sizeof copy);
	while ((at = strstr(at, marker)) != NULL) {
		snprintf(copy, sizeof copy, "%s", at + sizeof marker - 1);
		snprintf(at, size - (size_t)(at - text), "%s%s", engine, copy);
		at += strnlen(at, strlen(engine));
	}
}

/* Puts the name of the engine into all texts. The nanny reports it. dnsmasq is the default. */
static void
name_engines(struct verdict *verdict, const struct view *view)
{
	const char *engine = config_engine(view->nanny != NULL ? view->nanny->config : NULL);

	for (size_t i = 0; i < verdict->count; i++) {
		struct finding *finding = &verdict->findings[i];

		name_engine(finding->brief, sizeof finding->brief, engine);
		name_engine(finding->what, sizeof finding->what, engine);
		name_engine(finding->meaning, sizeof finding->meaning, engine);
		name_engine(finding->todo, sizeof finding->todo, engine);
	}
	name_engine(verdict->sentence, sizeof verdict->sentence, engine);
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
	name_engines(verdict, view);
}
