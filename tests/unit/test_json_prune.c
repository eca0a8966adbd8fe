/* For each kind, the fields that DNS needs are kept. No field is kept that a tenant could fill with
 * other data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/json_prune.h"

static void
expect(const struct json_prune_keep *keep, const char *json, const char *wanted)
{
	size_t len = strlen(json);
	char *in = malloc(len),
	     *out = malloc(len + 1); /* exact size, so a sanitizer detects overruns */

	memcpy(in, json, len);
	size_t n = json_prune_object(keep, in, len, out);
	assert_true(n <= len);
	out[n] = '\0';
	assert_string_equal(out, wanted);
	free(in);
	free(out);
}

static void
managed_fields_and_foreign_annotations_are_dropped(void **state)
{
	(void)state;
	expect(json_prune_service,
	    "{\"metadata\":{\"name\":\"web\",\"uid\":\"1\",\"annotations\":{\"kubectl.kubernetes."
	    "io/last-applied-configuration\":"
	    "\"{\\\"a\\\":[}\",\"service.alpha.kubernetes.io/"
	    "tolerate-unready-endpoints\":\"true\",\"x\":\"y\"},\"managedFields\":"
	    "[{\"fieldsV1\":{\"k:{\\\"port\\\":80}\":{}}}]},\"spec\":{\"selector\":{\"a\":\"b\"},"
	    "\"type\":\"ClusterIP\"},\"status\":{}}",
	    "{\"metadata\":{\"name\":\"web\",\"annotations\":{\"service.alpha.kubernetes.io/"
	    "tolerate-unready-endpoints\":\"true\"}},"
	    "\"spec\":{\"type\":\"ClusterIP\"}}");
}

static void
elements_of_arrays_are_trimmed(void **state)
{
	static const char slice[] =
	    "{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"conditions\":{\"ready\":true,"
	    "\"serving\":true},\"nodeName\":\"n\","
	    "\"targetRef\":{\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"u\"},\"zone\":\"z\"},{}],"
	    "\"ports\":[{\"port\":80,\"appProtocol\":\"h\"}]}";

	(void)state;
	expect(json_prune_slice, slice,
	    "{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"]},{}],\"ports\":[{\"port\":80}]}");
	expect(json_prune_slice_pods, slice,
	    "{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"targetRef\":{\"kind\":\"Pod\","
	    "\"name\":\"p\"}},{}],\"ports\":[{\"port\":80}]}");
	expect(json_prune_slice_places, slice,
	    "{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"nodeName\":\"n\",\"zone\":\"z\"},{}],"
	    "\"ports\":[{\"port\":80}]}");
	expect(json_prune_slice_pods_places, slice,
	    "{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"],\"nodeName\":\"n\",\"targetRef\":{"
	    "\"kind\":"
	    "\"Pod\",\"name\":\"p\"},\"zone\":\"z\"},{}],\"ports\":[{\"port\":80}]}");
	for (unsigned i = 0; i < 4; i++) /* with any of the other options */
		expect(json_prune_slice_for(i & 1, i & 2, true),
		    "{\"endpoints\":[{\"zone\":\"z\"}]}", "{\"endpoints\":[{\"zone\":\"z\"}]}");
	expect(json_prune_slice_places,
	    "{\"endpoints\":[{\"hints\":{\"forZones\":[{\"name\":\"a\",\"x\":1},{}],\"other\":[],"
	    "\"forNodes\":[{\"name\":\"n\"}]},\"zone\":null}]}",
	    "{\"endpoints\":[{\"hints\":{\"forZones\":[{\"name\":\"a\"},{}],"
	    "\"forNodes\":[{\"name\":\"n\"}]},\"zone\":null}]}");
}

static void
what_absence_says_is_left_out(void **state)
{
	(void)state;
	expect(json_prune_slice,
	    "{\"endpoints\":[{\"conditions\":{ \"ready\" : true, \"serving\":true},"
	    "\"addresses\":[\"10.0.0.1\"]},{\"conditions\":{\"ready\":true}}]}",
	    "{\"endpoints\":[{\"addresses\":[\"10.0.0.1\"]},{}]}");
	expect(json_prune_slice,
	    "{\"endpoints\":[{\"conditions\":{\"ready\":false},\"hostname\":\"a\"},"
	    "{\"hostname\":\"b\",\"conditions\":{\"ready\":null}},{\"conditions\":{}}]}",
	    "{\"endpoints\":[{\"conditions\":{\"ready\":false},\"hostname\":\"a\"},"
	    "{\"hostname\":\"b\",\"conditions\":{\"ready\":null}},{\"conditions\":{}}]}");
}

static void
wrong_types_go_through_for_others_to_judge(void **state)
{
	(void)state;
	expect(json_prune_slice,
	    "{\"endpoints\":null,\"metadata\":[],\"ports\":{\"port\":1,\"x\":2},\"addressType\":7}",
	    "{\"endpoints\":null,\"metadata\":[],\"ports\":{\"port\":1},\"addressType\":7}");
}

static void
white_space_is_no_obstacle(void **state)
{
	(void)state;
	expect(json_prune_namespace,
	    "{ \"metadata\" :\n{ \"name\" : \"a b\" , \"finalizers\" : [ ] } , \"spec\" : [ 1 ] }",
	    "{\"metadata\":{\"name\":\"a b\"}}");
	expect(json_prune_namespace,
	    "{ \"metadata\" :\n{ \"labels\" : { \"team\" : \"x\" ,\t\"kubedns/sees\" "
	    ": "
	    "\"all\" } } }",
	    "{\"metadata\":{\"labels\":{\"kubedns/sees\":\"all\"}}}");
	expect(json_prune_namespace, "{ }", "{}");
}

static void
keys_with_escapes_are_kept_for_json_c_to_read(void **state)
{
	(void)state;
	expect(json_prune_namespace, "{\"met\\u0061data\":{\"name\":\"a\",\"uid\":\"b\"}}",
	    "{\"met\\u0061data\":{\"name\":\"a\",\"uid\":\"b\"}}");
}

static void
a_config_map_keeps_all_its_data(void **state)
{
	(void)state;
	expect(json_prune_configmap,
	    "{\"data\":{\"a\":\"{\\\"x\\\":1}\",\"b\":\"\"},\"binaryData\":{\"c\":\"AA==\"}}",
	    "{\"data\":{\"a\":\"{\\\"x\\\":1}\",\"b\":\"\"}}");
}

static void
malformed_objects_give_nothing(void **state)
{
	static const char *const bad[] = { "{\"metadata\"}", "{\"metadata\":}",
		"{\"metadata\":{\"name\" \"a\"}}", "{,}", "{\"a\":1,}", "{1}",
		"{\"endpoints\":[{]}", "{\"endpoints\":[[[[[[[[[[[[[]]]]]]]]]]]]]}",
		"{\"metadata\":{\"name\":\"x}", "{\"a\":1} ", "[]", "{" };
	char out[256];
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (json_prune_object(json_prune_slice, bad[i], strlen(bad[i]), out) != 0)
			fail_msg("taken: %s", bad[i]);
	}
}

static struct json_prune_event event;
static char out[512];

static int
read_event(const char *json)
{
	memset(out, 0, sizeof out);
	return json_prune_event(json_prune_namespace, json, strlen(json), out, &event);
}

static void
events_are_taken_apart(void **state)
{
	(void)state;
	assert_int_equal(read_event("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Namespace\","
				    "\"metadata\":{\"name\":\"a\",\"uid\":\"b\"}}}"),
	    0);
	assert_string_equal(event.type, "ADDED");
	assert_string_equal(out, "{\"kind\":\"Namespace\",\"metadata\":{\"name\":\"a\"}}");
	assert_int_equal(event.object_len, strlen(out));
}

static void
the_object_may_come_before_its_type(void **state)
{
	(void)state;
	assert_int_equal(
	    read_event("{\"object\":{\"metadata\":{\"uid\":\"b\"}},\"x\":1,\"type\":\"DELETED\"}"),
	    0);
	assert_string_equal(event.type, "DELETED");
	assert_string_equal(out, "{\"metadata\":{}}");
}

static void
the_status_of_an_error_is_whole(void **state)
{
	(void)state;
	assert_int_equal(read_event("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":"
				    "410,\"details\":{}}}"),
	    0);
	assert_string_equal(out, "{\"kind\":\"Status\",\"code\":410,\"details\":{}}");
}

static void
the_mark_that_ends_a_watch_list_is_kept(void **state)
{
	(void)state;
	assert_int_equal(read_event("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
				    "\"resourceVersion\":\"7\",\"annotations\":"
				    "{\"k8s.io/initial-events-end\":\"true\"}}}}"),
	    0);
	assert_non_null(strstr(out, "initial-events-end"));
}

static void
malformed_events_are_refused(void **state)
{
	static const char *const bad[] = { "{}", "{\"type\":\"ADDED\"}", "{\"object\":{}}",
		"{\"type\":\"ADDED\",\"object\":[]}", "{\"type\":\"ADDED\",\"object\":null}",
		"{\"type\":5,\"object\":{}}", "{\"type\":\"ADDED\",\"object\":{\"a\"}}",
		"{\"type\"}", "{\"type\":\"ADDED\" \"object\":{}}",
		"{\"object\":{\"a\" 1},\"type\":\"ADDED\"}" };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (read_event(bad[i]) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
	}
	assert_int_equal(read_event("{\"type\":\"SOMETHING-VERY-LONG\",\"object\":{}}"), 0);
	assert_string_equal(event.type, "SOMETHING-V");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(managed_fields_and_foreign_annotations_are_dropped),
		cmocka_unit_test(elements_of_arrays_are_trimmed),
		cmocka_unit_test(what_absence_says_is_left_out),
		cmocka_unit_test(wrong_types_go_through_for_others_to_judge),
		cmocka_unit_test(white_space_is_no_obstacle),
		cmocka_unit_test(keys_with_escapes_are_kept_for_json_c_to_read),
		cmocka_unit_test(a_config_map_keeps_all_its_data),
		cmocka_unit_test(malformed_objects_give_nothing),
		cmocka_unit_test(events_are_taken_apart),
		cmocka_unit_test(the_object_may_come_before_its_type),
		cmocka_unit_test(the_status_of_an_error_is_whole),
		cmocka_unit_test(the_mark_that_ends_a_watch_list_is_kept),
		cmocka_unit_test(malformed_events_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
