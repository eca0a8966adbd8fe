/*
 * The data of the page as one JSON document (/status.json), which page.js draws. This file also makes the verdict as text (/status.txt),
 * the answers of the question box (/ask), and for each probe the health check of kube-dns's sidecar.
 *
 * Every open page fetches the document every 2.5 seconds, so its size is limited. The longest parts are the series. The number of points in
 * the series is limited (HISTORY_SENT_MAX). The series are printed as text, without a json-c object for each number.
 */
#include <inttypes.h>
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

enum {
	HISTORY_SENT_MAX = 6000, /* points of all probes together; must be more than PROBES_MAX */
	BUCKETS_TEXT_MAX = BUCKETS * 11 + 3,
};

/* Adds a string. json-c does not check strings. render() makes the whole document valid UTF-8. */
static void
put_text(struct json_object *object, const char *key, const char *text)
{
	json_object_object_add(object, key, json_object_new_string(text));
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

/* Adds a Unix time, or null for 0, which means never. */
static void
put_time(struct json_object *object, const char *key, double wall_s)
{
	put_number(object, key, wall_s > 0 ? wall_s : NAN);
}

/* Adds a value that is already JSON text. Takes `text`. */
static void
put_raw(struct json_object *object, const char *key, char *text)
{
	struct json_object *raw = json_object_new_array_ext(1);

	json_object_set_serializer(
	    raw, json_object_userdata_to_json_string, text, json_object_free_userdata);
	json_object_object_add(object, key, raw);
}

/* Adds the counts of the last ten minutes, oldest first. */
static void
put_buckets(
    struct json_object *object, const char *key, const struct buckets *buckets, int64_t now_ns)
{
	char *text = xmalloc(BUCKETS_TEXT_MAX), *at = text;

	for (int age = BUCKETS - 1; age >= 0; age--)
		at += sprintf(at, "%c%" PRIu32, age == BUCKETS - 1 ? '[' : ',',
		    buckets_get(buckets, now_ns, age));
	strcpy(at, "]");
	put_raw(object, key, text);
}

/* Whether `point` is worse than `other`. A failure is worse than an answer, and a slow answer is worse than a fast answer. */
static bool
is_worse(const struct history_point *point, const struct history_point *other)
{
	if ((point->cause == CAUSE_OK) != (other->cause == CAUSE_OK))
		return point->cause != CAUSE_OK;
	return point->latency_ms > other->latency_ms;
}

/* Adds [[milliseconds ago, microseconds until the answer or the label of the failure], ...], oldest first. Sends only the worst of each
 * `step` consecutive points. */
static void
put_history(struct json_object *object, const struct history *history, int64_t now_ns, size_t step)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	const char *separator = "";

	if (out == NULL)
		log_fatalx("out of memory");
	fputc('[', out);
	for (size_t i = 0; i < history->count; i += step) {
		const struct history_point *worst = history_get(history, i);

		for (size_t k = i + 1; k < i + step && k < history->count; k++)
			if (is_worse(history_get(history, k), worst))
				worst = history_get(history, k);
		int64_t age_ns = now_ns - worst->at_ns;
		if (age_ns > HISTORY_S * NS_PER_S)
			continue;
		fprintf(out, "%s[%" PRId64 ",", separator, age_ns / NS_PER_MS);
		if (worst->cause == CAUSE_OK)
			fprintf(out, "%.0f]", (double)worst->latency_ms * 1e3);
		else
			fprintf(out, "\"%s\"]", cause_label((enum cause)worst->cause));
		separator = ",";
	}
	fputc(']', out);
	if (fclose(out) != 0)
		log_fatalx("out of memory");
	put_raw(object, "history", text);
}

/* Returns how many consecutive points become one point, so that all probes together have at most HISTORY_SENT_MAX points. */
static size_t
history_step(const struct view *view)
{
	for (size_t step = 1;; step++) {
		size_t points = 0;

		for (size_t i = 0; i < view->probe_count; i++)
			points += (view->probes[i].history.count + step - 1) / step;
		if (points <= HISTORY_SENT_MAX)
			return step;
	}
}

static struct json_object *
probe_json(const struct view *view, const struct probe *probe, size_t step)
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
	put_history(o, &probe->history, view->now_ns, step);
	return o;
}

/* Returns in words why the check of this server is failing, or "" if the check is not failing. dnsmasq's own counts do not show a server
 * that never answers. */
static const char *
server_failure(const struct view *view, const struct server *server)
{
	for (size_t i = 0; i < view->checks->count; i++) {
		const struct check *check = view->checks->items[i];

		if ((check->kind == CHECK_UPSTREAM || check->kind == CHECK_STUB) &&
		    check_failing(check) && server_equal(&check->server, server))
			return cause_says(check->cause);
	}
	return "";
}

/* Returns the servers that the sidecar checks, with the reason why a server fails. They are part of the configuration, which only some
 * clients may read. */
static struct json_object *
checks_json(const struct view *view)
{
	struct json_object *list = json_object_new_array();
	char server[SERVER_TEXT_MAX];

	for (size_t i = 0; view->may_ask && i < view->checks->count; i++) {
		const struct check *check = view->checks->items[i];
		struct json_object *item = json_object_new_object();

		if (check->kind != CHECK_UPSTREAM && check->kind != CHECK_STUB) {
			json_object_put(item);
			continue;
		}
		put_text(item, "check", check_kind_name(check->kind));
		put_text(item, "server", server_format(&check->server, server));
		put_text(item, "tlsName", check->tls_name);
		put_text(item, "domain", check->domain);
		put_text(item, "state", check->asked ? cause_label(check->cause) : "waiting");
		put_bool(item, "failing", check_failing(check));
		put_text(item, "failure", check_failing(check) ? cause_says(check->cause) : "");
		put_number(item, "sinceSeconds", (double)(view->now_ns - check->since_ns) / 1e9);
		put_count(item, "answered", check->answered);
		put_count(item, "failed", check->failed);
		json_object_array_add(list, item);
	}
	return list;
}

static struct json_object *
dnsmasq_json(const struct view *view)
{
	const struct dnsmasq_stats *c = view->cache;
	struct json_object *o = json_object_new_object(), *upstreams = json_object_new_array();
	char server[SERVER_TEXT_MAX];

	put_text(o, "server", server_format(&view->dnsmasq, server));
	put_bool(o, "seen", c->seen);
	put_bool(o, "up", c->up);
	put_text(o, "error", c->error);
	put_time(o, "lastTime", c->last_s);
	put_time(o, "restartedTime", c->restarted_s);
	put_time(o, "flushedTime", c->flushed_s);
	put_buckets(o, "recentHits", &c->recent_hits, view->now_ns);
	put_buckets(o, "recentMisses", &c->recent_misses, view->now_ns);
	put_count(o, "upstreamCount", c->upstream_count);
	put_count(o, "hits", c->counters[STAT_HITS]);
	put_count(o, "misses", c->counters[STAT_MISSES]);
	put_count(o, "evictions", c->counters[STAT_EVICTIONS]);
	put_count(o, "insertions", c->counters[STAT_INSERTIONS]);
	put_count(o, "cacheSize", c->size);
	put_number(o, "recentHitRatio", dnsmasq_stats_hit_ratio(c, view->now_ns));
	put_count(o, "restarts", c->restarts);
	put_count(o, "flushes", c->flushes);
	/* The servers are part of the configuration, which only some clients may read. */
	for (size_t i = 0; view->may_ask && i < c->upstream_count; i++) {
		const struct upstream *u = &c->upstreams[i];
		struct json_object *item = json_object_new_object();

		put_text(item, "server", server_format(&u->server, server));
		put_bool(item, "present", true);
		put_count(item, "queries", u->queries);
		put_count(item, "failed", u->failed);
		put_count(item, "recentQueries", buckets_sum(&u->recent_queries, view->now_ns));
		put_count(item, "recentFailed", buckets_sum(&u->recent_failed, view->now_ns));
		put_text(item, "failure", server_failure(view, &u->server));
		put_buckets(item, "queriesOverTime", &u->recent_queries, view->now_ns);
		put_buckets(item, "failedOverTime", &u->recent_failed, view->now_ns);
		json_object_array_add(upstreams, item);
	}
	json_object_object_add(o, "upstreams", upstreams);
	return o;
}

static struct json_object *
talkers_json(const struct kubedns_talker *talkers, size_t count)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++) {
		const struct kubedns_talker *t = &talkers[i];
		struct json_object *item = json_object_new_object();

		put_text(item, "name", t->name);
		put_text(item, "pod", t->pod);
		put_number(item, "perSecond", t->per_second);
		put_number(item, "queries", t->queries);
		put_number(item, "nxdomain", t->nxdomain);
		put_number(item, "searchWalk", t->search_walk);
		put_number(item, "aaaa", t->aaaa);
		put_number(item, "outside", t->outside);
		json_object_array_add(list, item);
	}
	return list;
}

/* Adds the top clients and names, and the answers to the top clients over time. Only HTTP clients that may use the question box get this
 * data. Other HTTP clients only get `topKnown`, which says whether kubedns has reported top clients. */
static void
put_top(struct json_object *o, const struct view *view)
{
	const struct kubedns_view *k = view->kubedns;
	const struct client_rate *heaviest[CLIENT_RATES_SHOWN];
	struct json_object *rates = json_object_new_array();
	size_t count = client_rates_heaviest(&k->rates, view->now_ns, heaviest);

	put_bool(o, "topKnown", k->client_count + k->name_count + count > 0);
	for (size_t i = 0; view->may_ask && i < count; i++) {
		struct json_object *item = json_object_new_object();

		put_text(item, "name", heaviest[i]->name);
		put_text(item, "pod", heaviest[i]->pod);
		put_buckets(item, "answersOverTime", &heaviest[i]->answers, view->now_ns);
		json_object_array_add(rates, item);
	}
	json_object_object_add(
	    o, "topClients", talkers_json(k->clients, view->may_ask ? k->client_count : 0));
	json_object_object_add(
	    o, "topNames", talkers_json(k->names, view->may_ask ? k->name_count : 0));
	json_object_object_add(o, "topRates", rates);
}

/* Adds the other pods of the Service. Only HTTP clients that may use the question box get addresses. */
static void
put_neighbours(struct json_object *o, const struct view *view)
{
	const struct kubedns_view *k = view->kubedns;
	struct json_object *list = json_object_new_array();
	char addr[ADDR_TEXT_MAX];

	put_count(o, "neighbourCount", k->neighbour_count);
	for (size_t i = 0; view->may_ask && i < k->neighbour_count; i++) {
		struct json_object *item = json_object_new_object();

		put_text(item, "address", addr_format(&k->neighbours[i].addr, addr));
		put_bool(item, "ready", k->neighbours[i].ready);
		json_object_array_add(list, item);
	}
	json_object_object_add(o, "neighbours", list);
}

/* Returns the answers over time, by response code. */
static struct json_object *
answers_json(const struct view *view)
{
	static const struct {
		const char *name;
		enum kubedns_count count;
	} kinds[] = {
		{ "NOERROR", KUBEDNS_NOERROR },
		{ "NXDOMAIN", KUBEDNS_NXDOMAIN },
		{ "SERVFAIL", KUBEDNS_SERVFAIL },
		{ "REFUSED", KUBEDNS_REFUSED },
		{ "other", KUBEDNS_OTHER },
	};
	struct json_object *o = json_object_new_object();

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		put_buckets(o, kinds[i].name, &view->kubedns->recent[kinds[i].count], view->now_ns);
	return o;
}

static struct json_object *
resources_json(const struct kubedns_view *k)
{
	struct json_object *resources = json_object_new_array();

	for (size_t i = 0; i < k->resource_count; i++) {
		if (!kubedns_watches(k, &k->resources[i]))
			continue;
		struct json_object *item = json_object_new_object();
		put_text(item, "resource", k->resources[i].name);
		put_bool(item, "synced", k->resources[i].synced);
		put_time(item, "lastEventTime", k->resources[i].last_event_s);
		json_object_array_add(resources, item);
	}
	return resources;
}

static struct json_object *
kubedns_json(const struct view *view, const struct verdict *verdict)
{
	const struct kubedns_view *k = view->kubedns;
	struct json_object *o = json_object_new_object(), *objects = json_object_new_object();

	put_bool(o, "seen", k->seen);
	put_bool(o, "up", k->up);
	put_text(o, "error", k->error);
	put_bool(o, "ready", k->up && k->ready);
	/* The reasons quote the API server, so not every client may read them. */
	put_text(o, "reasons", view->may_ask ? k->reasons : "");
	put_bool(o, "synced", k->up && kubedns_synced(k));
	put_bool(o, "silent", verdict->holds[VERDICT_API]);
	put_text(
	    o, "source", kubedns_newest_event_s(k) > 0 || !kubedns_synced(k) ? "api" : "manifests");
	put_time(o, "newestEventTime", kubedns_newest_event_s(k));
	json_object_object_add(o, "resources", resources_json(k));
	for (size_t i = 0; i < k->kind_count; i++)
		put_number(objects, k->kinds[i].name, k->kinds[i].objects);
	json_object_object_add(o, "objects", objects);
	put_number(o, "memoryBytes", k->memory > 0 ? k->memory : NAN);
	put_number(o, "memoryLimitBytes", k->memory_limit > 0 ? k->memory_limit : NAN);
	json_object_object_add(o, "answersOverTime", answers_json(view));
	put_top(o, view);
	put_neighbours(o, view);
	return o;
}

/* Returns the members of the nanny's /config that the page shows, unchanged. */
static struct json_object *
config_json(struct json_object *config)
{
	static const char *const members[] = { "confirmed", "confirmedAt", "refused", "names",
		"upstreams" };
	struct json_object *o = json_object_new_object(), *member;

	for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
		if (json_object_object_get_ex(config, members[i], &member))
			json_object_object_add(o, members[i], json_object_get(member));
	member = config_member(
	    config_member(config, "keys", json_type_object), "stubDomains", json_type_object);
	if (member != NULL)
		json_object_object_add(o, "stubDomains", json_object_get(member));
	return o;
}

/* Every client gets the refused keys. Only HTTP clients that may use the question box get the configuration. */
static struct json_object *
nanny_json(const struct view *view)
{
	const struct nanny_view *n = view->nanny;
	struct json_object *o = json_object_new_object(), *refused = json_object_new_array();
	struct config_refusal refusal;

	put_bool(o, "seen", n->seen && n->config != NULL);
	put_bool(o, "up", n->up);
	put_text(o, "error", n->error);
	put_text(o, "engine", config_engine(n->config));
	if (n->up)
		put_bool(o, "confirmed", config_confirmed(n->config));
	for (size_t i = 0; n->up && config_refusal_get(n->config, i, &refusal); i++)
		json_object_array_add(refused, json_object_new_string(refusal.key));
	json_object_object_add(o, "refusedKeys", refused);
	if (view->may_ask && n->seen && n->config != NULL)
		json_object_object_add(o, "config", config_json(n->config));
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

/* Returns the events of the journal, newest first. */
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

/* Returns a value as text. The text is valid UTF-8, even if untrusted strings in the value are not. Frees the value. */
static char *
render(struct json_object *o, size_t *len)
{
	const char *text = json_object_to_json_string_length(
	    o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, len);

	if (text == NULL)
		log_fatalx("out of memory");
	char *valid = format_utf8(text);
	*len = strlen(valid);
	json_object_put(o);
	return valid;
}

/* Adds what the page needs to know about this sidecar and about the HTTP client. */
static void
put_page(struct json_object *o, const struct view *view)
{
	static const char *const surroundings[SURROUNDINGS_COUNT] = {
		[SURROUNDINGS_PLAIN] = "plain",
		[SURROUNDINGS_POD] = "pod",
		[SURROUNDINGS_SYSTEMD] = "systemd",
	};

	put_text(o, "surroundings", surroundings[view->surroundings]);
	put_text(o, "podsCommand", surroundings_command(view->surroundings, COMMAND_RUNNING));
	put_text(o, "metricsPath", view->metrics_path);
	put_count(o, "port", view->port);
	put_bool(o, "mayAsk", view->may_ask);
	put_bool(o, "journalKept", view->journal != NULL && view->journal->kept);
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
	put_count(o, "moreFindings", verdict.more);
	put_text(o, "host", view->host);
	put_text(o, "version", suite_version);
	put_time(o, "time", view->now_s);
	put_number(o, "uptimeSeconds", (double)(view->now_ns - view->started_ns) / 1e9);
	put_bool(o, "draining", view->draining);
	put_page(o, view);
	json_object_object_add(o, "events", events_json(view));
	size_t step = history_step(view);
	put_count(o, "historyStep", step);
	for (size_t i = 0; i < view->probe_count; i++)
		json_object_array_add(probes, probe_json(view, &view->probes[i], step));
	json_object_object_add(o, "probes", probes);
	json_object_object_add(o, "servers", checks_json(view));
	json_object_object_add(o, "dnsmasq", dnsmasq_json(view));
	json_object_object_add(
	    o, "kubedns", view->kubedns != NULL ? kubedns_json(view, &verdict) : NULL);
	json_object_object_add(o, "nanny", view->nanny != NULL ? nanny_json(view) : NULL);
	return render(o, len);
}

/* Adds a text as an array of lines. */
static void
put_lines(struct json_object *object, const char *key, const char *text)
{
	struct json_object *lines = json_object_new_array();
	char *copy = xstrdup(text), *rest = copy, *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line != '\0')
			json_object_array_add(lines, json_object_new_string(line));
	free(copy);
	json_object_object_add(object, key, lines);
}

static void
put_answer(struct json_object *o, const struct boxed_question *asked)
{
	const struct dns_exchange *exchange = &asked->exchange;
	const struct dns_reply *reply = &exchange->reply;
	char rcode[12], server[SERVER_TEXT_MAX], outcome[CAUSE_TEXT_MAX];

	put_text(o, "server", server_format(&asked->server, server));
	if (exchange->message != NULL)
		put_text(o, "result", rcode_name(reply->rcode, rcode));
	else
		json_object_object_add(o, "result", NULL);
	put_text(o, "cause", cause_label(reply->cause));
	put_text(o, "outcome", cause_text(reply->cause, reply->rcode, outcome));
	put_number(o, "latencySeconds", (double)exchange->latency_ns / 1e9);
	put_bool(o, "overTcp", exchange->over_tcp);
	put_lines(o, "records", asked->answer);
	if (asked->explain != NULL)
		put_lines(o, "why", asked->explain);
	else
		json_object_object_add(o, "why", NULL);
	put_text(o, "whyError", asked->explain_error);
}

char *
question_json(const struct boxed_question *asked, const char *error, size_t *len)
{
	struct json_object *o = json_object_new_object();
	char name[DNAME_TEXT_MAX], type[12];

	put_text(o, "state", asked == NULL ? "refused" : asked->done ? "answered" : "asking");
	if (asked != NULL) {
		put_text(o, "name", dname_to_text(asked->name.wire, name));
		put_text(o, "type", type_name(asked->type, type));
		if (asked->done)
			put_answer(o, asked);
	} else
		put_text(o, "error", error);
	return render(o, len);
}

char *
status_text(const struct view *view, size_t *len)
{
	struct verdict verdict;
	char *text, time[FORMAT_MAX];
	FILE *out = open_memstream(&text, len);

	if (out == NULL)
		log_fatalx("out of memory");
	verdict_make(&verdict, view);
	fprintf(out, "%s\n%s, as of %s\n", verdict.sentence, view->host,
	    format_time(view->now_s, time));
	for (size_t i = 0; i < verdict.count; i++) {
		const struct finding *finding = &verdict.findings[i];

		fprintf(out, "\n%s\n  %s\n  %s\n", finding->what, finding->meaning, finding->todo);
		if (finding->command[0] != '\0')
			fprintf(out, "  $ %s\n", finding->command);
	}
	if (verdict.more > 0)
		fprintf(out, "\nAnd %zu more.\n", verdict.more);
	if (fclose(out) != 0)
		log_fatalx("out of memory");
	char *plain = format_plain(text);
	free(text);
	*len = strlen(plain);
	return plain;
}

/* Writes a latency to the nanosecond without an exponent, like kube-dns, because scripts compare the text. */
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
	return render(o, &len);
}
