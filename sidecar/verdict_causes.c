/* Causes that are processes and what kubedns knows; and the table of all causes. */
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict_internal.h"

enum { API_FAILING_S = 5 /* a watch that ends and is opened again does not count */ };

static bool
is_refused(const char *error)
{
	return strcmp(error, "connection refused") == 0;
}

/* --- the processes --- */

static enum level
level_of_process(const struct judgement *j)
{
	return clients_get_none(j) ? LEVEL_DOWN : LEVEL_DEGRADED;
}

/* The nanny says that dnsmasq is not there; false if it says nothing of that kind. */
static bool
dnsmasq_is_dead(struct judgement *j)
{
	const struct nanny_view *nanny = j->view->nanny;
	struct json_object *dnsmasq = config_member(nanny->config, "dnsmasq", json_type_object);
	const char *state = config_string(dnsmasq, "state");

	if (!nanny->up || j->dnsmasq_answers ||
	    (strcmp(state, "backing off") != 0 && strcmp(state, "stopped") != 0))
		return false;
	struct finding *finding = finding_add(j, level_of_process(j), j->view->cache->since_ns,
	    "dnsmasq is not running: it died %.0f times, and the nanny starts it again",
	    config_number(dnsmasq, "deaths"));
	finding_brief(finding, "dnsmasq is not running");
	finding_explain(finding, "Nothing answers at its port until it runs.",
	    "What did it say last? The nanny repeats it when it dies.", LOGS("dnsmasq"));
	return true;
}

/* Whether something other than the statistics shows that dnsmasq does not answer: with --no-ident
 * it gives no statistics. */
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

static void
judge_dnsmasq(struct judgement *j)
{
	const struct view *view = j->view;
	const struct nanny_view *nanny = view->nanny;
	bool gone = nanny != NULL && nanny->seen && !nanny->up && is_refused(nanny->error);
	char server[SERVER_TEXT_MAX], since[FORMAT_MAX];

	if (nanny != NULL && dnsmasq_is_dead(j)) {
		j->blamed |= BLAMED_DNSMASQ;
		return;
	}
	if (!dnsmasq_is_silent(j))
		return;
	j->blamed |= BLAMED_DNSMASQ;
	struct finding *finding = finding_add(j, level_of_process(j), view->cache->since_ns,
	    "dnsmasq at %s %s, for %s", server_format(&view->dnsmasq, server),
	    gone ? "is not running, nor is the nanny over it" : "does not answer",
	    verdict_ago(view, view->cache->since_ns, since));
	finding_brief(finding, gone ? "dnsmasq is not running" : "dnsmasq does not answer");
	finding_explain(finding,
	    "What is asked of it is lost: every name, or in the front topology every name outside "
	    "the cluster.",
	    gone ? "Is its container running? The kubelet says why it ended."
		 : "The nanny kills a dnsmasq that is silent for 30 seconds and starts another. Is "
		   "the container throttled?",
	    gone ? PODS : TOP);
}

/* Whether a probe of kubedns itself, not through dnsmasq, gets no answer. */
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
judge_kubedns(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const struct probe *probe = failing_kubedns_probe(view);
	const struct check *cluster = server_checks_find(view->checks, CHECK_CLUSTER);
	char since[FORMAT_MAX];

	if (kubedns == NULL || kubedns->up || (!kubedns->seen && probe == NULL))
		return;
	bool refused = is_refused(kubedns->error);
	if (!refused && probe == NULL) {
		finding_explain(
		    finding_add(j, LEVEL_NOTE, kubedns->since_ns,
			"kubedns does not answer at its health port: %s", kubedns->error),
		    "What this page shows of kubedns is old.", "Is its container running?",
		    LOGS("kubedns"));
		return;
	}
	j->blamed |= BLAMED_KUBEDNS;
	/* Until dnsmasq's cache has run out, probes through it are answered. */
	bool lost = j->blamed & BLAMED_DNSMASQ || clients_get_none(j) ||
		    (cluster != NULL && check_failing(cluster));
	struct finding *finding =
	    finding_add(j, lost ? LEVEL_DOWN : LEVEL_DEGRADED, kubedns->since_ns,
		"kubedns %s: %s, for %s", refused ? "is not running" : "does not answer",
		kubedns->error, verdict_ago(view, kubedns->since_ns, since));
	finding_brief(finding, refused ? "kubedns is not running" : "kubedns does not answer");
	finding_explain(finding,
	    "Cluster names fail as dnsmasq's cache runs out, which takes 30 seconds; in the front "
	    "topology every name fails at once.",
	    refused ? "Is its container running? The kubelet says why it ended (137: memory, or a "
		      "failed liveness probe)."
		    : "It hangs, or gets no CPU. The kubelet restarts it when /healthz has failed "
		      "five times; if it still is so after a minute, delete this pod: another is "
		      "made.",
	    refused ? PODS : LOGS("kubedns"));
}

/* --- what kubedns knows --- */

/* What the text of kubedns's readiness says is wrong with the API; NULL for nothing known. */
static const char *
api_trouble(const char *text, const char **todo)
{
	static const struct {
		const char *part, *brief, *todo;
	} troubles[] = {
		{ "not yet valid", "the API server's certificate is not valid yet",
		    "Is the node's clock right? Certificates are judged by it." },
		{ "expired", "the API server's certificate has expired",
		    "Renew it, or is the node's clock wrong?" },
		{ "401", "the API server refuses kubedns's token",
		    "Is the token of the service account kube-dns mounted, and not expired?" },
		{ "403", "the API server forbids kubedns to list what it needs",
		    "Apply conf/kubernetes/base/rbac.yaml." },
	};

	for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++)
		if (strstr(text, troubles[i].part) != NULL) {
			*todo = troubles[i].todo;
			return troubles[i].brief;
		}
	return NULL;
}

static void
judge_sync(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const char *todo = "Can it reach the API server, and may it list services and "
			   "endpointslices?";

	if (kubedns == NULL || !kubedns->up || kubedns->ready)
		return;
	j->blamed |= BLAMED_SYNC;
	const char *trouble = api_trouble(kubedns->reasons, &todo);
	bool lost = clients_get_none(j);
	/* The reasons quote the API server, which is not for every peer to read. */
	struct finding *finding = finding_add(j, lost ? LEVEL_DOWN : LEVEL_DEGRADED,
	    kubedns->since_ns, "kubedns is not ready%s%.160s",
	    kubedns->reasons[0] != '\0' && view->may_ask ? ": " : "",
	    view->may_ask ? kubedns->reasons : "");
	if (trouble != NULL)
		finding_brief(finding, "kubedns is not ready: %s", trouble);
	else
		finding_brief(finding, "kubedns is not ready");
	finding_explain(finding,
	    "Until its first sync it answers cluster names with SERVFAIL; while it drains it goes "
	    "on answering.",
	    todo, LOGS("kubedns"));
}

static void
judge_api(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const char *todo = "Is the API server up, and is the way from the pod to it open?";
	char since[FORMAT_MAX];

	if (kubedns == NULL || !kubedns->up || !kubedns->ready)
		return;
	double silence_s = kubedns_silence_s(kubedns, view->now_s);
	bool failing = kubedns->api_failing &&
		       view->now_ns - kubedns->api_failing_ns >= API_FAILING_S * NS_PER_S;
	if (!failing && silence_s <= 0)
		return;
	const char *trouble = failing ? api_trouble(kubedns->notes, &todo) : NULL;
	int64_t since_ns =
	    failing ? kubedns->api_failing_ns : view->now_ns - (int64_t)(silence_s * 1e9);
	verdict_ago(view, since_ns, since);
	struct finding *finding =
	    failing
		? finding_add(j, LEVEL_DEGRADED, since_ns,
		      "kubedns gets no answer that it can use from the API server, for %s", since)
		: finding_add(j, LEVEL_DEGRADED, since_ns,
		      "kubedns has heard nothing from the API server for %s", since);
	if (trouble != NULL)
		finding_brief(finding, "%s", trouble);
	else if (failing)
		finding_brief(finding, "kubedns does not reach the API server");
	else
		finding_brief(
		    finding, "kubedns has heard nothing from the API server for %s", since);
	finding_explain(finding,
	    "Names are answered from what was known then; Services and pods that changed since are "
	    "missing or wrong.",
	    todo, LOGS("kubedns"));
}

static void
judge_statistics(struct judgement *j)
{
	const struct view *view = j->view;
	char server[SERVER_TEXT_MAX];

	/* Nothing new if a probe on the clients' path has found that dnsmasq does not answer. */
	if (view->cache->up || view->cache->errors == 0 || clients_get_none(j) ||
	    j->blamed & BLAMED_DNSMASQ)
		return;
	struct finding *finding = finding_add(j, j->tally.client > 0 ? LEVEL_NOTE : LEVEL_DEGRADED,
	    view->cache->since_ns, "dnsmasq at %s gives no statistics: %s",
	    server_format(&view->dnsmasq, server), view->cache->error);
	finding_brief(finding, "dnsmasq gives no statistics");
	finding_explain(finding,
	    "Cache and upstream figures on this page stand still until it does.",
	    "If dnsmasq itself answers, it may run with --no-ident, or --dnsmasq-addr and "
	    "--dnsmasq-port may name another server.",
	    "");
}

/* In the order of blame, which is that of the enumeration. */
void
judge_causes(struct judgement *j)
{
	static void (*const judges[VERDICT_CAUSES])(struct judgement *) = {
		[VERDICT_DNSMASQ] = judge_dnsmasq,
		[VERDICT_KUBEDNS] = judge_kubedns,
		[VERDICT_SYNC] = judge_sync,
		[VERDICT_HOST] = judge_host,
		[VERDICT_SERVER] = judge_servers,
		[VERDICT_OUTSIDE] = judge_outside,
		[VERDICT_UPSTREAM] = judge_upstreams,
		[VERDICT_FORWARDING] = judge_forwarding,
		[VERDICT_CONFIGURATION] = judge_configuration,
		[VERDICT_API] = judge_api,
		[VERDICT_LOAD] = judge_load,
		[VERDICT_MEMORY] = judge_memory,
		[VERDICT_CLOCK] = judge_clock,
		[VERDICT_STATISTICS] = judge_statistics,
	};

	for (int i = 0; i < VERDICT_CAUSES; i++) {
		size_t before = j->verdict->count + j->verdict->more;
		j->cause = (enum verdict_cause)i;
		judges[i](j);
		j->verdict->holds[i] = j->verdict->count + j->verdict->more > before;
	}
	j->cause = VERDICT_CAUSES;
}
