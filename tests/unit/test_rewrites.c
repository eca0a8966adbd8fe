/* The ConfigMap key `rewrites`: the replacement of each name, and texts that are invalid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/rewrites.h"
#include "lib/conf_rewrites.h"
#include "tests/unit/answer_bed.h"
#include "lib/xalloc.h"

/* Returns the name to which `name` is rewritten. Returns "-" if `name` is not rewritten, and
 * "limit" if a pattern reaches its limit. If the text is invalid, returns '!' and the reason. */
static const char *
rewritten(const char *text, const char *name)
{
	static char out[DNAME_TEXT_MAX + 8];
	struct name_buf buf;
	struct conf_rewrites conf;
	struct rewrites *rewrites = NULL;
	struct dname asked, to;
	char *why = NULL;
	int rc = conf_rewrites_parse(text, strlen(text), &conf, &why);

	if (rc == 0) {
		rc = rewrites_new(&conf, 3, &rewrites, &why);
		conf_rewrites_free(&conf);
	}
	if (rc < 0) {
		assert_non_null(why);
		snprintf(out, sizeof out, "!%s", why);
		free(why);
		return out;
	}
	assert_null(why);
	assert_int_equal(dname_from_text(&asked, name), 0);
	struct name cut = name_copy(&buf, asked.wire, asked.len);
	enum rewrite_outcome outcome =
	    rewrites == NULL ? REWRITE_NONE : rewrites_apply(rewrites, &cut, &to);
	strcpy(out, outcome == REWRITE_LIMIT ? "limit" : "-");
	if (outcome == REWRITE_DONE)
		dname_to_text(to.wire, out);
	rewrites_free(rewrites);
	return out;
}

static void
each_name_is_rewritten_once_or_not_at_all(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name, *want;
	} rows[] = {
		{ "exact a.example b.example", "a.example.", "b.example." },
		{ "exact A.Example. B.Example.", "a.example.", "b.example." },
		{ "exact a.example b.example", "x.a.example.", "-" },
		{ "exact a b\nexact b c", "a.", "b." },
		{ "suffix old new.example", "old.", "new.example." },
		{ "suffix old new.example", "x.y.old.", "x.y.new.example." },
		{ "suffix old new.example", "xold.", "-" },
		{ "suffix old one\nsuffix b.old two", "a.b.old.", "a.two." },
		{ "suffix b.old two\nsuffix old one", "a.b.old.", "a.two." },
		{ "suffix old new\nexact a.old b.example", "a.old.", "b.example." },
		{ "regex a\\.(.+) {1}.b\nexact a.example c", "a.example.", "c." },
		{ "regex (.+)\\.(.+)\\.example {2}.{1}.test", "a.b.example.", "b.a.test." },
		/* The pattern must match the whole name. */
		{ "regex (.+)\\.example {1}", "x.example.org.", "-" },
		{ "regex a b.example\nregex (.) c.example", "a.", "b.example." },
		{ "regex (x)?a {1}b.example", "a.", "b.example." }, /* the group matches nothing */
		{ "regex a {5}b.example", "a.", "b.example." },
		/* If all names of a pattern have the same literal end, this end is checked first. */
		{ "regex (.+)\\.old\\.example {1}.new", "x.old.example.", "x.new." },
		{ "regex (.+)\\.old\\.example {1}.new", "x.old-example.", "-" },
		{ "regex a\\.b|c\\.d x.y", "a.b.", "x.y." },
		{ "regex a\\.x\\d new", "a.x1.", "new." },
		{ "regex a\\.\\x62c new", "a.bc.", "new." },
		{ "regex a\\x2ebc new", "a.bc.", "new." },
		{ "regex a\\d\\.bc new", "a1.bc.", "new." },
		{ "regex a\\\\.c new", "a\\\\b.c.", "-" }, /* a backslash, then any character */
		{ "regex (?i)(.+)\\.B {1}.new", "a.b.", "a.new." },
		{ "regex \\Qa.b\\E\\.c new", "a.b.c.", "new." },
		{ "regex [a-c]+\\.ab* new", "c.abb.", "new." },
		{ "regex a {x}.example", "a.", "{x}.example." },
		{ "regex a ..", "a.", "-" }, /* the result is not a name */
		{ "regex a .", "a.", "-" },
		{ "regex (A) b", "a.", "-" }, /* names are in lower case */
		{ "regex (a|aa)+[xy] b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.",
		    "limit" },
		{ "regex (a|aa)+[xy] b\nregex a+ c",
		    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.", "c." },
		{ "# exact a b\n\n\texact  a\tc  \r\n", "a.", "c." },
		{ "null", "a.", "-" },
		{ "exact a", "a.", "!line 1: \"exact\": must be followed by the queried name" },
		{ "exact a b c", "a.", "!line 1: \"c\": is one word too many" },
		{ "\nprefix a b", "a.", "!line 2: \"prefix\": not exact, suffix or regex" },
		{ "exact -a b", "a.", "!line 1: \"-a\": not a domain name" },
		{ "exact a . ", "a.", "!line 1: \".\": the root" },
		{ "exact a b\nexact A c", "a.", "!\"a.\": has two rewrites" },
		{ "exact a b\nsuffix a c", "a.", "b." },
		{ "regex (a b", "a.", "!line 1: the pattern, at character 3: missing closing" },
		{ "regex \\C b", "a.", "!line 1: the pattern" },
		{ "", "a.", "-" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const char *got = rewritten(rows[i].text, rows[i].name);
		bool refused = rows[i].want[0] == '!';

		if (refused ? strncmp(got, rows[i].want, strlen(rows[i].want)) != 0
			    : strcmp(got, rows[i].want) != 0)
			fail_msg("\"%s\" of \"%s\":\n  %s\nwant\n  %s", rows[i].name, rows[i].text,
			    got, rows[i].want);
	}
}

static void
a_name_that_would_be_too_long_is_not_rewritten(void **state)
{
	(void)state;
	char name[DNAME_TEXT_MAX] = "", text[1200];

	for (unsigned i = 0; i < 3; i++)
		strcat(name, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.");
	snprintf(text, sizeof text, "suffix old %slong.example", name);
	strcat(name, "old.");
	assert_string_equal(rewritten(text, name), "-");
}

/* If a replacement is not a name, the search list continues with the original name. */
static void
replacement_that_is_no_name_leaves_the_caller_s_name_as_it_was(void **state)
{
	static const char *const patterns[] = { "regex a ..", "regex a .",
		"regex a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b" };
	struct name_buf buf;
	const struct name name = name_copy(&buf, (const uint8_t *)"\1a", 3);

	(void)state;
	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
		struct dname to = { .len = 0 }, before;
		struct conf_rewrites conf;
		struct rewrites *rewrites;
		char *why;

		assert_int_equal(
		    conf_rewrites_parse(patterns[i], strlen(patterns[i]), &conf, &why), 0);
		assert_int_equal(rewrites_new(&conf, 3, &rewrites, &why), 0);
		assert_int_equal(dname_from_text(&to, "www.example.org"), 0);
		before = to;
		assert_int_equal(rewrites_apply(rewrites, &name, &to), REWRITE_NONE);
		assert_int_equal(to.len, before.len);
		assert_memory_equal(to.wire, before.wire, before.len);
		rewrites_free(rewrites);
		conf_rewrites_free(&conf);
	}
}

/* The worst case within the limits. For the longest possible name, each pattern reaches its limit. */
static void
all_patterns_together_take_a_bounded_time(void **state)
{
	(void)state;
	struct name_buf buf;
	char text[4096] = "", label[64], line[64];
	struct conf_rewrites conf;
	struct rewrites *rewrites;
	struct dname asked = { .len = 1 }, to;
	char *why;

	for (unsigned i = 0; i < CONF_PATTERNS_MAX; i++) {
		snprintf(line, sizeof line, "regex ((a|aa)*|.)*[x%u] b\n", i % 10);
		strcat(text, line);
	}
	memset(label, 'a', sizeof label);
	for (unsigned i = 0; i < 3; i++)
		dname_prepend(&asked, label, 63);
	struct name name = name_copy(&buf, asked.wire, asked.len);
	assert_int_equal(conf_rewrites_parse(text, strlen(text), &conf, &why), 0);
	assert_int_equal(rewrites_new(&conf, 3, &rewrites, &why), 0);
	/* without a limit, 32 exponential patterns would take years */
	assert_int_equal(rewrites_apply(rewrites, &name, &to), REWRITE_LIMIT);
	rewrites_free(rewrites);
	conf_rewrites_free(&conf);
}

/* dnsmasq forwards a name to the servers of its closest domain. */
static void
name_comes_back_unless_a_stub_domain_is_closer_than_a_rewritten_one(void **state)
{
	static const struct {
		const char *rewrites, *stub, *name; /* `stub` may have several stub domains */
		bool want;
	} rows[] = {
		{ "suffix old new.old", NULL, "a.new.old.", true },
		{ "suffix old new.old", "new.old.", "a.new.old.", false },
		{ "suffix old new.old", "old.", "a.new.old.", false },
		{ "suffix new.old x", "old.", "a.new.old.", true },
		{ "suffix new.old x", "old. x. b.a.new.old.", "a.new.old.", true },
		{ "suffix new.old x", "old. a.new.old. x. new.old.", "a.new.old.", false },
		/* The last bytes of the name equal the stub domain, but its last labels do not. */
		{ "suffix old new.old", "b.new.old.", "a\\001b.new.old.", true },
		{ "suffix old new.old", "b.new.old. new.old.", "a\\001b.new.old.", false },
		{ "suffix old new.old", "b.new.old.", "a.b.new.old.", false },
		{ "suffix old new", NULL, "a.new.", false }, /* the name would not be rewritten */
		{ "exact a.old b.old", "old.", "a.old.", true },
		/* If `exact` rewrites a name in a stub domain, the names below it stay with the
		 * stub domain. */
		{ "exact old x\nregex (.+) y.{1}", "corp.", "a.old.", true },
		{ "exact old.corp x\nregex (.+) y.{1}", "corp.", "a.old.corp.", false },
		{ "exact old.corp x\nregex (.+) y.{1}\nsuffix corp z", "x.", "a.old.corp.", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct answer_context *context = bed_context(rows[i].rewrites, "null");
		struct name_buf buf;
		uint8_t stubs[4 * DNAME_MAX];
		uint32_t order[4]; /* each row has its stub domains in the order of their bytes */
		char text[64], *rest = text, *word;
		struct dname name, stub;

		snprintf(text, sizeof text, "%s", rows[i].stub != NULL ? rows[i].stub : "");
		context->stubs = stubs;
		context->stubs_len = 0;
		context->stub_order = order;
		context->stub_count = 0;
		while ((word = strtok_r(rest, " ", &rest)) != NULL) {
			assert_int_equal(dname_from_text(&stub, word), 0);
			order[context->stub_count++] = (uint32_t)context->stubs_len;
			memcpy(stubs + context->stubs_len, stub.wire, stub.len);
			context->stubs_len += stub.len;
		}
		assert_int_equal(dname_from_text(&name, rows[i].name), 0);
		struct name cut = name_copy(&buf, name.wire, name.len);
		if (rewrites_come_back(context, &cut) != rows[i].want)
			fail_msg("row %zu: \"%s\", %s", i, rows[i].rewrites, rows[i].name);
		rewrites_free(bed.rewrites);
		bed.rewrites = NULL;
	}
}

static bool
is_authoritative(void)
{
	return wire_get16(bed.out + 2) & FLAG_AA;
}

/* The servers of the replacement answer. Their replies get the name in the query. */
static void
answers_of_other_servers_have_no_aa_and_their_denials_a_soa_of_the_asked_name(void **state)
{
	static const char soa[] = "example. 60 SOA ns.example. root.example. 1 2 3 4 20";

	(void)state;
	bed_service("out", SERVICE_EXTERNALNAME, "www.example.net", "");
	bed_context(
	    "exact a.example b.example\nexact o.example out.default.svc.cluster.local", "null");
	bed_publish();
	bed_expect("a.example.", "A", "CHASE b.example.");
	assert_string_equal(
	    bed_told("NOERROR", "b.example. 60 A 192.0.2.1", ""), "NOERROR A 192.0.2.1");
	assert_false(is_authoritative());
	bed_ask("a.example.", "A");
	assert_string_equal(bed_told("NXDOMAIN", "", soa), "NXDOMAIN SOA of a.example.");
	assert_false(is_authoritative());
	size_t at = DNS_HEADER + (size_t)bed.info.query.question_len;
	assert_int_equal(wire_get32(bed.out + at + 6), 20); /* the MINIMUM of the SOA */
	bed_ask("a.example.", "AAAA");
	assert_string_equal(bed_told("NOERROR", "", soa), "NOERROR SOA of a.example.");
	/* Here the negative answer is about the target of a CNAME, which is another name. */
	bed_ask("a.example.", "AAAA");
	assert_string_equal(bed_told("NOERROR", "b.example. 60 CNAME c.example.", soa),
	    "NOERROR CNAME c.example. SOA of example.");
	bed_expect("o.example.", "A", "CHASE www.example.net.");
	assert_string_equal(bed_told("NOERROR", "www.example.net. 60 A 192.0.2.1", ""),
	    "NOERROR CNAME www.example.net., www.example.net.: A 192.0.2.1");
	assert_true(is_authoritative()); /* the CNAME is ours */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_name_is_rewritten_once_or_not_at_all),
		cmocka_unit_test(a_name_that_would_be_too_long_is_not_rewritten),
		cmocka_unit_test(replacement_that_is_no_name_leaves_the_caller_s_name_as_it_was),
		cmocka_unit_test(all_patterns_together_take_a_bounded_time),
		cmocka_unit_test_setup_teardown(
		    name_comes_back_unless_a_stub_domain_is_closer_than_a_rewritten_one, bed_begin,
		    bed_end),
		cmocka_unit_test_setup_teardown(
		    answers_of_other_servers_have_no_aa_and_their_denials_a_soa_of_the_asked_name,
		    bed_begin, bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
