/*
 * The schema of a program's command line: one table with its flags, their types, bounds and
 * defaults, what each needs and excludes, their group and line of --help.
 *
 *	static const struct flag flags[] = {
 *		{ "Basics", .type = FLAG_GROUP },
 *		{ "domain", FLAG_STRING, offsetof(struct options, domain), "cluster.local.", "NAME",
 *		    "the cluster's DNS zone" },
 *		{ "pods", FLAG_CHOICE, offsetof(struct options, pods), "insecure",
 *		    "disabled|insecure|verified", "names of pods" },
 *		{ "transfer-key", FLAG_STRING, offsetof(struct options, key), "", "FILE", "TSIG keys",
 *		    RULES(NEEDS("transfer-to", "nobody gets a zone")) },
 *		{ NULL }
 *	};
 *
 *	argv --flags_parse--> values --flags_check--> choices, sizes, servers; bounds and rules hold
 *
 * Flags take effect at the start. What can change while a program runs is in the ConfigMap, whose
 * schema is lib/conf_keys.h; --help lists its keys too.
 *
 * Flags are spelled as for Go's flag and pflag packages: `--flag=value`, `--flag value`, one dash
 * or two, `_` for `-`; a boolean takes a value only after `=`. Durations as Go writes them (10s,
 * 1m30s, 500ms). `--` ends the flags. The word own-loopback in an argument, also after `--`, stands
 * for an address (lib/own_loopback.h), which takes its place in argv. Every klog flag is accepted (-v sets the level, the rest warn
 * once); --log-format, --sandbox, --check, --version and --help are common to all programs and
 * handled here.
 */
#ifndef LIB_FLAGS_H
#define LIB_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/log.h"
#include "lib/sandbox.h"

enum flag_type {
	FLAG_STRING,   /* char * (owned by flags, valid until flags_free) */
	FLAG_OPTIONAL, /* char *, its value only after `=`; "" without: see flags_given */
	FLAG_BOOL,     /* bool */
	FLAG_INT,      /* long; bounds `min` and `max` */
	FLAG_PORT,     /* long, 0..65535 */
	FLAG_DURATION, /* int64_t milliseconds, never negative unless the default is; bound `min` */
	FLAG_LIST,     /* struct flag_list: each use appends, commas split */
	FLAG_REPEAT,   /* struct flag_list: each use appends, commas kept */
	/* Set by flags_check(), which reports all mistakes in one run: */
	FLAG_CHOICE,  /* an enum, as int: the place of the word among `words`, or else in `arg` */
	FLAG_SWITCH,  /* bool: on or off */
	FLAG_SIZE,    /* size_t bytes, `min` to `max`; 0 for "off", if `arg` has it, and for "" */
	FLAG_SERVER,  /* struct server, port 53 by default; family 0 for "" */
	FLAG_GROUP,   /* no flag: the heading of those that follow, in --help */
	FLAG_IGNORED, /* accepted with a warning; takes a value unless `arg` is NULL */
};

struct flag_list {
	char **items;
	size_t count;
};

/* What a flag needs or excludes, when its value is not the default. */
struct flag_rule {
	const char *needs;    /* one of these flags, separated by `|`; or NULL */
	const char *excludes; /* this flag; or NULL */
	const char *why;      /* what to do, for the message */
};

#define NEEDS(flags, why)                                                                          \
	{                                                                                          \
		flags, NULL, why                                                                   \
	}
#define EXCLUDES(flag, why)                                                                        \
	{                                                                                          \
		NULL, flag, why                                                                    \
	}
#define RULES(...)                                                                                 \
	.rules = (const struct flag_rule[])                                                        \
	{                                                                                          \
		__VA_ARGS__,                                                                       \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

struct flag {
	const char *name;
	enum flag_type type;
	size_t offset;     /* of the variable in the program's options structure */
	const char *deflt; /* as it would be typed; NULL is "", false, 0 or an empty list */
	const char *arg;   /* the value's name in --help; NULL for booleans */
	const char *help;  /* one line */
	const struct flag_rule *rules; /* ends with an empty one; NULL: none */
	int64_t min, max;              /* both 0: no bounds */
	const char *words; /* of FLAG_CHOICE, if not those of `arg`: in the enum's order */
};

/* What every program has beside its own options. */
struct flags_common {
	const char *program; /* "kubedns" */
	const char *summary; /* one line for --help */
	const char
	    *unknown_hint; /* after "unknown flag NAME", what else it may be; NULL: nothing */
	enum log_format log_format; /* --log-format */
	enum sandbox_mode sandbox;  /* --sandbox */
	int verbosity;              /* -v */
	bool check;                 /* --check */
	int rest; /* index in argv of the first argument after the flags (argc if none) */
	bool rest_after_dashes;  /* those came after `--` */
	struct flag_list set;    /* names of flags that were given, canonical spelling */
	struct flag_list texts;  /* of each of these its last value, as typed */
	const char *const *keys; /* for --help: names and lines of ConfigMap keys; NULL: none */
};

/*
 * Fills `options` from `table` and argv and calls log_init. --help and --version print on stdout
 * and exit 0. On a mistake one line names the flag, the value and what is accepted, then usage, on
 * stderr; returns -EINVAL (the caller exits 2).
 */
int flags_parse(
    const struct flag *table, void *options, struct flags_common *common, int argc, char **argv);

/*
 * After flags_parse: reads the values of the types that are set here, and checks the bounds and the
 * rules of each row. 0, or -EINVAL after a line for each mistake.
 */
int flags_check(const struct flag *table, void *options, const struct flags_common *common);

/* Logs `--FLAG: "VALUE": WHY`, or without VALUE if that is NULL; returns -EINVAL. */
int flags_refuse(const char *flag, const char *value, const char *why);

/* The usage line of flags_parse, for a value that the program itself finds wrong; before it the file
 * and line of the flags, where FLAGS_FROM=FILE:VARIABLE of the environment says the file. */
void flags_say_usage(const struct flags_common *common);

/* Whether flag `name` was given on the command line. */
bool flags_given(const struct flags_common *common, const char *name);

/* Frees what flags_parse allocated in `options` and `common`, whether it succeeded or not. */
void flags_free(const struct flag *table, void *options, struct flags_common *common);

/* Parses Go's duration spelling into milliseconds (rounded up); 0, or -EINVAL. */
int flags_duration(const char *text, long long *ms);

/* The most that a flag of a size of memory may say, in bytes. */
enum { FLAGS_SIZE_MOST = 1024 * 1024 * 1024 };

#endif
