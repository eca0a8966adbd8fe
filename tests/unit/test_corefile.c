/* The words, lines, blocks and imports of a Corefile, and the errors that end reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "migrate/corefile.h"
#include "lib/xalloc.h"

static char got[1 << 16];
static struct corefile_error error;

static size_t
print_line(size_t at, const char *before, const struct corefile_line *line)
{
	at += (size_t)snprintf(got + at, sizeof got - at, "%s%u", before, line->line);
	for (size_t i = 0; i < line->count; i++)
		at += (size_t)snprintf(got + at, sizeof got - at, " <%s>", line->words[i]);
	return at;
}

/* There are two files: "one" contains a directive, "two" a block. */
static size_t
import(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	const char *text = strcmp(pattern, "one") == 0 ? "log\n" : "two.example {\n any\n}\n";

	(void)arg, (void)from;
	if (strcmp(pattern, "one") != 0 && strcmp(pattern, "two") != 0)
		return 0;
	*texts = xcalloc(1, sizeof **texts);
	(*texts)[0] = (struct corefile_text){
		.name = xstrdup(pattern), .text = xstrdup(text), .len = strlen(text)
	};
	return 1;
}

/* Returns the blocks as "[LINE <key>|LINE <word>{LINE <word>}...]", and the notes as "(LINE <what>
 * <sentence>)". */
static const char *
read_text(const char *text)
{
	struct corefile c;
	size_t at = 0;

	got[0] = '\0';
	int rc = corefile_read(&c, "Corefile", text, strlen(text), import, NULL, &error);
	for (size_t i = 0; rc == 0 && i < c.count; i++) {
		at = print_line(at, "[", &c.blocks[i].keys);
		for (size_t k = 0; k < c.blocks[i].count; k++) {
			const struct corefile_directive *d = &c.blocks[i].directives[k];

			at = print_line(at, "|", &d->head);
			for (size_t n = 0; n < d->body_count; n++)
				at = print_line(at, n ? ";" : "{", &d->body[n]);
			at += (size_t)snprintf(
			    got + at, sizeof got - at, "%s", d->body_count ? "}" : "");
		}
		at += (size_t)snprintf(got + at, sizeof got - at, "]");
	}
	for (size_t i = 0; rc == 0 && i < c.note_count; i++)
		at += (size_t)snprintf(
		    got + at, sizeof got - at, "(%u <%s>)", c.notes[i].line, c.notes[i].what);
	if (rc < 0)
		snprintf(got, sizeof got, "%u: %s", error.line, error.reason);
	corefile_free(&c);
	return got;
}

static void
words_are_parted_by_blanks_and_held_by_quotes(void **state)
{
	(void)state;
	assert_string_equal(
	    read_text("\xef\xbb\xbf. {\r\n a\t\"b c\" \"d\\\"e\" f\"g #h\n i#j\n}\n"),
	    "[1 <.>|2 <a> <b c> <d\"e> <f\"g>|3 <i#j>]");
	assert_string_equal(
	    read_text(". {\n a \"b\nc\" d\n e\n}"), "[1 <.>|2 <a> <b\nc> <d>|4 <e>]");
	assert_string_equal(read_text(". {\n a \"b"), "2: the brace of . at line 1 is not closed");
}

static void
keys_may_go_on_after_a_comma_and_braces_may_be_left_out(void **state)
{
	(void)state;
	assert_string_equal(read_text("a, b:53,\nc d {\n x\n}\n"), "[1 <a> <b:53> <c> <d>|3 <x>]");
	assert_string_equal(read_text(".:53\nerrors\nlog\n"), "[1 <.:53>|2 <errors>|3 <log>]");
	assert_string_equal(read_text("a {\n}\nb {\n}\n"), "[1 <a>][3 <b>]");
	assert_string_equal(read_text(""), "");
	assert_string_equal(read_text("# nothing\n"), "");
}

static void
a_directive_ends_with_its_line_or_its_block(void **state)
{
	(void)state;
	assert_string_equal(read_text("a {\n x 1 {\n  y 2\n  z {\n   w\n  }\n }\n v\n}\n"),
	    "[1 <a>|2 <x> <1>{3 <y> <2>;4 <z>;5 <w>}|8 <v>]");
}

static void
imports_are_read_in_their_place(void **state)
{
	(void)state;
	assert_string_equal(
	    read_text("(s) {\n x\n y\n}\na {\n import s\n z\n}\n"), "[5 <a>|2 <x>|3 <y>|7 <z>]");
	assert_string_equal(read_text("a {\n import one\n x\n}\nimport two\n"),
	    "[1 <a>|1 <log>|3 <x>][1 <two.example>|2 <any>]");
	assert_string_equal(
	    read_text("(s) {\n x\n}\n(t) {\n import s\n import s\n}\na {\n import t\n}\n"),
	    "[8 <a>|2 <x>|2 <x>]");
	assert_string_equal(read_text("a {\n x {\n  import one\n }\n import none\n}\n"),
	    "[1 <a>|2 <x>{1 <log>}](5 <none>)");
	assert_string_equal(read_text("a {\n x import one\n}\n"), "[1 <a>|2 <x> <import> <one>]");
}

static void
variables_of_the_environment_are_replaced(void **state)
{
	(void)state;
	setenv("COREFILE_ZONE", "z.example", 1);
	unsetenv("COREFILE_NONE");
	assert_string_equal(
	    read_text(
		"{$COREFILE_ZONE}:53 {\n a {%COREFILE_ZONE%}x{$COREFILE_NONE}y {$ {\n }\n}\n"),
	    "[1 <z.example:53>|2 <a> <z.examplex{$COREFILE_NONE}y> <{$>]");
	char *name = corefile_unset("x{$COREFILE_NONE}y");
	assert_string_equal(name, "COREFILE_NONE");
	free(name);
	assert_null(corefile_unset("{%x} { $y} {{ .Name }}"));
}

static void
what_is_wrong_has_its_line(void **state)
{
	(void)state;
	assert_string_equal(read_text("a {\n x\n"), "2: the brace of a at line 1 is not closed");
	assert_string_equal(read_text("a {\n x {\n"), "2: x at line 2: its brace is not closed");
	assert_string_equal(read_text("a {\n}\n}\n"), "3: closing brace without an opening brace");
	assert_string_equal(read_text("{\n}\n"), "1: brace without a zone before it");
	assert_string_equal(read_text("(s) {\n x\n"), "2: the brace of snippet (s) is not closed");
	assert_string_equal(read_text("a {\n import\n}\n"), "3: import: needs a file or a snippet");
	assert_string_equal(
	    read_text("a {\n import *?\n}\n"), "2: import *?: has more than one wildcard");
	assert_string_equal(read_text("(s) {\n import s\n}\na {\n import s\n}\n"),
	    "2: imports are nested deeper than 16: does one of them import itself?");
}

/* Returns four megabytes of comments. They contain no words to count. */
static size_t
import_comment(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	char *text = xmalloc(COREFILE_BYTES_MAX);

	(void)arg, (void)from;
	memset(text, '#', COREFILE_BYTES_MAX);
	*texts = xcalloc(1, sizeof **texts);
	(*texts)[0] = (struct corefile_text){
		.name = xstrdup(pattern), .text = text, .len = COREFILE_BYTES_MAX
	};
	return 1;
}

static void
what_is_imported_and_named_has_bounds(void **state)
{
	(void)state;
	char *text = NULL;
	size_t len = 0;
	struct corefile c;
	FILE *f = open_memstream(&text, &len);
	for (int i = 0; i < 20; i++)
		fprintf(f, "import comment\n");
	fclose(f);
	assert_true(corefile_read(&c, "Corefile", text, len, import_comment, NULL, &error) < 0);
	assert_string_equal(error.reason, "import comment: more than 67108864 bytes imported");
	assert_int_equal(error.line, 17);
	corefile_free(&c);
	free(text);
	f = open_memstream(&text, &len);
	for (int i = 0; i <= COREFILE_SNIPPETS_MAX; i++)
		fprintf(f, "(s%d) {\n}\n", i);
	fclose(f);
	assert_string_equal(read_text(text), "2001: more than 1000 snippets");
	free(text);
}

static double
seconds_for(size_t count)
{
	const char line[] = " forward {$COREFILE_NONE} \"x y\" {\n  a\n }\n";
	size_t len = 4 + count * (sizeof line - 1);
	char *text = xmalloc(len + 1);

	memcpy(text, ". {\n", 4);
	for (size_t i = 0; i < count; i++)
		memcpy(text + 4 + i * (sizeof line - 1), line, sizeof line - 1);
	text[len] = '\0';
	struct corefile c;
	struct timespec begin, end;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	corefile_read(&c, "Corefile", text, len, NULL, NULL, &error);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	corefile_free(&c);
	free(text);
	return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* Sixteen times as much text takes about sixteen times as long. With quadratic cost, it would take
 * 256 times as long. */
static void
time_is_linear_in_the_text(void **state)
{
	(void)state;
	seconds_for(2000);
	double small = seconds_for(2000), large = seconds_for(32000);
	assert_true(large < 100 * small + 0.05);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_parted_by_blanks_and_held_by_quotes),
		cmocka_unit_test(keys_may_go_on_after_a_comma_and_braces_may_be_left_out),
		cmocka_unit_test(a_directive_ends_with_its_line_or_its_block),
		cmocka_unit_test(imports_are_read_in_their_place),
		cmocka_unit_test(variables_of_the_environment_are_replaced),
		cmocka_unit_test(what_is_wrong_has_its_line),
		cmocka_unit_test(what_is_imported_and_named_has_bounds),
		cmocka_unit_test(time_is_linear_in_the_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
