/* The digest with its versions, as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/config/options.h"
#include "kubedns/pages/digest_page.h"

static struct options options;

/* Sets the options that the scope reads. */
static int
begin(void **state)
{
	static char empty[] = "", domain[] = "cluster.local.";

	(void)state;
	memset(&options, 0, sizeof options);
	options.zone.domain = domain;
	options.source.endpointslice_selector = options.source.namespace_labels = empty;
	return 0;
}

static void
show(struct digest *digest, uint64_t version)
{
	const struct api_source_version versions[] = { { "services", version, version + 1 },
		{ "endpointslices", version + 2, version + 3 },
		{ "namespaces", version + 4, version + 5 } };

	digest_versions(digest, versions, sizeof versions / sizeof versions[0]);
}

static void
each_resource_has_a_line(void **state)
{
	struct digest *digest = digest_new(&options);
	unsigned scope;
	int end = 0;
	size_t len;

	(void)state;
	char *text = digest_text(digest, &len);
	assert_int_equal(sscanf(text, "digest=0000000000000000\nscope=%8x%n", &scope, &end), 1);
	assert_string_equal(text + end, "\n");
	free(text);
	show(digest, 1000);
	text = digest_text(digest, &len);
	assert_int_equal(len, strlen(text));
	assert_string_equal(
	    text + end, "\nservices=1000-1001\nendpointslices=1002-1003\nnamespaces=1004-1005\n");
	free(text);
	digest_free(digest);
}

static char *
scope_line(void)
{
	struct digest *digest = digest_new(&options);
	size_t len;
	char *text = digest_text(digest, &len);

	digest_free(digest);
	return text;
}

static void
an_option_that_decides_about_records_changes_the_scope(void **state)
{
	static char selector[] = "a=b", namespace[] = "prod", *namespaces[] = { namespace, NULL };

	(void)state;
	char *before = scope_line();
	for (unsigned c = 0; c < 9; c++) {
		begin(NULL);
		switch (c) {
		case 0:
			break;
		case 1:
			options.answers.ttl_s = 7;
			break;
		case 2:
			options.zone.domain = selector;
			break;
		case 3:
			options.source.endpointslice_selector = selector;
			break;
		case 4:
			options.source.namespace_labels = selector;
			break;
		case 5:
			options.source.wanted_namespaces = namespaces;
			break;
		case 6:
			options.reverse.all_endpoints = true;
			break;
		case 7:
			options.zone.endpoint_pod_names = true;
			break;
		default:
			options.source.node_role = true;
			break;
		}
		char *after = scope_line();
		if ((strcmp(before, after) == 0) != (c == 0))
			fail_msg("case %u", c);
		free(after);
	}
	free(before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_resource_has_a_line, begin),
		cmocka_unit_test_setup(
		    an_option_that_decides_about_records_changes_the_scope, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
