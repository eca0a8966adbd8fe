/*
 * The page as JSON (/status.json), and the health check that kube-dns's sidecar had for each probe.
 * Both read the view that the page reads, so they cannot differ.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "lib/clock.h"
#include "lib/version.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/page/journal.h"
#include "sidecar/page/status.h"
#include "sidecar/format.h"
#include "sidecar/verdict/verdict.h"

/* json-c copies strings as they are: what came from outside is made valid UTF-8 first. */
static void
put_text(struct json_object *object, const char *key, const char *text)
{
	char *valid = format_utf8(text);

	json_object_object_add(object, key, json_object_new_string(valid));
	free(valid);
}

static void
put_number(struct json_object *object, const char *key, double value)
{
	json_object_object_add(object, key, isfinite(value) ? json_object_new_double(value) : NULL);
}

static void
put_count(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void
put_bool(struct json_object *object, const char *key, bool value)
{
	json_object_object_add(object, key, json_object_new_boolean(value));
}

/* A wall clock, null for never. */
static void
put_time(struct json_object *object, const char *key, double wall_s)
{
	put_number(object, key, wall_s > 0 ? wall_s : NAN);
}

static struct json_object *
probe_json(const struct view *view, const struct probe *probe)
{
	struct json_object *o = json_object_new_object(), *failures = json_object_new_object();
	char server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX], type[12];
	struct history_summary summary;

	history_summary(&probe->history, view->now_ns - HISTORY_S * NS_PER_S, &summary);
	put_text(o, "label", probe->spec.label);
	put_text(o, "server", server_format(&probe->spec.server, server));
	put_text(o, "name", dname_to_text(probe->spec.name.wire, name));
	put_text(o, "type", type_name(probe->spec.type, type));
	put_count(o, "intervalSeconds", probe->spec.interval_s);
	put_text(o, "state", probe->asked ? cause_label(probe->cause) : "waiting");
	put_text(o, "error", probe->error);
	put_number(
	    o, "latencySeconds", probe->asked && probe->cause == CAUSE_OK ? probe->latency_s : NAN);
	put_number(o, "sinceSeconds", (double)(view->now_ns - probe->since_ns) / 1e9);
	put_time(o, "lastTime", probe->last_s);
	put_time(o, "lastSuccessTime", probe->last_success_s);
	put_count(o, "recentQueries", summary.total);
	put_count(o, "recentFailed", summary.failed);
	put_number(o, "recentMedianSeconds", summary.p50_ms / 1e3);
	put_number(o, "recentP99Seconds", summary.p99_ms / 1e3);
	put_number(o, "recentMaxSeconds", summary.max_ms / 1e3);
	for (int cause = CAUSE_NOT_READY; cause < CAUSE_COUNT; cause++)
		if (summary.causes[cause] > 0)
			put_count(failures, cause_label((enum cause)cause), summary.causes[cause]);
	json_object_object_add(o, "recentCauses", failures);
	return o;
}

static struct json_object *
dnsmasq_json(const struct view *view)
{
	const struct dnsmasq_stats *c = view->cache;
	struct json_object *o = json_object_new_object(), *upstreams = json_object_new_array();
	char server[SERVER_TEXT_MAX];

	put_text(o, "server", server_format(&view->dnsmasq, server));
	put_bool(o, "up", c->up);
	put_text(o, "error", c->error);
	put_time(o, "lastTime", c->last_s);
	put_count(o, "hits", c->counters[STAT_HITS]);
	put_count(o, "misses", c->counters[STAT_MISSES]);
	put_count(o, "evictions", c->counters[STAT_EVICTIONS]);
	put_count(o, "insertions", c->counters[STAT_INSERTIONS]);
	put_count(o, "cacheSize", c->size);
	put_number(o, "recentHitRatio", dnsmasq_stats_hit_ratio(c, view->now_ns));
	put_count(o, "restarts", c->restarts);
	put_count(o, "flushes", c->flushes);
	/* dnsmasq's servers are part of the configuration, which only loopback peers may read. */
	for (size_t i = 0; view->may_ask && i < c->upstream_count; i++) {
		const struct upstream *u = &c->upstreams[i];
		struct json_object *item = json_object_new_object();
		put_text(item, "server", server_format(&u->server, server));
		put_bool(item, "present", true);
		put_count(item, "queries", u->queries);
		put_count(item, "failed", u->failed);
		put_count(item, "recentQueries", buckets_sum(&u->recent_queries, view->now_ns));
		put_count(item, "recentFailed", buckets_sum(&u->recent_failed, view->now_ns));
		json_object_array_add(upstreams, item);
	}
	json_object_object_add(o, "upstreams", upstreams);
	return o;
}

static struct json_object *
kubedns_json(const struct kubedns_view *k)
{
	struct json_object *o = json_object_new_object(), *objects = json_object_new_object();
	struct json_object *resources = json_object_new_array();

	put_bool(o, "up", k->up);
	put_text(o, "error", k->error);
	put_bool(o, "ready", k->up && k->ready);
	put_text(o, "reasons", k->reasons);
	put_bool(o, "synced", k->up && kubedns_synced(k));
	put_time(o, "newestEventTime", kubedns_newest_event_s(k));
	for (size_t i = 0; i < k->resource_count; i++) {
		if (!kubedns_watches(k, &k->resources[i]))
			continue;
		struct json_object *item = json_object_new_object();
		put_text(item, "resource", k->resources[i].name);
		put_bool(item, "synced", k->resources[i].synced);
		put_time(item, "lastEventTime", k->resources[i].last_event_s);
		json_object_array_add(resources, item);
	}
	json_object_object_add(o, "resources", resources);
	for (size_t i = 0; i < k->kind_count; i++) {
		char *kind = format_utf8(k->kinds[i].name);
		put_number(objects, kind, k->kinds[i].objects);
		free(kind);
	}
	json_object_object_add(o, "objects", objects);
	return o;
}

/* The refused keys, not the configuration itself: this page is open to every peer, /config only to
 * loopback. */
static struct json_object *
nanny_json(const struct nanny_view *n)
{
	struct json_object *o = json_object_new_object(), *refused = json_object_new_array();
	struct config_refusal refusal;

	put_bool(o, "up", n->up);
	put_text(o, "error", n->error);
	if (n->up)
		put_bool(o, "confirmed", config_confirmed(n->config));
	for (size_t i = 0; n->up && config_refusal_get(n->config, i, &refusal); i++)
		json_object_array_add(refused, json_object_new_string(refusal.key));
	json_object_object_add(o, "refusedKeys", refused);
	return o;
}

static struct json_object *
findings_json(const struct verdict *verdict)
{
	struct json_object *findings = json_object_new_array();

	for (size_t i = 0; i < verdict->count; i++) {
		const struct finding *f = &verdict->findings[i];
		struct json_object *item = json_object_new_object();
		put_text(item, "level", level_name(f->level));
		put_text(item, "what", f->what);
		put_text(item, "meaning", f->meaning);
		put_text(item, "todo", f->todo);
		put_text(item, "command", f->command);
		json_object_array_add(findings, item);
	}
	return findings;
}

/* What changed, newest first. */
static struct json_object *
events_json(const struct view *view)
{
	struct json_object *events = json_object_new_array();
	const struct journal_event *event;

	for (size_t i = 0;
	     view->journal != NULL && (event = journal_get(view->journal, i, view->now_s)) != NULL;
	     i++) {
		struct json_object *item = json_object_new_object();
		put_time(item, "time", event->wall_s);
		put_text(item, "level", level_name(event->level));
		put_text(item, "what", event->text);
		json_object_array_add(events, item);
	}
	return events;
}

/* The text of a value, which is freed. */
static char *
render(struct json_object *o, int flags, size_t *len)
{
	const char *text = json_object_to_json_string_length(o, flags, len);

	if (text == NULL)
		log_fatalx("out of memory");
	char *copy = xstrndup(text, *len);
	json_object_put(o);
	return copy;
}

char *
status_json(const struct view *view, size_t *len)
{
	struct json_object *o = json_object_new_object(), *probes = json_object_new_array();
	struct verdict verdict;

	verdict_make(&verdict, view);
	put_text(o, "level", level_name(verdict.level));
	put_text(o, "sentence", verdict.sentence);
	json_object_object_add(o, "findings", findings_json(&verdict));
	put_text(o, "host", view->host);
	put_text(o, "version", suite_version);
	put_time(o, "time", view->now_s);
	put_number(o, "uptimeSeconds", (double)(view->now_ns - view->started_ns) / 1e9);
	put_bool(o, "draining", view->draining);
	json_object_object_add(o, "events", events_json(view));
	for (size_t i = 0; i < view->probe_count; i++)
		json_object_array_add(probes, probe_json(view, &view->probes[i]));
	json_object_object_add(o, "probes", probes);
	json_object_object_add(o, "dnsmasq", dnsmasq_json(view));
	json_object_object_add(
	    o, "kubedns", view->kubedns != NULL ? kubedns_json(view->kubedns) : NULL);
	json_object_object_add(o, "nanny", view->nanny != NULL ? nanny_json(view->nanny) : NULL);
	return render(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, len);
}

/* To the nanosecond and without an exponent, as kube-dns wrote it: scripts compare it as text. */
static void
format_latency(char *text, size_t size, double latency_s)
{
	int len = snprintf(text, size, "%.9f", latency_s);

	while (len > 0 && text[len - 1] == '0')
		text[--len] = '\0';
	if (len > 0 && text[len - 1] == '.')
		text[len - 1] = '\0';
}

char *
status_healthcheck(const struct probe *probe, bool *ok)
{
	struct json_object *o = json_object_new_object();
	char latency[40];
	size_t len;

	*ok = probe->asked && cause_is_alive(probe->cause);
	put_bool(o, "IsOk", *ok);
	format_latency(latency, sizeof latency, probe->asked ? probe->latency_s : 0);
	json_object_object_add(
	    o, "LatencySeconds", json_object_new_double_s(probe->latency_s, latency));
	put_text(o, "Err", probe->asked ? probe->error : "waiting for first probe");
	return render(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
}
