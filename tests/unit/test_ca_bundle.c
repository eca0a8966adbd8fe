/* Which copies of the CA certificates exist. A script stands for the unbound that checks them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/xalloc.h"
#include "nanny/unbound/ca_bundle.h"

static char dir[] = "/tmp/ca_bundle.XXXXXX";
static char *source, *starts, *fails;

static char *
write_file(const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", dir, name);
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(chmod(path, 0700), 0);
	return path;
}

static void
put(const char *content)
{
	char *text = xasprintf("-----BEGIN CERTIFICATE-----\n%s\n", content);

	free(source);
	source = write_file("source", text);
	free(text);
}

static int
make_files(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	starts = write_file("starts", "#!/bin/sh\necho 'info: start of service' >&2\n");
	fails = write_file("fails", "#!/bin/sh\necho 'error: out of memory' >&2\n");
	put("a");
	return 0;
}

static int
remove_files(void **state)
{
	(void)state;
	unlink(source);
	unlink(starts);
	unlink(fails);
	free(source);
	free(starts);
	free(fails);
	return rmdir(dir); /* fails if a copy is left */
}

static void
a_copy_that_unbound_may_read_stays(void **state)
{
	struct ca_bundle bundle = {
		.source = source, .exec = starts, .check_ms = 5000, .dir = dir
	};

	(void)state;
	assert_true(ca_bundle_take(&bundle));
	ca_bundle_confirmed(&bundle);
	char *first = xstrdup(bundle.path);

	/* The former content comes back before unbound has confirmed the new one. */
	put("b");
	bundle.source = source;
	assert_true(ca_bundle_take(&bundle));
	put("a");
	bundle.source = source;
	bundle.exec = fails;
	assert_false(ca_bundle_take(&bundle));
	assert_int_equal(access(first, R_OK), 0);
	bundle.exec = starts;
	assert_true(ca_bundle_take(&bundle));
	assert_string_equal(bundle.path, first);
	ca_bundle_confirmed(&bundle);
	assert_int_equal(access(first, R_OK), 0);
	free(first);
	ca_bundle_clear(&bundle);
}

/* The kubelet writes the certificates of a ClusterTrustBundle in another order every few minutes. */
static void
the_same_certificates_in_another_order_are_no_change(void **state)
{
	static const char a[] = "a\n-----END CERTIFICATE-----",
			  b[] = "b\n-----END CERTIFICATE-----";
	static const char begin[] = "-----BEGIN CERTIFICATE-----";
	struct ca_bundle bundle = { .exec = starts, .check_ms = 5000, .dir = dir };
	char *first = xasprintf("%s\n%s\n%s", a, begin, b);
	char *second = xasprintf("%s\n%s\n%s", b, begin, a);

	(void)state;
	put(first);
	bundle.source = source;
	assert_true(ca_bundle_take(&bundle));
	put(second);
	bundle.source = source;
	bundle.exec = fails;
	assert_false(ca_bundle_take(&bundle));
	assert_null(bundle.key.error);
	bundle.exec = starts;
	put(a);
	bundle.source = source;
	assert_true(ca_bundle_take(&bundle));
	free(first);
	free(second);
	ca_bundle_clear(&bundle);
}

static unsigned
count_starts(void)
{
	char *path = xasprintf("%s/count", dir);
	FILE *in = fopen(path, "re");
	unsigned count = 0;

	for (int c; in != NULL && (c = fgetc(in)) != EOF;)
		count += c == 'x';
	if (in != NULL)
		fclose(in);
	free(path);
	return count;
}

/* The nanny waits for a check, so it must not check the same content at each -syncInterval. */
static void
a_check_that_does_not_end_in_time_is_not_repeated_at_once(void **state)
{
	char *script = xasprintf("#!/bin/sh\nprintf x >>%s/count\nexec sleep 60\n", dir);
	char *counts = write_file("counts", script), *count = xasprintf("%s/count", dir);
	struct ca_bundle bundle = {
		.source = source, .exec = counts, .check_ms = 1000, .dir = dir
	};

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		assert_false(ca_bundle_take(&bundle));
	assert_int_equal(count_starts(), 1);
	put("c"); /* a new content is checked at once */
	bundle.source = source;
	assert_false(ca_bundle_take(&bundle));
	assert_int_equal(count_starts(), 2);
	bundle.again_ms = 0; /* the time has passed */
	assert_false(ca_bundle_take(&bundle));
	assert_int_equal(count_starts(), 3);
	bundle.exec = starts;
	bundle.check_ms = 5000;
	bundle.again_ms = 0;
	assert_true(ca_bundle_take(&bundle));
	ca_bundle_clear(&bundle);
	unlink(counts);
	unlink(count);
	free(counts);
	free(count);
	free(script);
}

static void
copies_that_a_killed_nanny_has_left_are_removed(void **state)
{
	char *copy = write_file("ca-0123456789abcdef.pem", "x"),
	     *other = write_file("ca-own.pem", "x");

	(void)state;
	ca_bundle_sweep(dir);
	assert_int_equal(access(copy, F_OK), -1);
	assert_int_equal(access(other, F_OK), 0);
	unlink(other);
	free(copy);
	free(other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_that_unbound_may_read_stays),
		cmocka_unit_test(the_same_certificates_in_another_order_are_no_change),
		cmocka_unit_test(a_check_that_does_not_end_in_time_is_not_repeated_at_once),
		cmocka_unit_test(copies_that_a_killed_nanny_has_left_are_removed),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
