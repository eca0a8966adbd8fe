/* Rules about processes: dnsmasq, kubedns, and what kubedns knows of the cluster. */
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/program_state.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

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

/* What clients lose without dnsmasq. */
static const char *
what_dnsmasq_loses(const struct judgement *j)
{
	static const char *const texts[] = {
		[TOPOLOGY_UNKNOWN] = "Every query that is sent to it is lost.",
		[TOPOLOGY_CLASSIC] =
		    "Clients send every query to dnsmasq, so every name fails, those "
		    "of the cluster too.",
		[TOPOLOGY_FRONT] =
		    "kubedns sends every external name to dnsmasq, so these names fail "
		    "as soon as kubedns's answer cache has lost them, after 5 seconds.",
	};

	return texts[topology_of(j->view)];
}

/* The sentence's part. In the front topology clients lose the external names, and only those. */
static void
lose_external_names(const struct judgement *j, struct finding *finding, const char *what)
{
	bool front = topology_of(j->view) == TOPOLOGY_FRONT;

	finding_brief(finding, "%s%s", front ? "external names fail: " : "", what);
	if (front)
		finding->scope = "Cluster names are answered";
}

/* The nanny says that dnsmasq is not there; false if it says nothing of that kind. */
static bool
dnsmasq_is_dead(struct judgement *j)
{
	const struct nanny_view *nanny = j->view->nanny;
	struct json_object *dnsmasq = config_member(nanny->config, "dnsmasq", json_type_object);
	enum child_state state = child_state_named(config_string(dnsmasq, "state"));

	if (!nanny->up || j->dnsmasq_answers || (state != CHILD_BACKOFF && state != CHILD_STOPPED))
		return false;
	struct finding *finding = finding_add(j, level_of_process(j), j->view->cache->since_ns,
	    "dnsmasq is not running: it died %.0f times, and the nanny starts it again",
	    config_number(dnsmasq, "deaths"));
	finding_explain(j, finding, what_dnsmasq_loses(j),
	    "Why does it end? The nanny logs its last lines when it dies.", COMMAND_LOGS_DNSMASQ);
	lose_external_names(j, finding, "dnsmasq is not running");
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

void
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
	lose_external_names(
	    j, finding, gone ? "dnsmasq is not running" : "dnsmasq does not answer");
	finding_explain(j, finding, what_dnsmasq_loses(j),
	    gone ? "Why did the nanny, which runs dnsmasq, end? Its exit status and its last log "
		   "lines tell."
		 : "The nanny kills a dnsmasq that is silent for 30 seconds, and starts another. "
		   "Does dnsmasq get CPU?",
	    gone ? COMMAND_RUNNING : COMMAND_USAGE);
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
explain_kubedns(const struct judgement *j, struct finding *finding, bool refused)
{
	static const char *const meanings[] = {
		[TOPOLOGY_UNKNOWN] = "Cluster names fail.",
		[TOPOLOGY_CLASSIC] =
		    ("Cluster names fail as dnsmasq's cache runs out, which takes 30 "
		     "seconds."),
		[TOPOLOGY_FRONT] = "Clients send every query to kubedns, so every name fails.",
	};

	finding_explain(j, finding, meanings[topology_of(j->view)],
	    refused
		? in_pod(j,
		      "Is its container running? The kubelet says why it ended (137: memory, or "
		      "a failed liveness probe).",
		      "Why did it end? Its exit status and its last log lines tell.")
		: in_pod(j,
		      "It hangs, or gets no CPU. The kubelet restarts it when /healthz has "
		      "failed five times. If it still does not answer after a minute, delete "
		      "this pod: the cluster makes another one.",
		      "It hangs, or gets no CPU. If it still does not answer after a minute, "
		      "restart it."),
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
	bool refused = is_refused(kubedns->error);
	if (!refused && probe == NULL) {
		finding_explain(j,
		    finding_add(j, LEVEL_NOTE, kubedns->since_ns,
			"kubedns does not answer at its health port: %s", kubedns->error),
		    "What this page shows of kubedns is old.", "Is kubedns running?",
		    COMMAND_LOGS_KUBEDNS);
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
	explain_kubedns(j, finding, refused);
}

/* --- what kubedns knows --- */

/* What is wrong with the API, and in `todo` what to do about it; NULL for nothing that is known. */
static const char *
api_trouble(enum api_problem problem, const char **todo)
{
	static const struct {
		const char *brief, *todo;
	} troubles[API_PROBLEM_COUNT] = {
		[API_PROBLEM_SILENT] = { "the API server takes requests and does not answer them",
		    "Is the API server overloaded, or a proxy in between?" },
		[API_PROBLEM_CERTIFICATE_EARLY] = { "the API server's certificate is not valid yet",
		    "Is the node's clock right? Certificates are judged by it." },
		[API_PROBLEM_CERTIFICATE_EXPIRED] = { "the API server's certificate has expired",
		    "Renew it, or is the node's clock wrong?" },
		[API_PROBLEM_CERTIFICATE] = { "the API server's certificate cannot be verified",
		    "Is the CA in the service account's volume, or in the kubeconfig, this "
		    "server's?" },
		[API_PROBLEM_NO_TOKEN] = { "kubedns has no token for the API server",
		    "Is the token of the service account kube-dns mounted?" },
		[API_PROBLEM_UNAUTHORIZED] = { "the API server refuses kubedns's token",
		    "Is the token of the service account kube-dns mounted, and not expired?" },
		[API_PROBLEM_FORBIDDEN] = { "the API server forbids kubedns to list what it needs",
		    "Apply conf/kubernetes/base/rbac.yaml." },
	};

	if (troubles[problem].brief != NULL)
		*todo = troubles[problem].todo;
	return troubles[problem].brief;
}

void
judge_sync(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const char *todo = "Can it reach the API server, and may it list services and "
			   "endpointslices?";

	if (kubedns == NULL || !kubedns->up || kubedns->ready)
		return;
	j->blamed |= BLAMED_SYNC;
	const char *trouble = api_trouble(kubedns->api_problem, &todo);
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
	finding_explain(j, finding,
	    "Until its first sync it answers cluster names with SERVFAIL; while it drains it goes "
	    "on answering.",
	    todo, COMMAND_LOGS_KUBEDNS);
}

void
judge_api(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const char *todo = "Is the API server up, and is the way to it open?";
	char since[FORMAT_MAX];

	if (kubedns == NULL || !kubedns->up || !kubedns->ready)
		return;
	double silence_s = kubedns_silence_s(kubedns, view->now_s);
	bool failing = kubedns->api_failing &&
		       view->now_ns - kubedns->api_failing_ns >= API_FAILING_S * NS_PER_S;
	if (!failing && silence_s <= 0)
		return;
	const char *trouble = failing ? api_trouble(kubedns->api_problem, &todo) : NULL;
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
	finding_explain(j, finding,
	    "Names are answered from what was known then; Services and pods that changed since are "
	    "missing or wrong.",
	    todo, COMMAND_LOGS_KUBEDNS);
}

/* A file of --objects-dir has a mistake. Its last good content stays in force, if there was one. */
void
judge_manifests(struct judgement *j)
{
	const struct kubedns_view *kubedns = j->view->kubedns;

	if (kubedns == NULL || !kubedns->up || !kubedns->has_manifests ||
	    kubedns->manifests_broken < 1)
		return;
	bool one = kubedns->manifests_broken < 2;
	struct finding *finding =
	    finding_add(j, LEVEL_DEGRADED, j->view->now_ns, "%.0f %s a mistake",
		kubedns->manifests_broken, one ? "manifest has" : "manifests have");
	finding_brief(finding, "%.0f %s a mistake", kubedns->manifests_broken,
	    one ? "manifest has" : "manifests have");
	finding_explain(j, finding,
	    "kubedns keeps what it last read well of such a file. What it has never read well has "
	    "no names.",
	    "kubedns's log and its page /readiness name the file, the line and the reason. Correct "
	    "the file: kubedns reads it again at once.",
	    COMMAND_MANIFESTS);
}

void
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
	finding_explain(j, finding,
	    "Cache and upstream figures on this page stand still until it does.",
	    "If dnsmasq itself answers, it may run with --no-ident, or --dnsmasq-addr and "
	    "--dnsmasq-port may name another server.",
	    COMMAND_NONE);
}
