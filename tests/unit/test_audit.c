/*
 * The audit against a scripted source: the store, the list of one namespace, and events that arrive
 * meanwhile. The corrections go to the store, as in the program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/api/api_source.h"
#include "kubedns/audit/audit.h"
#include "kubedns/cluster/store.h"
#include "lib/clock.h"
#include "lib/metrics.h"
#include "lib/rcu.h"

static struct treecache *cache;
static struct store *store;
static struct audit *audit;
static int64_t now;

/* --- the source --- */

static event_sink list_sink;
static void *list_arg;
static enum object_kind list_kind;
static char list_namespace[64];
static unsigned lists;  /* started so far */
static unsigned epochs; /* calls of api_source_versions_went_back() */
static bool list_running, list_denied;
static struct api_list_end list_end;

bool
api_source_ready(const struct api_source *w)
{
	(void)w;
	return true;
}

enum api_list_start
api_source_list(
    struct api_source *w, enum object_kind kind, const char *namespace, event_sink sink, void *arg)
{
	(void)w;
	if (list_denied)
		return API_LIST_DENIED;
	list_sink = sink;
	list_arg = arg;
	list_kind = kind;
	snprintf(list_namespace, sizeof list_namespace, "%s", namespace);
	lists++;
	list_running = true;
	return API_LIST_STARTED;
}

bool
api_source_listed(struct api_source *w, struct api_list_end *end)
{
	(void)w;
	*end = list_end;
	return !list_running;
}

void
api_source_versions_went_back(struct api_source *w)
{
	(void)w;
	epochs++;
}

/* --- the script of a test --- */

/* The sink of the program: the audit sees each event, its own corrections too. */
static void
sink(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	(void)arg;
	audit_event(audit, kind, type, object);
	store_event(store, kind, type, object);
}

static int
begin(void **state)
{
	struct store_config config = { .records = { .ttl_s = 30 } };

	(void)state;
	assert_int_equal(dname_from_text(&config.records.zone, "cluster.local."), 0);
	cache = treecache_new(3);
	store = store_new(cache, &config);
	audit = audit_new(store, sink, NULL);
	now = 1000000;
	lists = epochs = 0;
	list_running = list_denied = false;
	audit_run(audit, NULL, now); /* sets the time of the first list */
	return 0;
}

static int
end(void **state)
{
	(void)state;
	audit_free(audit);
	store_free(store);
	treecache_free(cache);
	return 0;
}

/* Waits until the audit starts a list. Returns the milliseconds. */
static int64_t
next_list(void)
{
	int64_t begun = now;

	assert_false(list_running);
	assert_true(audit_due_ms(audit) != CLOCK_NEVER);
	if (audit_due_ms(audit) > now)
		now = audit_due_ms(audit);
	audit_run(audit, NULL, now);
	return now - begun;
}

/* Ends the list that is running. The status is 200 if it is whole. */
static void
ends(bool whole, int status, uint64_t cpu_ms, int64_t not_before_ms)
{
	list_running = false;
	list_end = (struct api_list_end){ whole, status, cpu_ms * 1000000, not_before_ms };
	if (whole)
		list_sink(list_arg, list_kind, EVENT_SYNCED, NULL);
	audit_run(audit, NULL, now);
}

static void
whole(void)
{
	ends(true, 200, 1, CLOCK_NEVER);
}

static const struct object *
service(const char *namespace, const char *name, const char *version)
{
	static struct object object;

	object = (struct object){ .kind = OBJECT_SERVICE,
		.namespace = namespace,
		.name = name,
		.resource_version = version,
		.service = { .type = SERVICE_HEADLESS, .external_name = "" } };
	return &object;
}

/* A slice, or an object without a usable slice. */
static const struct object *
slice(const char *name, const char *version, bool usable)
{
	static struct object object;
	static struct object_slice one;

	one = (struct object_slice){ .name = name, .service = "web", .family = AF_INET };
	object = (struct object){ .kind = OBJECT_SLICES,
		.namespace = "ns",
		.name = name,
		.resource_version = version,
		.slices = &one,
		.slice_count = usable };
	return &object;
}

static const struct object *
namespace_object(const char *name, const char *version)
{
	static struct object object;

	object = (struct object){
		.kind = OBJECT_NAMESPACE, .namespace = "", .name = name, .resource_version = version
	};
	return &object;
}

static void
watched(const struct object *object)
{
	sink(NULL, object->kind, EVENT_MODIFIED, object);
}

static void
gone(const struct object *object)
{
	sink(NULL, object->kind, EVENT_DELETED, object);
}

static void
listed(const struct object *object)
{
	assert_true(list_running);
	list_sink(list_arg, object->kind, EVENT_ADDED, object);
}

/* Proceeds to the list of this kind in the namespace. The lists before it are as the store is. */
static void
to_list(enum object_kind kind, const char *namespace)
{
	for (unsigned i = 0; i < 20; i++) {
		if (!list_running)
			next_list();
		if (list_kind == kind && strcmp(list_namespace, namespace) == 0) {
			list_sink(list_arg, kind, EVENT_LISTING, NULL);
			return;
		}
		ends(false, 500, 0, CLOCK_NEVER);
	}
	fail_msg("no such list");
}

/* Returns a metric's value, summed over all its series with this text in their labels. */
static double
metric(const char *name, const char *label)
{
	struct metrics *m = metrics_new(METRICS_TEXT);
	size_t len;
	double sum = 0;

	audit_metrics(audit, m);
	char *text = metrics_finish(m, &len), *rest = text, *line;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (strncmp(line, name, strlen(name)) == 0 && strstr(line, label) != NULL)
			sum += strtod(strrchr(line, ' '), NULL);
	free(text);
	return sum;
}

static uint64_t
held(const struct object *object)
{
	uint64_t version;

	return store_find_version(store, object->kind, object->namespace, object->name, &version)
		   ? version
		   : 0;
}

static void
counts(int missing, int extra, int stale)
{
	assert_int_equal((int)metric("kubedns_audit_differences_total", "missing"), missing);
	assert_int_equal((int)metric("kubedns_audit_differences_total", "extra"), extra);
	assert_int_equal((int)metric("kubedns_audit_differences_total", "stale"), stale);
}

static void
equal_lists_have_no_difference(void **state)
{
	(void)state;
	watched(service("ns", "a", "5"));
	watched(service("ns", "b", "6"));
	watched(service("other", "c", "7"));
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "b", "6"));
	listed(service("ns", "a", "5"));
	whole();
	counts(0, 0, 0);
	assert_int_equal(held(service("other", "c", "")), 7);
}

static void
each_kind_of_difference_is_repaired(void **state)
{
	(void)state;
	watched(service("ns", "old", "5"));
	watched(service("ns", "gone", "6"));
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "old", "9"));
	listed(service("ns", "new", "8"));
	whole();
	counts(1, 1, 1);
	assert_int_equal(held(service("ns", "old", "")), 9);
	assert_int_equal(held(service("ns", "new", "")), 8);
	assert_int_equal(held(service("ns", "gone", "")), 0);
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "old", "9"));
	listed(service("ns", "new", "8"));
	whole();
}

static void
objects_that_change_meanwhile_are_left_out(void **state)
{
	(void)state;
	watched(service("ns", "updated", "5"));
	watched(service("ns", "deleted", "6"));
	watched(service("ns", "late", "7"));
	to_list(OBJECT_SERVICE, "ns");
	watched(service("ns", "updated", "11"));
	watched(service("ns", "added", "12"));
	gone(service("ns", "deleted", "13"));
	listed(service("ns", "updated", "5"));
	listed(service("ns", "deleted", "6"));
	listed(service("ns", "late", "7"));
	watched(service("ns", "late", "14")); /* after its item */
	whole();
	counts(0, 0, 0);
	assert_int_equal(held(service("ns", "updated", "")), 11);
	assert_int_equal(held(service("ns", "added", "")), 12);
	assert_int_equal(held(service("ns", "deleted", "")), 0);
}

static void
a_change_in_another_namespace_or_kind_hides_nothing(void **state)
{
	(void)state;
	watched(service("ns", "web", "5"));
	to_list(OBJECT_SERVICE, "ns");
	watched(service("other", "web", "11"));
	watched(slice("web", "12", true));
	listed(service("ns", "web", "9"));
	whole();
	counts(0, 0, 1);
}

static void
a_relist_makes_the_list_void(void **state)
{
	(void)state;
	watched(service("ns", "web", "5"));
	to_list(OBJECT_SERVICE, "ns");
	sink(NULL, OBJECT_SERVICE, EVENT_LISTING, NULL);
	listed(service("ns", "new", "9"));
	whole();
	assert_int_equal(held(service("ns", "web", "")), 5);
	assert_int_equal(held(service("ns", "new", "")), 0);
}

static void
an_incomplete_list_deletes_nothing(void **state)
{
	(void)state;
	watched(service("ns", "web", "5"));
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "new", "9"));
	ends(false, 200, 1, CLOCK_NEVER);
	assert_int_equal(held(service("ns", "web", "")), 5);
	counts(1, 0, 0);
}

static void
an_object_that_the_store_refuses_is_no_difference(void **state)
{
	(void)state;
	watched(service("ns", "web", "5"));
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "web", "5"));
	listed(service("ns", "not.a.label", "9"));
	whole();
	counts(0, 0, 0);
}

static void
an_invalid_object_and_a_slice_without_endpoints_count_as_missing(void **state)
{
	(void)state;
	watched(service("ns", "web", "5"));
	to_list(OBJECT_SERVICE, "ns");
	list_sink(list_arg, OBJECT_SERVICE, EVENT_DELETED, service("ns", "web", "5"));
	whole();
	watched(slice("web-1", "6", true));
	watched(slice("web-2", "6", true));
	to_list(OBJECT_SLICES, "ns");
	listed(slice("web-1", "7", false));
	listed(slice("web-2", "6", true));
	whole();
	counts(0, 1, 1);
	assert_int_equal(held(slice("web-1", "", true)), 0);
	to_list(OBJECT_SLICES, "ns");
	listed(slice("web-1", "7", false));
	listed(slice("web-2", "6", true));
	whole();
}

static void
namespaces_are_compared_too(void **state)
{
	(void)state;
	watched(namespace_object("kept", "5"));
	watched(namespace_object("gone", "6"));
	watched(service("inferred", "web", "7")); /* has no Namespace object */
	to_list(OBJECT_NAMESPACE, "");
	listed(namespace_object("kept", "5"));
	listed(namespace_object("lost", "8"));
	whole();
	counts(1, 1, 0);
	assert_int_equal(held(namespace_object("lost", "")), 8);
	assert_int_equal(held(namespace_object("gone", "")), 0);
	assert_int_equal(held(service("inferred", "web", "")), 7);
}

static void
an_object_that_is_newer_here_ends_the_epoch(void **state)
{
	(void)state;
	watched(service("ns", "web", "9"));
	watched(service("ns", "text", "opaque"));
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "web", "10"));
	listed(service("ns", "text", "8"));
	whole();
	assert_int_equal(epochs, 0);
	to_list(OBJECT_SERVICE, "ns");
	listed(service("ns", "web", "7"));
	listed(service("ns", "text", "8"));
	whole();
	assert_int_equal(epochs, 1);
	assert_int_equal(held(service("ns", "web", "")), 7);
	counts(0, 0, 3);
}

static void
the_pause_grows_with_cpu_time_and_failures_and_as_the_server_demands(void **state)
{
	(void)state;
	assert_in_range(next_list(), AUDIT_START_MS, 2 * AUDIT_START_MS);
	ends(true, 200, 0, CLOCK_NEVER);
	assert_int_equal(next_list(), AUDIT_GAP_MS);
	ends(true, 200, 50, CLOCK_NEVER);
	assert_int_equal(next_list(), 50 * AUDIT_CPU_SHARE);
	for (int64_t pause = AUDIT_RETRY_MS; pause < AUDIT_RETRY_MAX_MS; pause *= 2) {
		ends(false, 500, 0, CLOCK_NEVER);
		assert_int_equal(next_list(), pause);
	}
	ends(false, 500, 0, CLOCK_NEVER);
	assert_int_equal(next_list(), AUDIT_RETRY_MAX_MS);
	ends(true, 200, 0, CLOCK_NEVER);
	assert_int_equal(next_list(), AUDIT_GAP_MS);
	ends(false, 429, 0, now + 3 * AUDIT_RETRY_MS);
	assert_int_equal(next_list(), 3 * AUDIT_RETRY_MS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(equal_lists_have_no_difference),
		TEST(each_kind_of_difference_is_repaired),
		TEST(objects_that_change_meanwhile_are_left_out),
		TEST(a_change_in_another_namespace_or_kind_hides_nothing),
		TEST(a_relist_makes_the_list_void),
		TEST(an_incomplete_list_deletes_nothing),
		TEST(an_object_that_the_store_refuses_is_no_difference),
		TEST(an_invalid_object_and_a_slice_without_endpoints_count_as_missing),
		TEST(namespaces_are_compared_too),
		TEST(an_object_that_is_newer_here_ends_the_epoch),
		TEST(the_pause_grows_with_cpu_time_and_failures_and_as_the_server_demands),
	};

	rcu_join();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rcu_part();
	return failed;
}
