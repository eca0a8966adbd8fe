/* The directory of manifests: it is missing, replaced, unreadable or large. */
#include "kubedns/manifests/manifests.h"
#include "tests/unit/manifests_fixture.h"

static void
an_empty_directory_is_synced(void **state)
{
	struct fixture *f = *state;

	start(f);
	assert_string_equal(f->events, "LISTING\nSYNCED\n");
}

static void
files_that_cannot_be_read_are_named_and_wait_for_nobody(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkfifo(in(f, "fifo.yaml"), 0644), 0);
	assert_int_equal(mkdir(in(f, "dir.yaml"), 0755), 0);
	assert_int_equal(symlink("/dev/zero", in(f, "zero.json")), 0);
	assert_int_equal(symlink("nowhere", in(f, "dangling.yaml")), 0);
	assert_int_equal(symlink("loop.yaml", in(f, "loop.yaml")), 0);
	put(f, "good.yaml", service("web", "10.96.0.1"));
	start(f);
	assert_string_equal(f->events, "LISTING\nADDED services default/web 10.96.0.1\nSYNCED\n");
	assert_int_equal(mistakes(f), 4);
	put(f, "good.yaml", service("web", "10.96.0.2"));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.2\n");
}

static void
an_unreadable_file_keeps_its_objects_and_a_chmod_mends_it(void **state)
{
	struct fixture *f = *state;

	/* Root can read everything, so the test drops its privileges. */
	uid_t user = geteuid(), reader = user == 0 ? 65534 : user;
	chmod(f->root, 0711);
	put(f, "a.yaml", service("web", "10.96.0.1"));
	start(f);
	put(f, "a.yaml", service("web", "10.96.0.2"));
	chmod(in(f, "a.yaml"), 0);
	assert_int_equal(seteuid(reader), 0);
	changes(f);
	assert_int_equal(seteuid(user), 0);
	assert_string_equal(f->events, "");
	assert_non_null(strstr(error(f), "Permission denied; keeping previous"));
	chmod(in(f, "a.yaml"), 0644);
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.2\n");
}

/* Sets one key of a mounted ConfigMap. Like the kubelet, it replaces the directory behind `..data`. */
static void
set(const struct fixture *f, const char *version, const char *text)
{
	char path[64];

	mkdir(in(f, version), 0755);
	snprintf(path, sizeof path, "%s/web.yaml", version);
	put(f, path, text);
	unlink(in(f, "..data_tmp"));
	assert_int_equal(symlink(version, in(f, "..data_tmp")), 0);
	assert_int_equal(rename(in(f, "..data_tmp"), in(f, "..data")), 0);
}

static void
a_mounted_config_map_is_followed_from_set_to_set(void **state)
{
	struct fixture *f = *state;

	set(f, "..2026_1", service("web", "10.96.0.1"));
	assert_int_equal(symlink("..data/web.yaml", in(f, "web.yaml")), 0);
	start(f);
	assert_string_equal(f->events, "LISTING\nADDED services default/web 10.96.0.1\nSYNCED\n");
	set(f, "..2026_2", service("web", "10.96.0.2"));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.2\n");
	set(f, "..2026_3", service("web", "10.96.0.2"));
	assert_string_equal(changes(f), "");
}

static void
a_directory_put_in_its_place_is_followed(void **state)
{
	struct fixture *f = *state;
	char other[100], away[100];

	put(f, "a.yaml", service("web", "10.96.0.1"));
	start(f);
	snprintf(other, sizeof other, "%s/other", f->root);
	snprintf(away, sizeof away, "%s/away", f->root);
	/* While the directory is missing, the objects stay. */
	assert_int_equal(rename(f->dir, away), 0);
	assert_string_equal(changes(f), "");
	assert_int_equal(mistakes(f), 1);
	assert_non_null(strstr(error(f), "No such file"));
	assert_int_equal(mkdir(other, 0755), 0);
	assert_int_equal(rename(other, f->dir), 0);
	changes(f);
	assert_string_equal(f->events, "DELETED services default/web\n");
	put(f, "b.yaml", service("db", "10.96.0.2"));
	assert_string_equal(changes(f), "ADDED services default/db 10.96.0.2\n");
	assert_int_equal(mistakes(f), 0);
}

static void
a_link_to_a_directory_is_followed_when_it_is_swapped(void **state)
{
	struct fixture *f = *state;
	char link[100], tmp[100], second[100];

	put(f, "a.yaml", service("web", "10.96.0.1"));
	snprintf(link, sizeof link, "%s/current", f->root);
	snprintf(tmp, sizeof tmp, "%s/next", f->root);
	snprintf(second, sizeof second, "%s/second", f->root);
	assert_int_equal(symlink("objects", link), 0);
	f->m = manifests_new(link, note, f);
	changes(f);
	strcpy(f->dir, second);
	assert_int_equal(mkdir(second, 0755), 0);
	put(f, "a.yaml", service("web", "10.96.0.2"));
	assert_int_equal(symlink("second", tmp), 0);
	assert_int_equal(rename(tmp, link), 0);
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.2\n");
	put(f, "a.yaml", service("web", "10.96.0.3"));
	assert_string_equal(changes(f), "MODIFIED services default/web 10.96.0.3\n");
}

static void
a_missing_directory_syncs_when_it_appears(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(rmdir(f->dir), 0);
	start(f);
	assert_string_equal(f->events, "");
	assert_int_equal(mistakes(f), 1);
	assert_int_equal(mkdir(f->dir, 0755), 0);
	put(f, "a.yaml", service("web", "10.96.0.1"));
	assert_string_equal(changes(f), "LISTING\nADDED services default/web 10.96.0.1\nSYNCED\n");
}

static void
the_period_finds_what_no_event_told(void **state)
{
	struct fixture *f = *state;
	char outside[100];

	snprintf(outside, sizeof outside, "%s/outside.yaml", f->root);
	strcpy(f->events, f->dir);
	strcpy(f->dir, f->root);
	put(f, "outside.yaml", service("web", "10.96.0.1"));
	strcpy(f->dir, f->events);
	assert_int_equal(symlink(outside, in(f, "a.yaml")), 0);
	start(f);
	FILE *out = fopen(outside, "a");
	assert_non_null(out);
	fputs(service("db", "10.96.0.2"), out);
	fclose(out);
	assert_string_equal(changes(f), "");
	assert_true(manifests_run(f->m, true));
	assert_string_equal(f->events, "ADDED services default/db 10.96.0.2\n");
	assert_false(manifests_run(f->m, true));
}

static void
many_objects_in_many_files_are_all_seen(void **state)
{
	struct fixture *f = *state;
	struct manifests_status status;
	char name[32];

	for (int file = 0; file < 200; file++) {
		snprintf(name, sizeof name, "f%03d.yaml", file);
		FILE *out = fopen(in(f, name), "w");
		assert_non_null(out);
		for (int i = 0; i < 5; i++)
			fprintf(out, "---\nkind: Namespace\nmetadata: {name: n%d-%d}\n", file, i);
		fclose(out);
	}
	start(f);
	manifests_status(f->m, &status);
	assert_int_equal(status.files, 200);
	assert_int_equal(status.objects, 1000);
	for (int file = 0; file < 200; file += 2) {
		snprintf(name, sizeof name, "f%03d.yaml", file);
		unlink(in(f, name));
	}
	const char *events = changes(f);
	size_t deleted = 0;
	while ((events = strstr(events, "DELETED namespaces /n")) != NULL) {
		deleted++;
		events++;
	}
	assert_int_equal(deleted, 500);
	manifests_status(f->m, &status);
	assert_int_equal(status.files, 100);
	assert_int_equal(status.objects, 500);
}

/* Writes a file with a Service. The file has as many bytes as one run reads. */
static void
put_large(const struct fixture *f, const char *name, const char *text)
{
	FILE *out = fopen(in(f, name), "w");

	assert_non_null(out);
	fputs(text, out);
	for (size_t len = 0; len < MANIFESTS_RUN_BYTES; len += 64)
		fprintf(out, "#%62s\n", "");
	fclose(out);
}

/* A run must be short, because the caller also handles HTTP and signals. */
static void
a_large_directory_is_read_a_run_at_a_time_and_synced_at_the_end(void **state)
{
	struct fixture *f = *state;

	put_large(f, "a.yaml", service("a", "10.96.0.1"));
	put_large(f, "b.yaml", service("b", "10.96.0.2"));
	put_large(f, "c.yaml", service("c", "10.96.0.3"));
	f->m = manifests_new(f->dir, note, f);
	f->len = 0;
	assert_true(manifests_run(f->m, false));
	assert_string_equal(f->events, "LISTING\nADDED services default/a 10.96.0.1\n");
	assert_false(manifests_synced(f->m));
	/* The reader must not miss changes before and after its current position. */
	put(f, "a.yaml", service("a", "10.96.0.4"));
	unlink(in(f, "b.yaml"));
	assert_string_equal(changes(f), "ADDED services default/c 10.96.0.3\n"
					"MODIFIED services default/a 10.96.0.4\nSYNCED\n");
	assert_true(manifests_synced(f->m));
}

static void
what_is_gone_is_told_when_all_of_a_large_change_was_read(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", service("moves", "10.96.0.1"));
	start(f);
	unlink(in(f, "a.yaml"));
	put_large(f, "b.yaml", service("b", "10.96.0.2"));
	put_large(f, "c.yaml", service("moves", "10.96.0.3"));
	assert_string_equal(changes(f),
	    "ADDED services default/b 10.96.0.2\nMODIFIED services default/moves 10.96.0.3\n");
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_empty_directory_is_synced),
		TEST(files_that_cannot_be_read_are_named_and_wait_for_nobody),
		TEST(an_unreadable_file_keeps_its_objects_and_a_chmod_mends_it),
		TEST(a_mounted_config_map_is_followed_from_set_to_set),
		TEST(a_directory_put_in_its_place_is_followed),
		TEST(a_link_to_a_directory_is_followed_when_it_is_swapped),
		TEST(a_missing_directory_syncs_when_it_appears),
		TEST(the_period_finds_what_no_event_told),
		TEST(many_objects_in_many_files_are_all_seen),
		TEST(a_large_directory_is_read_a_run_at_a_time_and_synced_at_the_end),
		TEST(what_is_gone_is_told_when_all_of_a_large_change_was_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
