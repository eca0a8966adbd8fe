#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/json_strict.h"
#include "lib/log.h"
#include "lib/clock.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/containers/metrics_read.h"
#include "sidecar/containers/container_status.h"

/* JSON that is nested deeper than any status document is refused. */
enum { STATUS_DEPTH_MAX = 16 };

const char *const kubedns_targets[] = { "/readiness?format=json", "/metrics",
	"/neighbours?format=json", "/top?format=json", NULL };
const char *const nanny_targets[] = { "/config", NULL };

bool
kubedns_synced(const struct kubedns_view *view)
{
	if (view->says_synced)
		return view->synced;
	for (size_t i = 0; i < view->resource_count; i++)
		if (!view->resources[i].synced)
			return false;
	return view->resource_count > 0;
}

bool
kubedns_watches(const struct kubedns_view *view, const struct kubedns_resource *resource)
{
	return resource->synced || resource->last_event_s > 0 || !kubedns_synced(view);
}

double
kubedns_newest_event_s(const struct kubedns_view *view)
{
	double newest = 0;

	for (size_t i = 0; i < view->resource_count; i++)
		if (view->resources[i].last_event_s > newest)
			newest = view->resources[i].last_event_s;
	return newest;
}

static struct kubedns_resource *
resource(struct kubedns_view *view, const char *name)
{
	for (size_t i = 0; i < view->resource_count; i++)
		if (strcmp(view->resources[i].name, name) == 0)
			return &view->resources[i];
	if (view->resource_count == KUBEDNS_RESOURCES_MAX || name[0] == '\0')
		return NULL;
	struct kubedns_resource *added = &view->resources[view->resource_count++];
	*added = (struct kubedns_resource){ 0 };
	snprintf(added->name, sizeof added->name, "%s", name);
	return added;
}

/* Returns `value` if it can be a count or a Unix time, else 0. No infinity or NaN gets into the view. */
static double
sane(double value)
{
	return value >= 0 && value <= 1e15 ? value : 0;
}

/* Adds a sample to the counts of this page. Returns false if the sample belongs to no counter. */
static bool
read_count(double *counts, const struct sample *sample)
{
	static const struct {
		const char *name, *label, *value;
		enum kubedns_count count;
	} counters[] = {
		{ "kubedns_dns_responses_total", "rcode", "NOERROR", KUBEDNS_NOERROR },
		{ "kubedns_dns_responses_total", "rcode", "NXDOMAIN", KUBEDNS_NXDOMAIN },
		{ "kubedns_dns_responses_total", "rcode", "SERVFAIL", KUBEDNS_SERVFAIL },
		{ "kubedns_dns_responses_total", "rcode", "REFUSED", KUBEDNS_REFUSED },
		{ "kubedns_dns_responses_total", "rcode", NULL, KUBEDNS_OTHER },
		{ "kubedns_dns_dropped_total", "reason", "receive_queue", KUBEDNS_DROPPED },
		{ "kubedns_client_shed_total", "", NULL, KUBEDNS_SHED },
		{ "kubedns_forward_queries_total", "", NULL, KUBEDNS_FORWARDED },
		{ "kubedns_forward_failed_total", "", NULL, KUBEDNS_FORWARD_FAILED },
		{ "kubedns_audit_differences_total", "", NULL, KUBEDNS_DIFFERENCES },
	};

	for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
		if (strcmp(sample->name, counters[i].name) != 0 ||
		    (counters[i].value != NULL &&
			strcmp(sample_label(sample, counters[i].label), counters[i].value) != 0))
			continue;
		counts[counters[i].count] += sane(sample->value);
		return true;
	}
	return false;
}

static void
read_process(struct kubedns_view *view, const struct sample *sample)
{
	if (strcmp(sample->name, "process_start_time_seconds") == 0)
		view->start_s = sane(sample->value);
	else if (strcmp(sample->name, "process_container_memory_bytes") == 0)
		view->memory = sane(sample->value);
	else if (strcmp(sample->name, "process_container_memory_limit_bytes") == 0)
		view->memory_limit = sane(sample->value);
}

static void
read_sample(struct kubedns_view *view, const struct sample *sample)
{
	struct kubedns_resource *r;

	if (strcmp(sample->name, "kubedns_synced") == 0) {
		view->says_synced = true;
		view->synced = sample->value > 0;
	} else if (strcmp(sample->name, "kubedns_api_synced") == 0) {
		if ((r = resource(view, sample_label(sample, "resource"))) != NULL)
			r->synced = sample->value > 0;
	} else if (strcmp(sample->name, "kubedns_api_last_event_timestamp_seconds") == 0) {
		if ((r = resource(view, sample_label(sample, "resource"))) != NULL)
			r->last_event_s = sane(sample->value);
	} else if (strcmp(sample->name, "kubedns_api_failing") == 0) {
		view->api_failing |= sample->value > 0;
	} else if (strcmp(sample->name, "kubedns_resolver_info") == 0) {
		view->has_resolver =
		    server_parse(sample_label(sample, "resolver"), 53, &view->resolver, NULL) == 0;
	} else if (strcmp(sample->name, "kubedns_manifest_files_broken") == 0) {
		view->has_manifests = true;
		view->manifests_broken = sane(sample->value);
	} else if (strcmp(sample->name, "kubedns_objects") == 0 &&
		   view->kind_count < KUBEDNS_KINDS_MAX) {
		struct kubedns_kind *kind = &view->kinds[view->kind_count++];

		snprintf(kind->name, sizeof kind->name, "%s", sample_label(sample, "kind"));
		kind->objects = sane(sample->value);
	}
}

/* Adds the growth of the counts since the last page to the buckets. If a count is lower than before, the process was restarted. */
static void
take_counts(struct kubedns_view *view, const double *counts, int64_t now_ns)
{
	for (int i = 0; i < KUBEDNS_COUNTS; i++) {
		double grown = counts[i] < view->last[i] ? counts[i] : counts[i] - view->last[i];

		if (view->seen)
			buckets_add(&view->recent[i], now_ns, (uint64_t)grown);
		view->last[i] = counts[i];
	}
}

void
kubedns_read_metrics(struct kubedns_view *view, const char *text, size_t len, int64_t now_ns)
{
	double counts[KUBEDNS_COUNTS] = { 0 };
	struct sample sample;
	bool failed = view->api_failing;

	view->resource_count = view->kind_count = 0;
	view->says_synced = view->synced = view->api_failing = false;
	view->has_resolver = view->has_manifests = false;
	view->memory = view->memory_limit = 0;
	for (const char *end = text + len; text < end;) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t line_len = (size_t)((nl != NULL ? nl : end) - text);
		bool ours = line_len > 7 && memcmp(text, "kubedns", 7) == 0;
		bool process = line_len > 7 && memcmp(text, "process", 7) == 0;

		if ((ours || process) && sample_read(&sample, text, line_len) == 0) {
			if (process)
				read_process(view, &sample);
			else if (!read_count(counts, &sample))
				read_sample(view, &sample);
		}
		text += line_len + 1;
	}
	take_counts(view, counts, now_ns);
	if (view->api_failing && !failed)
		view->api_failing_ns = now_ns;
}

/* Copies the text that tells an operator why kubedns is not ready, or what is degraded although kubedns is ready. */
static void
take_readiness_text(struct kubedns_view *view, const char *text, size_t len)
{
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	snprintf(view->reasons, sizeof view->reasons, "%.*s", view->ready ? 0 : (int)len, text);
	const char *line = memchr(text, '\n', len);
	size_t rest = line != NULL ? len - (size_t)(line + 1 - text) : 0;
	snprintf(view->notes, sizeof view->notes, "%.*s", view->ready ? (int)rest : 0,
	    line != NULL ? line + 1 : "");
}

void
kubedns_read_readiness(struct kubedns_view *view, int status, const char *text, size_t len)
{
	struct json_object *o = len > 0 ? json_strict_object(text, len, STATUS_DEPTH_MAX) : NULL;
	struct json_object *first = config_item(o, "problems", 0, json_type_object);

	view->ready = status == 200;
	view->api_problem =
	    first == NULL ? API_PROBLEM_NONE : api_problem_named(config_string(first, "problem"));
	if (o != NULL) {
		text = config_string(o, "text");
		len = strlen(text);
	}
	take_readiness_text(view, text, len);
	json_object_put(o);
}

/* Reads the pod of a client. */
static void
read_pod(struct kubedns_talker *talker, struct json_object *o)
{
	const char *namespace = config_string(o, "namespace"), *pod = config_string(o, "pod");

	if (*pod != '\0')
		snprintf(talker->pod, sizeof talker->pod, "pod %s/%s", namespace, pod);
	else if (*namespace != '\0')
		snprintf(talker->pod, sizeof talker->pod, "namespace %s", namespace);
}

static size_t
read_talkers(
    struct kubedns_talker *talkers, struct json_object *top, const char *key, const char *name_key)
{
	size_t count = config_count(top, key);

	if (count > KUBEDNS_TOP_MAX)
		count = KUBEDNS_TOP_MAX;
	for (size_t i = 0; i < count; i++) {
		struct json_object *o = config_item(top, key, i, json_type_object);

		talkers[i] = (struct kubedns_talker){
			.per_second = config_number(o, "per_second"),
			.queries = config_number(o, "queries"),
			.nxdomain = config_number(o, "nxdomain"),
			.search_walk = config_number(o, "search_walk"),
			.aaaa = config_number(o, "aaaa"),
			.outside = config_number(o, "outside"),
		};
		snprintf(talkers[i].name, sizeof talkers[i].name, "%s", config_string(o, name_key));
		read_pod(&talkers[i], o);
	}
	return count;
}

/* Returns the number of all answers since the previous reading of /top, even if kubedns was restarted in the meantime. */
static double
answers_since(struct kubedns_view *view)
{
	double answers = 0, before = view->answers_before;

	for (int i = KUBEDNS_NOERROR; i <= KUBEDNS_OTHER; i++)
		answers += view->last[i];
	view->answers_before = answers;
	return answers < before ? answers : answers - before;
}

void
kubedns_read_top(struct kubedns_view *view, const char *text, size_t len, int64_t now_ns)
{
	struct json_object *top = len > 0 ? json_strict_object(text, len, STATUS_DEPTH_MAX) : NULL;

	view->client_count = read_talkers(view->clients, top, "clients", "address");
	view->name_count = read_talkers(view->names, top, "names", "name");
	const struct client_reading reading = { .clients = view->clients,
		.count = view->client_count,
		.seconds = config_number(top, "seconds"),
		.start_s = view->start_s,
		.answers = answers_since(view),
		.now_ns = now_ns };
	if (top != NULL)
		client_rates_read(&view->rates, &reading);
	else
		client_rates_missed(&view->rates);
	json_object_put(top);
}

int
nanny_view_read(struct nanny_view *view, const char *text, size_t len)
{
	struct json_object *config = json_strict_object(text, len, STATUS_DEPTH_MAX);

	if (config == NULL)
		return -EBADMSG;
	json_object_put(view->config);
	view->config = config;
	return 0;
}

void
nanny_view_free(struct nanny_view *view)
{
	json_object_put(view->config);
	view->config = NULL;
}

/* Logs once that a peer stopped answering. A peer that never answered is not logged, because it may be absent by design. */
static void
note_failure(const char *who, bool *up, bool seen, char *error, uint64_t *errors, int64_t *since_ns,
    const char *now)
{
	if (seen && *up)
		log_warnx("%s: %s", who, now);
	if (*up || *since_ns == 0)
		*since_ns = clock_mono_ns();
	*up = false;
	++*errors;
	snprintf(error, FETCH_ERROR_MAX, "%s", now);
}

/* Sorts by address, so that the page does not depend on the order of a table in kubedns. */
static int
compare_neighbours(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct addr));
}

void
kubedns_read_neighbours(struct kubedns_view *view, const char *text, size_t len)
{
	struct json_object *o = len > 0 ? json_strict_object(text, len, STATUS_DEPTH_MAX) : NULL;
	size_t count = config_count(o, "neighbours");

	view->neighbour_count = 0;
	for (size_t i = 0; i < count && view->neighbour_count < KUBEDNS_NEIGHBOURS_MAX; i++) {
		struct json_object *item = config_item(o, "neighbours", i, json_type_object);
		struct json_object *ready = config_member(item, "ready", json_type_boolean);
		struct kubedns_neighbour *n = &view->neighbours[view->neighbour_count];

		*n = (struct kubedns_neighbour){ .ready = json_object_get_boolean(ready) };
		view->neighbour_count += addr_parse(config_string(item, "address"), &n->addr) == 0;
	}
	json_object_put(o);
	qsort(view->neighbours, view->neighbour_count, sizeof view->neighbours[0],
	    compare_neighbours);
}

void
kubedns_page(void *arg, int step, const struct fetch *fetch)
{
	enum { READINESS, METRICS, NEIGHBOURS, TOP };
	struct kubedns_view *view = arg;

	/* An older kubedns does not have these two pages, but still counts as up. */
	size_t len = fetch->status == 200 ? fetch->body_len : 0;
	if (step == NEIGHBOURS) {
		kubedns_read_neighbours(view, fetch->body, len);
		return;
	}
	if (step == TOP) {
		kubedns_read_top(view, fetch->body, len, clock_mono_ns());
		return;
	}
	view->refused = fetch->refused;
	if (fetch->status == 0) {
		note_failure("kubedns", &view->up, view->seen, view->error, &view->errors,
		    &view->since_ns, fetch->error);
		return;
	}
	if (step == READINESS) {
		kubedns_read_readiness(view, fetch->status, fetch->body, fetch->body_len);
		return;
	}
	if (fetch->status != 200) {
		note_failure("kubedns", &view->up, view->seen, view->error, &view->errors,
		    &view->since_ns, "it has no page /metrics");
		return;
	}
	int64_t now_ns = clock_mono_ns();
	kubedns_read_metrics(view, fetch->body, fetch->body_len, now_ns);
	if (!view->up)
		view->since_ns = now_ns;
	view->up = view->seen = true;
	view->error[0] = '\0';
}

void
nanny_page(void *arg, int step, const struct fetch *fetch)
{
	struct nanny_view *view = arg;
	const char *error = NULL;

	(void)step;
	view->refused = fetch->refused;
	if (fetch->status == 0)
		error = fetch->error;
	else if (fetch->status != 200)
		error = "it has no page /config";
	else if (nanny_view_read(view, fetch->body, fetch->body_len) < 0)
		error = "/config is not JSON";
	if (error != NULL) {
		note_failure("nanny", &view->up, view->seen, view->error, &view->errors,
		    &view->since_ns, error);
		return;
	}
	int64_t now_ns = clock_mono_ns();
	struct json_object *dnsmasq = config_member(view->config, "dnsmasq", json_type_object);
	double drops = config_number(dnsmasq, "receiveDrops");
	view->own_hits = sane(config_number(dnsmasq, "ownHits"));
	if (view->seen && drops > view->receive_drops)
		buckets_add(&view->recent_drops, now_ns, (uint64_t)(drops - view->receive_drops));
	view->receive_drops = drops;
	view->reads++;
	if (!view->up)
		view->since_ns = now_ns;
	view->up = view->seen = true;
	view->error[0] = '\0';
	if (config_confirmed(view->config))
		view->unconfirmed_ns = 0;
	else if (view->unconfirmed_ns == 0)
		view->unconfirmed_ns = now_ns;
}

void
peer_init(struct peer *peer, const struct url *url, const char *const *targets, size_t max,
    void (*page)(void *arg, int step, const struct fetch *fetch), void *arg, int64_t now_ns)
{
	*peer = (struct peer){ .enabled = url != NULL,
		.targets = targets,
		.max = max,
		.step = PEER_IDLE,
		.due_ns = now_ns,
		.page = page,
		.arg = arg };
	if (url != NULL)
		peer->url = *url;
	fetch_init(&peer->fetch);
}

static bool
next_page(struct peer *peer)
{
	return fetch_start(&peer->fetch, &peer->url, peer->targets[peer->step], peer->max);
}

void
peer_run(struct peer *peer, short revents, int64_t now_ns)
{
	bool ended;

	if (!peer->enabled)
		return;
	if (peer->step == PEER_IDLE && peer->put != NULL) {
		peer->step = PEER_PUT;
		ended = fetch_start_put(&peer->fetch, &peer->url, peer->put, peer->max);
		peer->put = NULL;
	} else if (peer->step == PEER_IDLE) {
		if (now_ns < peer->due_ns)
			return;
		peer->due_ns = now_ns + PEER_INTERVAL_MS * NS_PER_MS;
		peer->step = 0;
		ended = next_page(peer);
	} else {
		ended = fetch_run(&peer->fetch, revents);
	}
	if (ended && peer->step == PEER_PUT) { /* an older nanny refuses it, which does no harm */
		fetch_close(&peer->fetch);
		peer->step = PEER_IDLE;
		return;
	}
	while (ended) {
		peer->page(peer->arg, peer->step, &peer->fetch);
		bool failed = peer->fetch.status == 0;
		fetch_close(&peer->fetch);
		if (failed || peer->targets[++peer->step] == NULL) {
			peer->step = PEER_IDLE;
			return;
		}
		ended = next_page(peer);
	}
}

int64_t
peer_deadline(const struct peer *peer)
{
	if (!peer->enabled)
		return CLOCK_NEVER;
	if (peer->step != PEER_IDLE)
		return peer->fetch.deadline_ns;
	return peer->put != NULL ? 0 : peer->due_ns;
}

void
peer_put(struct peer *peer, const char *target)
{
	peer->put = target;
}

void
peer_close(struct peer *peer)
{
	fetch_close(&peer->fetch);
}
