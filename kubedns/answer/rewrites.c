#define PCRE2_CODE_UNIT_WIDTH 8
#include "kubedns/answer/rewrites.h"

#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/local_names.h"
#include "kubedns/answer/stage.h"
#include "kubedns/answer/upstream_stage.h"
#include "lib/conf_rewrites.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

enum { GROUPS_MAX = 10 }; /* capture groups {0} to {9} */

struct pattern {
	pcre2_code *code;
	char *replacement;
	/* All matching names end with this text. `end` is "" if the text is unknown. */
	char *end;
};

struct rewrites {
	struct local_names *exact, *suffix; /* a CNAME record for each name, or NULL */
	pcre2_match_context *limits;        /* NULL if there are no patterns */
	struct pattern *patterns;
	size_t pattern_count, count;
	uint64_t hash; /* hash of the lines */
	/* The next object in the list of retired rewrites. */
	struct rewrites *next;
};

/* --- making rewrites --- */

static uint64_t
hash_rewrite(uint64_t hash, const struct conf_rewrite *r)
{
	hash = hash64(hash, &r->kind, sizeof r->kind);
	hash = hash64(hash, r->from.wire, r->from.len);
	hash = hash64(hash, r->to.wire, r->to.len);
	if (r->kind != REWRITE_PATTERN)
		return hash;
	return hash64(
	    hash64(hash, r->pattern, strlen(r->pattern)), r->replacement, strlen(r->replacement));
}

/* Makes a table of all rewrites of this kind. The table maps a name to its replacement. */
static struct local_names *
names_of_kind(const struct conf_rewrites *conf, enum rewrite_kind kind, uint64_t seed)
{
	struct own_line *lines = xcalloc(conf->count + 1, sizeof *lines);
	size_t count = 0;

	for (size_t i = 0; i < conf->count; i++) {
		const struct conf_rewrite *r = &conf->items[i];

		if (r->kind == kind)
			lines[count++] = (struct own_line){ .name = r->from.wire,
				.name_len = r->from.len,
				.type = TYPE_CNAME,
				.rdata = r->to.wire,
				.rdata_len = r->to.len };
	}
	struct local_names *names = local_names_new(lines, count, seed);
	free(lines);
	return names;
}

static int
refuse_pattern(const struct conf_rewrite *r, int code, size_t offset, char **why)
{
	PCRE2_UCHAR message[128];

	pcre2_get_error_message(code, message, sizeof message);
	*why =
	    xasprintf("line %u: the pattern, at character %zu: %s", r->line, offset + 1, message);
	return -EINVAL;
}

/* Returns the letters, digits and escaped dots at the end of the pattern. Every name that matches ends with them, so the pattern is
 * not tried for other names, which saves much time. Returns "" if there are none, or if the pattern has alternatives or settings. The
 * caller frees it. */
static char *
literal_end(const char *pattern)
{
	size_t len = strlen(pattern), at;
	char *end = xcalloc(1, len + 1), *put = end + len, *dot = put;

	if (strpbrk(pattern, "|#") != NULL || strstr(pattern, "(?") != NULL ||
	    strstr(pattern, "(*") != NULL || strstr(pattern, "\\Q") != NULL)
		return end;
	for (at = len; at > 0; at--) {
		char c = pattern[at - 1];
		bool escaped = at > 1 && pattern[at - 2] == '\\';

		if (c == '.' && escaped && (at < 3 || pattern[at - 3] != '\\')) {
			dot = put - 1;
			at--;
			/* an escape such as \d or \x41: the following characters may belong to it, but a dot does not */
		} else if (escaped) {
			put = dot;
			break;
		} else if (!isalnum((unsigned char)c) && c != '-' && c != '_') {
			break;
		}
		*--put = c;
	}
	memmove(end, put, strlen(put) + 1);
	return end;
}

static bool
ends_with(const char *subject, size_t len, const char *end)
{
	size_t end_len = strlen(end);

	return end_len <= len && memcmp(subject + len - end_len, end, end_len) == 0;
}

static int
add_pattern(struct rewrites *rewrites, const struct conf_rewrite *r, char **why)
{
	int code;
	size_t offset;
	struct pattern *pattern = &rewrites->patterns[rewrites->pattern_count];

	pattern->code = pcre2_compile((PCRE2_SPTR)r->pattern, PCRE2_ZERO_TERMINATED,
	    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NEVER_UTF |
		PCRE2_NEVER_BACKSLASH_C,
	    &code, &offset, NULL);
	if (pattern->code == NULL)
		return refuse_pattern(r, code, offset, why);
	pattern->replacement = xstrdup(r->replacement);
	pattern->end = literal_end(r->pattern);
	rewrites->pattern_count++;
	return 0;
}

static void
make_limits(struct rewrites *rewrites)
{
	rewrites->limits = pcre2_match_context_create(NULL);
	if (rewrites->limits == NULL)
		abort(); /* fails only if memory runs out */
	pcre2_set_match_limit(rewrites->limits, REWRITE_STEPS_MAX);
	pcre2_set_depth_limit(rewrites->limits, REWRITE_STEPS_MAX);
	pcre2_set_heap_limit(rewrites->limits, REWRITE_HEAP_KIB);
}

int
rewrites_new(const struct conf_rewrites *conf, uint64_t seed, struct rewrites **out, char **why)
{
	struct rewrites *rewrites = xcalloc(1, sizeof *rewrites);
	int rc = 0;

	*out = NULL;
	rewrites->exact = names_of_kind(conf, REWRITE_EXACT, seed);
	rewrites->suffix = names_of_kind(conf, REWRITE_SUFFIX, seed);
	rewrites->patterns = xcalloc(conf->count + 1, sizeof *rewrites->patterns);
	rewrites->count = conf->count;
	rewrites->hash = seed;
	for (size_t i = 0; i < conf->count && rc == 0; i++) {
		rewrites->hash = hash_rewrite(rewrites->hash, &conf->items[i]);
		if (conf->items[i].kind == REWRITE_PATTERN)
			rc = add_pattern(rewrites, &conf->items[i], why);
	}
	if (rewrites->pattern_count > 0)
		make_limits(rewrites);
	if (rc < 0 || conf->count == 0)
		rewrites_free(rewrites);
	else
		*out = rewrites;
	return rc;
}

void
rewrites_retire(struct rewrites **retired, struct rewrites *old)
{
	if (old == NULL)
		return;
	old->next = *retired;
	*retired = old;
}

static void
free_one(struct rewrites *rewrites)
{
	for (size_t i = 0; i < rewrites->pattern_count; i++) {
		pcre2_code_free(rewrites->patterns[i].code);
		free(rewrites->patterns[i].replacement);
		free(rewrites->patterns[i].end);
	}
	pcre2_match_context_free(rewrites->limits);
	free(rewrites->patterns);
	free(rewrites->exact);
	free(rewrites->suffix);
	free(rewrites);
}

void
rewrites_free(struct rewrites *rewrites)
{
	while (rewrites != NULL) {
		struct rewrites *next = rewrites->next;

		free_one(rewrites);
		rewrites = next;
	}
}

bool
rewrites_equal(const struct rewrites *a, const struct rewrites *b)
{
	return a == NULL || b == NULL ? a == b : a->hash == b->hash && a->count == b->count;
}

size_t
rewrites_count(const struct rewrites *rewrites)
{
	return rewrites == NULL ? 0 : rewrites->count;
}

/* --- applying rewrites --- */

/* Returns the replacement of this name as RDATA, or NULL. */
static const uint8_t *
in_place_of(const struct local_names *names, const uint8_t *wire, size_t len, size_t *to_len)
{
	const struct own_name *own = names == NULL ? NULL : local_names_find(names, wire, len);
	const struct rrset *set = own == NULL ? NULL : own_name_rrset(own, TYPE_CNAME);

	if (set == NULL)
		return NULL;
	*to_len = wire_get16(set->data + 10);
	return set->data + 12;
}

static bool
rewrite_suffix(const struct rewrites *rewrites, const struct name *name, struct dname *to)
{
	for (unsigned i = 0; rewrites->suffix != NULL && i < name->count; i++) {
		size_t at = name->offsets[i], len;
		const uint8_t *end =
		    in_place_of(rewrites->suffix, name->wire + at, name->len - at, &len);

		if (end == NULL)
			continue;
		if (at + len > DNAME_MAX)
			return false;
		memcpy(to->wire, name->wire, at);
		memcpy(to->wire + at, end, len);
		to->len = (uint8_t)(at + len);
		return true;
	}
	return false;
}

/* Writes the replacement. {N} in it is replaced by the text that group N matched. If the result is not a valid name, returns false and
 * leaves `to` unchanged. */
static bool
put_replacement(const char *template, const char *subject, const size_t *groups, unsigned count,
    struct dname *to)
{
	char text[DNAME_TEXT_MAX];
	/* A separate buffer, because an invalid name may be written in part. */
	struct dname made;
	size_t len = 0;

	while (*template != '\0') {
		const char *from = template;
		size_t part = 1;

		if (template[0] == '{' && template[1] >= '0' && template[1] <= '9' &&
		    template[2] == '}') {
			unsigned group = (unsigned)(template[1] - '0');
			bool set = group < count && groups[2 * group] != PCRE2_UNSET;

			from = set ? subject + groups[2 * group] : "";
			part = set ? groups[2 * group + 1] - groups[2 * group] : 0;
			template += 3;
		} else {
			template ++;
		}
		if (part >= sizeof text - len)
			return false;
		memcpy(text + len, from, part);
		len += part;
	}
	text[len] = '\0';
	if (len == 0 || dname_from_text(&made, text) < 0 || made.len == 1)
		return false;
	dname_lower(made.wire, made.len);
	*to = made;
	return true;
}

static enum rewrite_outcome
rewrite_by_pattern(const struct rewrites *rewrites, const struct name *name, struct dname *to)
{
	pcre2_match_data *data = pcre2_match_data_create(GROUPS_MAX, NULL);
	enum rewrite_outcome outcome = REWRITE_NONE;
	char subject[DNAME_TEXT_MAX];

	if (data == NULL)
		return REWRITE_LIMIT;
	dname_to_text(name->wire, subject);
	size_t len = strlen(subject) - 1; /* without the final dot */
	for (size_t i = 0; i < rewrites->pattern_count && outcome != REWRITE_DONE; i++) {
		const struct pattern *pattern = &rewrites->patterns[i];

		if (!ends_with(subject, len, pattern->end))
			continue;
		int rc = pcre2_match(
		    pattern->code, (PCRE2_SPTR)subject, len, 0, 0, data, rewrites->limits);
		const size_t *groups = pcre2_get_ovector_pointer(data);
		/* rc is 0 if the pattern has more groups */
		unsigned count = rc == 0 ? GROUPS_MAX : (unsigned)rc;
		if (rc >= 0 && groups[0] <= groups[1] &&
		    put_replacement(pattern->replacement, subject, groups, count, to))
			outcome = REWRITE_DONE;
		else if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
			outcome = REWRITE_LIMIT;
	}
	pcre2_match_data_free(data);
	return outcome;
}

bool
rewrites_apply_names(const struct rewrites *rewrites, const struct name *name, struct dname *to)
{
	size_t len;
	const uint8_t *whole = in_place_of(rewrites->exact, name->wire, name->len, &len);

	if (whole == NULL)
		return rewrite_suffix(rewrites, name, to);
	memcpy(to->wire, whole, len);
	to->len = (uint8_t)len;
	return true;
}

enum rewrite_outcome
rewrites_apply(const struct rewrites *rewrites, const struct name *name, struct dname *to)
{
	if (rewrites_apply_names(rewrites, name, to))
		return REWRITE_DONE;
	return rewrites->pattern_count == 0 ? REWRITE_NONE : rewrite_by_pattern(rewrites, name, to);
}

bool
rewrites_come_back(const struct answer_context *context, const struct name *name)
{
	const struct rewrites *rewrites = context->rewrites;
	struct dname to;
	size_t len;

	if (rewrites == NULL || rewrites_apply(rewrites, name, &to) != REWRITE_DONE)
		return false;
	const uint8_t *stub = answer_stub_domain(context, name->wire);
	size_t begin = stub == NULL ? name->len : name->len - dname_length(stub, DNAME_MAX);
	for (unsigned i = 0; i < name->count; i++) { /* dnsmasq uses the closest domain */
		const uint8_t *domain = name->wire + name->offsets[i];
		size_t domain_len = name->len - (size_t)name->offsets[i];

		/* If a domain has both a stub domain and a rewrite, the nanny writes no dnsmasq entry that sends the domain to kubedns. */
		if (name->offsets[i] == begin)
			return false;
		/* An exact rewrite does not apply to names below it. With the nanny's entries, dnsmasq sends those names to the stub
		 * domain that contains them. */
		if ((i == 0 && in_place_of(rewrites->exact, domain, domain_len, &len) != NULL) ||
		    in_place_of(rewrites->suffix, domain, domain_len, &len) != NULL)
			break;
	}
	return true;
}

/* --- the stage --- */

/* Replaces the query's name. The following stages answer it. */
static enum step
rewrites_answer(struct lookup *l)
{
	const struct answer_context *context = l->reply->tree->context;
	struct answer_info *info = l->info;

	if (!l->asked || context->rewrites == NULL)
		return STEP_NEXT;
	enum rewrite_outcome outcome = rewrites_apply(context->rewrites, &l->name, &info->target);
	info->rewrite_limit = outcome == REWRITE_LIMIT;
	if (outcome == REWRITE_DONE) {
		lookup_set(l, &info->target, DNS_HEADER);
		info->rewritten = l->reply->rewritten = true;
	}
	return STEP_NEXT;
}

const struct stage stage_rewrites = { .id = STAGE_rewrites,
	.order = ORDER_CONTEXT,
	.standard = stage_without_options,
	.answer = rewrites_answer };
