#include <stdio.h>
#include <stdlib.h>

#include "lib/log.h"
#include "lib/sandbox.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/metrics.h"
#include "sidecar/verdict/verdict.h"

enum { NAME_MAX_BYTES = 256 };

/* Starts a metric family of kube-dns. The name of the family starts with --prometheus-namespace. */
static void
old_family(struct metrics *m, const struct view *view, const char *subsystem, const char *name,
    enum metric_type type, const char *help)
{
	char full[NAME_MAX_BYTES];

	snprintf(full, sizeof full, "%s_%s_%s", view->prometheus_namespace, subsystem, name);
	metrics_family(m, full, type, help);
}

static void
old_dnsmasq(struct metrics *m, const struct view *view)
{
	static const struct {
		const char *name, *help;
	} counters[CACHE_COUNTERS] = {
		[STAT_HITS] = { "hits", "Number of DNS cache hits (from start of process)" },
		[STAT_MISSES] = { "misses", "Number of DNS cache misses (from start of process)" },
		[STAT_EVICTIONS] = { "evictions",
		    "Number of DNS cache evictions (from start of process)" },
		[STAT_INSERTIONS] = { "insertions",
		    "Number of DNS cache insertions (from start of process)" },
	};

	for (int i = 0; i < CACHE_COUNTERS; i++) {
		old_family(m, view, "dnsmasq", counters[i].name, METRIC_COUNTER, counters[i].help);
		metrics_value(m, (double)view->cache->counters[i], NULL);
	}
	old_family(
	    m, view, "dnsmasq", "max_size", METRIC_GAUGE, "Size of the DNS cache in entries");
	metrics_value(m, view->cache->size, NULL);
	old_family(m, view, "dnsmasq", "errors", METRIC_COUNTER,
	    "Number of times that dnsmasq's statistics could not be read");
	metrics_value(m, (double)view->cache->errors, NULL);
}

static void
old_probe(struct metrics *m, const struct view *view, const struct probe *probe)
{
	char label[SPEC_LABEL_MAX + 1], name[SPEC_LABEL_MAX + 16];

	spec_metric_name(probe->spec.label, label);
	snprintf(name, sizeof name, "%s_latency_ms", label);
	old_family(
	    m, view, "probe", name, METRIC_HISTOGRAM, "Latency of the DNS probe in milliseconds");
	metrics_histogram(m, &probe->latency_ms, NULL);
	snprintf(name, sizeof name, "%s_errors", label);
	old_family(m, view, "probe", name, METRIC_COUNTER, "Number of DNS probes that failed");
	metrics_value(m, (double)probe_failures(probe), NULL);
}

static void
new_probes(struct metrics *m, const struct view *view)
{
	enum { SUCCESS, DURATION, LAST, LAST_SUCCESS, TCP_RETRIES, FAMILIES };
	static const struct {
		const char *name;
		enum metric_type type;
		const char *help;
	} families[FAMILIES] = {
		[SUCCESS] = { "dns_probe_success", METRIC_GAUGE,
		    "1 if the newest query was answered with a record, else 0" },
		[DURATION] = { "dns_probe_last_duration_seconds", METRIC_GAUGE,
		    "Duration of the newest query that was answered, 0 if the newest query was not "
		    "answered" },
		[LAST] = { "dns_probe_last_timestamp_seconds", METRIC_GAUGE,
		    "When the newest query ended, 0 before the first" },
		[LAST_SUCCESS] = { "dns_probe_last_success_timestamp_seconds", METRIC_GAUGE,
		    "When a query was last answered, 0 for never" },
		[TCP_RETRIES] = { "dns_probe_tcp_retries_total", METRIC_COUNTER,
		    "Queries repeated over TCP because the answer was truncated" },
	};

	for (int family = 0; family < FAMILIES; family++) {
		metrics_family(
		    m, families[family].name, families[family].type, families[family].help);
		for (size_t i = 0; i < view->probe_count; i++) {
			const struct probe *probe = &view->probes[i];
			const double values[FAMILIES] = {
				[SUCCESS] = probe->asked && probe->cause == CAUSE_OK,
				[DURATION] = probe->latency_s,
				[LAST] = probe->last_s,
				[LAST_SUCCESS] = probe->last_success_s,
				[TCP_RETRIES] = (double)probe->over_tcp,
			};

			metrics_value(m, values[family], "probe", probe->spec.label, NULL);
		}
	}
	metrics_family(m, "dns_probe_results_total", METRIC_COUNTER,
	    "Queries by result: ok, not_ready, or why they failed");
	for (size_t i = 0; i < view->probe_count; i++)
		for (int cause = 0; cause < CAUSE_PLAIN_COUNT; cause++)
			metrics_value(m, (double)view->probes[i].results[cause], "probe",
			    view->probes[i].spec.label, "result", cause_label((enum cause)cause),
			    NULL);
	metrics_family(m, "dns_probe_duration_seconds", METRIC_HISTOGRAM,
	    "Time until the answer, of answered queries");
	for (size_t i = 0; i < view->probe_count; i++)
		metrics_histogram(
		    m, &view->probes[i].duration_s, "probe", view->probes[i].spec.label, NULL);
}

static void
one(struct metrics *m, const char *name, enum metric_type type, const char *help, double value)
{
	metrics_family(m, name, type, help);
	metrics_value(m, value, NULL);
}

static void
new_dnsmasq(struct metrics *m, const struct view *view)
{
	const struct dnsmasq_stats *c = view->cache;

	one(m, "dnsmasq_up", METRIC_GAUGE, "1 if dnsmasq's statistics could be read, else 0",
	    c->up);
	one(m, "dnsmasq_cache_hits_total", METRIC_COUNTER,
	    "Queries that dnsmasq answered itself, including those for its statistics",
	    (double)c->counters[STAT_HITS]);
	one(m, "dnsmasq_cache_misses_total", METRIC_COUNTER, "Queries that dnsmasq forwarded",
	    (double)c->counters[STAT_MISSES]);
	one(m, "dnsmasq_cache_evictions_total", METRIC_COUNTER,
	    "Records dropped from the cache before they expired",
	    (double)c->counters[STAT_EVICTIONS]);
	one(m, "dnsmasq_cache_insertions_total", METRIC_COUNTER, "Records put into the cache",
	    (double)c->counters[STAT_INSERTIONS]);
	one(m, "dnsmasq_cache_size_entries", METRIC_GAUGE, "Size of the cache in records", c->size);
	one(m, "dnsmasq_cache_flushes_total", METRIC_COUNTER,
	    "Times that dnsmasq emptied its cache, as seen by the sidecar", (double)c->flushes);
	one(m, "dnsmasq_restarts_total", METRIC_COUNTER, "Restarts of dnsmasq that the sidecar saw",
	    (double)c->restarts);
	one(m, "dnsmasq_statistics_errors_total", METRIC_COUNTER,
	    "Times that dnsmasq's statistics could not be read", (double)c->errors);
	one(m, "dnsmasq_statistics_malformed_total", METRIC_COUNTER,
	    "Upstreams in dnsmasq's statistics that could not be parsed", (double)c->malformed);
	one(m, "dnsmasq_upstreams_dropped_total", METRIC_COUNTER,
	    "Upstreams in dnsmasq's statistics beyond the sidecar's limit of 64",
	    (double)c->upstreams_dropped);
}

/* Writes the cache's counters under names that fit both engines, and with --coredns-metrics for dashboards of CoreDNS and node-cache, too. The
 * nanny reports the counters of unbound. The type is "any", because dnsmasq does not count denials separately. */
static void
engine_cache(struct metrics *m, const struct view *view)
{
	struct json_object *engine =
	    view->nanny != NULL ? config_member(view->nanny->config, "dnsmasq", json_type_object)
				: NULL;
	bool reported = config_member(engine, "cacheHits", json_type_int) != NULL;
	double hits = reported ? config_number(engine, "cacheHits")
			       : (double)view->cache->counters[STAT_HITS];
	double misses = reported ? config_number(engine, "cacheMisses")
				 : (double)view->cache->counters[STAT_MISSES];

	one(m, "dns_cache_hits_total", METRIC_COUNTER,
	    "Queries that dnsmasq or unbound answered from its cache", hits);
	one(m, "dns_cache_misses_total", METRIC_COUNTER,
	    "Queries for which the cache of dnsmasq or unbound had no answer", misses);
	if (!view->coredns_metrics)
		return;
	metrics_family(m, "coredns_cache_hits_total", METRIC_COUNTER, "As dns_cache_hits_total");
	metrics_value(m, hits, "type", "any", NULL);
	metrics_family(
	    m, "coredns_cache_misses_total", METRIC_COUNTER, "As dns_cache_misses_total");
	metrics_value(m, misses, NULL);
}

static void
new_upstreams(struct metrics *m, const struct view *view)
{
	static const char *const names[] = { "dnsmasq_upstream_queries_total",
		"dnsmasq_upstream_failures_total" };
	static const char *const helps[] = { "Queries that dnsmasq sent to an upstream server",
		"Queries that an upstream server failed to answer" };
	char server[SERVER_TEXT_MAX];

	for (int i = 0; i < 2; i++) {
		metrics_family(m, names[i], METRIC_COUNTER, helps[i]);
		for (size_t j = 0; j < view->cache->upstream_count; j++) {
			const struct upstream *u = &view->cache->upstreams[j];

			metrics_value(m, (double)(i == 0 ? u->queries : u->failed), "server",
			    server_format(&u->server, server), NULL);
		}
	}
}

static void
checks(struct metrics *m, const struct view *view)
{
	static const char *const results[] = { "answered", "failed" };
	char server[SERVER_TEXT_MAX];

	metrics_family(m, "dns_check_success", METRIC_GAUGE,
	    "1 if the server of the configuration, or the path through dnsmasq, answers; 0 if it "
	    "failed twice in a row");
	for (size_t i = 0; i < view->checks->count; i++) {
		const struct check *check = view->checks->items[i];

		if (check->asked)
			metrics_value(m, !check_failing(check), "check",
			    check_kind_name(check->kind), "server",
			    server_format(&check->server, server), NULL);
	}
	metrics_family(m, "dns_check_results_total", METRIC_COUNTER,
	    "Queries of these checks, by whether they were answered");
	for (size_t i = 0; i < view->checks->count; i++)
		for (int k = 0; k < 2; k++) {
			const struct check *check = view->checks->items[i];

			metrics_value(m, (double)(k == 0 ? check->answered : check->failed),
			    "check", check_kind_name(check->kind), "server",
			    server_format(&check->server, server), "result", results[k], NULL);
		}
	metrics_family(m, "dns_check_failure", METRIC_GAUGE,
	    "1 while the server fails, with the reason of the newest failure; no sample else");
	for (size_t i = 0; i < view->checks->count; i++) {
		const struct check *check = view->checks->items[i];

		if (check_failing(check))
			metrics_value(m, 1, "check", check_kind_name(check->kind), "server",
			    server_format(&check->server, server), "reason",
			    cause_label(check->cause), NULL);
	}
	one(m, "dns_checks_skipped", METRIC_GAUGE,
	    "Servers of the configuration that are not checked because there are too many",
	    (double)view->checks->skipped);
}

/* Writes the verdict of the status page as metrics, for alerts. */
static void
verdict(struct metrics *m, const struct view *view)
{
	struct verdict made;

	verdict_make(&made, view);
	metrics_family(m, "dns_verdict_cause", METRIC_GAUGE,
	    "1 while the status page reports this cause of trouble");
	for (int i = 0; i < VERDICT_CAUSES; i++)
		metrics_value(
		    m, made.holds[i], "cause", verdict_cause_name((enum verdict_cause)i), NULL);
	one(m, "dns_verdict_down", METRIC_GAUGE,
	    "1 while the status page shows that DNS is down: clients of this pod get no answers",
	    made.level == LEVEL_DOWN);
}

static void
own(struct metrics *m, const struct view *view)
{
	metrics_family(m, "sidecar_peer_up", METRIC_GAUGE,
	    "1 if the other container answered the sidecar's newest request, else 0");
	if (view->kubedns != NULL)
		metrics_value(m, view->kubedns->up, "peer", "kubedns", NULL);
	if (view->nanny != NULL)
		metrics_value(m, view->nanny->up, "peer", "nanny", NULL);
	metrics_family(m, "sidecar_peer_errors_total", METRIC_COUNTER,
	    "Requests to the other container that failed");
	if (view->kubedns != NULL)
		metrics_value(m, (double)view->kubedns->errors, "peer", "kubedns", NULL);
	if (view->nanny != NULL)
		metrics_value(m, (double)view->nanny->errors, "peer", "nanny", NULL);
	one(m, "sidecar_http_connections_dropped_total", METRIC_COUNTER,
	    "HTTP connections closed for being slow or too many", (double)view->http_dropped);
	one(m, "sidecar_log_lines_suppressed_total", METRIC_COUNTER,
	    "Log lines dropped by the rate limit or a full stderr", (double)log_suppressed());
	sandbox_metrics(m, "sidecar_sandbox");
	metrics_process(m, "sidecar_build_info");
}

char *
sidecar_metrics(const struct view *view, enum metrics_format format, size_t *len)
{
	struct metrics *m = metrics_new(format);

	old_dnsmasq(m, view);
	for (size_t i = 0; i < view->probe_count; i++)
		old_probe(m, view, &view->probes[i]);
	new_probes(m, view);
	new_dnsmasq(m, view);
	engine_cache(m, view);
	new_upstreams(m, view);
	checks(m, view);
	verdict(m, view);
	own(m, view);
	return metrics_finish(m, len);
}
