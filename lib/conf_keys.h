/*
 * The schema of the ConfigMap kube-dns. Each key has one row. The row has the parser, and tells
 * what each program does with the key. kubedns and the nanny both use this table.
 *
 *	text --parse (the row's)--> value --apply (the program's)--> in force, or why not
 *
 * Keys are independent. If new content is refused, the program keeps the key's last good value.
 * Each refused content is logged once. The first good content after it is logged too. A deleted key
 * returns to its default. Every change takes effect without a restart.
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
	CONF_READ,  /* the program reads the key only for explanations; the other program applies
		     * it */
	CONF_APPLY, /* the program applies the key, with a state, a metric and messages */
};

/* The content of one key, on its way to a program. */
struct conf_content {
	void *value;  /* the parsed value; empty if the key is absent. A program that keeps parts of
		       * the value must zero it */
	bool present; /* the ConfigMap has the key */
	bool changed; /* set by the program if the value in force has changed */
	const char *refusal; /* for the value of a refused text (conf_closed.h): why; else NULL */
	/* Set by the parser or the program if some entries of the value are refused: why. From malloc(). */
	char *partly;
	bool
	    unusable; /* set by the program if it refuses every server of the value, and has no earlier one */
	/* Set by the program: the names that get SERVFAIL because of it, or NULL. From malloc(). */
	char *closed;
};

/* Puts a value in force. Returns NULL, or the reason why the program refuses it (caller frees). A program
 * never refuses a value without servers, of a key that has `close`. */
typedef char *conf_key_apply(void *arg, struct conf_content *content);

struct conf_key_row {
	const char *name;
	size_t size; /* size of the value, a struct of conf.h, conf_hosts.h, ... */
	/* As in conf.h; `domain` is the cluster domain. Returns 0 and sets `why` if only some entries are
	 * refused. */
	int (*parse)(const char *text, size_t len, const char *domain, void *value, char **why);
	void (*free)(void *value); /* frees the memory that the value points to; NULL: there is
				    * none */
	/* Makes the value for a refused text without an earlier good value (lib/conf_closed.h). `text` is NULL
	 * if it cannot be read. Returns which names get SERVFAIL (caller frees), or NULL and an empty value.
	 * NULL: the key has no servers. */
	char *(*close)(const char *text, size_t len, void *value);
	bool (*empty)(const void *value); /* set together with `close`: the value has no server */
	enum conf_use use[CONF_PROGRAMS];
	const char *help; /* one line that says what the key does */
	/* Set for a key that means the same in each program. If it is NULL, each program has its
	 * own function. */
	conf_key_apply *apply;
};

extern const struct conf_key_row conf_key_rows[CONF_KEYS];

/* Lists the names of the keys that the program uses, followed by NULL, for confdir_new. */
void conf_key_names(enum conf_program program, const char *names[CONF_KEYS + 1]);

/* Lists name and help line of each of these keys, one after the other, followed by NULL. */
enum { CONF_KEY_HELP_MAX = 2 * CONF_KEYS + 1 };
void conf_key_help(enum conf_program program, const char *lines[CONF_KEY_HELP_MAX]);

/* The state of one key: whether its current content is in force or was refused, and why. */
struct conf_key {
	bool present;
	bool had_good; /* a content is in force, which is the current or the last good
			      * content. A content without servers does not count */
	bool closed;   /* the content or a part of it is refused, and names get SERVFAIL
			* (lib/conf_closed.h) */
	bool partly;   /* only some entries of the current content are refused, and the others are
			* in force */
	char *error;   /* why the current content is not in force; NULL: it is in force */
	int64_t error_since; /* Unix time, seconds */
	uint64_t refused;    /* refused contents since startup */
	uint64_t hash;       /* hash of the content that was checked last, and of its error */
};

/*
 * Records the result for a content of `len` bytes. `text` is NULL if the key is absent. `error` is
 * the reason for refusing the content (taken), or NULL. A new error is logged as "conf SUBJECT:
 * NAME: ERROR; keeping previous", or with another end if there is no earlier good value.
 */
void conf_key_judge(struct conf_key *key, const char *subject, const char *name, const char *text,
    size_t len, char *error);

void conf_key_clear(struct conf_key *key);

/* A program's keys. */
struct conf_keys {
	enum conf_program program;
	const char *subject;          /* name of the place that has the ConfigMap, for messages */
	const char *domain;           /* the cluster domain */
	conf_key_apply *const *apply; /* one function for each key; NULL if the row has the
				       * function, or if the program does not use the key */
	void *arg;
	struct conf_key states[CONF_KEYS];
};

/* Parses, applies and checks one content. `text` is NULL if the key is absent. `error` tells why
 * the content could not be read, or is NULL. Returns true if the value in force has changed. */
bool conf_keys_take(
    struct conf_keys *keys, enum conf_key_id id, const char *text, size_t len, const char *error);

/* Takes a ConfigMap without the key, but with an unknown key `entry` that looks like a misspelling of it. If
 * the content of `entry` asks for TLS, the key counts as refused. Otherwise it counts as absent. */
bool conf_keys_take_misspelt(
    struct conf_keys *keys, enum conf_key_id id, const char *entry, const char *text, size_t len);

/* Parses, applies and checks the content of every key that the program uses. */
bool conf_keys_take_set(struct conf_keys *keys, const struct confdir_set *set);

/* Whether the program applies the key. */
bool conf_keys_applies(const struct conf_keys *keys, enum conf_key_id id);

/* Returns how many keys are refused, for --check. Logs errors of keys that the program only reads. */
unsigned conf_keys_mistakes(const struct conf_keys *keys);

/* Writes one sample for each key that the program applies: 1 while its content is refused. */
void conf_keys_metrics(const struct conf_keys *keys, struct metrics *m);

void conf_keys_clear(struct conf_keys *keys);

#endif
