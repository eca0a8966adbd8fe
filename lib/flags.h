/*
 * The schema of a program's command line. One table has all flags with their types, limits, defaults,
 * the flags they need and exclude, their group, and their line in --help.
 *
 *	static const struct flag flags[] = {
 *		{ "Basics", .type = FLAG_GROUP_FIRST },
 *		{ "domain", FLAG_STRING, offsetof(struct options, domain), "cluster.local.", "NAME",
 *		    "the cluster's DNS zone" },
 *		{ "pods", FLAG_CHOICE, offsetof(struct options, pods), "insecure",
 *		    "disabled|insecure|verified", "names of pods" },
 *		{ "filter-a", FLAG_SWITCH, offsetof(struct options, filter), "off", "on|off", "no A records",
 *		    RULES(NEEDS("resolver", "only the front topology filters")) },
 *		{ NULL }
 *	};
 *
 *	argv --flags_parse--> values --flags_check--> choices, sizes, servers; limits and rules checked
 *
 * Flags take effect at startup. Settings that can change at run time are in the ConfigMap, whose
 * schema is lib/conf_keys.h. --help lists its keys too.
 *
 * The syntax is the same as in Go's packages flag and pflag: `--flag=value` or `--flag value`, one
 * dash or two, `_` or `-`. A boolean's value can only follow `=`. Durations are written as in Go
 * (10s, 1m30s, 500ms). `--` ends the flags.
 *
 * The word own-loopback in an argument, also after `--`, is replaced in argv by an address
 * (lib/own_loopback.h). Every klog flag is accepted. -v sets the level, and the other klog flags
 * cause a single warning. This module handles --log-format, --sandbox, --check, --version and
 * --help, which all programs have.
 */
#ifndef LIB_FLAGS_H
#define LIB_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/log.h"
#include "lib/sandbox.h"

enum flag_type {
	FLAG_STRING,   /* char *, owned by flags, valid until flags_free */
	FLAG_OPTIONAL, /* char *; its value only follows `=`; "" without a value: see flags_given */
	FLAG_BOOL,     /* bool */
	FLAG_INT,      /* long, within `min` and `max` */
	FLAG_PORT,     /* long, 0..65535 */
	FLAG_DURATION, /* int64_t milliseconds, negative only if the default is; at least `min` */
	FLAG_LIST,     /* struct flag_list; each use appends items, which commas separate */
	FLAG_REPEAT,   /* struct flag_list; each use appends one item, which may have commas */
	/* flags_check() sets the following types, and reports all mistakes in one run: */
	FLAG_CHOICE, /* an enum, as int; its value is the index of the word in `words` or, without
		      * `words`, in `arg` */
	FLAG_SWITCH, /* bool: on or off */
	FLAG_SIZE,   /* size_t bytes, `min` to `max`; 0 for "off", if `arg` has that word, and for
		      * "" */
	FLAG_SERVER, /* struct server; default port 53; family 0 for "" */
	FLAG_GROUP,  /* no flag, but a heading in --help=all */
	FLAG_GROUP_FIRST, /* a heading that --help prints too */
	FLAG_IGNORED,     /* accepted with a warning; has a value unless `arg` is NULL */
	FLAG_ABSENT,      /* refused, because the module `arg` is not in this build */
};

struct flag_list {
	char **items;
	size_t count;
};

/*
 * A rule of a flag whose value is not the default. Exactly one of the first four members is set. A
 * property is a word that several flags have in common. A flag can exclude all flags with a property
 * without their names. The error message then has `why` of the excluded flag.
 */
struct flag_rule {
	const char *needs;        /* needs one of these flags, separated by `|` */
	const char *excludes;     /* excludes this flag */
	const char *has;          /* has this property */
	const char *excludes_all; /* excludes the flags that have this property */
	const char *why;          /* what to do, for the error message */
};

#define NEEDS(flags, text)                                                                         \
	{                                                                                          \
		.needs = (flags), .why = (text)                                                    \
	}
#define EXCLUDES(flag, text)                                                                       \
	{                                                                                          \
		.excludes = (flag), .why = (text)                                                  \
	}
#define HAS(property, text)                                                                        \
	{                                                                                          \
		.has = (property), .why = (text)                                                   \
	}
#define EXCLUDES_ALL(property)                                                                     \
	{                                                                                          \
		.excludes_all = (property), .why = ""                                              \
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
	size_t offset; /* offset of the variable in the program's options structure */
	const char
	    *deflt;       /* as typed on a command line; NULL means "", false, 0 or an empty list */
	const char *arg;  /* the value's name in --help; NULL for booleans */
	const char *help; /* one line for --help */
	const struct flag_rule *rules; /* ends with an empty rule; NULL: there are no rules */
	int64_t min, max;              /* both 0: no limits */
	const char *words; /* words of a FLAG_CHOICE in the order of the enum, if they differ from
			    * `arg` */
	void *base; /* the structure of `offset`, if it is not the program's options structure */
};

/* Options that every program has in addition to its own. */
struct flags_common {
	const char *program;        /* "kubedns" */
	const char *summary;        /* one line for --help */
	const char *unknown_hint;   /* suggestion after "unknown flag NAME"; NULL: none */
	const char *built_in;       /* lines that --version prints after the version; NULL: none */
	enum log_format log_format; /* --log-format */
	enum sandbox_mode sandbox;  /* --sandbox */
	int verbosity;              /* -v */
	bool check;                 /* --check */
	int rest; /* index in argv of the first argument after the flags; argc if there is none */
	bool rest_after_dashes; /* these arguments came after `--` */
	struct flag_list set;   /* names of the given flags, in canonical spelling */
	struct flag_list texts; /* the last value of each given flag, as typed */
	const char *const
	    *keys; /* names and help lines of ConfigMap keys, for --help; NULL: none */
};

/*
 * Fills `options` from `table` and argv, and calls log_init. --help and --version print to stdout
 * and exit with status 0. After a mistake, prints one line with the flag, the value and what is
 * accepted, and then the usage, to stderr. In that case, returns -EINVAL, and the caller exits with
 * status 2.
 */
int flags_parse(
    const struct flag *table, void *options, struct flags_common *common, int argc, char **argv);

/* Called after flags_parse. Sets the values of the types from FLAG_CHOICE to FLAG_SERVER, and
 * checks the limits and rules of each row. Returns 0, or -EINVAL after one line per mistake. */
int flags_check(const struct flag *table, void *options, const struct flags_common *common);

/* Logs `--FLAG: "VALUE": WHY`, or `--FLAG: WHY` if `value` is NULL. Returns -EINVAL. */
int flags_refuse(const char *flag, const char *value, const char *why);

/* Prints the usage line of flags_parse, for a mistake that the program itself found. If the
 * environment has FLAGS_FROM=FILE:VARIABLE, first prints the file and the line of the flags. */
void flags_say_usage(const struct flags_common *common);

/* Whether flag `name` was given on the command line. */
bool flags_given(const struct flags_common *common, const char *name);

/* Returns the flag's last value as typed, or its default. */
const char *flags_text(const struct flag *f, const struct flags_common *common);

/* Finds the flag of `table` with this name of `len` bytes, or NULL. `-` and `_` count as equal. */
const struct flag *flags_find(const struct flag *table, const char *name, size_t len);

/* Returns the variable of `f`. */
void *flags_value(const struct flag *f, void *options);

/* Whether the value of `f` is a struct flag_list. */
bool flags_is_list(const struct flag *f);

/* Frees the memory that flags_parse allocated in `options` and `common`, also after a failure. */
void flags_free(const struct flag *table, void *options, struct flags_common *common);

/* The largest value, in bytes, of a flag for a memory size. */
enum { FLAGS_SIZE_MOST = 1024 * 1024 * 1024 };

#endif
