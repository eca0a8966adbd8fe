#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/addr.h"
#include "lib/flags.h"
#include "lib/xalloc.h"

int
flags_refuse(const char *flag, const char *value, const char *why)
{
	if (value == NULL)
		log_errorx("--%s: %s", flag, why);
	else
		log_errorx("--%s: \"%s\": %s", flag, value, why);
	return -EINVAL;
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

/* Writes a size such as 64k, 2M or 1G, with the largest unit that divides it. */
static void
format_size(int64_t bytes, char text[32])
{
	static const char units[] = "kMG";
	size_t unit = 0;

	for (bytes /= 1024; bytes >= 1024 && bytes % 1024 == 0 && unit < 2; unit++)
		bytes /= 1024;
	snprintf(text, 32, "%lld%c", (long long)bytes, units[unit]);
}

/*
 * Parses a memory size in bytes, or with the unit k, M or G. The unit may be in either case, and
 * may end in an i. All units are powers of 1,024, although Kubernetes's k, M and G are powers of
 * 1,000. Returns 0 or -EINVAL. For a size above FLAGS_SIZE_MOST, the result is some value above
 * FLAGS_SIZE_MOST.
 */
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
	void *at = flags_value(f, base);

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

/* Whether the flag was given and its value differs from the default. A list is in use if it has an item. */
static bool
in_use(const struct flag *f, const void *options, const struct flags_common *common)
{
	const char *at = (const char *)(f->base != NULL ? f->base : options) + f->offset;

	if (!flags_given(common, f->name))
		return false;
	if (f->type == FLAG_OPTIONAL)
		return true;
	if (f->type == FLAG_BOOL)
		return *(const bool *)at;
	if (flags_is_list(f))
		return ((const struct flag_list *)(const void *)at)->count > 0;
	return strcmp(flags_text(f, common), f->deflt == NULL ? "" : f->deflt) != 0;
}

/* Whether one of the flags of a rule, separated by `|`, is in use. */
static bool
any_in_use(const struct flag *table, const void *options, const struct flags_common *common,
    const char *names)
{
	for (size_t len; *names != '\0'; names += len + (names[len] == '|')) {
		len = strcspn(names, "|");
		const struct flag *f = flags_find(table, names, len);
		assert(f != NULL);
		if (in_use(f, options, common))
			return true;
	}
	return false;
}

/* Writes `a|b` as "--a or --b"; caller frees. */
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

/* Refuses the flag, because of the flags of a rule. `relation` is "needs" or "not with". */
static int
refuse_relation(const struct flag *f, const struct flags_common *common, const char *relation,
    const char *flags, const char *text)
{
	char *names = names_text(flags);
	char *why = xasprintf("%s %s: %s", relation, names, text);
	int rc = flags_refuse(f->name, f->type == FLAG_BOOL ? NULL : flags_text(f, common), why);

	free(why);
	free(names);
	return rc;
}

/* Refuses the flag for each other flag in use that has the property. */
static int
check_property(const struct flag *table, const void *options, const struct flag *f,
    const struct flags_common *common, const char *property)
{
	int rc = 0;

	for (const struct flag *g = table; g->name != NULL; g++)
		for (const struct flag_rule *r = g->rules; r != NULL && r->why != NULL; r++)
			if (r->has != NULL && strcmp(r->has, property) == 0 &&
			    in_use(g, options, common))
				rc = refuse_relation(f, common, "not with", g->name, r->why);
	return rc;
}

static int
check_rules(const struct flag *table, const void *options, const struct flag *f,
    const struct flags_common *common)
{
	int rc = 0;

	if (f->rules == NULL || !in_use(f, options, common))
		return 0;
	for (const struct flag_rule *r = f->rules; r->why != NULL; r++) {
		if (r->needs != NULL && !any_in_use(table, options, common, r->needs))
			rc = refuse_relation(f, common, "needs", r->needs, r->why);
		if (r->excludes != NULL && any_in_use(table, options, common, r->excludes))
			rc = refuse_relation(f, common, "not with", r->excludes, r->why);
		if (r->excludes_all != NULL &&
		    check_property(table, options, f, common, r->excludes_all) < 0)
			rc = -EINVAL;
	}
	return rc;
}

int
flags_check(const struct flag *table, void *options, const struct flags_common *common)
{
	int rc = 0;

	for (const struct flag *f = table; f->name != NULL; f++)
		if (check_value(f, options, flags_text(f, common)) < 0)
			rc = -EINVAL;
	for (const struct flag *f = table; f->name != NULL; f++)
		if (check_rules(table, options, f, common) < 0)
			rc = -EINVAL;
	return rc;
}
