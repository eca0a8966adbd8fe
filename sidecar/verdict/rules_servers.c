/* Rules about the servers to which dnsmasq and kubedns send queries. */
#include "lib/clock.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

/* Returns the address with a space before it, or "" if the client may not read the configuration. */
static const char *
shown_server(const struct view *view, const struct server *server, char *text)
{
	if (!view->may_ask)
		return "";
	text[0] = ' ';
	server_format(server, text + 1);
	return text;
}

static const char *
remove_it(const struct judgement *j)
{
	return in_pod(j,
	    "Is the server up, and can the node reach it? If it is gone for good, remove it from "
	    "the ConfigMap kube-system/kube-dns or from the node's resolv.conf.",
	    "Is the server up and reachable? If it is gone for good, remove it from the "
	    "configuration's directory or from resolv.conf.");
}

static void
judge_server_check(struct judgement *j, const struct check *check, size_t count, size_t failing)
{
	const struct view *view = j->view;
	/* Without a CA bundle, the sidecar does not know whether the server works. */
	bool unknown = check->cause == CAUSE_TLS_CA_BUNDLE;
	bool stub = check->kind == CHECK_STUB, all = !stub && !unknown && failing == count;
	char server[SERVER_TEXT_MAX + 1], since[FORMAT_MAX];
	const char *whose = stub && view->may_ask ? check->domain : "";

	shown_server(view, &check->server, server);
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, check->since_ns,
	    "%s%s%s%.100s %s, for %s", stub ? "Stub server" : "Upstream server",
	    view->may_ask ? server : "", *whose ? " of " : "", whose, cause_says(check->cause),
	    verdict_ago(view, check->since_ns, since));
	if (all) {
		finding->scope = "Cluster names are answered";
		finding_brief(finding, "no upstream server answers: %s%s %s",
		    count == 1 ? "the only one" : "the first", view->may_ask ? server : "",
		    cause_says(check->cause));
	} else if (stub)
		finding_brief(finding, "stub server%s%s%.60s %s", view->may_ask ? server : "",
		    *whose ? " of " : "", whose, cause_says(check->cause));
	else
		finding_brief(finding, "upstream server%s, one of %zu, %s",
		    view->may_ask ? server : "", count, cause_says(check->cause));
	finding_explain(j, finding,
	    unknown ? cause_meaning(check->cause)
	    : stub  ? "Names of the stub domain fail, unless the domain has another server."
	    : all   ? "External names fail for all clients."
		    : "Queries go to the other servers. A query that goes to this server first is "
		      "answered late.",
	    all && check->cause < CAUSE_PLAIN_COUNT
		? in_pod(j,
		      "Is the server up, and can the node reach it? Until it answers, name another "
		      "server in upstreamNameservers of the ConfigMap kube-system/kube-dns, such "
		      "as [\"192.0.2.53\"]. The nanny applies it within seconds, and no pod "
		      "is restarted.",
		      "Is the server up, and can this machine reach it? Until it answers, name "
		      "another server in the file upstreamNameservers of the configuration's "
		      "directory, such as [\"192.0.2.53\"]. The nanny applies it within seconds, "
		      "and nothing is restarted.")
	    : check->cause >= CAUSE_PLAIN_COUNT ? cause_todo(check->cause)
						: remove_it(j),
	    all ? COMMAND_CONFIG_EDIT : COMMAND_CONFIG_SHOW);
}

void
judge_servers(struct judgement *j)
{
	const struct server_checks *checks = j->view->checks;

	for (int kind = CHECK_UPSTREAM; kind <= CHECK_STUB; kind++) {
		size_t count, failing;

		server_checks_count(checks, (enum check_kind)kind, &count, &failing);
		bool all = kind == CHECK_UPSTREAM && count > 0 && failing == count;
		if (all && server_checks_find(checks, CHECK_UPSTREAM)->cause != CAUSE_TLS_CA_BUNDLE)
			j->blamed |= BLAMED_UPSTREAM;
		for (size_t i = 0; failing > 0 && i < checks->count; i++)
			if (checks->items[i]->kind == (enum check_kind)kind &&
			    check_failing(checks->items[i]))
				judge_server_check(j, checks->items[i], count, failing);
	}
}

/* Adds a finding if external names fail through dnsmasq, although the upstreams of dnsmasq answer. */
void
judge_outside(struct judgement *j)
{
	const struct view *view = j->view;
	const struct check *check = server_checks_find(view->checks, CHECK_OUTSIDE);
	char since[FORMAT_MAX];
	size_t count, failing;

	if (check == NULL || !check_failing(check) ||
	    (!j->dnsmasq_answers && !runs_unbound(view)) ||
	    j->blamed & (BLAMED_UPSTREAM | BLAMED_DNSMASQ))
		return;
	/* The refused key is a finding of its own. */
	if (view->nanny != NULL && config_closed(view->nanny->config))
		return;
	server_checks_count(view->checks, CHECK_UPSTREAM, &count, &failing);
	/* If no upstream answers, dnsmasq refuses queries by design. */
	if (check->cause == CAUSE_REFUSED && (count == 0 || failing == count))
		return;
	bool full = check->cause == CAUSE_REFUSED;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, check->since_ns,
	    "$engine %s for an external name, for %s",
	    full ? "refuses queries" : cause_says(check->cause),
	    verdict_ago(view, check->since_ns, since));
	finding->scope = "Cluster names are answered";
	finding_brief(finding, full ? "$engine refuses external names" : "external names fail");
	finding_explain(j, finding,
	    full ? "Too many queries wait for servers that do not answer: $engine's table of "
		   "queries in flight is full."
		 : "$engine does not answer queries for external names.",
	    full ? "Which clients query a domain whose servers are dead? See the upstreams below, "
		   "and $engine's --dns-forward-max."
		 : "Do the upstream servers below answer, and can $engine reach them?",
	    COMMAND_LOGS_DNSMASQ);
}

/* Adds a finding if an upstream returns errors. dnsmasq counts the answers REFUSED and SERVFAIL of each upstream. */
static void
judge_upstream(struct judgement *j, const struct upstream *upstream)
{
	const struct view *view = j->view;
	char server[SERVER_TEXT_MAX + 1], queries[FORMAT_MAX], failed[FORMAT_MAX];
	uint64_t asked = buckets_sum(&upstream->recent_queries, view->now_ns);
	uint64_t bad = buckets_sum(&upstream->recent_failed, view->now_ns);

	if (asked < PAST_MIN || bad * 100 < asked * FAILED_PERCENT)
		return;
	/* Skip kubedns, because its probe shows more. */
	for (size_t i = 0; i < view->probe_count; i++)
		if (server_equal(&view->probes[i].spec.server, &upstream->server))
			return;
	for (size_t i = 0; i < view->checks->count; i++)
		if (check_failing(view->checks->items[i]) &&
		    server_equal(&view->checks->items[i]->server, &upstream->server))
			return;
	shown_server(view, &upstream->server, server);
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, view->now_ns,
	    "Upstream%s failed %s of %s queries in the last 10 minutes",
	    view->may_ask ? server : "", format_count(bad, failed), format_count(asked, queries));
	finding_brief(finding, "upstream%s fails", view->may_ask ? server : " server");
	finding_explain(j, finding,
	    "Names that $engine sends to this server are slow or fail. $engine tries the other "
	    "servers of the same domain, if there are any.",
	    remove_it(j), COMMAND_CONFIG_SHOW);
}

void
judge_upstreams(struct judgement *j)
{
	const struct dnsmasq_stats *cache = j->view->cache;

	for (size_t i = 0; i < cache->upstream_count; i++)
		judge_upstream(j, &cache->upstreams[i]);
}

/* Adds a finding if queries fail that kubedns forwards to other servers. */
void
judge_forwarding(struct judgement *j)
{
	const struct kubedns_view *kubedns = j->view->kubedns;
	int64_t now_ns = j->view->now_ns;
	char queries[FORMAT_MAX], lost[FORMAT_MAX];

	if (kubedns == NULL || !kubedns->up || j->blamed & (BLAMED_UPSTREAM | BLAMED_DNSMASQ))
		return;
	uint64_t asked = buckets_sum(&kubedns->recent[KUBEDNS_FORWARDED], now_ns);
	uint64_t failed = buckets_sum(&kubedns->recent[KUBEDNS_FORWARD_FAILED], now_ns);
	if (asked < PAST_MIN || failed * 100 < asked * FAILED_PERCENT)
		return;
	struct finding *finding = finding_add(j, LEVEL_DEGRADED, now_ns,
	    "kubedns got no answer to %s of %s queries that it forwarded in the last 10 minutes",
	    format_count(failed, lost), format_count(asked, queries));
	finding->scope = "Cluster names are answered";
	finding_brief(finding, "queries that kubedns forwards fail");
	bool front = topology_of(j->view) == TOPOLOGY_FRONT;
	finding_explain(j, finding,
	    front ? "External names fail: kubedns forwards them to $engine."
		  : "Targets of ExternalName Services fail: kubedns looks them up itself.",
	    front ? "Does $engine answer, and do its upstream servers below?"
		  : "Do the servers of upstreamNameservers, or else of resolv.conf, answer?",
	    front ? COMMAND_LOGS_DNSMASQ : COMMAND_CONFIG_SHOW);
}
