/* Rules about load and memory. */
#include <stdio.h>
#include <string.h>

#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

enum {
	DROPS_MIN = 10,      /* minimum number of dropped packets in the last ten minutes */
	LOAD_BUCKETS = 2,    /* the load is over after 10 to 20 s without a drop */
	MEMORY_PERCENT = 85, /* percentage of the memory limit */
};

/* Returns the client that caused most of kubedns's load while packets were dropped, or NULL. */
static const struct client_rate *
flooder(const struct view *view, const struct buckets *drops, double *share)
{
	const struct kubedns_view *k = view->kubedns;

	if (k == NULL || drops != &k->recent[KUBEDNS_DROPPED] || !view->may_ask)
		return NULL;
	return client_rates_flooder(&k->rates, view->now_ns, drops, &k->recent[KUBEDNS_NOERROR],
	    KUBEDNS_OTHER - KUBEDNS_NOERROR + 1, share);
}

/* Whether any of the last LOAD_BUCKETS buckets has a count. */
static bool
is_going_on(const struct view *view, const struct buckets *buckets)
{
	for (int age = 0; age < LOAD_BUCKETS; age++)
		if (buckets_get(buckets, view->now_ns, age) > 0)
			return true;
	return false;
}

/* Returns how old the newest count is, with a precision of ten seconds. */
static const char *
newest_ago(const struct view *view, const struct buckets *buckets, char *text)
{
	int age = 0;

	while (age < BUCKETS - 1 && buckets_get(buckets, view->now_ns, age) == 0)
		age++;
	return format_duration((double)age * BUCKET_S, text);
}

/* Adds a finding, which is a problem while packets are dropped, and a note afterwards. */
static struct finding *
add_drops(struct judgement *j, const char *who, const struct buckets *drops, const char *meanwhile,
    const char *brief)
{
	char text[FORMAT_MAX], ago[FORMAT_MAX];
	struct finding *finding;

	format_count(buckets_sum(drops, j->view->now_ns), text);
	if (!is_going_on(j->view, drops)) {
		finding = finding_add(j, LEVEL_NOTE, j->view->now_ns,
		    "Until %s ago %s did not keep up: the kernel dropped %s packets in the last "
		    "10 minutes%s",
		    newest_ago(j->view, drops, ago), who, text, meanwhile);
		finding_past(j, finding);
		return finding;
	}
	finding = finding_add(j, LEVEL_DEGRADED, j->view->now_ns,
	    "The kernel drops packets for %s: %s in the last 10 minutes%s", who, text, meanwhile);
	finding_brief(finding, "%s does not keep up: %s packets dropped%s", who, text, brief);
	return finding;
}

static void
judge_drops(struct judgement *j, const char *who, const struct buckets *drops)
{
	char meanwhile[192] = "", brief[80] = "";
	double share;

	if (buckets_sum(drops, j->view->now_ns) < DROPS_MIN)
		return;
	const struct client_rate *client = flooder(j->view, drops, &share);
	if (client != NULL) {
		bool pod = client->pod[0] != '\0';

		snprintf(meanwhile, sizeof meanwhile,
		    "; meanwhile %s%s%.80s%s got %u %% of its answers", client->name,
		    pod ? " (" : "", client->pod, pod ? ")" : "", (unsigned)(100 * share));
		snprintf(brief, sizeof brief, ", while %s got %u %% of the answers", client->name,
		    (unsigned)(100 * share));
	}
	struct finding *finding = add_drops(j, who, drops, meanwhile, brief);
	finding_explain(j, finding,
	    "Queries arrived faster than they were answered. After a dropped query, the client "
	    "waits for its timeout, usually 5 seconds.",
	    client != NULL
		? in_pod(j,
		      "Check this client first: what runs there, and why does it send so "
		      "many queries? If the load is legitimate: more replicas, or more CPU.",
		      "Check this client first: what runs there, and why does it send so "
		      "many queries? If the load is legitimate: more CPU.")
		: in_pod(j,
		      "See the top clients below. If the load is legitimate: more replicas, "
		      "or more CPU.",
		      "See the top clients below. If the load is legitimate: more CPU."),
	    client != NULL ? COMMAND_NONE : COMMAND_USAGE);
	if (client != NULL && j->view->surroundings == SURROUNDINGS_POD)
		snprintf(finding->command, sizeof finding->command,
		    "kubectl get pods -A -o wide | grep -wF %s", client->name);
}

static void
judge_shed(struct judgement *j)
{
	const struct kubedns_view *kubedns = j->view->kubedns;
	const struct buckets *recent = &kubedns->recent[KUBEDNS_SHED];
	bool known = kubedns->client_count > 0 && j->view->may_ask;
	uint64_t shed = buckets_sum(recent, j->view->now_ns);
	char text[FORMAT_MAX];

	if (shed == 0)
		return;
	struct finding *finding = finding_add(j, LEVEL_NOTE, j->view->now_ns,
	    "kubedns dropped %s packets of its top clients in the last 10 minutes%s%.80s",
	    format_count(shed, text), known ? "; the top client now is " : "",
	    known ? kubedns->clients[0].name : "");
	finding_explain(j, finding,
	    "While kubedns cannot keep up, these clients send more than their share. Other clients "
	    "get answers.",
	    "See the top clients below, and kubedns's log for the addresses.",
	    COMMAND_LOGS_KUBEDNS);
	if (!is_going_on(j->view, recent))
		finding_past(j, finding);
}

void
judge_load(struct judgement *j)
{
	const struct kubedns_view *kubedns = j->view->kubedns;
	const struct nanny_view *nanny = j->view->nanny;

	if (kubedns != NULL && kubedns->up)
		judge_drops(j, "kubedns", &kubedns->recent[KUBEDNS_DROPPED]);
	if (nanny != NULL && nanny->up)
		judge_drops(j, "$engine", &nanny->recent_drops);
	if (kubedns != NULL && kubedns->up)
		judge_shed(j);
}

static void
judge_container(
    struct judgement *j, const char *container, double used, double limit, const char *todo)
{
	if (limit <= 0 || used * 100 < limit * MEMORY_PERCENT)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, j->view->now_ns,
	    "%s%s uses %.0f of %.0f MB of its memory", in_pod(j, "Container ", ""), container,
	    used / 1e6, limit / 1e6);
	finding_brief(
	    finding, "%s%s is near its memory limit", in_pod(j, "container ", ""), container);
	finding_explain(j, finding,
	    "At the limit the kernel kills it, and clients wait until it has restarted.", todo,
	    COMMAND_USAGE);
}

void
judge_memory(struct judgement *j)
{
	const struct view *view = j->view;

	if (view->kubedns != NULL && view->kubedns->up)
		judge_container(j, "kubedns", view->kubedns->memory, view->kubedns->memory_limit,
		    in_pod(j,
			"Raise resources.limits.memory of this container, where its manifest is "
			"kept. kubedns grows with Services and endpoints: see their number "
			"below, under kubedns, and docs/sizing.md for their memory.",
			"Raise its limit, such as MemoryMax= of its unit. kubedns grows with "
			"Services and endpoints: see their number below, under kubedns, and "
			"docs/sizing.md for their memory."));
	if (view->nanny != NULL && view->nanny->up) {
		struct json_object *memory =
		    config_member(view->nanny->config, "memory", json_type_object);

		judge_container(j, in_pod(j, "dnsmasq", "$engine"), config_number(memory, "bytes"),
		    config_number(memory, "limit"),
		    in_pod(j,
			"$engine grows with TCP connections, queries that wait for servers, and "
			"--cache-size: do its upstream servers answer? If so, raise "
			"resources.limits.memory of this container, where its manifest is kept.",
			"$engine grows with TCP connections, queries that wait for servers, and "
			"--cache-size: do its upstream servers answer? If so, raise its limit."));
	}
	judge_container(j, "sidecar", view->memory, view->memory_limit,
	    in_pod(j,
		"The sidecar's memory does not grow: is its limit lower than in our manifests? If "
		"not, restart the pod and report this as a bug.",
		"The sidecar's memory does not grow: is its limit too low? If not, restart it and "
		"report this as a bug."));
}
