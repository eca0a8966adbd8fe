/*
 * The nanny's HTTP pages: health, readiness and metrics.
 */
#include <stdio.h>

#include "lib/clock.h"
#include "nanny/nanny.h"
#include "nanny/udp_drops.h"

bool
nanny_is_confirmed(const struct nanny *nanny)
{
	return nanny->confirmed_generation == nanny->generation && !nanny->child.changed;
}

static void
page_healthz(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct nanny *nanny = arg;
	int64_t silent_ms = clock_mono_ms() - nanny->answered_ms;
	(void)request;
	if (silent_ms >= nanny->options->silence_ms)
		http_text(response, 503, "dnsmasq has not answered for %lld s\n",
		    (long long)(silent_ms / 1000));
	else
		http_text(response, 200, "ok\n");
}

static void
page_readiness(const struct http_request *request, struct http_response *response, void *arg)
{
	const char *why;
	(void)request;
	if (nanny_is_ready(arg, &why))
		http_text(response, 200, "ok\n");
	else
		http_text(response, 503, "dnsmasq: %s\n", why);
}

static void
one(struct metrics *m, const char *name, enum metric_type type, const char *help, double value)
{
	metrics_family(m, name, type, help);
	metrics_value(m, value, NULL);
}

static void
put_reloads(struct metrics *m, const struct nanny *nanny)
{
	const struct nanny_stats *s = &nanny->stats;
	metrics_family(m, "nanny_reloads_total", METRIC_COUNTER,
	    "Servers files by what became of them: dnsmasq has it, did not have it in time (and "
	    "was told again), died first, or could not be written.");
	metrics_value(m, (double)s->reloads_confirmed, "result", "confirmed", NULL);
	metrics_value(m, nanny->child.unconfirmed, "result", "timeout", NULL);
	metrics_value(m, (double)s->reloads_lost, "result", "lost", NULL);
	metrics_value(m, (double)s->write_failures, "result", "unwritten", NULL);
	one(m, "nanny_name_reloads_total", METRIC_COUNTER,
	    "Reloads made only because a stub server's name moved; each empties dnsmasq's cache.",
	    (double)s->reloads_names);
	one(m, "nanny_sighups_total", METRIC_COUNTER, "SIGHUPs sent to dnsmasq.", (double)s->hups);
	one(m, "nanny_config_changes_total", METRIC_COUNTER,
	    "Changes of what dnsmasq should do, from the ConfigMap, resolv.conf or names.",
	    (double)s->changes);
	one(m, "nanny_config_changes_not_applied_total", METRIC_COUNTER,
	    "Changes of the ConfigMap ignored because -restartDnsmasq is false.",
	    (double)s->not_applied);
	metrics_family(m, "nanny_config_confirm_seconds", METRIC_HISTOGRAM,
	    "From a change seen to dnsmasq's confirmation.");
	metrics_histogram(m, &nanny->confirm_s, NULL);
}

static void
put_config(struct metrics *m, const struct nanny *nanny)
{
	char hash[32];
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->confirmed_hash);
	metrics_family(m, "nanny_config_info", METRIC_GAUGE,
	    "1, labelled with the hash of the servers file that dnsmasq was last seen to have.");
	metrics_value(m, 1, "hash", hash, NULL);
	one(m, "nanny_config_generation", METRIC_GAUGE, "Number of the newest servers file.",
	    nanny->generation);
	one(m, "nanny_config_confirmed", METRIC_GAUGE, "1 if dnsmasq has the newest configuration.",
	    nanny_is_confirmed(nanny));
	one(m, "nanny_config_confirmed_timestamp_seconds", METRIC_GAUGE,
	    "When dnsmasq was last seen to have a new file; 0: never.",
	    (double)nanny->confirmed_at);
	metrics_family(m, "nanny_config_error", METRIC_GAUGE,
	    "1 if the present content of the key is refused and an older one is in force.");
	for (int i = 0; i < CONFIG_KEY_COUNT; i++)
		metrics_value(
		    m, nanny->config.keys[i].error != NULL, "key", config_key_names[i], NULL);
	metrics_family(m, "nanny_config_errors_total", METRIC_COUNTER,
	    "Contents of the key that were refused.");
	for (int i = 0; i < CONFIG_KEY_COUNT; i++)
		metrics_value(
		    m, (double)nanny->config.keys[i].refused, "key", config_key_names[i], NULL);
	one(m, "nanny_upstream_loop", METRIC_GAUGE,
	    "1 if a server of resolv.conf is dnsmasq itself and therefore not asked.",
	    nanny->config.loop != NULL);
}

static void
put_child(struct metrics *m, const struct nanny *nanny)
{
	metrics_family(
	    m, "nanny_dnsmasq_state", METRIC_GAUGE, "1 for the state that dnsmasq is in.");
	for (int i = 0; i < CHILD_STATE_COUNT; i++)
		metrics_value(m, nanny->child.state == (enum child_state)i, "state",
		    child_state_name((enum child_state)i), NULL);
	metrics_family(m, "nanny_dnsmasq_info", METRIC_GAUGE,
	    "Always 1; dnsmasq's version as it says, and its package's where the image tells.");
	metrics_value(m, 1, "version", nanny->process.version, "package", nanny->package, NULL);
	one(m, "nanny_child_restarts_total", METRIC_COUNTER, "Times dnsmasq was started again.",
	    nanny->stats.spawns ? (double)nanny->stats.spawns - 1 : 0);
	one(m, "nanny_dnsmasq_deaths_total", METRIC_COUNTER,
	    "Times dnsmasq ended without having been told to.", nanny->child.deaths);
	one(m, "nanny_dnsmasq_silences_total", METRIC_COUNTER,
	    "Times dnsmasq was killed for answering nothing.", (double)nanny->stats.silences);
	one(m, "nanny_dnsmasq_last_answer_age_seconds", METRIC_GAUGE,
	    "Since dnsmasq last answered the nanny.",
	    (double)(clock_mono_ms() - nanny->answered_ms) / 1000);
	one(m, "nanny_tcp_connections_stale", METRIC_GAUGE,
	    "TCP connections to dnsmasq from before the last reload, which go on with the old "
	    "configuration until they are idle.",
	    (double)nanny->stale_forks.count);
	one(m, "nanny_tcp_connections_ended_total", METRIC_COUNTER,
	    "Idle TCP connections to dnsmasq ended because they were from before a reload.",
	    (double)nanny->stale_forks.ended);
	one(m, "nanny_tcp_connections", METRIC_GAUGE, "TCP connections to dnsmasq.",
	    (double)nanny->stale_forks.connections);
	one(m, "nanny_tcp_connections_max", METRIC_GAUGE,
	    "TCP connections that dnsmasq takes at a time.", (double)nanny->stale_forks.limit);
	one(m, "nanny_tcp_connections_crowd_ended_total", METRIC_COUNTER,
	    "Idle TCP connections to dnsmasq ended because there were near as many as it takes.",
	    (double)nanny->stale_forks.crowd_ended);
	one(m, "nanny_dnsmasq_port_others", METRIC_GAUGE,
	    "UDP sockets of other processes at dnsmasq's address and port: they can answer clients "
	    "in "
	    "its place.",
	    (double)nanny->port.others);
	one(m, "nanny_dnsmasq_udp_receive_drops", METRIC_GAUGE,
	    "Packets the kernel dropped because dnsmasq's socket buffer was full, of the present "
	    "sockets.",
	    (double)udp_receive_drops(nanny->args.port));
}

static void
put_names(struct metrics *m, const struct nanny *nanny)
{
	struct stub_hosts_stats stats = stub_hosts_stats(nanny->names);
	const struct stub_host *name;
	size_t count = 0, resolved = 0, failing = 0;
	int64_t oldest = clock_mono_ms();
	for (; (name = stub_hosts_at(nanny->names, count)); count++) {
		resolved += name->known_count > 0;
		for (int i = 0; i < STUB_HOST_FAMILIES; i++) {
			failing += name->family[i].failures > 0;
			int64_t taken =
			    name->family[i].until_ms - (int64_t)name->family[i].ttl_s * 1000;
			if (name->family[i].answered && taken < oldest)
				oldest = taken;
		}
	}
	metrics_family(m, "nanny_names", METRIC_GAUGE, "Stub servers given by name.");
	metrics_value(m, (double)resolved, "state", "resolved", NULL);
	metrics_value(m, (double)(count - resolved), "state", "unresolved", NULL);
	one(m, "nanny_names_failing", METRIC_GAUGE, "Names and families whose last refresh failed.",
	    (double)failing);
	one(m, "nanny_names_oldest_answer_age_seconds", METRIC_GAUGE,
	    "Age of the oldest answer in use.", (double)(clock_mono_ms() - oldest) / 1000);
	metrics_family(m, "nanny_name_lookups_total", METRIC_COUNTER,
	    "Questions asked for stub servers' names.");
	metrics_value(m, (double)stats.answers, "result", "answer", NULL);
	metrics_value(m, (double)stats.failures, "result", "failure", NULL);
}

static void
put_file(struct metrics *m, const struct nanny *nanny)
{
	size_t lines = 0, retired = 0;
	for (size_t i = 0; i < nanny->written.count; i++) {
		lines += nanny->written.items[i].count;
		retired += nanny->written.items[i].retired ? nanny->written.items[i].count : 0;
	}
	metrics_family(m, "nanny_servers_file_lines", METRIC_GAUGE,
	    "Lines of the servers file; retired ones are of domains that are gone.");
	metrics_value(m, (double)(lines - retired), "kind", "configured", NULL);
	metrics_value(m, (double)retired, "kind", "retired", NULL);
	one(m, "nanny_servers_file_dropped_lines_total", METRIC_COUNTER,
	    "Retired lines dropped because there were too many.",
	    (double)nanny->stats.dropped_lines);
}

static void
page_metrics(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct nanny *nanny = arg;
	enum metrics_format format = metrics_negotiate(request->accept);
	struct metrics *m = metrics_new(format);
	put_reloads(m, nanny);
	put_config(m, nanny);
	put_child(m, nanny);
	put_names(m, nanny);
	put_file(m, nanny);
	node_guard_metrics(&nanny->node_guard, m);
	one(m, "nanny_log_suppressed_total", METRIC_COUNTER,
	    "Log lines dropped because nobody read them or there were too many.",
	    (double)log_suppressed());
	sandbox_metrics(m, "nanny_sandbox");
	sandbox_metrics_of(m, "nanny_dnsmasq_sandbox", nanny->process.layers);
	metrics_process(m, "nanny_build_info");
	response->body = metrics_finish(m, &response->len);
	response->content_type = metrics_content_type(format);
}

const struct http_route nanny_routes[] = {
	{ "/healthz", page_healthz, false },
	{ "/readiness", page_readiness, false },
	{ "/metrics", page_metrics, false },
	{ "/config", config_page, true },
	{ NULL, NULL, false },
};
