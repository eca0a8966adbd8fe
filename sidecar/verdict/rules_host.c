/* Rules about the node: remains of NodeLocal DNSCache, the port of the engine, the clock. */
#include <math.h>
#include <stdio.h>

#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

static void
judge_node_cache(struct judgement *j, double rules)
{
	if (rules <= 0)
		return;
	struct finding *finding = finding_add(j, LEVEL_NOTE, j->view->now_ns,
	    "%.0f NOTRACK rules of NodeLocal DNSCache are on this node", rules);
	finding_explain(j, finding,
	    "With these rules, pods of this node get no answers while its kubedns is dead. Without "
	    "them the cluster's DNS pods answer.",
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
	    j, LEVEL_DEGRADED, j->view->now_ns, "$engine's port is open in %.80s too", holder);
	finding_brief(finding, "another process has $engine's port");
	finding_explain(j, finding,
	    "That process gets some of the queries for external names instead of $engine, and can "
	    "forge the answers.",
	    "Find the process on this node, stop it, and find out who started it. Answers may have "
	    "been forged since then.",
	    COMMAND_NONE);
	snprintf(finding->command, sizeof finding->command, "ss -ulnp");
}

void
judge_clock(struct judgement *j)
{
	char text[FORMAT_MAX];

	if (j->view->clock_step_s == 0) /* exactly 0 means that the clock was not set */
		return;
	finding_explain(j,
	    finding_add(j, LEVEL_NOTE, j->view->now_ns, "The node's clock was set %s by %s",
		j->view->clock_step_s > 0 ? "forward" : "back",
		format_duration(floor(fabs(j->view->clock_step_s) + 0.5), text)),
	    "DNS does not need the right time, but certificates, the token for the API server and "
	    "the times on this page do.",
	    "Is time synchronisation running on the node?", COMMAND_NONE);
}
