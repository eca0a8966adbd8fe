#include "lib/conf_keys.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/conf.h"
#include "lib/conf_closed.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/confdir.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"

enum { LOG_LEVEL_MOST = 10 };

/* --- the parsers of the rows: each calls the parser of a key --- */

static int
parse_stubs(const char *text, size_t len, const char *domain, void *value, char **why)
{
	return conf_stubs_parse(text, len, domain, value, why);
}

static void
free_stubs(void *value)
{
	conf_stubs_free(value);
}

static char *
close_stubs(const char *text, size_t len, void *value)
{
	if (!conf_stubs_close(text, len, value))
		return NULL;
	return text == NULL ? xstrdup("all external names") : conf_stubs_closed_names(value);
}

static bool
empty_stubs(const void *value)
{
	const struct conf_stubs *stubs = value;

	for (size_t i = 0; i < stubs->count; i++)
		if (stubs->items[i].count > 0)
			return false;
	return true;
}

static int
parse_upstreams(const char *text, size_t len, const char *domain, void *value, char **why)
{
	(void)domain;
	return conf_upstreams_parse(text, len, value, why);
}

static char *
close_upstreams(const char *text, size_t len, void *value)
{
	return conf_upstreams_close(text, len, value) ? xstrdup("all external names") : NULL;
}

static bool
empty_upstreams(const void *value)
{
	return ((const struct conf_upstreams *)value)->count == 0;
}

static int
parse_federations(const char *text, size_t len, const char *domain, void *value, char **why)
{
	(void)domain;
	return conf_federations_parse(text, len, value, why);
}

static int
parse_hosts(const char *text, size_t len, const char *domain, void *value, char **why)
{
	(void)domain;
	return conf_hosts_parse(text, len, value, why);
}

static void
free_hosts(void *value)
{
	conf_hosts_free(value);
}

static int
parse_records(const char *text, size_t len, const char *domain, void *value, char **why)
{
	return conf_records_parse(text, len, domain, value, why);
}

static void
free_records(void *value)
{
	conf_records_free(value);
}

static int
parse_rewrites(const char *text, size_t len, const char *domain, void *value, char **why)
{
	(void)domain;
	return conf_rewrites_parse(text, len, value, why);
}

static void
free_rewrites(void *value)
{
	conf_rewrites_free(value);
}

/* Parses a level from 0 to 10, like -v. If the key is blank or absent, the value is -1 and -v applies. */
static int
parse_log_level(const char *text, size_t len, const char *domain, void *value, char **why)
{
	int *level = value;
	char word[8], *end = word;

	(void)domain;
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	*level = -1;
	if (len == 0 || (len == 4 && memcmp(text, "null", 4) == 0))
		return 0;
	snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word), text);
	unsigned long number = *word >= '0' && *word <= '9' ? strtoul(word, &end, 10) : 0;
	if (len >= sizeof word || strlen(word) != len || end == word || *end != '\0' ||
	    number > LOG_LEVEL_MOST) {
		*why = xstrdup("must be a number from 0 to 10; 4 and above: debug lines");
		return -EINVAL;
	}
	*level = (int)number;
	return 0;
}

static char *
apply_log_level(void *arg, struct conf_content *content)
{
	(void)arg;
	log_set_verbosity(content->present ? *(int *)content->value : -1);
	return NULL;
}

#define BOTH                                                                                       \
	{                                                                                          \
		[CONF_KUBEDNS] = CONF_APPLY, [CONF_NANNY] = CONF_APPLY                             \
	}

const struct conf_key_row conf_key_rows[CONF_KEYS] = {
	[CONF_KEY_STUBS] = { "stubDomains", sizeof(struct conf_stubs), parse_stubs, free_stubs,
	    close_stubs, empty_stubs, { [CONF_KUBEDNS] = CONF_READ, [CONF_NANNY] = CONF_APPLY },
	    .help = "servers for the names of single domains" },
	[CONF_KEY_UPSTREAMS] = { "upstreamNameservers", sizeof(struct conf_upstreams),
	    parse_upstreams, NULL, close_upstreams, empty_upstreams, BOTH,
	    .help = "servers for external names" },
	[CONF_KEY_FEDERATIONS] = { "federations", sizeof(struct conf_federations),
	    parse_federations, NULL, NULL, NULL, { [CONF_KUBEDNS] = CONF_APPLY },
	    .help = "federation names" },
	[CONF_KEY_HOSTS] = { "hosts", sizeof(struct conf_hosts), parse_hosts, free_hosts, NULL,
	    NULL, BOTH, .help = "addresses of names, as lines of /etc/hosts" },
	[CONF_KEY_RECORDS] = { "records", sizeof(struct conf_records), parse_records, free_records,
	    NULL, NULL, BOTH, .help = "records of any type, as lines of a master file" },
	[CONF_KEY_REWRITES] = { "rewrites", sizeof(struct conf_rewrites), parse_rewrites,
	    free_rewrites, NULL, NULL, BOTH,
	    .help = "replacements of queried names before the lookup" },
	[CONF_KEY_LOG_LEVEL] = { "logLevel", sizeof(int), parse_log_level, NULL, NULL, NULL, BOTH,
	    .help = "log level, 0 to 10, overrides -v; 4 and above: debug lines",
	    .apply = apply_log_level },
};

void
conf_key_names(enum conf_program program, const char *names[CONF_KEYS + 1])
{
	size_t count = 0;

	for (size_t i = 0; i < CONF_KEYS; i++)
		if (conf_key_rows[i].use[program] != CONF_UNUSED)
			names[count++] = conf_key_rows[i].name;
	names[count] = NULL;
}

void
conf_key_help(enum conf_program program, const char *lines[CONF_KEY_HELP_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < CONF_KEYS; i++)
		if (conf_key_rows[i].use[program] == CONF_APPLY) {
			lines[count++] = conf_key_rows[i].name;
			lines[count++] = conf_key_rows[i].help;
		}
	lines[count] = NULL;
}

/* --- the state of one key --- */

/* Does the same as conf_key_judge. `closed` says which names get SERVFAIL because of the error and why, or
 * is NULL. */
static void
judge(struct conf_key *key, const char *subject, const char *name, const char *text, size_t len,
    char *error, const char *closed)
{
	uint64_t hash = text != NULL ? hash64(HASH_START, text, len) : 0;

	if (error != NULL)
		hash = hash64(hash, error, strlen(error));
	bool news = hash != key->hash || (error == NULL) != (key->error == NULL);
	if (error != NULL && news) {
		if (closed != NULL)
			log_errorx("conf %s: %s: %s; %s, and there is no earlier good value",
			    subject, name, error, closed);
		else if (key->partly)
			log_errorx("conf %s: %s: %s; the other entries are in force", subject, name,
			    error);
		else
			log_errorx("conf %s: %s: %s; %s", subject, name, error,
			    key->had_good ? "keeping previous"
					  : "ignored, because there is no earlier good value");
		key->refused++;
		key->error_since = time(NULL);
	} else if (error == NULL && key->error != NULL) {
		log_info("conf %s: %s: good again", subject, name);
	}
	if (error == NULL)
		key->had_good = text != NULL;
	key->present = text != NULL;
	key->hash = hash;
	free(key->error);
	key->error = error;
}

void
conf_key_judge(struct conf_key *key, const char *subject, const char *name, const char *text,
    size_t len, char *error)
{
	judge(key, subject, name, text, len, error, NULL);
}

void
conf_key_clear(struct conf_key *key)
{
	free(key->error);
	*key = (struct conf_key){ 0 };
}

/* --- the keys of a program --- */

bool
conf_keys_applies(const struct conf_keys *keys, enum conf_key_id id)
{
	return conf_key_rows[id].use[keys->program] == CONF_APPLY;
}

static char *
put(struct conf_keys *keys, enum conf_key_id id, struct conf_content *content)
{
	const struct conf_key_row *row = &conf_key_rows[id];

	return (row->apply != NULL ? row->apply : keys->apply[id])(keys->arg, content);
}

static void
free_content(const struct conf_key_row *row, struct conf_content *content)
{
	if (row->free != NULL)
		row->free(content->value);
	free(content->value);
	free(content->partly);
	free(content->closed);
}

/* The result of a content. */
struct applied {
	bool changed;
	bool good;    /* the content is an earlier good value for the next ones */
	bool partly;  /* only some entries are refused */
	char *closed; /* the names that get SERVFAIL and why, or NULL */
};

/* Parses a content and puts it in force. Returns NULL, or the reason why the content or a part of it is
 * refused (caller frees). */
static char *
apply(struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len,
    struct applied *applied)
{
	const struct conf_key_row *row = &conf_key_rows[id];
	struct conf_content content = { .value = xcalloc(1, row->size), .present = text != NULL };
	char *why = NULL;

	if (text == NULL ||
	    row->parse(text, len, keys->domain, content.value, &content.partly) == 0) {
		applied->good = text != NULL && (row->empty == NULL || !row->empty(content.value));
		why = put(keys, id, &content);
		applied->changed = content.changed;
		applied->good = applied->good && !content.unusable;
		applied->partly = why == NULL && content.partly != NULL;
	}
	if (applied->partly && content.closed != NULL)
		applied->closed =
		    xasprintf("%s get SERVFAIL until it is corrected, because they must not "
			      "go to the upstream servers",
			content.closed);
	if (why == NULL) {
		why = content.partly;
		content.partly = NULL;
	}
	free_content(row, &content);
	return why;
}

/* Puts in force what is left of a refused content without an earlier good value. `text` is NULL if it cannot
 * be read. Returns which names get SERVFAIL and why (caller frees), or NULL. */
static char *
apply_closed(struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len,
    const char *refusal, bool *changed)
{
	const struct conf_key_row *row = &conf_key_rows[id];
	struct conf_content content = {
		.value = xcalloc(1, row->size), .present = true, .refusal = refusal
	};
	char *names = row->close(text, len, content.value);
	char *why = put(keys, id, &content);
	char *closed = NULL;

	assert(why == NULL); /* a value without servers is never refused */
	if (names != NULL)
		closed = xasprintf("%s get SERVFAIL until it %s, because it %s for encryption",
		    names, text == NULL ? "can be read" : "is corrected",
		    text == NULL ? "may ask" : "asks, or seems to ask,");
	*changed = content.changed;
	free_content(row, &content);
	free(names);
	return closed;
}

/* Takes a content like conf_keys_take. `readable` says whether `text` is the content. If so, there may still
 * be an `error`. */
static bool
apply_content(struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len,
    const char *error, bool readable)
{
	struct conf_key *state = &keys->states[id];
	struct applied applied = { 0 };
	char *why = error != NULL ? xstrdup(error) : apply(keys, id, text, len, &applied);
	bool refused = why != NULL && !applied.partly;
	char *closed = applied.closed;

	state->partly = applied.partly;
	if (refused && !state->had_good && conf_key_rows[id].close != NULL)
		closed = apply_closed(keys, id, readable ? text : NULL, len, why, &applied.changed);
	bool news = closed != NULL && !state->closed;
	state->closed = closed != NULL;
	if (conf_keys_applies(keys, id)) {
		judge(state, keys->subject, conf_key_rows[id].name, text, len, why, closed);
	} else {
		/* The program that applies the key logs the reason. */
		if (news)
			log_errorx("conf %s: %s: refused: %s", keys->subject,
			    conf_key_rows[id].name, closed);
		free(state->error);
		state->error = why;
	}
	if (!refused)
		state->had_good = applied.good || (applied.partly && state->had_good);
	free(closed);
	return applied.changed;
}

bool
conf_keys_take(
    struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len, const char *error)
{
	return apply_content(keys, id, text, len, error, error == NULL);
}

bool
conf_keys_take_misspelt(
    struct conf_keys *keys, enum conf_key_id id, const char *entry, const char *text, size_t len)
{
	const struct conf_key_row *row = &conf_key_rows[id];

	if (row->close == NULL || !conf_asks_tls(text, len))
		return apply_content(keys, id, NULL, 0, NULL, true);
	char *error =
	    xasprintf("the key is missing, and the key %.64s looks like it: rename it", entry);
	bool changed = apply_content(keys, id, text, len, error, true);
	free(error);
	return changed;
}

bool
conf_keys_take_set(struct conf_keys *keys, const struct confdir_set *set)
{
	bool changed = false;

	for (enum conf_key_id id = 0; id < CONF_KEYS; id++) {
		if (conf_key_rows[id].use[keys->program] == CONF_UNUSED)
			continue;
		const struct confdir_key *key = confdir_get(set, conf_key_rows[id].name);
		if (key == NULL)
			changed |= conf_keys_take(keys, id, NULL, 0, NULL);
		else if (key->entry != NULL)
			changed |=
			    conf_keys_take_misspelt(keys, id, key->entry, key->value, key->len);
		else
			changed |= conf_keys_take(keys, id, key->value, key->len, key->error);
	}
	return changed;
}

unsigned
conf_keys_mistakes(const struct conf_keys *keys)
{
	unsigned count = 0;

	for (enum conf_key_id id = 0; id < CONF_KEYS; id++) {
		const char *error = keys->states[id].error;

		count += error != NULL;
		if (error != NULL && !conf_keys_applies(keys, id))
			log_errorx("conf %s: %s: %s", keys->subject, conf_key_rows[id].name, error);
	}
	return count;
}

void
conf_keys_metrics(const struct conf_keys *keys, struct metrics *m)
{
	for (enum conf_key_id id = 0; id < CONF_KEYS; id++)
		if (conf_keys_applies(keys, id))
			metrics_value(
			    m, keys->states[id].error != NULL, "key", conf_key_rows[id].name, NULL);
}

void
conf_keys_clear(struct conf_keys *keys)
{
	for (enum conf_key_id id = 0; id < CONF_KEYS; id++)
		conf_key_clear(&keys->states[id]);
}
