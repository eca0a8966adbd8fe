#include "migrate/pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"

/* What an element of an expression matches. */
enum kind {
	OTHER,     /* text that may be empty, or may contain the final dot of the name */
	SOLID,     /* text that does not end with a dot, at least one character */
	DOT,       /* one dot */
	MAYBE_DOT, /* one dot or nothing */
	ANY,       /* any text */
	BEGIN,     /* the begin of the name */
	END,       /* the end of the name, after the final dot */
	EMPTY,     /* nothing: a word boundary */
	SETTINGS,  /* nothing: (?i) */
};

struct element {
	enum kind kind;
	const char *text;
	unsigned group; /* for ANY in a group of its own: the group's number, else 0 */
};

struct reader {
	const char *at;
	unsigned groups;
	bool bad; /* syntax that PCRE2 and Go may read differently, or that is not understood */
};

/* The depth of groups that are read. */
enum { DEPTH_MAX = 20 };

static bool
skip(struct reader *r, const char *text)
{
	size_t len = strlen(text);

	if (strncmp(r->at, text, len) != 0)
		return false;
	r->at += len;
	return true;
}

/* Skips a quantifier. Returns how often the element must occur: 1 without a quantifier. */
static unsigned long
skip_quantifier(struct reader *r, bool *quantified)
{
	unsigned long least = 1;
	const char *begin = r->at;

	if (*r->at == '*' || *r->at == '?') {
		least = 0;
		r->at++;
	} else if (*r->at == '+') {
		r->at++;
	} else if (*r->at == '{') {
		size_t digits = strspn(r->at + 1, "0123456789"), more = 0;

		least = strtoul(r->at + 1, NULL, 10);
		r->at += 1 + digits;
		if (digits > 0 && skip(r, ","))
			more = strspn(r->at, "0123456789");
		r->at += more;
		/* Go takes other text for a literal. */
		r->bad = r->bad || digits == 0 || digits > 4 || more > 4 || !skip(r, "}");
	}
	*quantified = r->at != begin;
	if (*quantified)
		skip(r, "?");
	r->bad = r->bad || (*quantified && *r->at != '\0' && strchr("*+?{", *r->at) != NULL);
	return least;
}

/* Reads [...]: DOT for a dot alone, SOLID if the class does not have the dot. */
static enum kind
read_class(struct reader *r)
{
	static const char *const without[] = { "[:alnum:]", "[:alpha:]", "[:digit:]", "[:lower:]",
		"[:upper:]", "[:xdigit:]", "[:word:]", NULL };
	bool negated = skip(r, "^"), dot = false, unknown = false;
	size_t count = 0;

	for (; *r->at != '\0' && (*r->at != ']' || count == 0); count++) {
		size_t i = 0;

		if (*r->at == '[') {
			while (without[i] != NULL && !skip(r, without[i]))
				i++;
			r->bad = r->bad || without[i] == NULL;
			if (r->bad)
				return OTHER;
			continue;
		}
		bool escaped = skip(r, "\\");
		unsigned char low = (unsigned char)*r->at, high = low;
		if (low == '\0')
			break;
		r->at++;
		if (escaped && isalnum(low)) {
			unknown = unknown || strchr("DWS", low) != NULL;
			r->bad = r->bad || strchr("dDwWsS", low) == NULL;
			continue;
		}
		if (*r->at == '-' && r->at[1] != ']' && r->at[1] != '\0') {
			r->at++;
			skip(r, "\\");
			high = (unsigned char)*r->at;
			if (high != '\0')
				r->at++;
		}
		dot = dot || (low <= '.' && '.' <= high);
		count += high != low;
	}
	r->bad = r->bad || !skip(r, "]");
	if (!negated && dot && count == 1 && !unknown)
		return DOT;
	return unknown || dot != negated ? OTHER : SOLID;
}

static enum kind
read_escape(struct reader *r)
{
	char c = *r->at;

	if (c == '\0') {
		r->bad = true;
		return OTHER;
	}
	r->at++;
	switch (c) {
	case '.':
		return DOT;
	case 'd':
	case 'w':
	case 's':
		return SOLID;
	case 'D':
	case 'W':
	case 'S':
		return OTHER;
	case 'b':
		return EMPTY;
	case 'A':
		return BEGIN;
	case 'z':
		return END;
	default:
		r->bad = r->bad || isalnum((unsigned char)c);
		return SOLID;
	}
}

/* Skips what follows `(`. Returns SETTINGS for `(?i)`, which is no group. Sets `*number` to the group's number, or to 0. */
static enum kind
begin_group(struct reader *r, unsigned *number)
{
	*number = 0;
	if (!skip(r, "?")) {
		*number = ++r->groups;
		return OTHER;
	}
	if (skip(r, "P<") || skip(r, "<")) {
		size_t len = 0;

		while (isalnum((unsigned char)r->at[len]) || r->at[len] == '_')
			len++;
		r->at += len;
		r->bad = r->bad || len == 0 || !skip(r, ">");
		*number = ++r->groups;
		return OTHER;
	}
	r->at += strspn(r->at, "is");
	if (skip(r, ")"))
		return SETTINGS;
	r->bad = r->bad || !skip(r, ":");
	return OTHER;
}

static struct element read_element(struct reader *r, unsigned depth);

/* Reads a group up to its end: ANY for .* alone, SOLID if each alternative ends with an element of this kind. */
static enum kind
read_group(struct reader *r, unsigned depth)
{
	static const char *const any[] = { ".*?)", ".+?)", ".*)", ".+)", NULL };
	enum kind last = EMPTY;
	bool solid = true;

	for (size_t i = 0; any[i] != NULL; i++)
		if (skip(r, any[i]))
			return ANY;
	r->bad = r->bad || depth >= DEPTH_MAX;
	while (!r->bad && *r->at != ')' && *r->at != '\0') {
		if (skip(r, "|")) {
			solid = solid && last == SOLID;
			last = EMPTY;
			continue;
		}
		last = read_element(r, depth + 1).kind;
		/* Inside of a group, the end of the name and settings are not understood. */
		r->bad = r->bad || last == END || last == SETTINGS;
	}
	r->bad = r->bad || !skip(r, ")");
	return solid && last == SOLID ? SOLID : OTHER;
}

static struct element
read_element(struct reader *r, unsigned depth)
{
	struct element e = { .kind = SOLID, .text = r->at };
	char c = *r->at++;
	bool quantified;
	unsigned groups = r->groups;

	if (c == '(') {
		e.kind = begin_group(r, &e.group);
		if (e.kind != SETTINGS)
			e.kind = read_group(r, depth);
	} else if (c == '[') {
		e.kind = read_class(r);
	} else if (c == '\\') {
		e.kind = read_escape(r);
	} else if (c == '.') {
		e.kind = OTHER;
	} else if (c == '^') {
		e.kind = BEGIN;
	} else if (c == '$') {
		e.kind = END;
	} else {
		r->bad = r->bad || strchr("*+?{)", c) != NULL || (c & 0x80) != 0;
	}
	bool without_text = e.kind >= BEGIN, star = *r->at == '*' || *r->at == '+',
	     question = *r->at == '?';
	unsigned long least = skip_quantifier(r, &quantified);
	if (quantified) {
		/* PCRE2 and Go differ in what a repeated group contains at the end. */
		r->bad = r->bad || without_text || (r->groups > groups && !question);
		e.kind = c == '.' && star               ? ANY
			 : e.kind == DOT && question    ? MAYBE_DOT
			 : e.kind == SOLID && least > 0 ? SOLID
							: OTHER;
	}
	if (e.kind != ANY)
		e.group = 0;
	return e;
}

/* Whether `to` contains the text of this group. */
static bool
uses(const char *to, unsigned group)
{
	char text[16];

	snprintf(text, sizeof text, "{%u}", group);
	return strstr(to, text) != NULL;
}

/* Whether kubedns reads each {N} of the replacement as CoreDNS does. */
static bool
groups_fit(const char *to, unsigned groups)
{
	for (const char *p = strchr(to, '{'); p != NULL; p = strchr(p + 1, '{')) {
		size_t digits = strspn(p + 1, "0123456789");

		/* {0} is the match in CoreDNS, and the whole name in kubedns. */
		if (digits > 0 && p[1 + digits] == '}' &&
		    (digits > 1 || p[1] == '0' || (unsigned)(p[1] - '0') > groups))
			return false;
	}
	return true;
}

/* One of the alternatives at the top of an expression. */
struct alternative {
	struct element first; /* without SETTINGS */
	/* The last elements, the last one first. EMPTY stands for the begin of the alternative. */
	struct element last[3];
	const char *end;
	bool has_settings, has_end; /* has_end: before the last element */
};

static struct alternative
read_alternative(struct reader *r)
{
	struct element none = { .kind = BEGIN, .text = r->at };
	struct alternative a = { .first = none, .last = { none, none, none } };
	size_t count = 0;

	while (!r->bad && *r->at != '\0' && *r->at != '|') {
		struct element e = read_element(r, 0);

		if (e.kind == SETTINGS) {
			r->bad = r->bad || count > 0 || a.has_settings;
			a.has_settings = true;
			a.first.text = a.last[0].text = r->at;
			continue;
		}
		a.has_end = a.has_end || a.last[0].kind == END;
		if (count++ == 0)
			a.first = e;
		memmove(a.last + 1, a.last, 2 * sizeof *a.last);
		a.last[0] = e;
	}
	a.end = r->at;
	return a;
}

/* Finds how the alternative ends. Sets `*tail` to what replaces the text from `a->end` on. */
static enum pattern_outcome
end_of(struct alternative *a, const char *to, bool alone, const char **tail)
{
	const struct element *e = a->last;
	bool ended = e->kind == END;

	if (a->has_end)
		return PATTERN_UNKNOWN;
	if (ended)
		a->end = (e++)->text;
	*tail = "";
	if (ended && e->kind == SOLID)
		return PATTERN_NOTHING; /* the name ends with a dot */
	if (ended && e->kind == DOT) {
		a->end = e->text;
		return PATTERN_SAME;
	}
	if (e->kind == MAYBE_DOT) {
		a->end = (e++)->text;
		*tail = ended ? "" : ".*";
		return e->kind == SOLID ? PATTERN_SAME : PATTERN_UNKNOWN;
	}
	if (e->kind == ANY) { /* its text also has the final dot */
		bool some = memchr(e->text, '+', (size_t)(a->end - e->text)) != NULL;

		if ((e->group > 0 && (uses(to, e->group) || !alone)) || (some && e[1].kind == DOT))
			return PATTERN_UNKNOWN;
		a->end = (e++)->text;
	} else if (ended) {
		return PATTERN_UNKNOWN;
	}
	*tail = ".*";
	if (e->kind == DOT) {
		a->end = e->text;
		*tail = "(?:\\..*)?";
		return PATTERN_SAME;
	}
	return e->kind == SOLID || e->kind == BEGIN ? PATTERN_SAME : PATTERN_UNKNOWN;
}

/* Writes the only alternative, which may be tried at the begin of the name only. */
static void
write_alone(FILE *f, const struct alternative *a, const char *begin, const char *tail)
{
	const char *from = a->first.text;
	bool anchored = from < a->end && a->first.kind == BEGIN;

	fprintf(f, "%.*s", (int)(from - begin), begin); /* the settings */
	if (anchored)
		from += *from == '\\' ? 2 : 1;
	else if (from < a->end && a->first.kind != ANY)
		fputs(".*?", f);
	fprintf(f, "%.*s%s", (int)(a->end - from), from, tail);
}

enum pattern_outcome
pattern_translate(const char *expression, const char *to, char **whole)
{
	struct reader r = { .at = expression };
	bool alone = true, written = false, unknown = false;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (const char *begin = expression; !unknown; begin = ++r.at) {
		unsigned groups = r.groups;
		struct alternative a = read_alternative(&r);
		const char *tail;

		alone = alone && *r.at == '\0';
		enum pattern_outcome outcome = end_of(&a, to, alone, &tail);
		unknown = r.bad || outcome == PATTERN_UNKNOWN || (a.has_settings && !alone);
		/* The groups of other alternatives keep their numbers. */
		unknown = unknown || (outcome == PATTERN_NOTHING && !alone && r.groups > groups);
		if (!unknown && outcome == PATTERN_SAME && alone) {
			write_alone(f, &a, begin, tail);
			written = true;
		} else if (!unknown && outcome == PATTERN_SAME) {
			fprintf(f, "%s%.*s%s", written ? "|" : ".*?(?:", (int)(a.end - begin),
			    begin, tail);
			written = true;
		}
		if (*r.at == '\0')
			break;
	}
	if (!alone && written)
		fputc(')', f);
	fclose(f);
	*whole = NULL;
	if (!unknown && len > 0 && groups_fit(to, r.groups)) {
		*whole = text;
		return PATTERN_SAME;
	}
	free(text);
	return unknown || written ? PATTERN_UNKNOWN : PATTERN_NOTHING;
}

bool
pattern_matches_nothing(const char *expression)
{
	char *whole;
	bool nothing = pattern_translate(expression, "", &whole) == PATTERN_NOTHING;

	free(whole);
	return nothing;
}
