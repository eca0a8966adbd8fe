#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/confdir.h"

static const char *const keys[] = { "a", "b", NULL };
static char root[64];

static int
setup(void **state)
{
	(void)state;
	strcpy(root, "/tmp/confdir.XXXXXX");
	assert_non_null(mkdtemp(root));
	assert_int_equal(chdir(root), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	char cmd[128];
	snprintf(cmd, sizeof cmd, "rm -rf %s", root);
	assert_int_equal(chdir("/"), 0);
	return system(cmd);
}

static void
put(const char *path, const char *value)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(value, 1, strlen(value), f), strlen(value));
	fclose(f);
}

static void
sh(const char *cmd)
{
	assert_int_equal(system(cmd), 0);
}

/* Changes the directory like the kubelet does: creates a new directory, replaces `..data` with
 * rename(), then removes the old directory. */
static void
kubelet_write(const char *mount, int generation, const char *a, const char *b)
{
	char path[256], link[256], target[64], old[64] = "";

	snprintf(path, sizeof path, "%s/..data", mount);
	ssize_t n = readlink(path, old, sizeof old - 1);
	snprintf(target, sizeof target, "..gen%d", generation);
	snprintf(path, sizeof path, "%s/%s", mount, target);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof path, "%s/%s/a", mount, target);
	put(path, a);
	snprintf(path, sizeof path, "%s/%s/b", mount, target);
	put(path, b);
	snprintf(link, sizeof link, "%s/..data_tmp", mount);
	assert_int_equal(symlink(target, link), 0);
	snprintf(path, sizeof path, "%s/..data", mount);
	assert_int_equal(rename(link, path), 0);
	if (n > 0) {
		const char *const names[] = { "a", "b" };
		for (int i = 0; i < 2; i++) {
			snprintf(path, sizeof path, "%s/%s/%s", mount, old, names[i]);
			assert_int_equal(unlink(path), 0);
		}
		snprintf(path, sizeof path, "%s/%s", mount, old);
		assert_int_equal(rmdir(path), 0);
	}
}

static void
kubelet_mount(const char *mount, const char *a, const char *b)
{
	char path[256];

	assert_int_equal(mkdir(mount, 0755), 0);
	kubelet_write(mount, 0, a, b);
	for (int i = 0; keys[i] != NULL; i++) {
		char target[32];

		snprintf(path, sizeof path, "%s/%s", mount, keys[i]);
		snprintf(target, sizeof target, "..data/%s", keys[i]);
		assert_int_equal(symlink(target, path), 0);
	}
}

/* Waits at most a second for each event, until the set has changed. Fails if no event comes. */
static void
await_change(struct confdir *dir, struct confdir_set *set)
{
	struct pollfd p = { .fd = confdir_fd(dir), .events = POLLIN };

	for (;;) {
		assert_int_equal(poll(&p, 1, 1000), 1);
		if (confdir_poll(dir, false, set))
			return;
	}
}

static void
expect(struct confdir_set *set, const char *a, const char *b)
{
	const char *const want[] = { a, b };
	for (int i = 0; i < 2; i++) {
		const struct confdir_key *key = confdir_get(set, keys[i]);

		if (want[i] == NULL)
			assert_null(key);
		else {
			assert_non_null(key);
			assert_null(key->error);
			assert_string_equal(key->value, want[i]);
		}
	}
	confdir_set_free(set);
}

static void
first_poll_always_gives_the_set_and_the_second_none(void **state)
{
	(void)state;
	struct confdir_set set;
	struct confdir *dir = confdir_new(root, keys);
	assert_true(confdir_poll(dir, false, &set));
	assert_true(set.exists);
	expect(&set, NULL, NULL);
	assert_false(confdir_poll(dir, false, &set));
	assert_false(confdir_poll(dir, true, &set));
	confdir_free(dir);
}

static void
swap_of_data_gives_one_whole_set(void **state)
{
	(void)state;
	struct confdir_set set;
	kubelet_mount("m", "1", "1");
	struct confdir *dir = confdir_new("m", keys);
	assert_true(confdir_poll(dir, false, &set));
	expect(&set, "1", "1");
	kubelet_write("m", 1, "2", "2");
	await_change(dir, &set);
	expect(&set, "2", "2");
	assert_false(confdir_poll(dir, true, &set));
	confdir_free(dir);
}

static void
swap_with_the_same_content_is_no_change(void **state)
{
	(void)state;
	struct confdir_set set;
	kubelet_mount("m", "1", "1");
	struct confdir *dir = confdir_new("m", keys);
	assert_true(confdir_poll(dir, false, &set));
	confdir_set_free(&set);
	kubelet_write("m", 1, "1", "1");
	assert_false(confdir_poll(dir, true, &set));
	confdir_free(dir);
}

static void
sets_are_never_half_old_half_new(void **state)
{
	(void)state;
	struct confdir_set set;
	kubelet_mount("m", "0", "0");
	struct confdir *dir = confdir_new("m", keys);
	pid_t writer = fork();
	if (writer == 0) {
		for (int i = 1; i <= 2000; i++) {
			char v[16];

			snprintf(v, sizeof v, "%d", i);
			kubelet_write("m", i, v, v);
		}
		_exit(0);
	}
	int seen = 0, done = 0;
	while (!done || seen == 0) {
		done = waitpid(writer, NULL, WNOHANG) == writer;
		if (!confdir_poll(dir, true, &set))
			continue;
		const struct confdir_key *a = confdir_get(&set, "a"), *b = confdir_get(&set, "b");
		assert_non_null(a);
		assert_non_null(b);
		if (a->error == NULL || b->error == NULL)
			assert_string_equal(a->value, b->value);
		seen += a->error == NULL;
		confdir_set_free(&set);
	}
	assert_true(seen > 1);
	if (confdir_poll(dir, true, &set))
		expect(&set, "2000", "2000");
	confdir_free(dir);
}

static void
plain_directory_is_seen_by_events(void **state)
{
	(void)state;
	struct confdir_set set;
	mkdir("p", 0755);
	struct confdir *dir = confdir_new("p", keys);
	assert_true(confdir_poll(dir, false, &set));
	expect(&set, NULL, NULL);
	put("p/a", "1");
	await_change(dir, &set);
	expect(&set, "1", NULL);
	put("p/a.new", "2");
	rename("p/a.new", "p/a");
	await_change(dir, &set);
	expect(&set, "2", NULL);
	put("p/a", "3");
	await_change(dir, &set);
	expect(&set, "3", NULL);
	unlink("p/a");
	await_change(dir, &set);
	expect(&set, NULL, NULL);
	confdir_free(dir);
}

static void
file_is_not_read_before_its_writer_closes_it(void **state)
{
	(void)state;
	struct confdir_set set;
	mkdir("p", 0755);
	struct confdir *dir = confdir_new("p", keys);
	assert_true(confdir_poll(dir, false, &set));
	confdir_set_free(&set);
	int fd = open("p/a", O_CREAT | O_WRONLY, 0644);
	assert_false(confdir_poll(dir, false, &set));
	assert_int_equal(write(fd, "whole", 5), 5);
	assert_false(confdir_poll(dir, false, &set));
	close(fd);
	await_change(dir, &set);
	expect(&set, "whole", NULL);
	confdir_free(dir);
}

static void
directory_that_appears_later_is_seen(void **state)
{
	(void)state;
	struct confdir_set set;
	char path[128];
	snprintf(path, sizeof path, "%s/x/y/z", root);
	struct confdir *dir = confdir_new(path, keys);
	assert_true(confdir_poll(dir, false, &set));
	assert_false(set.exists);
	expect(&set, NULL, NULL);
	sh("mkdir -p x/y/z && echo -n 1 > x/y/z/a");
	do
		await_change(dir, &set);
	while (confdir_get(&set, "a") == NULL && (confdir_set_free(&set), true));
	expect(&set, "1", NULL);
	sh("rm -r x");
	do
		await_change(dir, &set);
	while (set.exists && (confdir_set_free(&set), true));
	expect(&set, NULL, NULL);
	sh("mkdir -p x/y/t && echo -n 2 > x/y/t/b && mv x/y/t x/y/z");
	await_change(dir, &set);
	expect(&set, NULL, "2");
	confdir_free(dir);
}

static void
symlink_to_a_directory_is_followed_when_it_moves(void **state)
{
	(void)state;
	struct confdir_set set;
	sh("mkdir -p d1 d2 && echo -n 1 > d1/a && echo -n 2 > d2/a && ln -s d1 l");
	struct confdir *dir = confdir_new("l", keys);
	assert_true(confdir_poll(dir, false, &set));
	expect(&set, "1", NULL);
	sh("ln -s d2 l2 && mv -T l2 l");
	await_change(dir, &set);
	expect(&set, "2", NULL);
	put("d2/b", "3");
	await_change(dir, &set);
	expect(&set, "2", "3");
	confdir_free(dir);
}

static void
replaced_directory_is_seen(void **state)
{
	(void)state;
	struct confdir_set set;
	kubelet_mount("m", "1", "1");
	kubelet_mount("n", "2", "2");
	struct confdir *dir = confdir_new("m", keys);
	assert_true(confdir_poll(dir, false, &set));
	expect(&set, "1", "1");
	rename("m", "old");
	await_change(dir, &set);
	assert_false(set.exists);
	expect(&set, NULL, NULL);
	rename("n", "m");
	await_change(dir, &set);
	expect(&set, "2", "2");
	kubelet_write("m", 7, "3", "3");
	await_change(dir, &set);
	expect(&set, "3", "3");
	confdir_free(dir);
}

static void
linked_file_rewritten_elsewhere_is_seen(void **state)
{
	(void)state;
	struct confdir_set set;
	sh("mkdir -p p elsewhere && echo -n 1 > elsewhere/f && ln -s ../elsewhere/f p/a");
	struct confdir *dir = confdir_new("p", keys);
	assert_true(confdir_poll(dir, false, &set));
	expect(&set, "1", NULL);
	put("elsewhere/f", "2");
	await_change(dir, &set);
	expect(&set, "2", NULL);
	confdir_free(dir);
}

static void
unreadable_keys_carry_the_reason(void **state)
{
	(void)state;
	struct confdir_set set;
	sh("mkdir -p p/a && mkfifo p/b");
	struct confdir *dir = confdir_new("p", keys);
	assert_true(confdir_poll(dir, false, &set));
	assert_string_equal(confdir_get(&set, "a")->error, "is a directory");
	assert_string_equal(confdir_get(&set, "b")->error, "not a regular file");
	confdir_set_free(&set);
	sh("rm -r p/a p/b && head -c 1048577 /dev/zero > p/a && head -c 1048576 /dev/zero > p/b");
	assert_true(confdir_poll(dir, true, &set));
	assert_string_equal(confdir_get(&set, "a")->error, "larger than 1 MiB");
	assert_null(confdir_get(&set, "b")->error);
	assert_int_equal(confdir_get(&set, "b")->len, 1048576);
	confdir_set_free(&set);
	confdir_free(dir);
}

static void
path_that_is_a_file_makes_every_key_an_error(void **state)
{
	(void)state;
	struct confdir_set set;
	put("f", "x");
	struct confdir *dir = confdir_new("f", keys);
	assert_true(confdir_poll(dir, false, &set));
	assert_int_equal(set.count, 2);
	assert_string_equal(confdir_get(&set, "a")->error, "Not a directory");
	confdir_set_free(&set);
	confdir_free(dir);
}

static void
nul_bytes_are_kept(void **state)
{
	(void)state;
	struct confdir_set set;
	sh("mkdir p && printf 'x\\0y' > p/a");
	struct confdir *dir = confdir_new("p", keys);
	assert_true(confdir_poll(dir, false, &set));
	assert_int_equal(confdir_get(&set, "a")->len, 3);
	assert_memory_equal(confdir_get(&set, "a")->value, "x\0y", 4);
	confdir_set_free(&set);
	confdir_free(dir);
}

/* During a replacement, the directory looks like this briefly. If it stays like this, that is an
 * error, but no key counts as deleted. */
static void
data_link_that_leads_nowhere_deletes_no_key(void **state)
{
	(void)state;
	struct confdir_set set;
	kubelet_mount("m", "1", "2");
	struct confdir *dir = confdir_new("m", keys);
	assert_true(confdir_poll(dir, false, &set));
	expect(&set, "1", "2");
	sh("mv m/..gen0 m/..gone");
	assert_true(confdir_poll(dir, true, &set));
	assert_int_equal(set.count, 2);
	assert_string_equal(confdir_get(&set, "a")->error,
	    "..data cannot be read, or it changed during each attempt");
	confdir_set_free(&set);
	sh("mv m/..gone m/..gen0");
	assert_true(confdir_poll(dir, true, &set));
	expect(&set, "1", "2");
	confdir_free(dir);
}

static void
link_loops_end(void **state)
{
	(void)state;
	struct confdir_set set;
	sh("ln -s l2 l1 && ln -s l1 l2");
	struct confdir *dir = confdir_new("l1", keys);
	assert_true(confdir_poll(dir, false, &set));
	assert_non_null(confdir_get(&set, "a")->error);
	confdir_set_free(&set);
	confdir_free(dir);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* The entries are read in any order, and one entry may not ask for TLS. */
static void
all_misspellings_of_a_key_that_ask_for_tls_count(void **state)
{
	static const char *const names[] = { "stubDomains", NULL }, *const values[] = {
		"{\"plain.test\": [\"10.0.0.1\"]}", "{\"a.test\": [\"tls://10.0.0.1\"]}",
		"{\"b.test\": [\"tls://10.0.0.1\"]}"
	};
	char entry[3][32];

	(void)state;
	for (int first = 0; first < 3; first++) {
		struct confdir_set set;

		for (int i = 0; i < 3; i++) {
			snprintf(entry[i], sizeof entry[i], "stubDomain%d", i);
			put(entry[i], values[(first + i) % 3]);
		}
		struct confdir *dir = confdir_new(root, names);
		assert_true(confdir_poll(dir, false, &set));
		const struct confdir_key *key = confdir_get(&set, "stubDomains");
		assert_non_null(key);
		assert_null(strstr(key->value, "plain.test"));
		assert_non_null(strstr(key->value, "a.test"));
		assert_non_null(strstr(key->value, "b.test"));
		assert_int_equal(key->len, strlen(key->value));
		assert_string_not_equal(key->entry, entry[(3 - first) % 3]);
		assert_int_equal(set.count, 1);
		confdir_set_free(&set);
		confdir_free(dir);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(first_poll_always_gives_the_set_and_the_second_none),
		TEST(swap_of_data_gives_one_whole_set),
		TEST(swap_with_the_same_content_is_no_change),
		TEST(sets_are_never_half_old_half_new),
		TEST(plain_directory_is_seen_by_events),
		TEST(file_is_not_read_before_its_writer_closes_it),
		TEST(directory_that_appears_later_is_seen),
		TEST(symlink_to_a_directory_is_followed_when_it_moves),
		TEST(replaced_directory_is_seen),
		TEST(linked_file_rewritten_elsewhere_is_seen),
		TEST(unreadable_keys_carry_the_reason),
		TEST(path_that_is_a_file_makes_every_key_an_error),
		TEST(nul_bytes_are_kept),
		TEST(data_link_that_leads_nowhere_deletes_no_key),
		TEST(link_loops_end),
		TEST(all_misspellings_of_a_key_that_ask_for_tls_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
