#include "lib/flags_help.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/spelling.h"
#include "lib/xalloc.h"

enum { HELP_COLUMN = 34 };

bool
flags_is_heading(const struct flag *f)
{
	return f->type == FLAG_GROUP || f->type == FLAG_GROUP_FIRST;
}

const char *
flags_nearest(
    const struct flag *table, const struct flag *common_table, const char *name, size_t len)
{
	const struct flag *const tables[] = { table, common_table };
	struct spelling near = spelling_of(name, len);

	for (size_t t = 0; t < 2; t++)
		for (const struct flag *f = tables[t]; f->name != NULL; f++)
			if (!flags_is_heading(f) && f->type != FLAG_ABSENT)
				spelling_try(&near, f->name);
	return near.word;
}

static void
print_flag(const struct flag *f, FILE *out)
{
	const char *dashes = f->name[1] == '\0' ? "-" : "--";

	if (f->help == NULL)
		return;
	int n = fprintf(out, "  %s%s%s%s%s", dashes, f->name,
	    f->arg == NULL             ? ""
	    : f->type == FLAG_OPTIONAL ? "[="
				       : "=",
	    f->arg != NULL ? f->arg : "", f->type == FLAG_OPTIONAL ? "]" : "");
	fprintf(out, "%*s%s", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "", f->help);
	if (f->deflt != NULL && *f->deflt != '\0' && f->type != FLAG_IGNORED)
		fprintf(out, " (%s)", f->deflt);
	fputc('\n', out);
}

/* Prints the groups of `table`. Without `all`, prints only the groups of FLAG_GROUP_FIRST. Flags
 * before the first heading are always printed. Returns how many flags were left out. */
static size_t
print_groups(const struct flag *table, bool all, FILE *out)
{
	bool shown = true;
	size_t left_out = 0;

	for (const struct flag *f = table; f->name != NULL; f++) {
		if (flags_is_heading(f)) {
			shown = all || f->type == FLAG_GROUP_FIRST;
			if (shown)
				fprintf(out, "\n%s:\n", f->name);
		} else if (shown) {
			print_flag(f, out);
		} else {
			left_out += f->help != NULL;
		}
	}
	return left_out;
}

void
flags_print_help(const struct flag *table, const struct flag *common_table,
    const struct flags_common *common, bool all, FILE *out)
{
	fprintf(out, "%s: %s\n\nusage: %s [--flag=value ...]\n", common->program, common->summary,
	    common->program);
	size_t left_out = print_groups(table, all, out);
	if (all && common->keys != NULL) {
		fputs("\nKeys of the ConfigMap, which take effect while the program runs:\n", out);
		for (const char *const *key = common->keys; key[0] != NULL; key += 2)
			fprintf(out, "  %-*s%s\n", HELP_COLUMN - 2, key[0], key[1]);
	}
	fputs("\nCommon to the programs:\n", out);
	print_groups(common_table, true, out);
	if (left_out > 0)
		fprintf(out, "\n%zu more flags: %s --help=all\n", left_out, common->program);
	fputs("\nFlags begin with one dash or two, and may have `_` for `-`. Other klog flags have "
	      "no effect.\nExit status: 0 normal end, 1 system error, 2 mistake in flags or "
	      "configuration.\n",
	    out);
}

/* Returns the number of the last line of `file` that begins with `variable=`, or 0 if there is
 * none. systemd uses the last such line. */
static unsigned
line_that_sets(FILE *file, const char *variable)
{
	size_t len = strlen(variable), capacity = 0;
	unsigned number = 0, found = 0;
	char *line = NULL;

	while (getline(&line, &capacity, file) > 0) {
		const char *name = line + strspn(line, " \t");

		number++;
		if (strncmp(name, variable, len) == 0 && name[len] == '=')
			found = number;
	}
	free(line);
	return found;
}

void
flags_print_origin(const struct flags_common *common, FILE *out)
{
	const char *from = getenv("FLAGS_FROM");
	const char *colon = from == NULL ? NULL : strrchr(from, ':');

	if (colon == NULL)
		return;
	char *path = xstrndup(from, (size_t)(colon - from));
	const char *variable = colon + 1;
	FILE *file = fopen(path, "re");
	unsigned line = file == NULL ? 0 : line_that_sets(file, variable);
	if (line > 0)
		fprintf(
		    out, "%s: the flags are in %s:%u, %s\n", common->program, path, line, variable);
	else
		fprintf(out, "%s: add the flags to %s as %s=\"...\"; %s\n", common->program, path,
		    variable, file == NULL ? strerror(errno) : "it has no such line");
	if (file != NULL)
		fclose(file);
	free(path);
}
