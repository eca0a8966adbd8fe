#include "kubedns/cluster/label_selector.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/object.h"
#include "lib/dname.h"
#include "lib/xalloc.h"

enum operator{ EXISTS, MISSING, IN, NOT_IN, ABOVE, BELOW };

struct requirement {
	enum operator operator;
	char *key;
	char **values;
	size_t value_count;
	int64_t bound; /* for ABOVE and BELOW */
};

struct label_selector {
	struct requirement *items;
	size_t count;
};

struct parser {
	const char *at;
	char *why;
};

/* --- reading --- */

static void
skip_space(struct parser *p)
{
	p->at += strspn(p->at, " \t\r\n");
}

/* Reads the next word, up to a space or an operator character. Returns "" if there is none. The
 * caller frees it. */
static char *
take_word(struct parser *p)
{
	skip_space(p);
	size_t len = strcspn(p->at, "=!(),<> \t\r\n");
	char *word = xmalloc(len + 1);

	memcpy(word, p->at, len);
	word[len] = '\0';
	p->at += len;
	skip_space(p);
	return word;
}

static bool
accept_token(struct parser *p, const char *token)
{
	size_t len = strlen(token);

	skip_space(p);
	if (strncmp(p->at, token, len) != 0)
		return false;
	p->at += len;
	return true;
}

static int
complain(struct parser *p, char *why)
{
	if (p->why == NULL)
		p->why = why;
	else
		free(why);
	return -EINVAL;
}

/* Whether the text is a valid label name or value. It has at most 63 letters, digits, '-', '_' and
 * '.', and a letter or digit at both ends. */
static bool
is_plain(const char *text, size_t len)
{
	static const char ends[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
			  inner[] =
			      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

	return len > 0 && len <= DNAME_LABEL_MAX && strspn(text, inner) >= len &&
	       strspn(text, ends) > 0 && strspn(text + len - 1, ends) > 0;
}

/* Whether the text is a valid key prefix: dot-separated labels of lower-case letters, digits and
 * inner '-', at most 253 bytes. */
static bool
is_prefix(const char *text, size_t len)
{
	if (len == 0 || len > 253)
		return false;
	for (size_t from = 0, i = 0; i <= len; i++) {
		if (i < len && text[i] != '.')
			continue;
		if (!dname_label_ok(text + from, i - from))
			return false;
		from = i + 1;
	}
	return strcspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= len;
}

static int
check_key(struct parser *p, const char *key)
{
	const char *slash = strchr(key, '/'), *name = slash == NULL ? key : slash + 1;

	if (*key == '\0')
		return complain(p, *p->at == '\0'
				       ? xasprintf("a label's key is missing at the end")
				       : xasprintf("a label's key is missing at \"%s\"", p->at));
	if (!is_plain(name, strlen(name)) ||
	    (slash != NULL && !is_prefix(key, (size_t)(slash - key))))
		return complain(
		    p, xasprintf(
			   "\"%s\" is not a label's key, such as team or example.com/team", key));
	return 0;
}

static void
add_value(struct requirement *r, char *value)
{
	r->values = xreallocarray(r->values, r->value_count + 1, sizeof *r->values);
	r->values[r->value_count++] = value;
}

static int
read_value(struct parser *p, struct requirement *r)
{
	char *value = take_word(p);

	add_value(r, value);
	if (*value != '\0' && !is_plain(value, strlen(value)))
		return complain(p,
		    xasprintf("\"%s\" is not a label's value: at most 63 letters, digits, '-', '_' "
			      "and '.', a letter or digit first and last",
			value));
	return 0;
}

static int
read_values(struct parser *p, struct requirement *r)
{
	if (!accept_token(p, "("))
		return complain(
		    p, xasprintf("values of \"%s\" must be in parentheses: (a,b)", r->key));
	do
		if (read_value(p, r) < 0)
			return -EINVAL;
	while (accept_token(p, ","));
	if (!accept_token(p, ")"))
		return complain(
		    p, xasprintf("\")\" is missing after the values of \"%s\"", r->key));
	return 0;
}

static int
read_bound(struct parser *p, struct requirement *r)
{
	char *end = NULL;

	if (read_value(p, r) < 0)
		return -EINVAL;
	errno = 0;
	r->bound = strtoll(r->values[0], &end, 10);
	if (*r->values[0] == '\0' || *end != '\0' || errno != 0)
		return complain(p, xasprintf("\"%s\": '<' and '>' need an integer", r->values[0]));
	return 0;
}

/* Reads the part of a requirement after its key. */
static int
read_operator(struct parser *p, struct requirement *r)
{
	r->operator= EXISTS;
	skip_space(p);
	if (*p->at == '\0' || *p->at == ',')
		return 0;
	if (accept_token(p, "!=")) {
		r->operator= NOT_IN;
		return read_value(p, r);
	}
	if (accept_token(p, "==") || accept_token(p, "=")) {
		r->operator= IN;
		return read_value(p, r);
	}
	if (*p->at == '<' || *p->at == '>') {
		r->operator= * p->at++ == '>' ? ABOVE : BELOW;
		return read_bound(p, r);
	}
	char *word = take_word(p);
	bool in = strcmp(word, "in") == 0, known = in || strcmp(word, "notin") == 0;
	r->operator= in ? IN : NOT_IN;
	int rc = known ? read_values(p, r)
		       : complain(p,
			     xasprintf("after \"%s\" an operator is needed: =, ==, !=, in, notin, "
				       "< or >, not \"%s\"",
				 r->key, *word != '\0' ? word : p->at));
	free(word);
	return rc;
}

static int
read_requirement(struct parser *p, struct requirement *r)
{
	bool negated = accept_token(p, "!");

	r->key = take_word(p);
	if (check_key(p, r->key) < 0)
		return -EINVAL;
	if (!negated)
		return read_operator(p, r);
	r->operator= MISSING;
	return 0;
}

int
label_selector_parse(const char *text, struct label_selector **out, char **why)
{
	struct label_selector *selector = xcalloc(1, sizeof *selector);
	struct parser p = { .at = text };
	int rc;

	do {
		selector->items =
		    xreallocarray(selector->items, selector->count + 1, sizeof *selector->items);
		struct requirement *r = &selector->items[selector->count++];
		*r = (struct requirement){ .operator= EXISTS };
		rc = read_requirement(&p, r);
	} while (rc == 0 && accept_token(&p, ","));
	skip_space(&p);
	if (rc == 0 && *p.at != '\0')
		rc = complain(&p, xasprintf("a comma or the end is needed at \"%s\"", p.at));
	*why = p.why;
	if (rc < 0) {
		label_selector_free(selector);
		return rc;
	}
	*out = selector;
	return 0;
}

/* --- matching --- */

static bool
has_value(const struct requirement *r, const char *value)
{
	for (size_t i = 0; i < r->value_count; i++)
		if (strcmp(r->values[i], value) == 0)
			return true;
	return false;
}

static bool
compares(const struct requirement *r, const char *value)
{
	char *end = NULL;

	errno = 0;
	int64_t number = strtoll(value, &end, 10);
	if (*value == '\0' || *end != '\0' || errno != 0)
		return false;
	return r->operator== ABOVE ? number > r->bound : number<r->bound;
}

/* Whether the requirement matches. `value` is NULL if the object does not have the label. */
static bool
holds(const struct requirement *r, const char *value)
{
	switch (r->operator) {
	case EXISTS:
		return value != NULL;
	case MISSING:
		return value == NULL;
	case IN:
		return value != NULL && has_value(r, value);
	case NOT_IN:
		return value == NULL || !has_value(r, value);
	case ABOVE:
	case BELOW:
		break;
	}
	return value != NULL && compares(r, value);
}

bool
label_selector_matches(
    const struct label_selector *selector, const struct object_key_value *labels, size_t count)
{
	for (size_t r = 0; r < selector->count; r++) {
		const char *value = NULL;

		for (size_t i = 0; i < count && value == NULL; i++)
			if (strcmp(labels[i].key, selector->items[r].key) == 0)
				value = labels[i].value;
		if (!holds(&selector->items[r], value))
			return false;
	}
	return true;
}

void
label_selector_free(struct label_selector *selector)
{
	if (selector == NULL)
		return;
	for (size_t r = 0; r < selector->count; r++) {
		for (size_t i = 0; i < selector->items[r].value_count; i++)
			free(selector->items[r].values[i]);
		free(selector->items[r].values);
		free(selector->items[r].key);
	}
	free(selector->items);
	free(selector);
}
