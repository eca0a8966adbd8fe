/* Rules about the configuration, load, memory, the host and the clock. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

enum {
	UNCONFIRMED_S = 10,
	DROPS_MIN = 10,      /* packets, in the last ten minutes */
	LOAD_BUCKETS = 2,    /* 10 to 20 s: without a drop for this long, the load is over */
	MEMORY_PERCENT = 85, /* of the limit */
};

#define FLOODER_SHARE 0.5 /* of kubedns's answers */

static void
judge_refusal(struct judgement *j, const struct config_refusal *refusal)
{
	const struct view *view = j->view;
	/* The reason quotes the ConfigMap, which is not for every peer to read. */
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "%s %.64s was refused%s%.170s", in_pod(j, "The ConfigMap's", "The configuration key"),
	    refusal->key, view->may_ask ? ": " : "", view->may_ask ? refusal->reason : "");

	finding_brief(finding, "%s %.64s was refused",
	    in_pod(j, "the ConfigMap's", "the configuration key"), refusal->key);
	finding_explain(j, finding,
	    refusal->had_good
		? "The last good value of this key stays in force; the other keys are not affected."
		: "There was no good value before, so the key has no effect; the other keys are "
		  "not "
		  "affected.",
	    in_pod(j,
		"Correct the key: the nanny reads it as soon as the kubelet has updated the "
		"volume.",
		"Correct the file of this name in the configuration's directory: the nanny reads "
		"it at once."),
	    COMMAND_CONFIG_EDIT);
}

void
judge_stub_name(struct judgement *j)
{
	const struct view *view = j->view;
	const char *why, *name;

	if (view->nanny == NULL || !view->nanny->up ||
	    (name = config_unresolved(view->nanny->config, 0, &why)) == NULL)
		return;
	/* Names of stub servers come from the ConfigMap too. */
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "A stub domain's server has no address%s%.120s%s%.80s", view->may_ask ? ": " : "",
	    view->may_ask ? name : "", view->may_ask && why[0] != '\0' ? ": " : "",
	    view->may_ask ? why : "");
	finding_brief(finding, "a stub domain's server has no address");
	finding_explain(j, finding,
	    "It is given by name, and that name cannot be resolved. The stub domain's names are "
	    "not answered unless it has other servers.",
	    "Does the name exist, and do the upstream servers answer for it? An address in its "
	    "place needs no resolving.",
	    COMMAND_CONFIG_SHOW);
}

/* A server of resolv.conf, or of a stub domain, that leads back to dnsmasq. */
void
judge_loop(struct judgement *j)
{
	const struct view *view = j->view;

	if (view->nanny == NULL || !view->nanny->up)
		return;
	struct json_object *config = view->nanny->config;
	const char *loop =
	    config_string(config_member(config, "upstreams", json_type_object), "refused");

	if (loop[0] == '\0')
		loop = config_string(config, "hostLoop");
	if (loop[0] == '\0')
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "A server leads back to dnsmasq and is not asked%s%.170s", view->may_ask ? ": " : "",
	    view->may_ask ? loop : "");
	finding_brief(finding, "a server leads back to dnsmasq and is not asked");
	finding_explain(j, finding,
	    "A query forwarded there would go round until dnsmasq's table is full; the other "
	    "servers are asked.",
	    in_pod(j,
		"Name a server outside this pod, in the ConfigMap or in the node's resolv.conf.",
		"Name another server, in the configuration's directory or in resolv.conf."),
	    COMMAND_CONFIG_SHOW);
}

void
judge_configuration(struct judgement *j)
{
	const struct view *view = j->view;
	struct config_refusal refusal;

	if (view->nanny == NULL || !view->nanny->up)
		return;
	for (size_t i = 0; config_refusal_get(view->nanny->config, i, &refusal); i++)
		judge_refusal(j, &refusal);
	/* A change takes a moment to be confirmed: only one that is not is worth a word. */
	if (view->nanny->unconfirmed_ns == 0 || j->blamed & BLAMED_DNSMASQ ||
	    view->now_ns - view->nanny->unconfirmed_ns < UNCONFIRMED_S * NS_PER_S)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->nanny->unconfirmed_ns,
	    "dnsmasq has not confirmed the newest configuration");
	finding_brief(finding, "dnsmasq has not confirmed the newest configuration");
	finding_explain(j, finding,
	    "The nanny has written it and told dnsmasq, and dnsmasq still shows the one before.",
	    "Wait a few seconds; if it stays so, read what dnsmasq and the nanny say.",
	    COMMAND_LOGS_DNSMASQ);
}

/* Who got most of kubedns's answers while it dropped, half of them at least, and its address is
 * known: not dnsmasq, which asks for others. NULL without one. */
static const struct client_rate *
flooder(const struct view *view, const struct buckets *drops, double *share)
{
	const struct kubedns_view *k = view->kubedns;
	const struct client_rate *client;
	struct addr addr;

	if (k == NULL || drops != &k->recent[KUBEDNS_DROPPED] || !view->may_ask)
		return NULL;
	client = client_rates_meanwhile(&k->rates, view->now_ns, drops, &k->recent[KUBEDNS_NOERROR],
	    KUBEDNS_OTHER - KUBEDNS_NOERROR + 1, share);
	if (client == NULL || *share < FLOODER_SHARE || addr_parse(client->name, &addr) < 0 ||
	    strcmp(client->name, "127.0.0.1") == 0 || strcmp(client->name, "::1") == 0)
		return NULL;
	return client;
}

/* Whether something was counted a moment ago. */
static bool
is_going_on(const struct view *view, const struct buckets *buckets)
{
	for (int age = 0; age < LOAD_BUCKETS; age++)
		if (buckets_get(buckets, view->now_ns, age) > 0)
			return true;
	return false;
}

/* How long ago the newest of them was counted, to ten seconds. */
static const char *
newest_ago(const struct view *view, const struct buckets *buckets, char *text)
{
	int age = 0;

	while (age < BUCKETS - 1 && buckets_get(buckets, view->now_ns, age) == 0)
		age++;
	return format_duration((double)age * BUCKET_S, text);
}

/* While packets are dropped this is a problem, afterwards a note. */
static struct finding *
add_drops(struct judgement *j, const char *who, const struct buckets *drops, const char *meanwhile,
    const char *brief)
{
	char text[FORMAT_MAX], ago[FORMAT_MAX];
	struct finding *finding;

	format_count(buckets_sum(drops, j->view->now_ns), text);
	if (!is_going_on(j->view, drops)) {
		finding = finding_add(j, LEVEL_NOTE, j->view->now_ns,
		    "%s did not keep up until %s ago: the kernel dropped %s packets before it in "
		    "the "
		    "last 10 minutes%s",
		    who, newest_ago(j->view, drops, ago), text, meanwhile);
		finding_past(j, finding);
		return finding;
	}
	finding = finding_add(j, LEVEL_DEGRADED, j->view->now_ns,
	    "The kernel drops packets before %s: %s in the last 10 minutes%s", who, text,
	    meanwhile);
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
		    "; meanwhile %s%s%.80s%s had %u %% of its answers", client->name,
		    pod ? " (" : "", client->pod, pod ? ")" : "", (unsigned)(100 * share));
		snprintf(brief, sizeof brief, ", while %s had %u %% of the answers", client->name,
		    (unsigned)(100 * share));
	}
	struct finding *finding = add_drops(j, who, drops, meanwhile, brief);
	finding_explain(j, finding,
	    "They came faster than they were answered. Each is a client that waits for its "
	    "timeout, 5 seconds as a rule.",
	    client != NULL ? in_pod(j,
				 "This client first: what runs there, and why does it ask so much? "
				 "If the load "
				 "is honest: more replicas, or more CPU.",
				 "This client first: what runs there, and why does it ask so much? "
				 "If the load "
				 "is honest: more CPU.")
			   : in_pod(j,
				 "See the top clients below. If the load is honest: more replicas, "
				 "or more CPU.",
				 "See the top clients below. If the load is honest: more CPU."),
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
	    "kubedns held back %s packets of the heaviest clients in the last 10 minutes%s%.80s",
	    format_count(shed, text), known ? "; the heaviest now is " : "",
	    known ? kubedns->clients[0].name : "");
	finding_explain(j, finding,
	    "A client asks more than its share while kubedns cannot keep up; the others are "
	    "answered.",
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
		judge_drops(j, "dnsmasq", &nanny->recent_drops);
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
	    "At the limit the kernel kills it, and its clients wait until it is back.", todo,
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
			"kept. kubedns grows with Services and endpoints: below, under kubedns, is "
			"how many, and docs/sizing.md says what they take.",
			"Raise its limit, such as MemoryMax= of its unit. kubedns grows with "
			"Services and endpoints: below, under kubedns, is how many, and "
			"docs/sizing.md says what they take."));
	if (view->nanny != NULL && view->nanny->up) {
		struct json_object *memory =
		    config_member(view->nanny->config, "memory", json_type_object);

		judge_container(j, "dnsmasq", config_number(memory, "bytes"),
		    config_number(memory, "limit"),
		    in_pod(j,
			"dnsmasq grows with TCP connections, queries that wait for servers, and "
			"--cache-size: do its upstream servers answer? Else raise "
			"resources.limits.memory of this container, where its manifest is kept.",
			"dnsmasq grows with TCP connections, queries that wait for servers, and "
			"--cache-size: do its upstream servers answer? Else raise its limit."));
	}
	judge_container(j, "sidecar", view->memory, view->memory_limit,
	    in_pod(j,
		"The sidecar does not grow: is its limit lower than in our manifests? Else restart "
		"the pod, and report it.",
		"The sidecar does not grow: is its limit too low? Else restart it, and report "
		"it."));
}

static void
judge_node_cache(struct judgement *j, double rules)
{
	if (rules <= 0)
		return;
	struct finding *finding = finding_add(j, LEVEL_NOTE, j->view->now_ns,
	    "%.0f NOTRACK rules of NodeLocal DNSCache are on this node", rules);
	finding_explain(j, finding,
	    "With them, pods of this node are not answered while its kubedns is dead. Without them "
	    "the "
	    "cluster's DNS pods answer.",
	    "Does node-local-dns run here? If not, remove the rules: docs/node.md says how.",
	    COMMAND_NONE);
	snprintf(finding->command, sizeof finding->command,
	    "iptables-save -t raw | grep 'NodeLocal DNS Cache'");
}

void
judge_host(struct judgement *j)
{
	const struct nanny_view *nanny = j->view->nanny;

	if (nanny == NULL || !nanny->up)
		return;
	judge_node_cache(j, config_number(nanny->config, "nodeCacheRules"));
	struct json_object *dnsmasq = config_member(nanny->config, "dnsmasq", json_type_object);
	const char *holder = config_string(dnsmasq, "portSharedWith");
	if (holder[0] == '\0')
		return;
	struct finding *finding = finding_add(
	    j, LEVEL_DEGRADED, j->view->now_ns, "dnsmasq's port is open in %.80s too", holder);
	finding_brief(finding, "another process has dnsmasq's port");
	finding_explain(j, finding,
	    "It gets queries for external names in dnsmasq's place, and can answer them with what "
	    "it likes.",
	    "On this node: which process is it, and who started it? Stop it; treat answers of the "
	    "time as forged.",
	    COMMAND_NONE);
	snprintf(finding->command, sizeof finding->command, "ss -ulnp");
}

void
judge_clock(struct judgement *j)
{
	char text[FORMAT_MAX];

	if (j->view->clock_step_s == 0) /* exactly: it is 0 unless it was set */
		return;
	finding_explain(j,
	    finding_add(j, LEVEL_NOTE, j->view->now_ns, "The node's clock was set %s by %s",
		j->view->clock_step_s > 0 ? "forward" : "back",
		format_duration(floor(fabs(j->view->clock_step_s) + 0.5), text)),
	    "DNS does not depend on the clock, but certificates and tokens of the API server do, "
	    "and the times on this page.",
	    "Is time synchronisation running on the node?", COMMAND_NONE);
}
