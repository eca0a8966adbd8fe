/* A directory of manifests as a source of events: what a change of the files sends, and what a
 * broken file does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kubedns/manifests/manifests.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* Each test has a directory of its own with `objects` inside,
 * and a line an event: "ADDED services default/web 10.96.0.1". */
struct fixture {
	char root[64];
	char dir[80];
	struct manifests *m;
	char events[1 << 16];
	size_t len;
};

static void
note(void *arg, enum object_kind kind, enum event_type type, const struct object *o)
{
	static const char *const types[] = { "LISTING", "ADDED", "MODIFIED", "DELETED", "SYNCED" };
	struct fixture *f = arg;
	char text[ADDR_TEXT_MAX] = "";

	if (o == NULL && kind != OBJECT_SERVICE)
		return; /* one of six stands for all */
	f->len += (size_t)snprintf(f->events + f->len, sizeof(f->events) - f->len,
	    "%s%s%s%s%s%s%s%s\n", types[type], o != NULL ? " " : "",
	    o != NULL ? object_kind_resource(kind) : "", o != NULL ? " " : "",
	    o != NULL ? o->namespace : "", o != NULL ? "/" : "", o != NULL ? o->name : "",
	    o != NULL && o->service.addr_count > 0
		? addr_format(&o->service.addrs[0], (text[0] = ' ', text + 1)) - 1
		: "");
	assert_true(f->len < sizeof(f->events));
}

static int
setup(void **state)
{
	struct fixture *f = *state = xcalloc(1, sizeof(*f));

	strcpy(f->root, "/tmp/test_manifests.XXXXXX");
	assert_non_null(mkdtemp(f->root));
	snprintf(f->dir, sizeof(f->dir), "%s/objects", f->root);
	assert_int_equal(mkdir(f->dir, 0755), 0);
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	manifests_free(f->m);
	snprintf(command, sizeof(command), "rm -rf %s", f->root);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static const char *
in(const struct fixture *f, const char *name)
{
	static char paths[4][160];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", f->dir, name);
	return path;
}

/* In place, as `echo > file` does. */
static void
put(const struct fixture *f, const char *name, const char *text)
{
	FILE *out = fopen(in(f, name), "w");

	assert_non_null(out);
	assert_int_equal(fputs(text, out) >= 0 && fclose(out) == 0, 1);
}

/* The manifest of a Service, a document to be put before others. */
static const char *
service(const char *name, const char *ip)
{
	static char texts[8][200];
	static unsigned next;
	char *text = texts[next++ % 8];

	snprintf(text, sizeof(texts[0]),
	    "---\nkind: Service\nmetadata: {name: %s}\nspec: {clusterIP: \"%s\"}\n", name, ip);
	return text;
}

static const char *
both(const char *a, const char *b)
{
	static char *texts[4];
	static unsigned next;

	free(texts[next % 4]);
	return texts[next++ % 4] = xasprintf("%s%s", a, b);
}

/* Runs once the descriptor is readable, which must be at once: the events since the last time. */
static const char *
changes(struct fixture *f)
{
	struct pollfd fd = { .fd = manifests_fd(f->m), .events = POLLIN };

	f->len = 0;
	f->events[0] = '\0';
	while (poll(&fd, 1, 0) > 0)
		manifests_run(f->m, false);
	return f->events;
}

static void
start(struct fixture *f)
{
	f->m = manifests_new(f->dir, note, f);
	changes(f);
}

static size_t
mistakes(const struct fixture *f)
{
	struct manifests_status status;
	manifests_status(f->m, &status);
	return status.mistakes;
}

static const char *
error(const struct fixture *f)
{
	struct manifests_status status;
	manifests_status(f->m, &status);
	return status.error != NULL ? status.error : "";
}

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
an_empty_directory_is_synced(void **state)
{
	struct fixture *f = *state;

	start(f);
	assert_string_equal(f->events, "LISTING\nSYNCED\n");
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
	/* What was sent of it is taken back before anyone is told that the list is whole. */
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
	FILE *out = fopen(in(f, "a.yaml"), "w"); /* empty from now on */
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
	assert_non_null(strstr(
	    status.error, "c.yaml:2: Service default/web is in b.yaml too; this one counts"));
	/* A change of one that does not count changes nothing. */
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
	assert_non_null(
	    strstr(error(f), "a.yaml:6: Service default/web: comes twice in this file"));
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
	    "a.yaml:2: Service default/web: a clusterIP is not an address; keeping previous"));
	/* A new one has nothing to keep: it is there without the field. */
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
	assert_non_null(
	    strstr(error(f), "a.yaml:2: WEB_: metadata.name is not a DNS label; left out"));
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

	/* Root reads everything. */
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

/* One key of a mounted ConfigMap: the kubelet's file behind `..data`. */
static void
set(const struct fixture *f, const char *version, const char *text)
{
	char path[64];

	mkdir(in(f, version), 0755);
	snprintf(path, sizeof(path), "%s/web.yaml", version);
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
	snprintf(other, sizeof(other), "%s/other", f->root);
	snprintf(away, sizeof(away), "%s/away", f->root);
	/* Gone: everything stays as it was. */
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
	snprintf(link, sizeof(link), "%s/current", f->root);
	snprintf(tmp, sizeof(tmp), "%s/next", f->root);
	snprintf(second, sizeof(second), "%s/second", f->root);
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

	snprintf(outside, sizeof(outside), "%s/outside.yaml", f->root);
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
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		snprintf(text, sizeof(text),
		    "{kind: EndpointSlice, metadata: {name: s, labels: "
		    "{kubernetes.io/service-name: w}}, addressType: IPv4, %s}",
		    versions[i]);
		put(f, "a.yaml", text);
		assert_string_equal(changes(f), i == 0 ? "ADDED endpointslices default/s\n"
						       : "MODIFIED endpointslices default/s\n");
	}
}

static void
many_objects_in_many_files_are_all_seen(void **state)
{
	struct fixture *f = *state;
	struct manifests_status status;
	char name[32];

	for (int file = 0; file < 200; file++) {
		snprintf(name, sizeof(name), "f%03d.yaml", file);
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
		snprintf(name, sizeof(name), "f%03d.yaml", file);
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

/* A Service and as many bytes as one run reads. */
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

/* Whoever runs it has other work too: HTTP, signals. */
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
	/* What changes meanwhile, before and behind that place, is not missed. */
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

static void
check_counts_every_mistake(void **state)
{
	struct fixture *f = *state;

	put(f, "a.yaml", both(service("web", "10.96.0.300"), service("_", "10.96.0.1")));
	put(f, "b.yaml", "x: [\n");
	put(f, "c.yaml", service("db", "10.96.0.1"));
	assert_int_equal(manifests_check(f->dir), 3);
	put(f, "a.yaml", "");
	put(f, "b.yaml", "");
	assert_int_equal(manifests_check(f->dir), 0);
	assert_int_equal(manifests_check(in(f, "missing")), 1);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_first_reading_is_a_listing),
		TEST(an_empty_directory_is_synced),
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
		TEST(files_that_cannot_be_read_are_named_and_wait_for_nobody),
		TEST(an_unreadable_file_keeps_its_objects_and_a_chmod_mends_it),
		TEST(a_mounted_config_map_is_followed_from_set_to_set),
		TEST(a_directory_put_in_its_place_is_followed),
		TEST(a_link_to_a_directory_is_followed_when_it_is_swapped),
		TEST(a_missing_directory_syncs_when_it_appears),
		TEST(the_period_finds_what_no_event_told),
		TEST(resource_versions_are_followed),
		TEST(a_change_of_any_field_that_dns_reads_is_seen),
		TEST(many_objects_in_many_files_are_all_seen),
		TEST(a_large_directory_is_read_a_run_at_a_time_and_synced_at_the_end),
		TEST(what_is_gone_is_told_when_all_of_a_large_change_was_read),
		TEST(check_counts_every_mistake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
