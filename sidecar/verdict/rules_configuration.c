/* Rules about the configuration. */
#include <string.h>

#include "lib/clock.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/verdict/rules.h"

enum { UNCONFIRMED_S = 10 };

/* The name of the CA certificates for tls:// servers. They are not in the ConfigMap kube-dns. */
static const char ca_key[] = "upstream-ca";

static void
judge_ca_refusal(struct judgement *j, const struct config_refusal *refusal)
{
	const struct view *view = j->view;
	struct finding *finding =
	    finding_add(j, LEVEL_DEGRADED, view->now_ns, "%s upstream-ca was refused%s%.170s",
		in_pod(j, "The ConfigMap", "The file of the flag"), view->may_ask ? ": " : "",
		view->may_ask ? refusal->reason : "");

	finding_brief(finding, "%s upstream-ca was refused",
	    in_pod(j, "the ConfigMap", "the file of the flag"));
	finding_explain(j, finding,
	    refusal->had_good ? "The former CA certificates stay in force. A new pod has none, and "
				"its queries to tls:// servers fail."
			      : "There were no good CA certificates before, so all queries to "
				"tls:// servers fail.",
	    in_pod(j,
		"Correct the certificates in the ConfigMap: the nanny reads them as soon as the "
		"kubelet has updated the volume.",
		"Correct the certificates in the file: the nanny reads them within its "
		"-syncInterval."),
	    COMMAND_LOGS_DNSMASQ);
}

static void
judge_refusal(struct judgement *j, const struct config_refusal *refusal)
{
	const struct view *view = j->view;

	if (strcmp(refusal->key, ca_key) == 0) {
		judge_ca_refusal(j, refusal);
		return;
	}
	const char *servfail = !refusal->closed  ? ""
			       : refusal->partly ? ", and names of a stub domain get SERVFAIL"
						 : ", and its names get SERVFAIL";

	/* The reason quotes the ConfigMap, so not every client may read it. */
	struct finding *finding =
	    finding_add(j, LEVEL_DEGRADED, view->now_ns, "%s %.64s was %srefused%s%s%.170s",
		in_pod(j, "The ConfigMap's", "The configuration key"), refusal->key,
		refusal->partly ? "partly " : "", servfail, view->may_ask ? ": " : "",
		view->may_ask ? refusal->reason : "");

	finding_brief(finding, "%s %.64s was %srefused%s",
	    in_pod(j, "the ConfigMap's", "the configuration key"), refusal->key,
	    refusal->partly ? "partly " : "", servfail);
	if (refusal->closed && !refusal->partly)
		finding->scope = "Cluster names are answered";
	finding_explain(j, finding,
	    refusal->partly
		? "The other entries of the key are in force. A stub domain whose servers are all "
		  "refused keeps its last good servers, or its names get SERVFAIL."
	    : refusal->closed
		? "The key asks, or seems to ask, for encryption, and there was no good value "
		  "before. Queries are not sent "
		  "in plain text instead. Of upstreamNameservers, this applies to all external "
		  "names."
	    : refusal->had_good
		? "The last good value of this key stays in force; the other keys are not affected."
		: "There was no good value before, so the key has no effect; the other keys are "
		  "not affected.",
	    in_pod(j,
		"Correct the key: the nanny reads it as soon as the kubelet has updated the "
		"volume.",
		"Correct the file of this name in the configuration's directory: the nanny reads "
		"it immediately."),
	    COMMAND_CONFIG_EDIT);
}

void
judge_stub_name(struct judgement *j)
{
	const struct view *view = j->view;
	const char *why, *name;

	if (view->nanny == NULL || !view->nanny->up ||
	    (name = config_unresolved(view->nanny->config, &why)) == NULL)
		return;
	/* Names of stub servers are from the ConfigMap too. */
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "A stub domain's server has no address%s%.120s%s%.80s", view->may_ask ? ": " : "",
	    view->may_ask ? name : "", view->may_ask && why[0] != '\0' ? ": " : "",
	    view->may_ask ? why : "");
	finding_brief(finding, "a stub domain's server has no address");
	finding_explain(j, finding,
	    "The server is given by name, and that name cannot be resolved. The stub domain's "
	    "names "
	    "are not answered unless it has other servers.",
	    "Does the name exist, and do the upstream servers answer for it? An address instead of "
	    "the name needs no lookup.",
	    COMMAND_CONFIG_SHOW);
}

/* Adds a finding if a server of resolv.conf or of a stub domain forwards queries back to dnsmasq. */
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
	    "A server leads back to $engine and is not used%s%.170s", view->may_ask ? ": " : "",
	    view->may_ask ? loop : "");
	finding_brief(finding, "a server leads back to $engine and is not used");
	finding_explain(j, finding,
	    "A query to this server would loop until $engine's table of queries is full. $engine "
	    "uses the other servers.",
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
	/* A confirmation takes a moment, so only a longer delay is reported. */
	if (view->nanny->unconfirmed_ns == 0 || j->blamed & BLAMED_DNSMASQ ||
	    view->now_ns - view->nanny->unconfirmed_ns < UNCONFIRMED_S * NS_PER_S)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->nanny->unconfirmed_ns,
	    "$engine has not confirmed the newest configuration");
	finding_brief(finding, "$engine has not confirmed the newest configuration");
	finding_explain(j, finding,
	    "The nanny has told $engine to read the configuration, but $engine still uses the "
	    "previous one.",
	    "Wait a few seconds. If this problem remains, read the logs of $engine and the nanny.",
	    COMMAND_LOGS_DNSMASQ);
}
