/* Kubernetes label selectors: the labels that each selector selects, and texts that are invalid. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/object.h"

enum { LABELS_MAX = 4 };

/* Parses "env=prod,tier=" into labels. Changes `text`. */
static size_t
labels_of(char *text, struct object_key_value labels[LABELS_MAX])
{
	size_t count = 0;
	char *item;

	while (*text != '\0' && (item = strsep(&text, ",")) != NULL) {
		char *value = strchr(item, '=');

		*value++ = '\0';
		labels[count++] = (struct object_key_value){ item, value, strlen(value) };
		if (text == NULL)
			break;
	}
	return count;
}

/* The longest possible name or value has 63 letters. */
#define LONGEST "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"

static void
a_selector_selects_what_the_api_server_would(void **state)
{
	(void)state;
	static const struct {
		const char *selector, *labels;
		bool selected;
	} rows[] = {
		{ "env=prod", "env=prod", true },
		{ "env=prod", "env=test", false },
		{ "env=prod", "", false },
		{ "env==prod", "env=prod", true },
		{ "env = prod , tier = web", "env=prod,tier=web", true },
		{ "env=prod,tier=web", "env=prod", false },
		{ "env!=prod", "env=test", true },
		{ "env!=prod", "env=prod", false },
		{ "env!=prod", "", true }, /* a missing label counts as another value */
		{ "env in (prod,test)", "env=test", true },
		{ "env in (prod, test)", "env=dev", false },
		{ "env in (prod)", "", false },
		{ "env notin (prod,test)", "env=dev", true },
		{ "env notin (prod,test)", "env=test", false },
		{ "env notin (prod)", "", true },
		{ "env", "env=", true },
		{ "env", "tier=web", false },
		{ "!env", "tier=web", true },
		{ "! env", "env=prod", false },
		{ "env=", "env=", true },
		{ "env=", "env=prod", false },
		{ "env=,tier", "env=,tier=web", true },
		{ "env in ()", "env=", true },
		{ "env in (,prod)", "env=", true },
		{ "env in (prod,)", "env=prod", true },
		{ "in in (in,notin)", "in=notin",
		    /* the keywords are used as key and value */
		    true },
		{ "notin", "notin=1", true },
		{ "example.com/team=a_b.c-d", "example.com/team=a_b.c-d", true },
		{ "example.com/team=a", "team=a", false },
		{ "rank>3", "rank=4", true },
		{ "rank>3", "rank=3", false },
		{ "rank < 3", "rank=2", true },
		{ "rank<3", "rank=low", false },
		{ "rank<3", "", false },
		{ "!env,tier notin (db),team in (a,b)", "tier=web,team=b", true },
		{ "!env,tier notin (db),team in (a,b)", "tier=db,team=b", false },
		{ "env=PROD", "env=prod", false }, /* upper and lower case differ */
		{ "env=" LONGEST, "env=" LONGEST, true },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct object_key_value labels[LABELS_MAX];
		struct label_selector *selector = NULL;
		char text[128], *why;

		strcpy(text, rows[i].labels);
		size_t count = labels_of(text, labels);
		if (label_selector_parse(rows[i].selector, &selector, &why) < 0)
			fail_msg("%s: %s", rows[i].selector, why);
		if (label_selector_matches(selector, labels, count) != rows[i].selected)
			fail_msg("%s of {%s}: %s", rows[i].selector, rows[i].labels,
			    rows[i].selected ? "not selected" : "selected");
		label_selector_free(selector);
	}
}

static void
what_is_no_selector_is_refused_with_the_place(void **state)
{
	(void)state;
	static const struct {
		const char *selector, *why;
	} rows[] = {
		{ "", "key is missing" },
		{ "=prod", "key is missing at \"=prod\"" },
		{ "env=prod,", "key is missing at the end" },
		{ ",env", "key is missing at \",env\"" },
		{ "env=prod tier=web", "comma or the end is needed at \"tier=web\"" },
		{ "env prod", "an operator is needed" },
		{ "env in prod", "in parentheses" },
		{ "env in (prod", "\")\" is missing" },
		{ "env in (a b)", "\")\" is missing" },
		{ "env ~ prod", "an operator is needed" },
		{ "env===prod", "comma or the end" },
		{ "env!", "an operator is needed" },
		{ "!env=prod", "comma or the end" },
		{ "-env", "\"-env\" is not a label's key" },
		{ "a/b/c", "\"a/b/c\" is not a label's key" },
		{ "/b", "\"/b\" is not a label's key" },
		{ "Example.com/b", "is not a label's key" },
		{ "example..com/b", "is not a label's key" },
		{ "env=-prod", "\"-prod\" is not a label's value" },
		{ "env=a/b", "\"a/b\" is not a label's value" },
		{ "env=" LONGEST "a", "is not a label's value" },
		{ LONGEST "." LONGEST "." LONGEST "." LONGEST "/b", "is not a label's key" },
		{ "rank>high", "need an integer" },
		{ "rank>", "need an integer" },
		{ "rank>99999999999999999999", "need an integer" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct label_selector *selector = NULL;
		char *why = NULL;

		if (label_selector_parse(rows[i].selector, &selector, &why) != -EINVAL)
			fail_msg("%s: taken", rows[i].selector);
		if (strstr(why, rows[i].why) == NULL)
			fail_msg("%s: \"%s\", not \"%s\"", rows[i].selector, why, rows[i].why);
		assert_null(selector);
		free(why);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_selector_selects_what_the_api_server_would),
		cmocka_unit_test(what_is_no_selector_is_refused_with_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
