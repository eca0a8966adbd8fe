/*
 * The schema of the ConfigMap kube-dns: one row for each key, with its parser and with what each
 * program does with the key. kubedns and the nanny read the same ConfigMap by this one table.
 *
 *	text --parse (the row's)--> value --apply (the program's)--> in force, or why not
 *
 * Keys are independent. A refused key keeps its last good value, which belongs to the program; each
 * refused content is logged once, and so is the first good content after it. A deleted key returns
 * to its default. Every key takes effect while the programs run.
 */
#ifndef LIB_CONF_KEYS_H
#define LIB_CONF_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct confdir_set;
struct metrics;

/* The keys, in the order in which each program applies and shows them. */
enum conf_key_id {
	CONF_KEY_STUBS,
	CONF_KEY_UPSTREAMS,
	CONF_KEY_FEDERATIONS,
	CONF_KEY_HOSTS,
	CONF_KEY_RECORDS,
	CONF_KEY_REWRITES,
	CONF_KEY_LOG_LEVEL,
	CONF_KEYS
};

enum conf_program { CONF_KUBEDNS, CONF_NANNY, CONF_PROGRAMS };

enum conf_use {
	CONF_UNUSED,
	CONF_READ,  /* for explanations: the other program applies the key and reports mistakes */
	CONF_APPLY, /* with a state, a metric and messages */
};

/* One key's content on its way to a program. */
struct conf_content {
	void *value;  /* as parsed; empty if the key is absent. Who keeps parts of it zeroes it. */
	bool present; /* the ConfigMap has the key */
	bool changed; /* set by the program: what is in force has changed */
};

/* Puts a value in force; NULL, or why the program refuses it (caller frees). */
typedef char *conf_key_apply(void *arg, struct conf_content *content);

struct conf_key_row {
	const char *name;
	size_t size; /* of the value, a struct of conf.h, conf_hosts.h, ... */
	/* As in conf.h; `domain` is the cluster domain. */
	int (*parse)(const char *text, size_t len, const char *domain, void *value, char **why);
	void (*free)(void *value); /* of what the value points to; NULL: nothing */
	enum conf_use use[CONF_PROGRAMS];
	const char *help; /* one line: what the key does */
	/* Of a key that means the same in each program; NULL: the program has the function. */
	conf_key_apply *apply;
};

extern const struct conf_key_row conf_key_rows[CONF_KEYS];

/* The names of the keys that the program uses; NULL ends: for confdir_new. */
void conf_key_names(enum conf_program program, const char *names[CONF_KEYS + 1]);

/* The names and lines of --help of these keys, one after the other; NULL ends. */
enum { CONF_KEY_HELP_MAX = 2 * CONF_KEYS + 1 };
void conf_key_help(enum conf_program program, const char *lines[CONF_KEY_HELP_MAX]);

/* The state of one key: whether its present content is in force or was refused, and why. */
struct conf_key {
	bool present;
	bool had_good;       /* a content is in force: the present one, or the last good one */
	char *error;         /* why the present content is not in force; NULL: it is */
	int64_t error_since; /* Unix time, seconds */
	uint64_t refused;    /* contents refused since the start */
	uint64_t hash;       /* of the content last judged, and of its error */
};

/*
 * Takes the verdict on a content of `len` bytes (`text` NULL: the key is absent): `error` (taken)
 * or NULL. A new one is logged as "conf SUBJECT: NAME: ERROR; keeping previous", or "...; ignored,
 * as there is no good value before it".
 */
void conf_key_judge(struct conf_key *key, const char *subject, const char *name, const char *text,
    size_t len, char *error);

void conf_key_clear(struct conf_key *key);

/* A program's keys. */
struct conf_keys {
	enum conf_program program;
	const char *subject;          /* where the ConfigMap is, for messages */
	const char *domain;           /* the cluster domain */
	conf_key_apply *const *apply; /* by key; NULL where the row has it, or unused */
	void *arg;
	struct conf_key states[CONF_KEYS];
};

/* Parses, applies and judges one content (`text` NULL: the key is absent), or the `error` with which
 * it could not be read (else NULL). True if what is in force has changed. */
bool conf_keys_take(
    struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len, const char *error);

/* The same for each key that the program uses. */
bool conf_keys_take_set(struct conf_keys *keys, const struct confdir_set *set);

/* Whether the program applies the key. */
bool conf_keys_applies(const struct conf_keys *keys, enum conf_key_id id);

/* How many keys are refused: for --check. Logs those that the program only reads. */
unsigned conf_keys_mistakes(const struct conf_keys *keys);

/* One value for each key that the program applies: 1 while its content is refused. */
void conf_keys_metrics(const struct conf_keys *keys, struct metrics *m);

void conf_keys_clear(struct conf_keys *keys);

#endif
