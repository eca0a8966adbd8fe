/* Rules about where kubedns's data come from: the API server, or the manifests. */
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/program_state.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

enum { API_FAILING_S = 5 /* a watch that ends and is opened again does not count */ };

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
