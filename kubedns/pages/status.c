#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "kubedns/answer/view.h"
#include "kubedns/show/cachedump.h"
#include "kubedns/config/external_setup.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/manifests/manifests.h"
#include "kubedns/pages/digest_page.h"
#include "kubedns/pages/queries_page.h"
#include "kubedns/pages/query_log.h"
#include "kubedns/config/settings.h"
#include "kubedns/pages/status.h"
#include "kubedns/pages/top_page.h"
#include "kubedns/serve/observe/observers.h"
#include "kubedns/config/wanted_namespaces.h"
#include "kubedns/api/api_source.h"
#include "kubedns/audit/audit.h"
#include "kubedns/show/explain.h"
#include "kubedns/serve/upstream/forwarded_cache.h"
#include "kubedns/serve/worker.h"
#include "lib/program_state.h"
#include "lib/clock.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

enum { STALLED_MS = 10000, PROGRAMMING_BUCKETS = 20 };

static const char *const kind_names[SERVICE_KIND_COUNT] = { [SERVICE_KIND_CLUSTERIP] = "cluster_ip",
	[SERVICE_KIND_HEADLESS] = "headless",
	[SERVICE_KIND_OTHER] = "other" };
static double programming_bounds[PROGRAMMING_BUCKETS];

void
status_init(struct status *status)
{
	double bound = 0.001;

	for (unsigned i = 0; i < PROGRAMMING_BUCKETS; i++, bound *= 2)
		programming_bounds[i] = bound;
	for (unsigned k = 0; k < SERVICE_KIND_COUNT; k++)
		status->programming[k] = (struct histogram){ .bounds = programming_bounds,
			.count = PROGRAMMING_BUCKETS };
}

struct published {
	struct status *status;
	int64_t now_ns;
};

static void
observe_stamp(void *arg, enum service_kind kind, int64_t trigger_time_ns)
{
	const struct published *published = arg;
	double took_s = (double)(published->now_ns - trigger_time_ns) / 1e9;

	/* The clock of another machine made the stamp. A stamp in the future counts as a latency of 0. */
	histogram_observe(&published->status->programming[kind], took_s < 0 ? 0 : took_s);
}

void
status_published(struct status *status, int64_t now_ns)
{
	struct published published = { status, now_ns };

	status->publishes++;
	store_stamps(status->store, observe_stamp, &published);
}

static void
handle_health(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;
	int64_t stalled_ms = workers_stalled_ms(status->workers);

	(void)request;
	if (stalled_ms < STALLED_MS)
		http_text(response, 200, "ok\n");
	else
		http_text(response, 503, "a worker has been stuck for %lld s\n",
		    (long long)stalled_ms / 1000);
}

/* Returns the reason why a directory of manifests is not synced. The caller frees the reason. */
static char *
manifests_progress(const struct status *status, bool reasons)
{
	const char *path = status->options->source.objects_dir;
	struct manifests_status held;

	if (!reasons)
		return xstrdup("");
	if (access(path, R_OK | X_OK) < 0)
		return xasprintf("--objects-dir=%s: %s\n", path, strerror(errno));
	manifests_status(status->manifests, &held);
	return xasprintf("--objects-dir=%s: being read, %zu objects so far\n", path, held.objects);
}

/* Returns a line about invalid manifests, or "". With `reasons`, the line includes the name of a
 * file and its mistake. The caller frees it. */
static char *
manifests_notes(const struct status *status, bool reasons)
{
	struct manifests_status held;

	if (status->manifests == NULL)
		return xstrdup("");
	manifests_status(status->manifests, &held);
	if (held.broken == 0)
		return xstrdup("");
	return xasprintf("--objects-dir: %zu of %zu files %s a mistake%s%s\n", held.broken,
	    held.files, held.broken == 1 ? "has" : "have",
	    reasons && held.error != NULL ? "; the latest: " : "",
	    reasons && held.error != NULL ? held.error : "");
}

/* Whether clients may be sent to this server. If not, the reason that /readiness?format=json shows. */
struct readiness {
	bool ready;
	enum readiness_reason reason;
	char *text; /* text for people; from malloc() */
};

static char *
ready_text(const struct status *status, bool local)
{
	char *notes = api_source_notes(status->watch);
	char *missing = wanted_namespaces_notes(status->namespaces, local);
	char *load = workers_notes(status->workers, local);
	char *broken = manifests_notes(status, local);
	char *text = xasprintf("ok\n%s%s%s%s", notes, missing, load, broken);

	free(notes);
	free(broken);
	free(missing);
	free(load);
	return text;
}

static char *
unready_text(const struct status *status, bool local, bool waits, bool known)
{
	char *progress = status->manifests == NULL ? api_source_status(status->watch, local)
						   : manifests_progress(status, local);
	char *text = xasprintf("%s%s%s%s%s", status->draining ? "draining: stopping soon\n" : "",
	    waits ? "another kubedns has the port: waiting until the resolver answers\n" : "",
	    status->synced ? "" : "not synced yet\n", known ? "" : progress,
	    known || local ? ""
			   : "the log has the reasons; this page shows them only to clients in the "
			     "pod (kubectl port-forward)\n");

	free(progress);
	return text;
}

static struct readiness
judge_readiness(const struct status *status, bool local)
{
	/* Not ready before this kubedns has joined the port. When it becomes ready, the kubelet
	 * stops the other kubedns. */
	bool waits = status->synced && !status->draining && status->workers != NULL &&
		     workers_held(status->workers);
	bool zones = status->synced && api_source_awaits_zones(status->watch);
	struct readiness r = {
		.reason = status->draining  ? READINESS_DRAINING
			  : !status->synced ? READINESS_NOT_SYNCED
			  : waits           ? READINESS_WAITING_FOR_PORT
			  : zones           ? READINESS_WAITING_FOR_ZONES
					    : READINESS_READY,
	};

	r.ready = r.reason == READINESS_READY;
	r.text = r.ready ? ready_text(status, local)
			 : unready_text(status, local, waits, status->synced && !zones);
	return r;
}

/* Returns readiness as JSON for the sidecar, which thus need not parse the text. */
static char *
readiness_json(const struct status *status, const struct readiness *r)
{
	struct api_source_problem problems[API_SOURCE_PROBLEMS_MAX];
	size_t count = api_source_problems(status->watch, problems, API_SOURCE_PROBLEMS_MAX);
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();

	json_object_object_add(o, "ready", json_object_new_boolean(r->ready));
	json_object_object_add(
	    o, "reason", json_object_new_string(readiness_reason_name(r->reason)));
	json_object_object_add(o, "text", json_object_new_string(r->text));
	for (size_t i = 0; i < count; i++) {
		struct json_object *item = json_object_new_object();

		json_object_object_add(
		    item, "resource", json_object_new_string(problems[i].resource));
		json_object_object_add(
		    item, "problem", json_object_new_string(api_problem_name(problems[i].problem)));
		json_object_array_add(list, item);
	}
	json_object_object_add(o, "problems", list);
	char *text = xasprintf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
	return text;
}

static void
handle_readiness(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;
	const char *format = http_query(request, "format");
	struct readiness r = judge_readiness(status, request->local);

	if (format != NULL && strcmp(format, "json") == 0) {
		char *json = readiness_json(status, &r);

		free(r.text);
		r.text = json;
		response->content_type = "application/json";
	}
	http_text(response, r.ready ? 200 : 503, "%s", r.text);
	free(r.text);
}

static void
visibility_metrics(const struct status *status, struct metrics *m)
{
	size_t listed, pairs;

	store_visibility_size(status->store, &listed, &pairs);
	metrics_family(m, "kubedns_visibility_namespaces", METRIC_GAUGE,
	    "Namespaces with a list of namespaces that they can resolve, or that can resolve "
	    "them.");
	metrics_value(m, (double)listed, NULL);
	metrics_family(m, "kubedns_visibility_pairs", METRIC_GAUGE,
	    "Pairs of namespaces where the first can resolve names of the second because of a "
	    "list.");
	metrics_value(m, (double)pairs, NULL);
}

/* Writes the parts of --memory. Writes nothing without that option. */
static void
memory_metrics(const struct options *o, struct metrics *m)
{
	if (o->limits.in_flight == 0)
		return;
	metrics_family(m, "kubedns_memory_part_bytes", METRIC_GAUGE,
	    "Bytes that --memory gives to each part.");
	metrics_value(m, (double)o->observe.recorder_bytes, "part", "recorder", NULL);
	metrics_value(m, (double)o->upstream.answer_cache_bytes, "part", "answer_cache", NULL);
	metrics_value(m, (double)o->limits.tcp_bytes, "part", "tcp", NULL);
	metrics_family(m, "kubedns_memory_in_flight", METRIC_GAUGE,
	    "Queries in flight to other servers that --memory allows.");
	metrics_value(m, o->limits.in_flight, NULL);
}

static void
objects_metrics(const struct status *status, struct metrics *m)
{
	static const struct {
		enum object_kind kind;
		const char *name;
	} kinds[] = { { OBJECT_SERVICE, "service" }, { OBJECT_SLICES, "endpointslice" },
		{ OBJECT_NAMESPACE, "namespace" }, { OBJECT_POD, "pod" }, { OBJECT_NODE, "node" } };

	metrics_family(
	    m, "kubedns_objects", METRIC_GAUGE, "Kubernetes objects in memory, by kind.");
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		metrics_value(m, (double)store_count(status->store, kinds[i].kind), "kind",
		    kinds[i].name, NULL);
	metrics_family(m, "kubedns_objects_cut_total", METRIC_COUNTER,
	    "Objects of which a part was ignored, because they have too many ports, endpoints or "
	    "addresses.");
	metrics_value(m, (double)store_cut_total(status->store), NULL);
	if (status->options->clients.view.visibility)
		visibility_metrics(status, m);
	metrics_family(m, "kubedns_synced", METRIC_GAUGE, "1 after the first sync.");
	metrics_value(m, status->synced, NULL);
	metrics_family(m, "kubedns_initial_sync_timed_out", METRIC_GAUGE,
	    "1 if the first sync took longer than --initial-sync-timeout.");
	metrics_value(m, status->sync_timed_out, NULL);
	metrics_family(m, "kubedns_publishes_total", METRIC_COUNTER,
	    "Times that changes were published to the workers.");
	metrics_value(m, (double)status->publishes, NULL);
	metrics_family(m, "kubedns_replaced_bytes", METRIC_GAUGE,
	    "Bytes of replaced parts of the tree that readers may still use.");
	metrics_value(m, (double)treecache_garbage(status->cache), NULL);
	metrics_family(m, "kubedns_dns_programming_duration_seconds", METRIC_HISTOGRAM,
	    "Time from the change of an endpoint until answers contain the change.");
	for (unsigned k = 0; k < SERVICE_KIND_COUNT; k++)
		metrics_histogram(m, &status->programming[k], "service_kind", kind_names[k], NULL);
}

static void
manifests_metrics(const struct status *status, struct metrics *m)
{
	struct manifests_status held;

	manifests_status(status->manifests, &held);
	metrics_family(
	    m, "kubedns_manifest_files", METRIC_GAUGE, "Files of --objects-dir that are read.");
	metrics_value(m, (double)held.files, NULL);
	metrics_family(m, "kubedns_manifest_files_broken", METRIC_GAUGE,
	    "Files in which the last read found a mistake.");
	metrics_value(m, (double)held.broken, NULL);
}

/* Writes the server for external names. Writes nothing without --resolver. The sidecar recognises
 * the front topology by this metric. */
static void
resolver_metrics(const struct options *o, struct metrics *m)
{
	char text[SERVER_TEXT_MAX];

	if (!o->upstream.has_resolver)
		return;
	metrics_family(m, "kubedns_resolver_info", METRIC_GAUGE,
	    "Always 1; the label is the address of --resolver, which gets queries for external "
	    "names.");
	metrics_value(m, 1, "resolver", server_format(&o->upstream.resolver, text), NULL);
}

static void
handle_metrics(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;
	enum metrics_format format = metrics_negotiate(request->accept);
	struct metrics *m = metrics_new(format);
	size_t counters = status->options->modules.counters;
	struct stats *sum = xcalloc(1, sizeof *sum + counters * sizeof *sum->modules);
	uint64_t queue_drops = workers_stats(status->workers, sum, counters);

	stats_metrics_skydns(sum, m, status->options->observe.metrics_namespace,
	    status->options->observe.metrics_subsystem);
	stats_metrics(sum, m, queue_drops);
	if (status->options->observe.coredns_metrics) {
		char *server = xasprintf("dns://:%u", workers_port(status->workers));
		char zone[DNAME_TEXT_MAX];

		stats_metrics_coredns(
		    sum, m, server, dname_to_text(status->options->answers.zone.wire, zone));
		free(server);
	}
	top_metrics(status->observers, status->top_clients, m);
	observers_metrics(status->observers, m);
	modules_metrics(&status->options->modules, sum->modules, m);
	objects_metrics(status, m);
	digest_metrics(status->digest, m);
	memory_metrics(status->options, m);
	resolver_metrics(status->options, m);
	if (status->manifests != NULL)
		manifests_metrics(status, m);
	else
		api_source_metrics(status->watch, m);
	audit_metrics(status->audit, m);
	settings_metrics(status->settings, m);
	hosts_maps_metrics(status->hosts, m);
	external_setup_metrics(status->external, m);
	wanted_namespaces_metrics(status->namespaces, m);
	sandbox_metrics(m, "kubedns_sandbox");
	metrics_process(m, "kubedns_build_info");
	free(sum);
	response->content_type = metrics_content_type(format);
	response->body = metrics_finish(m, &response->len);
}

/* Adds to an explanation what --answer-cache has for the name. Explanations over DNS do not have
 * this part. Otherwise anybody could find out which names other clients have looked up. */
static void
explain_kept(const struct status *status, const char *name, struct http_response *response)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA };
	struct dname asked;
	char text[12];

	if (status->answer_cache == NULL || dname_from_text(&asked, name) < 0)
		return;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		int age_s = forwarded_cache_age(
		    status->answer_cache, asked.wire, types[i], clock_mono_ns());

		if (age_s < 0)
			continue;
		char *longer = xasprintf("%.*s  %s: from the answer cache, %d s old\n",
		    (int)response->len, (char *)response->body, type_name(types[i], text), age_s);
		free(response->body);
		response->body = longer;
		response->len = strlen(longer);
	}
}

/* Returns the whole tree, without restrictions of --visibility. If there is a client, answers
 * depend on that client's place. */
static const struct tree *
explained_tree(const struct status *status, const struct addr *client, struct view *view)
{
	const struct tree *tree = treecache_next(status->cache);
	const struct view_config all = { .pod_places = status->options->clients.view.pod_places };
	enum view_client who;

	return client == NULL ? tree : view_of(view, &all, tree, client, &who);
}

static void
handle_explain(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;
	const char *name = http_query(request, "name");

	if (name == NULL || *name == '\0') {
		http_text(response, 400, "name= is missing: use /explain?name=web.default.svc.%s\n",
		    status->options->zone.domain);
		return;
	}
	const char *client = http_query(request, "client");
	struct addr addr;
	struct view view;
	if (client != NULL && addr_parse(client, &addr) < 0) {
		http_text(response, 400, "client=%s is not an address\n", client);
		return;
	}
	struct explain_config config = { .answers = &status->options->answers,
		.tree = explained_tree(status, client == NULL ? NULL : &addr, &view),
		.store = status->store,
		.external = external_setup_claims(status->external),
		.clusterset = external_setup_clusterset(status->external),
		.stubs_refused = settings_refuses(status->settings, CONF_KEY_STUBS) };
	response->body = explain_text(&config, name, &response->len);
	explain_kept(status, name, response);
}

static void
handle_cache(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;

	if (cachedump_begin(response, &status->options->answers, status->cache,
		http_query(request, "name")) < 0)
		http_text(response, 404, "no such name in the tree\n");
}

static void
handle_digest(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;

	(void)request;
	response->body = digest_text(status->digest, &response->len);
}

static void
handle_queries(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;

	queries_respond(status->workers, status->store, request, response);
}

static char *
neighbours_json(const struct neighbour *found, size_t count)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	char text[ADDR_TEXT_MAX];

	for (size_t i = 0; i < count; i++) {
		struct json_object *item = json_object_new_object();

		json_object_object_add(
		    item, "address", json_object_new_string(addr_format(&found[i].addr, text)));
		json_object_object_add(item, "ready", json_object_new_boolean(found[i].ready));
		json_object_array_add(list, item);
	}
	json_object_object_add(o, "neighbours", list);
	char *json = xasprintf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
	return json;
}

/* Lists the other pods of this pod's Service: one per line, "ADDRESS ready" or "ADDRESS not
 * ready", or as JSON for the sidecar. */
static void
handle_neighbours(const struct http_request *request, struct http_response *response, void *arg)
{
	enum { NEIGHBOURS_MAX = 64 };
	const struct status *status = arg;
	const struct options *o = status->options;
	const char *format = http_query(request, "format");
	struct neighbour found[NEIGHBOURS_MAX];
	char address[ADDR_TEXT_MAX];

	size_t count = store_neighbours(status->store, o->configmap.namespace, o->zone.ns_addrs,
	    o->zone.ns_addr_count, found, NEIGHBOURS_MAX);
	if (format != NULL && strcmp(format, "json") == 0) {
		response->body = neighbours_json(found, count);
		response->len = strlen(response->body);
		response->content_type = "application/json";
		return;
	}
	char *lines = xstrdup("");
	for (size_t i = 0; i < count; i++) {
		char *more = xasprintf("%s%s %s\n", lines, addr_format(&found[i].addr, address),
		    found[i].ready ? "ready" : "not ready");

		free(lines);
		lines = more;
	}
	http_text(response, 200, "%s", lines);
	free(lines);
}

static void
handle_top(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;

	top_respond(status->observers, status->top_clients, status->store, request, response);
}

static void
handle_log_queries(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct status *status = arg;

	query_log_respond(status->query_log, request, response);
}

const struct http_route status_changes[] = {
	{ "/log-queries", handle_log_queries, true },
	{ .path = NULL },
};

const struct http_route status_routes[] = {
	{ "/healthz", handle_health, false },
	{ "/readiness", handle_readiness, false },
	{ "/metrics", handle_metrics, false },
	{ "/cache", handle_cache, true },
	{ "/explain", handle_explain, true },
	{ "/digest", handle_digest, true },
	{ "/queries", handle_queries, true },
	{ "/neighbours", handle_neighbours, true },
	{ "/top", handle_top, true },
	{ "/log-queries", handle_log_queries, true },
	{ .path = NULL },
};

void
status_metrics_routes(struct http_route routes[2], const char *path)
{
	routes[0] = (struct http_route){ path, handle_metrics, false };
	routes[1] = (struct http_route){ .path = NULL };
}
