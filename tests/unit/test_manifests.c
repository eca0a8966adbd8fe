/* Manifests as a source of events: the events after a change of the files, and the changes that an
 * invalid file does not cause. */
#include "kubedns/manifests/manifests.h"
#include "tests/unit/manifests_fixture.h"

static void
the_first_reading_is_a_listing(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", service("web", "10.96.0.1"));
	put(f, "b.json", "{\"kind\":\"Namespace\",\"metadata\":{\"name\":\"team\"}}");
	start(f);
	assert_string_equal(f->events,
	    "LISTING\nADDED services default/web 10.96.0.1\nADDED namespaces /team\nSYNCED\n");
	assert_int_equal(mistakes(f), 0);
}

static void
only_what_differs_is_sent(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.2")));
	start(f);
	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.3")));
	assert_string_equal(changes(f), "MODIFIED services default/db 10.96.0.3\n");
	put(f, "a.yaml",
	    both("# a comment\n", both(service("web", "10.96.0.1"), service("db", "10.96.0.3"))));
	assert_string_equal(changes(f), "");
	put(f, "b.yaml", service("mail", "10.96.0.4"));
	assert_string_equal(changes(f), "ADDED services default/mail 10.96.0.4\n");
}

static void
what_is_in_no_file_any_more_is_deleted(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.2")));
	put(f, "b.yaml", service("mail", "10.96.0.3"));
	start(f);
	put(f, "a.yaml", service("web", "10.96.0.1"));
	assert_string_equal(changes(f), "DELETED services default/db\n");
	unlink(in(f, "b.yaml"));
	assert_string_equal(changes(f), "DELETED services default/mail\n");
	put(f, "a.yaml", "");
	assert_string_equal(changes(f), "DELETED services default/web\n");
}

static void
an_object_that_moves_to_another_file_is_never_missing(void **state)
{
	struct fixture *f = *state;

	put(f, "b.yaml", service("web", "10.96.0.1"));
	start(f);
	put(f, "a.yaml", service("web", "10.96.0.1"));
	put(f, "b.yaml", "");
	assert_null(strstr(changes(f), "DELETED"));
	assert_int_equal(rename(in(f, "a.yaml"), in(f, "z.yaml")), 0);
	assert_null(strstr(changes(f), "DELETED"));
	unlink(in(f, "z.yaml"));
	assert_string_equal(changes(f), "DELETED services default/web\n");
}

static void
a_broken_file_keeps_its_last_good_objects(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.2")));
	start(f);
	put(f, "a.yaml",
	    both(service("web", "10.96.0.9"), "---\nkind: Service\nmetadata: {name: [\n"));
	assert_string_equal(changes(f), "");
	assert_int_equal(mistakes(f), 1);
	assert_non_null(strstr(error(f), "objects/a.yaml:"));
	assert_non_null(strstr(error(f), "keeping previous"));
	put(f, "a.yaml", both(service("web", "10.96.0.9"), service("db", "10.96.0.2")));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.9\n");
	assert_int_equal(mistakes(f), 0);
	assert_string_equal(error(f), "");
}

static void
a_file_that_is_broken_from_the_start_counts_when_it_is_whole(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), "---\nx: [\n"));
	put(f, "b.yaml", service("db", "10.96.0.2"));
	start(f);
	/* The objects of the invalid file are removed again before the end of the listing is
	 * reported. */
	assert_string_equal(f->events,
	    "LISTING\nADDED services default/web 10.96.0.1\nADDED services default/db 10.96.0.2\n"
	    "DELETED services default/web\nSYNCED\n");
	assert_int_equal(mistakes(f), 1);
	put(f, "a.yaml", service("web", "10.96.0.1"));
	assert_string_equal(changes(f), "ADDED services default/web 10.96.0.1\n");
	assert_int_equal(mistakes(f), 0);
}

static void
a_file_is_not_read_while_it_is_being_written(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.2")));
	start(f);
	FILE *out = fopen(in(f, "a.yaml"), "w"); /* the file is now empty */
	assert_non_null(out);
	put(f, "b.yaml", service("mail", "10.96.0.3"));
	assert_string_equal(changes(f), "ADDED services default/mail 10.96.0.3\n");
	fputs(service("web", "10.96.0.1"), out);
	fflush(out);
	assert_string_equal(changes(f), "");
	manifests_run(f->m, true);
	assert_string_equal(f->events, "");
	fputs(service("db", "10.96.0.7"), out);
	fclose(out);
	assert_string_equal(changes(f), "MODIFIED services default/db 10.96.0.7\n");
}

static void
a_rename_over_the_file_is_one_change(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", service("web", "10.96.0.1"));
	start(f);
	put(f, ".a.yaml.swp", "garbage: [");
	put(f, "a.yaml~", "garbage: [");
	put(f, "#a.yaml#", "garbage: [");
	put(f, "4913", "garbage: [");
	put(f, "a.yaml.tmp", service("web", "10.96.0.2"));
	assert_string_equal(changes(f), "");
	assert_int_equal(rename(in(f, "a.yaml.tmp"), in(f, "a.yaml")), 0);
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.2\n");
	assert_int_equal(mistakes(f), 0);
}

static void
the_last_file_in_name_order_counts(void **state)
{
	struct fixture *f = *state;
	struct manifests_status status;

	put(f, "b.yaml", service("web", "10.96.0.2"));
	start(f);
	put(f, "a.yaml", service("web", "10.96.0.1"));
	assert_string_equal(changes(f), "");
	put(f, "c.yaml", service("web", "10.96.0.3"));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.3\n");
	manifests_status(f->m, &status);
	assert_int_equal(status.objects, 3);
	assert_int_equal(status.duplicates, 2);
	assert_non_null(strstr(status.error,
	    "c.yaml:2: Service default/web is also in b.yaml; kubedns uses the object in c.yaml"));
	/* If another file takes precedence, a change in this file changes nothing. */
	put(f, "a.yaml", service("web", "10.96.0.9"));
	assert_string_equal(changes(f), "");
	unlink(in(f, "c.yaml"));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.2\n");
	unlink(in(f, "b.yaml"));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.9\n");
	unlink(in(f, "a.yaml"));
	assert_string_equal(changes(f), "DELETED services default/web\n");
	manifests_status(f->m, &status);
	assert_int_equal(status.duplicates, 0);
}

static void
within_a_file_the_first_of_two_counts(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("web", "10.96.0.2")));
	start(f);
	assert_string_equal(f->events, "LISTING\nADDED services default/web 10.96.0.1\nSYNCED\n");
	assert_non_null(strstr(error(f), "a.yaml:6: Service default/web: is in this file twice"));
	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("web", "10.96.0.3")));
	assert_string_equal(changes(f), "");
}

static void
an_object_with_a_bad_field_keeps_what_it_last_said(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.2")));
	start(f);
	put(f, "a.yaml", both(service("web", "10.96.0.300"), service("db", "10.96.0.3")));
	assert_string_equal(changes(f), "MODIFIED services default/db 10.96.0.3\n");
	assert_non_null(strstr(error(f),
	    "a.yaml:2: Service default/web: clusterIP \"10.96.0.300\" is not an address; "
	    "keeping previous"));
	/* A new object has no previous state. It is accepted without the invalid field. */
	put(f, "b.yaml", service("mail", "10.96.0.400"));
	assert_string_equal(changes(f), "ADDED services default/mail\n");
	assert_int_equal(mistakes(f), 2);
}

static void
nothing_is_deleted_from_a_file_with_an_object_that_cannot_be_told(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.1"), service("db", "10.96.0.2")));
	start(f);
	put(f, "a.yaml", both(service("WEB_", "10.96.0.1"), service("db", "10.96.0.3")));
	assert_string_equal(changes(f), "MODIFIED services default/db 10.96.0.3\n");
	assert_non_null(strstr(error(f), "a.yaml:2: WEB_: metadata.name is not a DNS label: small "
					 "letters, digits and '-'; ignored"));
	put(f, "a.yaml", service("db", "10.96.0.3"));
	assert_string_equal(changes(f), "DELETED services default/web\n");
}

static void
kinds_that_dns_does_not_need_are_passed_over(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml",
	    both("kind: Deployment\nspec: {replicas: 2}\n", service("web", "10.96.0.1")));
	start(f);
	assert_string_equal(f->events, "LISTING\nADDED services default/web 10.96.0.1\nSYNCED\n");
	assert_int_equal(mistakes(f), 0);
}

static void
resource_versions_are_followed(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml",
	    "kind: Service\nmetadata: {name: web, resourceVersion: \"1\"}\nspec: {clusterIP: "
	    "None}\n");
	start(f);
	put(f, "a.yaml",
	    "kind: Service\nmetadata: {name: web, resourceVersion: \"2\"}\nspec: {clusterIP: "
	    "None}\n");
	assert_string_equal(changes(f), "MODIFIED services default/web\n");
}

static void
a_change_of_any_field_that_dns_reads_is_seen(void **state)
{
	static const char *const versions[] = {
		"ports: [], endpoints: []",
		"ports: [{name: a, port: 1}], endpoints: []",
		"ports: [{name: a, port: 2}], endpoints: []",
		"ports: [{name: a, port: 2, protocol: UDP}], endpoints: []",
		"ports: [{name: b, port: 2, protocol: UDP}], endpoints: []",
		"ports: [], endpoints: [{addresses: [10.1.0.1]}]",
		"ports: [], endpoints: [{addresses: [10.1.0.2]}]",
		"ports: [], endpoints: [{addresses: [10.1.0.2], conditions: {ready: false}}]",
		"ports: [], endpoints: [{addresses: [10.1.0.2], hostname: a}]",
		"ports: [], endpoints: [{addresses: [10.1.0.2], hostname: b}]",
		"ports: [], endpoints: [{addresses: [10.1.0.2], targetRef: {kind: Pod, name: b}}]",
		"ports: [], endpoints: [{addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}]",
		"ports: [], endpoints: [{addresses: [10.1.0.3]}, {addresses: [10.1.0.2]}]",
	};
	struct fixture *f = *state;
	char text[400];

	start(f);
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
		snprintf(text, sizeof text,
		    "{kind: EndpointSlice, metadata: {name: s, labels: "
		    "{kubernetes.io/service-name: w}}, addressType: IPv4, %s}",
		    versions[i]);
		put(f, "a.yaml", text);
		assert_string_equal(changes(f), i == 0 ? "ADDED endpointslices default/s\n"
						       : "MODIFIED endpointslices default/s\n");
	}
}

/* Returns the text that the program writes to standard error during `step`. */
static char *
said(void (*step)(struct fixture *f), struct fixture *f)
{
	static char text[8192];
	FILE *log = tmpfile();
	int saved = dup(STDERR_FILENO);

	assert_non_null(log);
	assert_true(dup2(fileno(log), STDERR_FILENO) >= 0);
	step(f);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	rewind(log);
	text[fread(text, 1, sizeof text - 1, log)] = '\0';
	fclose(log);
	return text;
}

static void
step_changes(struct fixture *f)
{
	changes(f);
}

static void
step_start(struct fixture *f)
{
	start(f);
}

static void
step_check(struct fixture *f)
{
	manifests_check(f->dir, false, false);
}

static void
a_misspelled_member_is_named_and_the_object_keeps_what_it_last_said(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", service("web", "10.96.0.1"));
	start(f);
	put(f, "a.yaml", "kind: Service\nmetadata: {name: web}\nspec: {clusterIp: 10.96.0.2}\n");
	assert_string_equal(changes(f), "");
	assert_non_null(strstr(error(f), "a.yaml:1: Service default/web: \"clusterIp\" is unknown; "
					 "did you mean clusterIP?; keeping previous"));
	put(f, "a.yaml",
	    "kind: EndpointSlice\nmetadata: {name: web}\naddressType: IPv4\n"
	    "endpoints: [{addresses: [10.1.0.1], conditions: {raedy: false}}]\n");
	changes(f);
	assert_non_null(strstr(error(f), "\"raedy\" is unknown; did you mean ready?"));
	assert_int_equal(manifests_check(f->dir, false, false), 1);
}

static void
a_misspelled_kind_is_named_and_nothing_of_its_file_is_deleted(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", service("web", "10.96.0.1"));
	start(f);
	put(f, "a.yaml", "kind: Servcie\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.2}\n");
	assert_string_equal(changes(f), "");
	assert_non_null(strstr(
	    error(f), "a.yaml:1: kind \"Servcie\" is unknown; did you mean Service?; ignored"));
	assert_int_equal(manifests_check(f->dir, false, false), 1);
}

static void
members_and_kinds_of_kubernetes_that_dns_does_not_read_are_no_mistakes(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml",
	    "kind: Service\n"
	    "metadata: {name: web, uid: x, selfLink: x, generateName: x, finalizers: []}\n"
	    "spec: {clusterIP: 10.96.0.2, externalIPs: [], ipFamilies: [], ipFamilyPolicy: x,\n"
	    "  selector: {name: x, typ: y}, sessionAffinity: None, externalTrafficPolicy: Local,\n"
	    "  ports: [{port: 80, targetPort: 80, nodePort: 30000, appProtocol: http}]}\n"
	    "status: {loadBalancer: {}}\n"
	    "---\n"
	    "kind: EndpointSlice\n"
	    "metadata: {name: web, labels: {kubernetes.io/service-name: web}}\n"
	    "addressType: IPv4\n"
	    "endpoints: [{addresses: [10.1.0.1], nodeName: x, zone: x, hints: {},\n"
	    "  conditions: {ready: true, serving: true, terminating: false},\n"
	    "  targetRef: {kind: Pod, name: x, namespace: x, uid: x}}]\n");
	put(f, "b.yaml",
	    "kind: Role\nmetadata: {name: x}\n---\nkind: Secret\n"
	    "metadata: {name: x}\n---\nkind: ConfigMap\nmetadata: {name: x}\n"
	    "---\nkind: Job\nmetadata: {name: x}\n");
	start(f);
	assert_int_equal(mistakes(f), 0);
}

static void
a_file_that_is_good_again_is_said(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", service("web", "10.96.0.300"));
	start(f);
	put(f, "a.yaml", service("web", "10.96.0.3"));
	assert_non_null(strstr(said(step_changes, f), "/a.yaml: good again"));
	put(f, "a.yaml", service("web", "10.96.0.4"));
	assert_null(strstr(said(step_changes, f), "good again"));
}

static void
a_directory_without_an_object_is_said(void **state)
{
	struct fixture *f = *state;
	static const char none[] = "no object that DNS needs in 1 files";

	put(f, "a.yaml", "kind: Deployment\nmetadata: {name: x}\n");
	assert_non_null(strstr(said(step_check, f), none));
	assert_non_null(strstr(said(step_start, f), none));
	put(f, "a.yaml", service("web", "10.96.0.4"));
	const char *text = said(step_check, f);
	assert_null(strstr(text, none));
	assert_non_null(strstr(text, "1 objects in 1 files"));
}

static void
check_counts_every_mistake(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.300"), service("_", "10.96.0.1")));
	put(f, "b.yaml", "x: [\n");
	put(f, "c.yaml", service("db", "10.96.0.1"));
	assert_int_equal(manifests_check(f->dir, false, false), 3);
	put(f, "a.yaml", "");
	put(f, "b.yaml", "");
	assert_int_equal(manifests_check(f->dir, false, false), 0);
	assert_int_equal(manifests_check(in(f, "missing"), false, false), 1);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_first_reading_is_a_listing),
		TEST(only_what_differs_is_sent),
		TEST(what_is_in_no_file_any_more_is_deleted),
		TEST(an_object_that_moves_to_another_file_is_never_missing),
		TEST(a_broken_file_keeps_its_last_good_objects),
		TEST(a_file_that_is_broken_from_the_start_counts_when_it_is_whole),
		TEST(a_file_is_not_read_while_it_is_being_written),
		TEST(a_rename_over_the_file_is_one_change),
		TEST(the_last_file_in_name_order_counts),
		TEST(within_a_file_the_first_of_two_counts),
		TEST(an_object_with_a_bad_field_keeps_what_it_last_said),
		TEST(nothing_is_deleted_from_a_file_with_an_object_that_cannot_be_told),
		TEST(kinds_that_dns_does_not_need_are_passed_over),
		TEST(resource_versions_are_followed),
		TEST(a_change_of_any_field_that_dns_reads_is_seen),
		TEST(a_misspelled_member_is_named_and_the_object_keeps_what_it_last_said),
		TEST(a_misspelled_kind_is_named_and_nothing_of_its_file_is_deleted),
		TEST(members_and_kinds_of_kubernetes_that_dns_does_not_read_are_no_mistakes),
		TEST(a_file_that_is_good_again_is_said),
		TEST(a_directory_without_an_object_is_said),
		TEST(check_counts_every_mistake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
