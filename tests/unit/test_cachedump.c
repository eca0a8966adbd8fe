/* /cache: the tree as JSON. The test reads it in pieces of any size, and json-c parses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "kubedns/show/cachedump.h"
#include "tests/unit/answer_bed.h"

enum { TEXT_MAX = 1 << 16 };

/* Returns the dump of `name`, read in pieces of `piece` bytes. The caller frees it. */
static char *
dumped(const char *name, size_t piece)
{
	struct http_response response = { 0 };
	char *text = calloc(1, TEXT_MAX);
	size_t len = 0;
	ssize_t n;

	assert_int_equal(cachedump_begin(&response, &bed.config, bed.cache, name), 0);
	assert_string_equal(response.content_type, "application/json");
	while ((n = response.stream(response.stream_arg, text + len, piece)) > 0) {
		assert_true((size_t)n <= piece);
		len += (size_t)n;
		assert_true(len + piece < TEXT_MAX);
	}
	response.stream_free(response.stream_arg);
	return text;
}

static void
make_cluster(void)
{
	bed_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "http/tcp/80");
	bed_service("db", SERVICE_HEADLESS, NULL, "pg/tcp/5432");
	bed_slice("db", "db-1", "pg/tcp/5432", "10.1.0.1=db-0 10.1.0.2");
	bed_publish();
}

/* Returns the object at this path of members, or NULL. */
static struct json_object *
at(struct json_object *json, const char *const *path)
{
	for (; json != NULL && *path != NULL; path++)
		json = json_object_object_get(json, *path);
	return json;
}

static void
the_whole_tree_is_one_json_object(void **state)
{
	(void)state;
	make_cluster();
	char *text = dumped("", 4096);
	struct json_object *json = json_tokener_parse(text);

	assert_non_null(json);
	for (size_t i = 0; i < 2; i++) {
		static const char *const found[] = { "10.96.0.1", "10.1.0.2" };
		assert_non_null(strstr(text, found[i]));
	}
	assert_non_null(at(json, (const char *const[]){ "ChildNodes", NULL }));
	assert_null(strstr(text, "10.9.9.9"));
	json_object_put(json);
	free(text);
}

static void
it_is_the_same_in_pieces_of_any_size(void **state)
{
	(void)state;
	make_cluster();
	char *whole = dumped("", 16384);

	for (size_t piece = 1; piece < 200; piece += 13) {
		char *text = dumped("", piece);

		assert_string_equal(text, whole);
		free(text);
	}
	free(whole);
}

static void
a_name_shows_what_is_at_and_below_it_alone(void **state)
{
	(void)state;
	make_cluster();
	char *text = dumped("DB.default.svc.cluster.local", 4096);
	struct json_object *json = json_tokener_parse(text);

	assert_non_null(json);
	assert_non_null(strstr(text, "10.1.0.1"));
	assert_null(strstr(text, "10.96.0.1"));
	json_object_put(json);
	free(text);
}

static void
a_name_that_is_not_there_is_not_found(void **state)
{
	static const char *const names[] = { "nothing.default.svc.cluster.local", "example.org",
		"a..b" };
	struct http_response response = { 0 };
	(void)state;

	make_cluster();
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		assert_int_equal(
		    cachedump_begin(&response, &bed.config, bed.cache, names[i]), -ENOENT);
	assert_null(response.stream);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_begin, bed_end)
	const struct CMUnitTest tests[] = {
		TEST(the_whole_tree_is_one_json_object),
		TEST(it_is_the_same_in_pieces_of_any_size),
		TEST(a_name_shows_what_is_at_and_below_it_alone),
		TEST(a_name_that_is_not_there_is_not_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
