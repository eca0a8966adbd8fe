/*
 * One table per program has its flags, their defaults, their --help and the order of its manual.
 *
 *	static const struct flag flags[] = {
 *		{ "domain", FLAG_STRING, offsetof(struct options, domain), "cluster.local.", "NAME",
 *		    "the cluster's DNS zone" },
 *		{ NULL }
 *	};
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
	FLAG_INT,      /* long */
	FLAG_PORT,     /* long, 0..65535 */
	FLAG_DURATION, /* int64_t milliseconds, never negative unless the default is */
	FLAG_LIST,     /* struct flag_list: each use appends, commas split */
	FLAG_REPEAT,   /* struct flag_list: each use appends, commas kept */
	FLAG_GROUP,    /* no flag: the heading of those that follow, in --help */
	FLAG_IGNORED,  /* accepted with a warning; takes a value unless `arg` is NULL */
};

struct flag_list {
	char **items;
	size_t count;
};

struct flag {
	const char *name;
	enum flag_type type;
	size_t offset;     /* of the variable in the program's options structure */
	const char *deflt; /* as it would be typed; NULL is "", false, 0 or an empty list */
	const char *arg;   /* the value's name in --help; NULL for booleans */
	const char *help;  /* one line */
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
	bool rest_after_dashes; /* those came after `--` */
	struct flag_list set;   /* names of flags that were given, canonical spelling */
};

/*
 * Fills `options` from `table` and argv and calls log_init. --help and --version print on stdout
 * and exit 0. On a mistake one line names the flag, the value and what is accepted, then usage, on
 * stderr; returns -EINVAL (the caller exits 2).
 */
int flags_parse(
    const struct flag *table, void *options, struct flags_common *common, int argc, char **argv);

/* The usage line of flags_parse, for a value that the program itself finds wrong; before it the file
 * and line of the flags, where FLAGS_FROM=FILE:VARIABLE of the environment says the file. */
void flags_say_usage(const struct flags_common *common);

/* Whether flag `name` was given on the command line. */
bool flags_given(const struct flags_common *common, const char *name);

/* Frees what flags_parse allocated in `options` and `common`, whether it succeeded or not. */
void flags_free(const struct flag *table, void *options, struct flags_common *common);

/* Parses Go's duration spelling into milliseconds (rounded up); 0, or -EINVAL. */
int flags_duration(const char *text, long long *ms);

#endif
