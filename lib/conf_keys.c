#include "lib/conf_keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/conf.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/confdir.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"

enum { LOG_LEVEL_MOST = 10 };

/* --- the parsers of the rows: those of the keys' headers, with one type --- */

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

static int
parse_upstreams(const char *text, size_t len, const char *domain, void *value, char **why)
{
	(void)domain;
	return conf_upstreams_parse(text, len, value, why);
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

/* 0 to 10, as -v. A key that is blank, or gone, leaves the level to -v: -1. */
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
		*why = xstrdup("must be a number from 0 to 10; debug lines appear from 4 on");
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
	    { [CONF_KUBEDNS] = CONF_READ, [CONF_NANNY] = CONF_APPLY },
	    .help = "domains whose names other servers resolve" },
	[CONF_KEY_UPSTREAMS] = { "upstreamNameservers", sizeof(struct conf_upstreams),
	    parse_upstreams, NULL, BOTH, .help = "servers for external names" },
	[CONF_KEY_FEDERATIONS] = { "federations", sizeof(struct conf_federations),
	    parse_federations, NULL, { [CONF_KUBEDNS] = CONF_APPLY }, .help = "federation names" },
	[CONF_KEY_HOSTS] = { "hosts", sizeof(struct conf_hosts), parse_hosts, free_hosts, BOTH,
	    .help = "addresses of names, as lines of /etc/hosts" },
	[CONF_KEY_RECORDS] = { "records", sizeof(struct conf_records), parse_records, free_records,
	    BOTH, .help = "records of any type, as lines of a master file" },
	[CONF_KEY_REWRITES] = { "rewrites", sizeof(struct conf_rewrites), parse_rewrites,
	    free_rewrites, BOTH, .help = "names that are looked up in place of others" },
	[CONF_KEY_LOG_LEVEL] = { "logLevel", sizeof(int), parse_log_level, NULL, BOTH,
	    .help = "0 to 10, in place of -v: debug lines from 4 on", .apply = apply_log_level },
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

void
conf_key_judge(struct conf_key *key, const char *subject, const char *name, const char *text,
    size_t len, char *error)
{
	uint64_t hash = text != NULL ? hash64(HASH_START, text, len) : 0;

	if (error != NULL)
		hash = hash64(hash, error, strlen(error));
	bool news = hash != key->hash || (error == NULL) != (key->error == NULL);
	if (error != NULL && news) {
		log_errorx("conf %s: %s: %s; %s", subject, name, error,
		    key->had_good ? "keeping previous"
				  : "ignored, as there is no good value before it");
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

/* Parses a content and puts it in force; NULL, or why not. */
static char *
apply(struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len, bool *changed)
{
	const struct conf_key_row *row = &conf_key_rows[id];
	struct conf_content content = { .value = xcalloc(1, row->size), .present = text != NULL };
	char *why = NULL;

	if (text == NULL || row->parse(text, len, keys->domain, content.value, &why) == 0) {
		conf_key_apply *put = row->apply != NULL ? row->apply : keys->apply[id];

		why = put(keys->arg, &content);
		if (row->free != NULL)
			row->free(content.value);
	}
	free(content.value);
	*changed = content.changed;
	return why;
}

bool
conf_keys_take(
    struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len, const char *error)
{
	struct conf_key *state = &keys->states[id];
	bool changed = false;
	char *why = error != NULL ? xstrdup(error) : apply(keys, id, text, len, &changed);

	if (conf_keys_applies(keys, id)) {
		conf_key_judge(state, keys->subject, conf_key_rows[id].name, text, len, why);
	} else {
		free(state->error);
		state->error = why;
	}
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
