/* Rules about processes: dnsmasq and kubedns. */
#include <stdio.h>

#include "lib/clock.h"
#include "lib/program_state.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

/* --- the processes --- */

static enum level
level_of_process(const struct judgement *j)
{
	return clients_get_none(j) ? LEVEL_DOWN : LEVEL_DEGRADED;
}

/* Returns the effect of a missing dnsmasq on clients. */
static const char *
what_dnsmasq_loses(const struct judgement *j)
{
	static const char *const texts[] = {
		[TOPOLOGY_UNKNOWN] = "Every query to $engine is lost.",
		[TOPOLOGY_CLASSIC] = "Clients send every query to $engine, so every name fails, "
				     "including cluster names.",
		[TOPOLOGY_FRONT] =
		    "kubedns forwards every external name to $engine, so these names fail "
		    "once they expire in kubedns's answer cache, after 5 seconds.",
	};

	return texts[topology_of(j->view)];
}

/* Sets the finding's part of the sentence. In the front topology only external names fail. */
static void
lose_external_names(const struct judgement *j, struct finding *finding, const char *what)
{
	bool front = topology_of(j->view) == TOPOLOGY_FRONT;

	finding_brief(finding, "%s%s", front ? "external names fail: " : "", what);
	if (front)
		finding->scope = "Cluster names are answered";
}

/* Adds a finding and returns true if the nanny reports that dnsmasq is not running. */
static bool
dnsmasq_is_dead(struct judgement *j)
{
	const struct nanny_view *nanny = j->view->nanny;
	struct json_object *dnsmasq = config_member(nanny->config, "dnsmasq", json_type_object);
	enum child_state state = child_state_named(config_string(dnsmasq, "state"));

	if (!nanny->up || j->dnsmasq_answers || (state != CHILD_BACKOFF && state != CHILD_STOPPED))
		return false;
	struct finding *finding = finding_add(j, level_of_process(j), j->view->cache->since_ns,
	    "$engine is not running: it died %.0f times, and the nanny starts it again",
	    config_number(dnsmasq, "deaths"));
	finding_explain(j, finding, what_dnsmasq_loses(j),
	    "Why does $engine exit? The nanny logs the last lines of its log.",
	    COMMAND_LOGS_DNSMASQ);
	lose_external_names(j, finding, "$engine is not running");
	return true;
}

/* Whether dnsmasq does not answer. A dnsmasq with --no-ident has no statistics, so a probe or a check must fail too. */
static bool
dnsmasq_is_silent(const struct judgement *j)
{
	const struct view *view = j->view;

	bool known = view->cache->seen || (view->nanny != NULL && view->nanny->seen);
	if (view->cache->up || view->cache->errors == 0 || !known)
		return false;
	for (size_t i = 0; i < view->probe_count; i++) {
		const struct probe *probe = &view->probes[i];

		if (probe->asked && server_equal(&probe->spec.server, &view->dnsmasq))
			return probe->cause == CAUSE_TIMEOUT ||
			       probe->cause == CAUSE_CONNECTION_REFUSED;
	}
	const struct check *check = server_checks_find(view->checks, CHECK_OUTSIDE);
	return check != NULL && check_failing(check) &&
	       (check->cause == CAUSE_TIMEOUT || check->cause == CAUSE_CONNECTION_REFUSED);
}

void
judge_dnsmasq(struct judgement *j)
{
	const struct view *view = j->view;
	const struct nanny_view *nanny = view->nanny;
	bool gone = nanny != NULL && nanny->seen && !nanny->up && nanny->refused;
	char server[SERVER_TEXT_MAX], since[FORMAT_MAX];

	if (nanny != NULL && dnsmasq_is_dead(j)) {
		j->blamed |= BLAMED_DNSMASQ;
		return;
	}
	if (!dnsmasq_is_silent(j))
		return;
	j->blamed |= BLAMED_DNSMASQ;
	struct finding *finding = finding_add(j, level_of_process(j), view->cache->since_ns,
	    "$engine at %s %s, for %s", server_format(&view->dnsmasq, server),
	    gone ? "is not running, and neither is its nanny" : "does not answer",
	    verdict_ago(view, view->cache->since_ns, since));
	lose_external_names(
	    j, finding, gone ? "$engine is not running" : "$engine does not answer");
	finding_explain(j, finding, what_dnsmasq_loses(j),
	    gone ? "Why did the nanny, which runs $engine, exit? See its exit status and its last "
		   "log lines."
		 : "If $engine is silent for 30 seconds, the nanny kills and restarts it. "
		   "Does $engine get CPU?",
	    gone ? COMMAND_RUNNING : COMMAND_USAGE);
}

/* Returns a probe that queries kubedns directly and gets no answer, or NULL if there is none. */
static const struct probe *
failing_kubedns_probe(const struct view *view)
{
	for (size_t i = 0; i < view->probe_count; i++) {
		const struct probe *probe = &view->probes[i];

		if (probe->asked && !server_equal(&probe->spec.server, &view->dnsmasq) &&
		    (probe->cause == CAUSE_TIMEOUT || probe->cause == CAUSE_CONNECTION_REFUSED))
			return probe;
	}
	return NULL;
}

static void
explain_kubedns(const struct judgement *j, struct finding *finding, bool refused)
{
	static const char *const meanings[] = {
		[TOPOLOGY_UNKNOWN] = "Cluster names fail.",
		[TOPOLOGY_CLASSIC] =
		    "Cluster names fail once they expire in $engine's cache, within 30 seconds.",
		[TOPOLOGY_FRONT] = "Clients send every query to kubedns, so every name fails.",
	};

	finding_explain(j, finding, meanings[topology_of(j->view)],
	    refused ? in_pod(j,
			  "Is the container running? If it ended, kubectl describe shows its exit "
			  "code (137: memory, or a failed liveness probe).",
			  "Why did it exit? See its exit status and its last log lines.")
		    : in_pod(j,
			  "kubedns hangs, or gets no CPU. The kubelet restarts it when /healthz "
			  "has failed five times. If it still does not answer after a minute, "
			  "delete this pod: the cluster creates a new one.",
			  "kubedns hangs, or gets no CPU. If it still does not answer after a "
			  "minute, restart it."),
	    refused ? COMMAND_RUNNING : COMMAND_LOGS_KUBEDNS);
}

void
judge_kubedns(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const struct probe *probe = failing_kubedns_probe(view);
	const struct check *cluster = server_checks_find(view->checks, CHECK_CLUSTER);
	char since[FORMAT_MAX];

	if (kubedns == NULL || kubedns->up || (!kubedns->seen && probe == NULL))
		return;
	bool refused = kubedns->refused;
	if (!refused && probe == NULL) {
		finding_explain(j,
		    finding_add(j, LEVEL_NOTE, kubedns->since_ns,
			"kubedns does not answer at its health port: %s", kubedns->error),
		    "The figures of kubedns on this page are old.", "Is kubedns running?",
		    COMMAND_LOGS_KUBEDNS);
		return;
	}
	j->blamed |= BLAMED_KUBEDNS;
	/* dnsmasq still answers probes from its cache. The result of the check for a cluster name therefore counts too, because no cache
	 * answers this check. */
	bool lost = j->blamed & BLAMED_DNSMASQ || clients_get_none(j) ||
		    (cluster != NULL && check_failing(cluster));
	struct finding *finding =
	    finding_add(j, lost ? LEVEL_DOWN : LEVEL_DEGRADED, kubedns->since_ns,
		"kubedns %s: %s, for %s", refused ? "is not running" : "does not answer",
		kubedns->error, verdict_ago(view, kubedns->since_ns, since));
	finding_brief(finding, refused ? "kubedns is not running" : "kubedns does not answer");
	explain_kubedns(j, finding, refused);
}

void
judge_statistics(struct judgement *j)
{
	const struct view *view = j->view;
	char server[SERVER_TEXT_MAX];

	/* unbound has no statistics for the sidecar. Until the nanny has answered, the engine is unknown. */
	if (runs_unbound(view) || (view->nanny != NULL && !view->nanny->seen))
		return;
	/* If dnsmasq does not answer at all, another rule adds a finding. */
	if (view->cache->up || view->cache->errors == 0 || clients_get_none(j) ||
	    j->blamed & BLAMED_DNSMASQ)
		return;
	struct finding *finding = finding_add(j, j->tally.client > 0 ? LEVEL_NOTE : LEVEL_DEGRADED,
	    view->cache->since_ns, "$engine at %s returns no statistics: %s",
	    server_format(&view->dnsmasq, server), view->cache->error);
	finding_brief(finding, "$engine returns no statistics");
	finding_explain(j, finding,
	    "Until $engine returns statistics, the figures of its cache and upstream servers on "
	    "this page are old.",
	    "If $engine itself answers, it may run with --no-ident, or --dnsmasq-addr and "
	    "--dnsmasq-port lead to another server.",
	    COMMAND_NONE);
}
