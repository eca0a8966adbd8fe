/*
 * What flags say to people and what people write: --help, the flag that was probably meant, the
 * file that the flags are in, durations in Go's spelling.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/flags.h"
#include "lib/flags_internal.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

enum { HELP_COLUMN = 34 };

const char *
flags_nearest(const struct flag *table, const char *name, size_t len)
{
	const struct flag *const tables[] = { table, flags_common_table };
	struct spelling near = spelling_of(name, len);

	for (size_t t = 0; t < 2; t++)
		for (const struct flag *f = tables[t]; f->name != NULL; f++)
			spelling_try(&near, f->name);
	return near.word;
}

static void
print_flag(const struct flag *f, FILE *out)
{
	const char *dashes = f->name[1] == '\0' ? "-" : "--";

	if (f->help == NULL)
		return;
	int n = fprintf(out, "  %s%s%s%s", dashes, f->name, f->arg != NULL ? "=" : "",
	    f->arg != NULL ? f->arg : "");
	fprintf(out, "%*s%s", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "", f->help);
	if (f->deflt != NULL && *f->deflt != '\0' && f->type != FLAG_IGNORED)
		fprintf(out, " (%s)", f->deflt);
	fputc('\n', out);
}

void
flags_print_help(const struct flag *table, const struct flags_common *common, FILE *out)
{
	fprintf(out, "%s: %s\n\nusage: %s [--flag=value ...]\n\n", common->program, common->summary,
	    common->program);
	for (const struct flag *f = table; f->name != NULL; f++)
		print_flag(f, out);
	fputc('\n', out);
	for (const struct flag *f = flags_common_table; f->name != NULL; f++)
		print_flag(f, out);
	fprintf(out,
	    "\nOne dash or two, `_` for `-`. The other klog flags are accepted without effect.\n"
	    "Exit status: 0 stopped as asked, 1 the system failed, 2 a mistake in flags or "
	    "configuration.\n");
}

/* The last line of `file` that begins with `variable=`, which is the one that systemd takes; 0: none. */
static unsigned
line_that_sets(FILE *file, const char *variable)
{
	size_t len = strlen(variable), room = 0;
	unsigned number = 0, found = 0;
	char *line = NULL;

	while (getline(&line, &room, file) > 0) {
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
		fprintf(out, "%s: the flags should be in %s, as %s=\"...\"; %s\n", common->program,
		    path, variable, file == NULL ? strerror(errno) : "it has no such line");
	if (file != NULL)
		fclose(file);
	free(path);
}

struct unit {
	const char *name;
	long long ns;
};

/* Longer names first where one begins with the other. The micro sign is in Unicode twice, and Go
 * reads both. */
static const struct unit units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "\xc2\xb5s", 1000 },
	{ "\xce\xbcs", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", 60000000000 },
	{ "h", 3600000000000 },
};

static const struct unit *
unit_read(const char **text)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].name);

		if (strncmp(*text, units[i].name, len) == 0) {
			*text += len;
			return &units[i];
		}
	}
	return NULL;
}

/* Adds one number with its unit, such as 1.5h, to `ns`; 0 or -EINVAL (range included: that of an
 * int64_t, as Go's). */
static int
duration_term(const char **text, long long *ns)
{
	long long whole = 0, fraction = 0, scale = 1;
	bool digits = false;
	const char *p = *text;

	for (; isdigit((unsigned char)*p); p++, digits = true)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *p - '0', &whole))
			return -EINVAL;
	if (*p == '.') {
		for (p++; isdigit((unsigned char)*p); p++, digits = true) {
			if (scale < 1000000000) { /* finer than a nanosecond
						   * of any unit up to a second: dropped */
				fraction = fraction * 10 + (*p - '0');
				scale *= 10;
			}
		}
	}
	const struct unit *unit = digits ? unit_read(&p) : NULL;
	if (unit == NULL || __builtin_mul_overflow(whole, unit->ns, &whole))
		return -EINVAL;
	/* fraction < 1e9 and a unit is at most 3.6e12 ns: both parts are multiplied and divided
	 * without overflow */
	long long part = unit->ns / scale * fraction + unit->ns % scale * fraction / scale;
	if (__builtin_add_overflow(*ns, whole, ns) || __builtin_add_overflow(*ns, part, ns))
		return -EINVAL;
	*text = p;
	return 0;
}

int
flags_duration(const char *text, long long *ms)
{
	enum { NS_PER_MS = 1000000 };
	bool negative = *text == '-';
	long long ns = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (strcmp(text, "0") == 0) {
		*ms = 0;
		return 0;
	}
	if (*text == '\0')
		return -EINVAL;
	while (*text != '\0')
		if (duration_term(&text, &ns) < 0)
			return -EINVAL;
	long long rounded = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
	*ms = negative ? -rounded : rounded;
	return 0;
}
