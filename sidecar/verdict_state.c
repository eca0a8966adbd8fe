/* Causes that are a configuration, load, memory or the clock. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict_internal.h"

enum {
	UNCONFIRMED_S = 10,
	DROPS_MIN = 10,      /* packets, in the last ten minutes */
	MEMORY_PERCENT = 85, /* of the limit */
};

static void
judge_refusal(struct judgement *j, const struct config_refusal *refusal)
{
	const struct view *view = j->view;
	/* The reason quotes the ConfigMap, which is not for every peer to read. */
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "The ConfigMap's %.64s was refused%s%.170s", refusal->key, view->may_ask ? ": " : "",
	    view->may_ask ? refusal->reason : "");

	finding_brief(finding, "the ConfigMap's %.64s was refused", refusal->key);
	finding_explain(finding,
	    "The last good value of this key stays in force; the other keys are not affected.",
	    "Correct the key; the nanny takes it as soon as the volume has it.",
	    "kubectl -n kube-system edit configmap kube-dns");
}

static void
judge_names(struct judgement *j)
{
	const struct view *view = j->view;
	const char *why, *name = config_unresolved(view->nanny->config, 0, &why);

	if (name == NULL)
		return;
	/* Names of stub servers come from the ConfigMap too. */
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "A stub domain's server has no address%s%.120s%s%.80s", view->may_ask ? ": " : "",
	    view->may_ask ? name : "", view->may_ask && why[0] != '\0' ? ": " : "",
	    view->may_ask ? why : "");
	finding_brief(finding, "a stub domain's server has no address");
	finding_explain(finding,
	    "It is given by name, and that name cannot be resolved; the stub domain's names are "
	    "not "
	    "answered unless it has other servers.",
	    "Does the name exist, and do the upstream servers answer for it? An address in its "
	    "place needs no resolving.",
	    "kubectl -n kube-system get configmap kube-dns -o yaml");
}

/* A server of resolv.conf, or of a stub domain, that leads back to dnsmasq. */
static void
judge_loop(struct judgement *j)
{
	const struct view *view = j->view;
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
	finding_explain(finding,
	    "A query forwarded there would go round until dnsmasq's table is full; the other "
	    "servers are asked.",
	    "Name a server outside this pod, in the ConfigMap or in the node's resolv.conf.",
	    CONFIGMAP);
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
	judge_loop(j);
	judge_names(j);
	/* A change takes a moment to be confirmed: only one that is not is worth a word. */
	if (view->nanny->unconfirmed_ns == 0 || j->blamed & BLAMED_DNSMASQ ||
	    view->now_ns - view->nanny->unconfirmed_ns < UNCONFIRMED_S * NS_PER_S)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->nanny->unconfirmed_ns,
	    "dnsmasq has not confirmed the newest configuration");
	finding_brief(finding, "dnsmasq has not confirmed the newest configuration");
	finding_explain(finding,
	    "The nanny has written it and told dnsmasq, and dnsmasq still shows the one before.",
	    "Wait a few seconds; if it stays so, read what dnsmasq and the nanny say.",
	    LOGS("dnsmasq"));
}

static void
judge_drops(struct judgement *j, const char *who, const struct buckets *drops)
{
	uint64_t dropped = buckets_sum(drops, j->view->now_ns);
	char text[FORMAT_MAX];

	if (dropped < DROPS_MIN)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, j->view->now_ns,
	    "The kernel dropped %s packets before %s in the last 10 minutes",
	    format_count(dropped, text), who);
	finding_brief(finding, "%s did not keep up: %s packets dropped", who, text);
	finding_explain(finding,
	    "They came faster than they were answered; each is a client that waits for its "
	    "timeout, "
	    "5 seconds as a rule.",
	    "See below who asks most. If the load is honest: more replicas, or more CPU.", TOP);
}

void
judge_load(struct judgement *j)
{
	const struct kubedns_view *kubedns = j->view->kubedns;
	const struct nanny_view *nanny = j->view->nanny;
	char text[FORMAT_MAX];

	if (kubedns != NULL && kubedns->up)
		judge_drops(j, "kubedns", &kubedns->recent[KUBEDNS_DROPPED]);
	if (nanny != NULL && nanny->up)
		judge_drops(j, "dnsmasq", &nanny->recent_drops);
	uint64_t shed = kubedns != NULL && kubedns->up
			    ? buckets_sum(&kubedns->recent[KUBEDNS_SHED], j->view->now_ns)
			    : 0;
	if (shed == 0)
		return;
	bool known = kubedns->client_count > 0 && j->view->may_ask;
	finding_explain(finding_add(j, LEVEL_NOTE, j->view->now_ns,
			    "kubedns held back %s packets of the heaviest clients in the last 10 "
			    "minutes%s%.80s",
			    format_count(shed, text), known ? "; the heaviest now is " : "",
			    known ? kubedns->clients[0].name : ""),
	    "A client asks more than its share while kubedns cannot keep up; the others are "
	    "answered.",
	    "See below who asks most, and kubedns's log for the addresses.", LOGS("kubedns"));
}

static void
judge_container(struct judgement *j, const char *container, double used, double limit)
{
	if (limit <= 0 || used * 100 < limit * MEMORY_PERCENT)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, j->view->now_ns,
	    "Container %s uses %.0f of %.0f MB of its memory", container, used / 1e6, limit / 1e6);
	finding_brief(finding, "container %s is near its memory limit", container);
	finding_explain(finding,
	    "At the limit the kernel kills it, and its clients wait until it is back.",
	    "Raise resources.limits.memory of this container in the Deployment; kubedns grows with "
	    "Services and endpoints.",
	    "kubectl -n kube-system edit deployment kube-dns");
}

void
judge_memory(struct judgement *j)
{
	const struct view *view = j->view;

	if (view->kubedns != NULL && view->kubedns->up)
		judge_container(j, "kubedns", view->kubedns->memory, view->kubedns->memory_limit);
	if (view->nanny != NULL && view->nanny->up) {
		struct json_object *memory =
		    config_member(view->nanny->config, "memory", json_type_object);
		judge_container(
		    j, "dnsmasq", config_number(memory, "bytes"), config_number(memory, "limit"));
	}
	judge_container(j, "sidecar", view->memory, view->memory_limit);
}

void
judge_clock(struct judgement *j)
{
	char text[FORMAT_MAX];

	if (j->view->clock_step_s == 0) /* exactly: it is 0 unless it was set */
		return;
	finding_explain(
	    finding_add(j, LEVEL_NOTE, j->view->now_ns, "The node's clock was set %s by %s",
		j->view->clock_step_s > 0 ? "forward" : "back",
		format_duration(floor(fabs(j->view->clock_step_s) + 0.5), text)),
	    "DNS does not mind, but certificates and tokens of the API server are judged by it, "
	    "and "
	    "the times on this page.",
	    "Is time synchronisation running on the node?", "");
}
