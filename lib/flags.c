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

#include "lib/addr.h"
#include "lib/own_loopback.h"
#include "lib/spelling.h"
#include "lib/version.h"
#include "lib/xalloc.h"

/* --check, --log-format, -v, --version, --help. */
extern const struct flag flags_common_table[];

/* The flag of `table` or the common ones that is most like the unknown `name` of `len` bytes, or
 * NULL if none is. */
static const char *flags_nearest(const struct flag *table, const char *name, size_t len);

/* Writes --help: the program's flags, then the common ones, in the order of the tables. */
static void flags_print_help(
    const struct flag *table, const struct flags_common *common, FILE *out);

/*
 * Where the flags were written, if the environment's FLAGS_FROM says it as `FILE:VARIABLE` (an
 * EnvironmentFile of systemd.exec(5)): one line on `out` with the file and the number of the line
 * that sets the variable. Nothing without FLAGS_FROM.
 */
static void flags_print_origin(const struct flags_common *common, FILE *out);

/* Flags of klog and glog. We log on stderr whatever they say; `arg` is NULL for booleans, as in
 * every table. */
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

/* The flags that every program has; their values live in struct common_options until they are taken
 * over. */
struct common_options {
	bool help, version, check;
	char *log_format, *sandbox;
	long verbosity;
};

const struct flag flags_common_table[] = {
	{ "check", FLAG_BOOL, offsetof(struct common_options, check), NULL, NULL,
	    .help = "read everything, say what is wrong, exit 0 or 2" },
	{ "log-format", FLAG_STRING, offsetof(struct common_options, log_format), "text",
	    "text|json", .help = "the form of log lines" },
	{ "sandbox", FLAG_STRING, offsetof(struct common_options, sandbox), "on", "on|off|log",
	    .help =
		"give up after the start what is not needed; log: have the kernel log it only" },
	{ "v", FLAG_INT, offsetof(struct common_options, verbosity), "0", "N",
	    .help = "log level; debug lines from 4 on" },
	{ "version", FLAG_BOOL, offsetof(struct common_options, version), NULL, NULL,
	    .help = "print the version and exit" },
	{ "help", FLAG_BOOL, offsetof(struct common_options, help), NULL, NULL,
	    .help = "print this list and exit" },
	{ "h", FLAG_BOOL, offsetof(struct common_options, help), NULL, NULL, .help = NULL },
	{ .name = NULL },
};

struct parse {
	const struct flag *table;
	void *options;
	struct flags_common *common;
	struct common_options own;
	struct flag_list ignored; /* as typed, for the one warning */
};

/* `name` is not NUL-terminated. `-` and `_` are the same letter. */
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

static const struct flag *
table_find(const struct flag *table, const char *name, size_t len)
{
	for (const struct flag *f = table; f->name != NULL; f++)
		if (f->type != FLAG_GROUP && name_equal(f->name, name, len))
			return f;
	return NULL;
}

/* A program's own flag comes before a common one of the same name; `base` is where its value
 * lives. */
static const struct flag *
flag_find(struct parse *p, const char *name, size_t len, void **base)
{
	const struct flag *f = table_find(p->table, name, len);

	*base = p->options;
	if (f == NULL) {
		*base = &p->own;
		f = table_find(flags_common_table, name, len);
	}
	if (f == NULL)
		f = table_find(klog_flags, name, len);
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

/* Items between commas, blanks around them and empty ones left out. */
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
	/* The spellings of Go's strconv.ParseBool. */
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

	if (flags_duration(text, &ms) < 0)
		return "a duration such as 10s, 1m30s or 500ms";
	if (ms < 0 && (deflt == NULL || flags_duration(deflt, &deflt_ms) < 0 || deflt_ms >= 0))
		return "a duration of 0 or more";
	*value = ms;
	return NULL;
}

/* Stores `text` as the flag's value; NULL, or what would have been accepted. */
static const char *
flag_set(const struct flag *f, void *base, const char *text)
{
	char *at = (char *)base + f->offset;

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
	case FLAG_IGNORED:
	case FLAG_CHOICE:
	case FLAG_SWITCH:
	case FLAG_SIZE:
	case FLAG_SERVER:
		return NULL; /* flags_check() sets the last four */
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

static bool
flag_is_list(const struct flag *f)
{
	return f->type == FLAG_LIST || f->type == FLAG_REPEAT;
}

static void
set_defaults(const struct flag *table, void *base)
{
	for (const struct flag *f = table; f->name != NULL; f++) {
		if (f->type == FLAG_IGNORED || f->type == FLAG_GROUP)
			continue;
		char *at = (char *)base + f->offset;
		const char *deflt = f->deflt;

		if (flag_is_string(f))
			*(char **)(void *)at = NULL;
		else if (flag_is_list(f))
			*(struct flag_list *)(void *)at = (struct flag_list){ 0 };
		if (deflt == NULL && !flag_is_list(f))
			deflt = flag_is_string(f) ? "" : f->type == FLAG_BOOL ? "false" : "0";
		if (deflt != NULL) {
			const char *wrong = flag_set(f, base, deflt);

			assert(wrong == NULL);
			(void)wrong;
		}
	}
}

/* The place of the flag among those given; SIZE_MAX: it was not. */
static size_t
given_at(const struct flags_common *common, const char *name)
{
	for (size_t i = 0; i < common->set.count; i++)
		if (name_equal(common->set.items[i], name, strlen(name)))
			return i;
	return SIZE_MAX;
}

static bool
is_given(const struct flags_common *common, const char *name)
{
	return given_at(common, name) != SIZE_MAX;
}

bool
flags_given(const struct flags_common *common, const char *name)
{
	return is_given(common, name);
}

/* The first use of a list on the command line replaces its default; further ones append. */
static const char *
flag_give(struct parse *p, const struct flag *f, void *base, const char *value)
{
	size_t at = given_at(p->common, f->name);
	bool first = at == SIZE_MAX;

	if (first && flag_is_list(f))
		list_clear((struct flag_list *)(void *)((char *)base + f->offset));
	if (first) {
		list_add(&p->common->set, f->name, strlen(f->name));
		list_add(&p->common->texts, value, strlen(value));
	} else {
		assert(at < p->common->texts.count); /* a text for each name of `set` */
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
	const char *near = flags_nearest(p->table, name, len);

	fprintf(stderr, "%s: unknown flag %.*s", p->common->program, (int)typed_len, typed);
	if (near != NULL)
		fprintf(stderr, " (did you mean --%s?)", near);
	if (p->common->unknown_hint != NULL)
		fprintf(stderr, "; %s", p->common->unknown_hint);
	fputc('\n', stderr);
	return -EINVAL;
}

/* One argument that starts with '-', and its value if that is the next one: how many arguments were
 * read, or -EINVAL. */
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
	if (f == NULL)
		return mistake_unknown(p, arg, typed, name, len);
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
	assert(p->own.log_format != NULL); /* the table's default */
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
	fprintf(stderr, "usage: %s [--flag=value ...]; %s --help lists the flags\n",
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
	set_defaults(flags_common_table, &p.own);
	for (int i = 1; i < argc; i++)
		if (strstr(argv[i], "own-loopback") != NULL)
			argv[i] = own_loopback_expand(argv[i]); /* kept as long as argv itself */

	int rc = parse_arguments(&p, argc, argv);
	if (rc == 0 && p.own.help) {
		flags_print_help(table, common, stdout);
		exit(EXIT_SUCCESS);
	}
	if (rc == 0 && p.own.version) {
		printf("%s %s\n", common->program, suite_version);
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
	free(p.own.log_format);
	free(p.own.sandbox);
	return rc;
}

void
flags_free(const struct flag *table, void *options, struct flags_common *common)
{
	for (const struct flag *f = table; f->name != NULL; f++) {
		char *at = (char *)options + f->offset;

		if (flag_is_string(f)) {
			free(*(char **)(void *)at);
			*(char **)(void *)at = NULL;
		} else if (flag_is_list(f)) {
			list_clear((struct flag_list *)(void *)at);
		}
	}
	list_clear(&common->set);
	list_clear(&common->texts);
}

/* --- values and rules that are checked together --- */

int
flags_refuse(const char *flag, const char *value, const char *why)
{
	if (value == NULL)
		log_errorx("--%s: %s", flag, why);
	else
		log_errorx("--%s: \"%s\": %s", flag, value, why);
	return -EINVAL;
}

/* The flag's value as typed, or its default. */
static const char *
text_of(const struct flag *f, const struct flags_common *common)
{
	size_t at = given_at(common, f->name);

	return at != SIZE_MAX ? common->texts.items[at] : f->deflt != NULL ? f->deflt : "";
}

static int
check_choice(const struct flag *f, const char *text, int *value)
{
	const char *words = f->words != NULL ? f->words : f->arg;
	char *why = xstrdup("must be "), *more;
	int place = 0;

	for (const char *word = words;; place++) {
		size_t len = strcspn(word, "|");

		if (strncmp(word, text, len) == 0 && text[len] == '\0')
			break;
		bool last = word[len] == '\0', next_last = strchr(word + len + !last, '|') == NULL;
		more = xasprintf("%s%.*s%s", why, (int)len, word,
		    last        ? ""
		    : next_last ? " or "
				: ", ");
		free(why);
		why = more;
		if (last) {
			flags_refuse(f->name, text, why);
			free(why);
			return -EINVAL;
		}
		word += len + 1;
	}
	free(why);
	*value = place;
	return 0;
}

static int
check_switch(const struct flag *f, const char *text, bool *value)
{
	*value = strcmp(text, "on") == 0;
	return *value || strcmp(text, "off") == 0
		   ? 0
		   : flags_refuse(f->name, text, "must be on or off");
}

/* 64k, 2M, 1G: the largest unit that divides it. */
static void
format_size(int64_t bytes, char text[32])
{
	static const char units[] = "kMG";
	size_t unit = 0;

	for (bytes /= 1024; bytes >= 1024 && bytes % 1024 == 0 && unit < 2; unit++)
		bytes /= 1024;
	snprintf(text, 32, "%lld%c", (long long)bytes, units[unit]);
}

/* A size of memory: bytes, or k, M or G in either case, with or without an i. All are powers of 1,024, although
 * Kubernetes's own k, M and G are powers of 1,000. 0, or -EINVAL. A size of more than FLAGS_SIZE_MOST comes out
 * as more than FLAGS_SIZE_MOST. */
static int
parse_size(const char *text, size_t *bytes)
{
	static const char letters[] = "kmg";
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (*end != '\0') {
		const char *unit = strchr(letters, *end | 0x20);

		if (unit == NULL || (strcmp(end + 1, "") != 0 && strcmp(end + 1, "i") != 0))
			return -EINVAL;
		for (const char *u = letters; u <= unit; u++)
			n = n > FLAGS_SIZE_MOST ? n : n * 1024;
	}
	*bytes = errno != 0 || n > SIZE_MAX ? SIZE_MAX : (size_t)n;
	return 0;
}

static int
check_size(const struct flag *f, const char *text, size_t *value)
{
	bool off = strstr(f->arg, "off") != NULL;
	char least[32], most[32];

	*value = 0;
	if ((*text == '\0' && (f->deflt == NULL || *f->deflt == '\0')) ||
	    (off && strcmp(text, "off") == 0))
		return 0;
	if (parse_size(text, value) == 0 && *value >= (size_t)f->min && *value <= (size_t)f->max)
		return 0;
	*value = 0;
	format_size(f->min, least);
	format_size(f->max, most);
	char *why = xasprintf("must be %sa size from %s to %s", off ? "off, or " : "", least, most);
	flags_refuse(f->name, text, why);
	free(why);
	return -EINVAL;
}

static int
check_server(const struct flag *f, const char *text, struct server *server)
{
	const char *why;

	*server = (struct server){ 0 };
	if (*text == '\0')
		return 0;
	if (server_parse(text, 53, server, &why) < 0) {
		*server = (struct server){ 0 };
		return flags_refuse(f->name, text, why);
	}
	return 0;
}

static int
check_long(const struct flag *f, const char *text, int64_t value)
{
	bool duration = f->type == FLAG_DURATION;

	if ((f->min == 0 && f->max == 0) || (value >= f->min && (duration || value <= f->max)))
		return 0;
	char *why = duration ? xasprintf("must be at least %lld ms", (long long)f->min)
			     : xasprintf("must be a number from %lld to %lld", (long long)f->min,
				   (long long)f->max);
	flags_refuse(f->name, text, why);
	free(why);
	return -EINVAL;
}

static int
check_value(const struct flag *f, void *base, const char *text)
{
	void *at = (char *)base + f->offset;

	switch (f->type) {
	case FLAG_CHOICE:
		return check_choice(f, text, at);
	case FLAG_SWITCH:
		return check_switch(f, text, at);
	case FLAG_SIZE:
		return check_size(f, text, at);
	case FLAG_SERVER:
		return check_server(f, text, at);
	case FLAG_INT:
		return check_long(f, text, *(long *)at);
	case FLAG_DURATION:
		return check_long(f, text, *(int64_t *)at);
	default:
		return 0;
	}
}

/* Whether the flag was given with another value than its default. */
static bool
in_use(const struct flag *f, const struct flags_common *common)
{
	bool value = true;

	if (!is_given(common, f->name))
		return false;
	if (f->type == FLAG_OPTIONAL)
		return true;
	const char *text = text_of(f, common);
	if (f->type == FLAG_BOOL)
		return parse_bool(text, &value) == NULL && value;
	return strcmp(text, f->deflt == NULL ? "" : f->deflt) != 0;
}

/* Whether one of the flags of a rule, separated by `|`, is in use. */
static bool
any_in_use(const struct flag *table, const struct flags_common *common, const char *names)
{
	for (size_t len; *names != '\0'; names += len + (names[len] == '|')) {
		len = strcspn(names, "|");
		const struct flag *f = table_find(table, names, len);
		assert(f != NULL);
		if (in_use(f, common))
			return true;
	}
	return false;
}

/* `a|b` as "--a or --b"; caller frees. */
static char *
names_text(const char *names)
{
	char *text = xstrdup("");

	for (size_t len; *names != '\0'; names += len + (names[len] == '|')) {
		len = strcspn(names, "|");
		char *more =
		    xasprintf("%s%s--%.*s", text, *text == '\0' ? "" : " or ", (int)len, names);
		free(text);
		text = more;
	}
	return text;
}

static int
check_rules(const struct flag *table, const struct flag *f, const struct flags_common *common)
{
	const char *text = f->type == FLAG_BOOL ? NULL : text_of(f, common);
	int rc = 0;

	for (const struct flag_rule *r = f->rules; r != NULL && r->why != NULL; r++) {
		bool wrong = r->needs != NULL ? !any_in_use(table, common, r->needs)
					      : any_in_use(table, common, r->excludes);

		if (!wrong || !in_use(f, common))
			continue;
		char *names = r->needs != NULL ? names_text(r->needs) : names_text(r->excludes);
		char *why =
		    xasprintf("%s %s: %s", r->needs != NULL ? "needs" : "not with", names, r->why);
		rc = flags_refuse(f->name, text, why);
		free(why);
		free(names);
	}
	return rc;
}

int
flags_check(const struct flag *table, void *options, const struct flags_common *common)
{
	int rc = 0;

	for (const struct flag *f = table; f->name != NULL; f++)
		if (check_value(f, options, text_of(f, common)) < 0)
			rc = -EINVAL;
	for (const struct flag *f = table; f->name != NULL; f++)
		if (check_rules(table, f, common) < 0)
			rc = -EINVAL;
	return rc;
}

/* --- help and messages --- */

/*
 * What flags say to people and what people write: --help, the flag that was probably meant, the
 * file that the flags are in, durations in Go's spelling.
 */

enum { HELP_COLUMN = 34 };

static const char *
flags_nearest(const struct flag *table, const char *name, size_t len)
{
	const struct flag *const tables[] = { table, flags_common_table };
	struct spelling near = spelling_of(name, len);

	for (size_t t = 0; t < 2; t++)
		for (const struct flag *f = tables[t]; f->name != NULL; f++)
			if (f->type != FLAG_GROUP)
				spelling_try(&near, f->name);
	return near.word;
}

static void
print_flag(const struct flag *f, FILE *out)
{
	const char *dashes = f->name[1] == '\0' ? "-" : "--";

	if (f->type == FLAG_GROUP)
		fprintf(out, "\n%s:\n", f->name);
	if (f->help == NULL)
		return;
	int n = fprintf(out, "  %s%s%s%s", dashes, f->name, f->arg != NULL ? "=" : "",
	    f->arg != NULL ? f->arg : "");
	fprintf(out, "%*s%s", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "", f->help);
	if (f->deflt != NULL && *f->deflt != '\0' && f->type != FLAG_IGNORED)
		fprintf(out, " (%s)", f->deflt);
	fputc('\n', out);
}

static void
flags_print_help(const struct flag *table, const struct flags_common *common, FILE *out)
{
	fprintf(out, "%s: %s\n\nusage: %s [--flag=value ...]\n\n", common->program, common->summary,
	    common->program);
	for (const struct flag *f = table; f->name != NULL; f++)
		print_flag(f, out);
	if (common->keys != NULL)
		fputs("\nKeys of the ConfigMap, which take effect while the program runs:\n", out);
	for (const char *const *key = common->keys; key != NULL && key[0] != NULL; key += 2)
		fprintf(out, "  %-*s%s\n", HELP_COLUMN - 2, key[0], key[1]);
	fputs("\nCommon to the programs:\n", out);
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

static void
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
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
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
