#include "lib/flags.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/duration.h"
#include "lib/flags_help.h"
#include "lib/own_loopback.h"
#include "lib/version.h"
#include "lib/xalloc.h"

/* Flags of klog and glog. They have no effect, because the programs always log to stderr. `arg` is
 * NULL for booleans, as in every table. */
static const struct flag klog_flags[] = {
	{ .name = "vmodule", .type = FLAG_IGNORED, .arg = "PATTERN=N,..." },
	{ .name = "logtostderr", .type = FLAG_IGNORED },
	{ .name = "alsologtostderr", .type = FLAG_IGNORED },
	{ .name = "alsologtostderrthreshold", .type = FLAG_IGNORED, .arg = "N" },
	{ .name = "stderrthreshold", .type = FLAG_IGNORED, .arg = "N" },
	{ .name = "legacy-stderr-threshold-behavior", .type = FLAG_IGNORED },
	{ .name = "log-dir", .type = FLAG_IGNORED, .arg = "DIR" },
	{ .name = "log-file", .type = FLAG_IGNORED, .arg = "FILE" },
	{ .name = "log-file-max-size", .type = FLAG_IGNORED, .arg = "N" },
	{ .name = "log-link", .type = FLAG_IGNORED, .arg = "DIR" },
	{ .name = "logbuflevel", .type = FLAG_IGNORED, .arg = "N" },
	{ .name = "log-backtrace-at", .type = FLAG_IGNORED, .arg = "FILE:N" },
	{ .name = "log-flush-frequency", .type = FLAG_IGNORED, .arg = "DURATION" },
	{ .name = "skip-headers", .type = FLAG_IGNORED },
	{ .name = "skip-log-headers", .type = FLAG_IGNORED },
	{ .name = "add-dir-header", .type = FLAG_IGNORED },
	{ .name = "one-output", .type = FLAG_IGNORED },
	{ .name = NULL },
};

/* The flags that every program has. flags_parse() copies their values from here to struct
 * flags_common. */
struct common_options {
	bool version, check;
	char *help, *log_format, *sandbox;
	long verbosity;
};

static const struct flag common_table[] = {
	{ "check", FLAG_BOOL, offsetof(struct common_options, check), NULL, NULL,
	    .help = "check flags and configuration, print mistakes, exit 0 or 2" },
	{ "log-format", FLAG_STRING, offsetof(struct common_options, log_format), "text",
	    "text|json", .help = "format of log lines" },
	{ "sandbox", FLAG_STRING, offsetof(struct common_options, sandbox), "on", "on|off|log",
	    .help = "drop unneeded rights after startup; log: only log violations" },
	{ "v", FLAG_INT, offsetof(struct common_options, verbosity), "0", "N",
	    .help = "log level; 4 and above: debug lines" },
	{ "version", FLAG_BOOL, offsetof(struct common_options, version), NULL, NULL,
	    .help = "print the version and exit" },
	{ "help", FLAG_OPTIONAL, offsetof(struct common_options, help), NULL, "all",
	    .help = "print the most important flags, or all of them, and exit" },
	{ .name = NULL },
};

struct parse {
	const struct flag *table;
	void *options;
	struct flags_common *common;
	struct common_options own;
	struct flag_list ignored; /* as typed; one warning names all of them */
};

/* Whether the names are equal. `-` and `_` count as equal characters. `name` is not
 * NUL-terminated. */
static bool
name_equal(const char *flag, const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char a = flag[i] == '_' ? '-' : flag[i];
		char b = name[i] == '_' ? '-' : name[i];

		if (a == '\0' || a != b)
			return false;
	}
	return flag[len] == '\0';
}

const struct flag *
flags_find(const struct flag *table, const char *name, size_t len)
{
	for (const struct flag *f = table; f->name != NULL; f++)
		if (!flags_is_heading(f) && name_equal(f->name, name, len))
			return f;
	return NULL;
}

/* Finds a flag. A program's own flag takes precedence over a common flag of the same name. `base`
 * gets the structure of its value. */
static const struct flag *
flag_find(struct parse *p, const char *name, size_t len, void **base)
{
	const struct flag *f = flags_find(p->table, name, len);

	*base = p->options;
	if (f == NULL) {
		*base = &p->own;
		f = flags_find(common_table, name, len);
	}
	if (f == NULL)
		f = flags_find(klog_flags, name, len);
	return f;
}

static void
list_add(struct flag_list *list, const char *item, size_t len)
{
	list->items = xreallocarray(list->items, list->count + 1, sizeof *list->items);
	list->items[list->count++] = xstrndup(item, len);
}

static void
list_clear(struct flag_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct flag_list){ 0 };
}

/* Splits at commas. Removes blanks around items, and empty items. */
static void
list_split(struct flag_list *list, const char *text)
{
	while (*text != '\0') {
		size_t len = strcspn(text, ",");
		const char *begin = text, *end = text + len;

		while (begin < end && *begin == ' ')
			begin++;
		while (end > begin && end[-1] == ' ')
			end--;
		if (end > begin)
			list_add(list, begin, (size_t)(end - begin));
		text += len + (text[len] == ',');
	}
}

static const char *
parse_bool(const char *text, bool *value)
{
	/* The words that Go's strconv.ParseBool accepts. */
	static const char *const yes[] = { "1", "t", "T", "true", "TRUE", "True" };
	static const char *const no[] = { "0", "f", "F", "false", "FALSE", "False" };

	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*value = strcmp(text, yes[i]) == 0;
			return NULL;
		}
	}
	return "true or false";
}

static const char *
parse_long(const char *text, long *value, long min, long max, const char *expected)
{
	char *end = NULL;

	if (*text != '-' && *text != '+' && !isdigit((unsigned char)*text))
		return expected;
	errno = 0;
	long n = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || n < min || n > max)
		return expected;
	*value = n;
	return NULL;
}

static const char *
parse_duration(const char *text, int64_t *value, const char *deflt)
{
	long long ms = 0, deflt_ms = 0;

	if (duration_parse(text, &ms) < 0)
		return "a duration such as 10s, 1m30s or 500ms";
	if (ms < 0 && (deflt == NULL || duration_parse(deflt, &deflt_ms) < 0 || deflt_ms >= 0))
		return "a duration of 0 or more";
	*value = ms;
	return NULL;
}

/* Stores `text` as the flag's value. Returns NULL, or a description of valid values. */
static const char *
flag_set(const struct flag *f, void *base, const char *text)
{
	char *at = flags_value(f, base);

	switch (f->type) {
	case FLAG_STRING:
	case FLAG_OPTIONAL:
		free(*(char **)(void *)at);
		*(char **)(void *)at = xstrdup(text);
		return NULL;
	case FLAG_BOOL:
		return parse_bool(text, (bool *)at);
	case FLAG_INT:
		return parse_long(text, (long *)(void *)at, LONG_MIN, LONG_MAX, "a whole number");
	case FLAG_PORT:
		return parse_long(text, (long *)(void *)at, 0, 65535, "a port, 0 to 65535");
	case FLAG_DURATION:
		return parse_duration(text, (int64_t *)(void *)at, f->deflt);
	case FLAG_LIST:
		list_split((struct flag_list *)(void *)at, text);
		return NULL;
	case FLAG_REPEAT:
		list_add((struct flag_list *)(void *)at, text, strlen(text));
		return NULL;
	case FLAG_GROUP:
	case FLAG_GROUP_FIRST:
	case FLAG_IGNORED:
	case FLAG_ABSENT:
	case FLAG_CHOICE:
	case FLAG_SWITCH:
	case FLAG_SIZE:
	case FLAG_SERVER:
		return NULL; /* flags_check() sets the values of the last four types */
	}
	return NULL;
}

static bool
flag_is_boolean(const struct flag *f)
{
	return f->type == FLAG_BOOL || (f->type == FLAG_IGNORED && f->arg == NULL);
}

static bool
flag_is_string(const struct flag *f)
{
	return f->type == FLAG_STRING || f->type == FLAG_OPTIONAL;
}

bool
flags_is_list(const struct flag *f)
{
	return f->type == FLAG_LIST || f->type == FLAG_REPEAT;
}

static void
set_defaults(const struct flag *table, void *base)
{
	for (const struct flag *f = table; f->name != NULL; f++) {
		if (f->type == FLAG_IGNORED || f->type == FLAG_ABSENT || flags_is_heading(f))
			continue;
		char *at = flags_value(f, base);
		const char *deflt = f->deflt;

		if (flag_is_string(f))
			*(char **)(void *)at = NULL;
		else if (flags_is_list(f))
			*(struct flag_list *)(void *)at = (struct flag_list){ 0 };
		if (deflt == NULL && !flags_is_list(f))
			deflt = flag_is_string(f) ? "" : f->type == FLAG_BOOL ? "false" : "0";
		if (deflt != NULL) {
			const char *wrong = flag_set(f, base, deflt);

			assert(wrong == NULL);
			(void)wrong;
		}
	}
}

/* Returns the flag's index among the given flags, or SIZE_MAX if it was not given. */
static size_t
given_at(const struct flags_common *common, const char *name)
{
	for (size_t i = 0; i < common->set.count; i++)
		if (name_equal(common->set.items[i], name, strlen(name)))
			return i;
	return SIZE_MAX;
}

void *
flags_value(const struct flag *f, void *options)
{
	return (char *)(f->base != NULL ? f->base : options) + f->offset;
}

bool
flags_given(const struct flags_common *common, const char *name)
{
	return given_at(common, name) != SIZE_MAX;
}

const char *
flags_text(const struct flag *f, const struct flags_common *common)
{
	size_t at = given_at(common, f->name);

	return at != SIZE_MAX ? common->texts.items[at] : f->deflt != NULL ? f->deflt : "";
}

/* The first use of a list flag on the command line replaces its default; further uses append. */
static const char *
flag_give(struct parse *p, const struct flag *f, void *base, const char *value)
{
	size_t at = given_at(p->common, f->name);
	bool first = at == SIZE_MAX;

	if (first && flags_is_list(f))
		list_clear(flags_value(f, base));
	if (first) {
		list_add(&p->common->set, f->name, strlen(f->name));
		list_add(&p->common->texts, value, strlen(value));
	} else {
		assert(at < p->common->texts.count); /* one text for each name of `set` */
		free(p->common->texts.items[at]);
		p->common->texts.items[at] = xstrdup(value);
	}
	if (f->type == FLAG_IGNORED && first)
		list_add(&p->ignored, f->name, strlen(f->name));
	return flag_set(f, base, value);
}

static int
mistake_value(
    const struct parse *p, const char *typed, size_t len, const char *value, const char *expected)
{
	fprintf(stderr, "%s: %.*s: \"%s\" is not %s\n", p->common->program, (int)len, typed, value,
	    expected);
	return -EINVAL;
}

static int
mistake_unknown(
    const struct parse *p, const char *typed, size_t typed_len, const char *name, size_t len)
{
	const char *near = flags_nearest(p->table, common_table, name, len);

	fprintf(stderr, "%s: unknown flag %.*s", p->common->program, (int)typed_len, typed);
	if (near != NULL)
		fprintf(stderr, " (did you mean --%s?)", near);
	if (p->common->unknown_hint != NULL)
		fprintf(stderr, "; %s", p->common->unknown_hint);
	fputc('\n', stderr);
	return -EINVAL;
}

static int
mistake_absent(const struct parse *p, const struct flag *f)
{
	fprintf(stderr, "%s: --%s: not in this build, which is without the module %s\n",
	    p->common->program, f->name, f->arg);
	return -EINVAL;
}

/* Reads an argument that starts with '-', and the next argument if it is the value. Returns how
 * many arguments were read, or -EINVAL. */
static int
parse_flag(struct parse *p, const char *arg, const char *next)
{
	const char *name = arg + (arg[1] == '-' ? 2 : 1);
	size_t len = strcspn(name, "=");
	size_t typed = (size_t)(name - arg) + len;
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	void *base = NULL;

	const struct flag *f = flag_find(p, name, len, &base);
	if (f == NULL && name == arg + 1 && *name == 'v' && len > 1 &&
	    strspn(name + 1, "0123456789") == len - 1) {
		f = flag_find(p, "v", 1, &base); /* pflag's -v4 */
		value = name + 1;
	}
	if (f == NULL && name_equal("h", name, len))
		f = flag_find(p, "help", strlen("help"), &base);
	if (f == NULL)
		return mistake_unknown(p, arg, typed, name, len);
	if (f->type == FLAG_ABSENT)
		return mistake_absent(p, f);
	int used = 1;
	if (value == NULL && f->type == FLAG_OPTIONAL) {
		value = "";
	} else if (value == NULL && flag_is_boolean(f)) {
		value = "true";
	} else if (value == NULL) {
		if (next == NULL) {
			fprintf(
			    stderr, "%s: %s needs a value: %s\n", p->common->program, arg, f->arg);
			return -EINVAL;
		}
		value = next;
		used = 2;
	}
	if (base == &p->own && strcmp(f->name, "version") == 0 && strcmp(value, "raw") == 0)
		value = "true"; /* Kubernetes' --version=raw */
	const char *expected = flag_give(p, f, base, value);
	return expected == NULL ? used : mistake_value(p, arg, typed, value, expected);
}

static int
parse_arguments(struct parse *p, int argc, char **argv)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') {
		if (strcmp(argv[i], "--") == 0) {
			p->common->rest_after_dashes = true;
			i++;
			break;
		}
		int used = parse_flag(p, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
		if (used < 0)
			return used;
		i += used;
	}
	p->common->rest = i;
	return 0;
}

static int
take_sandbox(struct parse *p)
{
	static const char *const modes[] = {
		[SANDBOX_ON] = "on", [SANDBOX_OFF] = "off", [SANDBOX_LOG] = "log"
	};

	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (strcmp(p->own.sandbox, modes[i]) == 0) {
			p->common->sandbox = (enum sandbox_mode)i;
			return 0;
		}
	return mistake_value(p, "--sandbox", strlen("--sandbox"), p->own.sandbox, "on, off or log");
}

static int
take_common(struct parse *p)
{
	assert(p->own.log_format != NULL); /* the table has a default */
	if (strcmp(p->own.log_format, "json") == 0)
		p->common->log_format = LOG_FORMAT_JSON;
	else if (strcmp(p->own.log_format, "text") == 0)
		p->common->log_format = LOG_FORMAT_TEXT;
	else
		return mistake_value(
		    p, "--log-format", strlen("--log-format"), p->own.log_format, "text or json");
	if (take_sandbox(p) < 0)
		return -EINVAL;
	p->common->check = p->own.check;
	p->common->verbosity = (int)(p->own.verbosity > INT_MAX ? INT_MAX
				     : p->own.verbosity < 0     ? 0
								: p->own.verbosity);
	return 0;
}

/* Prints the requested help: "" or "all". */
static int
help(struct parse *p)
{
	assert(p->own.help != NULL); /* the table's default */
	bool all = strcmp(p->own.help, "all") == 0;

	if (!all && *p->own.help != '\0')
		return mistake_value(p, "--help", strlen("--help"), p->own.help, "all");
	flags_print_help(p->table, common_table, p->common, all, stdout);
	return 0;
}

static void
warn_ignored(const struct flag_list *ignored)
{
	char *names = xstrdup("");

	if (ignored->count > 0) {
		for (size_t i = 0; i < ignored->count; i++) {
			char *more =
			    xasprintf("%s%s--%s", names, i > 0 ? ", " : "", ignored->items[i]);

			free(names);
			names = more;
		}
		log_warnx("flags: accepted without effect: %s", names);
	}
	free(names);
}

void
flags_say_usage(const struct flags_common *common)
{
	flags_print_origin(common, stderr);
	fprintf(stderr, "usage: %s [--flag=value ...]; %s --help=all lists the flags\n",
	    common->program, common->program);
}

int
flags_parse(
    const struct flag *table, void *options, struct flags_common *common, int argc, char **argv)
{
	struct parse p = { .table = table, .options = options, .common = common };

	common->set = common->texts = (struct flag_list){ 0 };
	common->rest_after_dashes = false;
	set_defaults(table, options);
	set_defaults(common_table, &p.own);
	for (int i = 1; i < argc; i++)
		if (strstr(argv[i], "own-loopback") != NULL)
			argv[i] = own_loopback_expand(argv[i]); /* kept as long as argv itself */

	int rc = parse_arguments(&p, argc, argv);
	if (rc == 0 && flags_given(common, "help")) {
		rc = help(&p);
		if (rc == 0)
			exit(EXIT_SUCCESS);
	}
	if (rc == 0 && p.own.version) {
		printf("%s %s\n%s", common->program, suite_version,
		    common->built_in != NULL ? common->built_in : "");
		exit(EXIT_SUCCESS);
	}
	if (rc == 0)
		rc = take_common(&p);
	if (rc == 0) {
		log_init(common->program, common->log_format, common->verbosity);
		warn_ignored(&p.ignored);
	} else {
		flags_say_usage(common);
	}
	list_clear(&p.ignored);
	free(p.own.help);
	free(p.own.log_format);
	free(p.own.sandbox);
	return rc;
}

void
flags_free(const struct flag *table, void *options, struct flags_common *common)
{
	for (const struct flag *f = table; f->name != NULL; f++) {
		char *at = flags_value(f, options);

		if (flag_is_string(f)) {
			free(*(char **)(void *)at);
			*(char **)(void *)at = NULL;
		} else if (flags_is_list(f)) {
			list_clear((struct flag_list *)(void *)at);
		}
	}
	list_clear(&common->set);
	list_clear(&common->texts);
}
