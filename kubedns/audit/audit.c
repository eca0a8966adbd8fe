#include "kubedns/audit/audit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kubedns/api/api_source.h"
#include "kubedns/api/backoff.h"
#include "kubedns/cluster/store.h"
#include "lib/clock.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/table.h"
#include "lib/xalloc.h"

enum difference {
	DIFFERENCE_MISSING, /* the API has the object, the store does not */
	DIFFERENCE_STALE,   /* the store has another version of the object */
	DIFFERENCE_EXTRA,   /* the store has an object that the API does not have */
	DIFFERENCE_COUNT
};

static const char *const difference_names[DIFFERENCE_COUNT] = { "missing", "stale", "extra" };

/* The kinds that are audited, in the order of their lists. */
static const enum object_kind kinds[] = { OBJECT_NAMESPACE, OBJECT_SERVICE, OBJECT_SLICES };

enum { KINDS = sizeof kinds / sizeof kinds[0] };

enum outcome { OUTCOME_COMPARED, OUTCOME_VOID, OUTCOME_EXPIRED, OUTCOME_FAILED, OUTCOME_COUNT };

static const char *const outcome_names[OUTCOME_COUNT] = { "compared", "void", "expired", "failed" };

/* The name of an object, as a 64-bit hash. */
struct known {
	uint32_t hash, rest;
};

struct audit {
	const struct store *store;
	event_sink heal;
	void *heal_arg;
	uint64_t seed;

	/* The list that is running, or the next one. */
	unsigned kind;   /* index in kinds[] */
	char *namespace; /* "" for the list of namespaces */
	bool running;
	bool voided;    /* the watch started over meanwhile, so nothing can be compared */
	bool went_back; /* an object here is newer than in the list */
	bool healing;   /* the event that audit_event() sees is our own */
	/* Objects that the list contains, or for which the watch delivered an event since the list
	 * was started. */
	struct table known;
	unsigned logged;
	uint64_t differences_before; /* sum of all differences when the list was started */

	int64_t due_ms; /* when the next list may start; 0: before the first call */
	unsigned failures;
	int64_t round_ms;  /* when the current round was started */
	bool round_failed; /* a list of this round was not compared */

	uint64_t differences[KINDS][DIFFERENCE_COUNT];
	uint64_t lists[OUTCOME_COUNT];
	uint64_t compared; /* objects */
	uint64_t cpu_ns;
	uint64_t rounds;
	double round_s;        /* duration of the last complete round */
	double round_ended_at; /* Unix time; 0: none yet */
};

struct audit *
audit_new(const struct store *store, event_sink heal, void *arg)
{
	struct audit *audit = xcalloc(1, sizeof *audit);

	audit->store = store;
	audit->heal = heal;
	audit->heal_arg = arg;
	if (getrandom(&audit->seed, sizeof audit->seed, 0) != sizeof audit->seed)
		log_fatal("getrandom");
	audit->namespace = xstrdup("");
	return audit;
}

static void
forget_known(struct audit *audit)
{
	struct known *known;
	size_t place = 0;

	while ((known = table_next(&audit->known, &place)) != NULL)
		free(known);
	table_free(&audit->known);
	audit->known = (struct table){ 0 };
}

void
audit_free(struct audit *audit)
{
	if (audit == NULL)
		return;
	forget_known(audit);
	free(audit->namespace);
	free(audit);
}

static bool
same_known(const void *entry, const void *key)
{
	return ((const struct known *)entry)->rest == ((const struct known *)key)->rest;
}

static struct known
known_of(const struct audit *audit, const char *name)
{
	uint64_t hash = hash64(audit->seed, name, strlen(name));

	return (struct known){ (uint32_t)hash, (uint32_t)(hash >> 32) };
}

/* Remembers the name. Returns false if it was known. */
static bool
add_known(struct audit *audit, const char *name)
{
	struct known key = known_of(audit, name);

	if (table_find(&audit->known, key.hash, same_known, &key) != NULL)
		return false;
	struct known *known = xmalloc(sizeof *known);
	*known = key;
	table_add(&audit->known, known);
	return true;
}

/* Whether the object is of the kind and in the namespace of the list that is running. */
static bool
is_in_list(const struct audit *audit, enum object_kind kind, const struct object *object)
{
	return kind == kinds[audit->kind] &&
	       (kind == OBJECT_NAMESPACE || strcmp(object->namespace, audit->namespace) == 0);
}

void
audit_event(
    struct audit *audit, enum object_kind kind, enum event_type type, const struct object *object)
{
	if (audit == NULL || !audit->running || audit->healing)
		return;
	if (type == EVENT_LISTING || type == EVENT_SYNCED)
		audit->voided |= kind == kinds[audit->kind];
	else if (is_in_list(audit, kind, object))
		add_known(audit, object->name);
}

/* --- differences --- */

static uint64_t
sum_differences(const struct audit *audit)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned d = 0; d < DIFFERENCE_COUNT; d++)
			sum += audit->differences[k][d];
	return sum;
}

static void
heal(struct audit *audit, enum event_type type, const struct object *object)
{
	audit->healing = true;
	audit->heal(audit->heal_arg, object->kind, type, object);
	audit->healing = false;
}

/* Counts the difference and logs both sides. `api` and `held` are versions, 0 for no object. */
static void
report_difference(struct audit *audit, enum difference difference, const struct object *object,
    uint64_t api, uint64_t held)
{
	char what[128];

	audit->differences[audit->kind][difference]++;
	if (audit->logged++ >= AUDIT_LOGGED_MAX)
		return;
	if (difference == DIFFERENCE_STALE)
		snprintf(what, sizeof what, "kubedns had version %llu, the API has version %llu",
		    (unsigned long long)held, (unsigned long long)api);
	else if (difference == DIFFERENCE_MISSING)
		snprintf(what, sizeof what, "kubedns did not have it, the API has version %llu",
		    (unsigned long long)api);
	else
		snprintf(what, sizeof what, "kubedns had version %llu, the API does not have it",
		    (unsigned long long)held);
	log_warnx("audit: %s %s%s%s: %s: corrected; the watch had not delivered the change",
	    object_kind_resource(object->kind), object->namespace,
	    *object->namespace != '\0' ? "/" : "", object->name, what);
}

/* Whether a version is a number. The store has a hash with the highest bit set for other text. */
static bool
is_number(uint64_t version)
{
	return version != 0 && version >> 63 == 0;
}

/* Compares an object of the list with the store. */
static void
compare(struct audit *audit, const struct object *object)
{
	uint64_t api = store_version(object->resource_version), held, healed;
	bool is_namespace = object->kind == OBJECT_NAMESPACE;
	const char *inside = is_namespace ? "" : object->namespace;
	bool has = store_find_version(audit->store, object->kind, inside, object->name, &held);

	audit->compared++;
	if (has && (api == held || api == 0 || held == 0))
		return;
	heal(audit, EVENT_MODIFIED, object);
	/* The store ignores some objects, such as those with a name that is no DNS label. */
	bool keeps = store_find_version(audit->store, object->kind, inside, object->name, &healed);
	if (!has && !keeps)
		return;
	report_difference(audit, has ? DIFFERENCE_STALE : DIFFERENCE_MISSING, object, api, held);
	audit->went_back |= has && is_number(api) && is_number(held) && held > api;
}

/* The objects of the store that the list does not contain. */
struct extra {
	const struct audit *audit;
	struct {
		char *name;
		uint64_t version;
	} * items;
	size_t count, capacity;
};

static void
take_if_extra(void *arg, const char *name, uint64_t version)
{
	struct extra *extra = arg;
	struct known key = known_of(extra->audit, name);

	if (table_find(&extra->audit->known, key.hash, same_known, &key) != NULL)
		return;
	if (extra->count == extra->capacity) {
		extra->capacity = extra->capacity == 0 ? 16 : extra->capacity * 2;
		extra->items = xreallocarray(extra->items, extra->capacity, sizeof *extra->items);
	}
	extra->items[extra->count].name = xstrdup(name);
	extra->items[extra->count++].version = version;
}

static void
remove_extra(struct audit *audit)
{
	struct extra extra = { .audit = audit };

	store_each(audit->store, kinds[audit->kind], audit->namespace, take_if_extra, &extra);
	for (size_t i = 0; i < extra.count; i++) {
		struct object object = { .kind = kinds[audit->kind],
			.namespace = audit->namespace,
			.name = extra.items[i].name,
			.resource_version = "" };

		heal(audit, EVENT_DELETED, &object);
		report_difference(audit, DIFFERENCE_EXTRA, &object, 0, extra.items[i].version);
		free(extra.items[i].name);
	}
	free(extra.items);
}

/* The event_sink of api_source_list(). */
static void
take_listed(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct audit *audit = arg;

	if (audit->voided)
		return;
	if (type == EVENT_SYNCED)
		remove_extra(audit);
	/* An invalid object arrives as deleted. The store must not have it, as if it did not exist. */
	else if (type == EVENT_ADDED && is_in_list(audit, kind, object) &&
		 add_known(audit, object->name))
		compare(audit, object);
}

/* --- one list after another --- */

/* Moves on to the next list. Returns false if that is the first list of a new round. */
static bool
advance(struct audit *audit)
{
	if (audit->kind > 0 && audit->kind + 1 < KINDS) {
		audit->kind++;
		return true;
	}
	const char *next =
	    store_namespace_after(audit->store, audit->kind == 0 ? "" : audit->namespace);
	audit->kind = next != NULL ? 1 : 0;
	char *copy = xstrdup(next != NULL ? next : "");
	free(audit->namespace);
	audit->namespace = copy;
	return next != NULL;
}

static void
end_round(struct audit *audit, int64_t now_ms)
{
	if (!audit->round_failed) {
		audit->rounds++;
		audit->round_s = (double)(now_ms - audit->round_ms) / 1000;
		audit->round_ended_at = clock_wall_s();
	}
	audit->round_failed = false;
	audit->round_ms = now_ms;
}

static int64_t
retry_ms(unsigned failures)
{
	int64_t ms = AUDIT_RETRY_MS;

	while (--failures > 0 && ms < AUDIT_RETRY_MAX_MS)
		ms *= 2;
	return ms < AUDIT_RETRY_MAX_MS ? ms : AUDIT_RETRY_MAX_MS;
}

static enum outcome
outcome_of(const struct audit *audit, const struct api_list_end *end)
{
	if (audit->voided)
		return OUTCOME_VOID;
	if (end->whole)
		return OUTCOME_COMPARED;
	return end->status == 410 ? OUTCOME_EXPIRED : OUTCOME_FAILED;
}

/* Logs the third failure in a row, and the end of such failures. */
static void
note_outcome(struct audit *audit, enum outcome outcome, int status)
{
	enum { FAILURES_LOGGED = 3 };

	audit->lists[outcome]++;
	audit->round_failed |= outcome != OUTCOME_COMPARED;
	if (outcome == OUTCOME_COMPARED) {
		if (audit->failures >= FAILURES_LOGGED)
			log_info("audit: lists work again");
		audit->failures = 0;
	} else if (outcome != OUTCOME_VOID && ++audit->failures == FAILURES_LOGGED)
		log_warnx(
		    "audit: requests for a list at an exact version fail (last status %d): until "
		    "one succeeds, kubedns does not notice lost events; it tries again, at least "
		    "every %d minutes",
		    status, AUDIT_RETRY_MAX_MS / 60000);
}

static void
end_list(
    struct audit *audit, struct api_source *source, const struct api_list_end *end, int64_t now_ms)
{
	int64_t rest_ms = (int64_t)(end->cpu_ns * AUDIT_CPU_SHARE / 1000000);
	uint64_t more = sum_differences(audit) - audit->differences_before;

	if (more > AUDIT_LOGGED_MAX)
		log_warnx("audit: %llu more objects of the same list corrected",
		    (unsigned long long)(more - AUDIT_LOGGED_MAX));
	audit->running = false;
	audit->cpu_ns += end->cpu_ns;
	forget_known(audit);
	note_outcome(audit, outcome_of(audit, end), end->status);
	audit->due_ms = now_ms + (rest_ms > AUDIT_GAP_MS ? rest_ms : AUDIT_GAP_MS);
	if (audit->failures > 0)
		audit->due_ms = now_ms + retry_ms(audit->failures);
	if (end->not_before_ms != CLOCK_NEVER && end->not_before_ms > audit->due_ms)
		audit->due_ms = end->not_before_ms;
	if (audit->went_back) {
		log_warnx(
		    "audit: an object here is newer than in the API: the API server's data was "
		    "restored from a backup, or an event was wrong: listing everything again");
		api_source_versions_went_back(source);
	}
	if (!advance(audit))
		end_round(audit, now_ms);
}

static void
start_list(struct audit *audit, struct api_source *source, int64_t now_ms)
{
	audit->voided = audit->went_back = false;
	audit->logged = 0;
	audit->differences_before = sum_differences(audit);
	audit->due_ms = now_ms + AUDIT_GAP_MS;
	enum api_list_start started =
	    api_source_list(source, kinds[audit->kind], audit->namespace, take_listed, audit);
	audit->running = started == API_LIST_STARTED;
	if (started == API_LIST_DENIED && !advance(audit))
		end_round(audit, now_ms);
}

void
audit_run(struct audit *audit, struct api_source *source, int64_t now_ms)
{
	struct api_list_end end;

	if (audit == NULL)
		return;
	if (audit->running && api_source_listed(source, &end))
		end_list(audit, source, &end, now_ms);
	if (audit->running || !api_source_ready(source))
		return;
	if (audit->due_ms == 0) {
		audit->due_ms = now_ms + AUDIT_START_MS + backoff_jitter(AUDIT_START_MS);
		audit->round_ms = audit->due_ms;
	}
	if (now_ms >= audit->due_ms)
		start_list(audit, source, now_ms);
}

int64_t
audit_due_ms(const struct audit *audit)
{
	return audit == NULL || audit->running || audit->due_ms == 0 ? CLOCK_NEVER : audit->due_ms;
}

void
audit_metrics(const struct audit *audit, struct metrics *m)
{
	if (audit == NULL)
		return;
	metrics_family(m, "kubedns_audit_differences_total", METRIC_COUNTER,
	    "Objects that differed between the API and this pod, and were corrected.");
	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned d = 0; d < DIFFERENCE_COUNT; d++)
			metrics_value(m, (double)audit->differences[k][d], "resource",
			    object_kind_resource(kinds[k]), "difference", difference_names[d],
			    NULL);
	metrics_family(m, "kubedns_audit_lists_total", METRIC_COUNTER,
	    "Lists for the audit, by result. Only after \"compared\" were objects compared.");
	for (unsigned o = 0; o < OUTCOME_COUNT; o++)
		metrics_value(m, (double)audit->lists[o], "result", outcome_names[o], NULL);
	metrics_family(m, "kubedns_audit_objects_total", METRIC_COUNTER,
	    "Objects that were compared with the API.");
	metrics_value(m, (double)audit->compared, NULL);
	metrics_family(m, "kubedns_audit_cpu_seconds_total", METRIC_COUNTER,
	    "CPU time of reading and comparing lists.");
	metrics_value(m, (double)audit->cpu_ns / 1e9, NULL);
	metrics_family(m, "kubedns_audit_rounds_total", METRIC_COUNTER,
	    "Rounds in which every namespace was compared.");
	metrics_value(m, (double)audit->rounds, NULL);
	metrics_family(
	    m, "kubedns_audit_round_seconds", METRIC_GAUGE, "Duration of the last such round.");
	metrics_value(m, audit->round_s, NULL);
	metrics_family(m, "kubedns_audit_round_timestamp_seconds", METRIC_GAUGE,
	    "Unix time of the end of the last such round; 0: none yet.");
	metrics_value(m, audit->round_ended_at, NULL);
}
