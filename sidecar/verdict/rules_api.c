/* Rules about the source of kubedns's data: the API server, or manifests. */
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/program_state.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

enum { API_FAILING_S = 5 /* a shorter failure may only be a watch that is opened again */ };

/* Returns what is wrong with the API, and sets `todo` to what to do. If this is unknown, returns NULL and leaves `todo` unchanged. */
static const char *
api_trouble(enum api_problem problem, const char **todo)
{
	static const struct {
		const char *brief, *todo;
	} troubles[API_PROBLEM_COUNT] = {
		[API_PROBLEM_SILENT] = { "the API server accepts requests and does not answer them",
		    "Is the API server overloaded, or is there a proxy between it and kubedns?" },
		[API_PROBLEM_CERTIFICATE_EARLY] = { "the API server's certificate is not valid yet",
		    "Is the node's clock right? With a wrong clock, kubedns cannot verify "
		    "certificates." },
		[API_PROBLEM_CERTIFICATE_EXPIRED] = { "the API server's certificate has expired",
		    "Renew the certificate, or correct the node's clock." },
		[API_PROBLEM_CERTIFICATE] = { "the API server's certificate cannot be verified",
		    "Does the CA in the service account's volume, or in the kubeconfig, belong to "
		    "this server?" },
		[API_PROBLEM_NO_TOKEN] = { "kubedns has no token for the API server",
		    "Is the token of the service account kube-dns mounted?" },
		[API_PROBLEM_UNAUTHORIZED] = { "the API server refuses kubedns's token",
		    "Is the token of the service account kube-dns mounted, and not expired?" },
		[API_PROBLEM_FORBIDDEN] = { "the API server does not allow kubedns to list the "
					    "resources that it needs",
		    "Apply conf/kubernetes/base/rbac.yaml." },
	};

	if (troubles[problem].brief != NULL)
		*todo = troubles[problem].todo;
	return troubles[problem].brief;
}

/* Writes the first two lines of kubedns's reasons as one line, and cuts them between words. The panel of kubedns shows all lines. */
static void
first_reasons(const char *reasons, char *out, size_t size)
{
	size_t head = strcspn(reasons, "\n");
	const char *next = reasons[head] == '\n' ? reasons + head + 1 : "";
	int len = snprintf(out, size, "%.*s%s%.*s", (int)head, reasons, next[0] != '\0' ? "; " : "",
	    (int)strcspn(next, "\n"), next);

	if (len < (int)size)
		return;
	out[size - sizeof " ..."] = '\0';
	char *space = strrchr(out, ' ');
	strcpy(space != NULL ? space : out + strlen(out), " ...");
}

void
judge_sync(struct judgement *j)
{
	enum { REASONS_MAX = 220 };
	char reasons[REASONS_MAX] = "";
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const char *todo =
	    "Can kubedns reach the API server, and may it list services and endpointslices?";

	if (kubedns == NULL || !kubedns->up || kubedns->ready)
		return;
	j->blamed |= BLAMED_SYNC;
	const char *trouble = api_trouble(kubedns->api_problem, &todo);
	bool lost = clients_get_none(j);
	/* The reasons quote the API server, so not every client may read them. */
	if (view->may_ask)
		first_reasons(kubedns->reasons, reasons, sizeof reasons);
	bool servfail = !lost && kubedns->says_synced && !kubedns->synced;
	struct finding *finding = finding_add(j, lost ? LEVEL_DOWN : LEVEL_DEGRADED,
	    kubedns->since_ns, "kubedns is not ready%s%s", reasons[0] != '\0' ? ": " : "", reasons);
	finding_brief(finding, "%skubedns is not ready%s%s",
	    servfail ? "cluster names get SERVFAIL, because " : "", trouble != NULL ? ": " : "",
	    trouble != NULL ? trouble : "");
	if (servfail)
		finding->scope = "DNS is running";
	finding_explain(j, finding,
	    "Before its first sync, kubedns answers cluster names with SERVFAIL. During shutdown, "
	    "it keeps answering.",
	    todo, COMMAND_LOGS_KUBEDNS);
}

/* Returns the age of the newest event if it is so old that kubedns must have lost the API server. Otherwise returns 0. */
static double
api_silence_s(const struct kubedns_view *kubedns, double now_s)
{
	enum { EVENT_OLD_S = 900 /* the API server sends a bookmark about every minute */ };
	double newest = kubedns_newest_event_s(kubedns);

	return newest > 0 && now_s - newest > EVENT_OLD_S ? now_s - newest : 0;
}

void
judge_api(struct judgement *j)
{
	const struct view *view = j->view;
	const struct kubedns_view *kubedns = view->kubedns;
	const char *todo = "Is the API server up, and can kubedns reach it?";
	char since[FORMAT_MAX];

	if (kubedns == NULL || !kubedns->up || !kubedns->ready)
		return;
	double silence_s = api_silence_s(kubedns, view->now_s);
	bool failing = kubedns->api_failing &&
		       view->now_ns - kubedns->api_failing_ns >= API_FAILING_S * NS_PER_S;
	if (!failing && silence_s <= 0)
		return;
	const char *trouble = failing ? api_trouble(kubedns->api_problem, &todo) : NULL;
	int64_t since_ns =
	    failing ? kubedns->api_failing_ns : view->now_ns - (int64_t)(silence_s * 1e9);
	verdict_ago(view, since_ns, since);
	struct finding *finding =
	    failing ? finding_add(j, LEVEL_DEGRADED, since_ns,
			  "kubedns gets no usable answer from the API server, for %s", since)
		    : finding_add(j, LEVEL_DEGRADED, since_ns,
			  "kubedns has received nothing from the API server for %s", since);
	if (trouble != NULL)
		finding_brief(finding, "%s", trouble);
	else if (failing)
		finding_brief(finding, "kubedns cannot reach the API server");
	else
		finding_brief(
		    finding, "kubedns has received nothing from the API server for %s", since);
	finding_explain(j, finding,
	    "kubedns answers from the data of that time. Services and pods that changed since then "
	    "are missing or wrong.",
	    todo, COMMAND_LOGS_KUBEDNS);
}

/* Adds a finding if the audit has corrected objects in the last ten minutes. */
void
judge_drift(struct judgement *j)
{
	const struct kubedns_view *kubedns = j->view->kubedns;
	char count[FORMAT_MAX];

	if (kubedns == NULL || !kubedns->up)
		return;
	uint64_t differences = buckets_sum(&kubedns->recent[KUBEDNS_DIFFERENCES], j->view->now_ns);
	if (differences == 0)
		return;
	format_count(differences, count);
	finding_explain(j,
	    finding_add(j, LEVEL_NOTE, j->view->now_ns,
		"kubedns corrected %s object%s that differed from the API in the last 10 minutes",
		count, differences == 1 ? "" : "s"),
	    "The API server had not sent an event for a change. Until the correction, the names of "
	    "these objects had old answers, or none.",
	    "Was the API server's data restored from a backup, or is one of its replicas faulty? "
	    "kubedns's log names each object.",
	    COMMAND_LOGS_KUBEDNS);
}

/* Adds a finding if a file of --objects-dir has a mistake. The last good content of the file stays in force, if there was any. */
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
	    "kubedns keeps the last good content of such a file. If there was none, the file's "
	    "names are missing.",
	    "kubedns's log and its page /readiness show the file, the line and the reason. Correct "
	    "the file: kubedns reads it again immediately.",
	    COMMAND_MANIFESTS);
}
