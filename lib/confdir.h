/*
 * Reads a ConfigMap that is mounted as a directory with one file per key. Each change yields one
 * consistent set of keys.
 *
 * The kubelet creates a symlink `..data`, which it replaces by rename. It also creates one link per
 * key, which leads through `..data`. A set is read through one resolved `..data`, so it is never
 * half old and half new. The path may also be a plain directory, or a symlink to a plain directory.
 * It may appear later, be replaced or be deleted. inotify reports changes. As a fallback, the
 * caller also polls periodically. A missing directory, and a file that looks like a misspelt key,
 * are logged once.
 */
#ifndef LIB_CONFDIR_H
#define LIB_CONFDIR_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFDIR_VALUE_MAX = 1 << 20 }; /* a ConfigMap may have 1 MiB in total */

struct confdir_key {
	char *name;
	char *value; /* NUL-terminated; may hold NULs before `len` */
	size_t len;
	char *error; /* why the key could not be read (a directory, too large, unreadable); else
		      * NULL */
	char
	    *entry; /* the key is missing, and this unknown entry looks like a misspelling of it and
		      * asks for TLS (conf_closed.h). The value has the contents of all such
		      * entries. Else NULL */
};

/* The requested keys that exist, in the order of the request. */
struct confdir_set {
	struct confdir_key *keys;
	size_t count;
	bool exists; /* whether the directory exists */
};

struct confdir;

/* Watches the directory `path` for the keys `names` (ends with NULL; copied). `path` does not have
 * to exist. Caller frees with confdir_free. */
struct confdir *confdir_new(const char *path, const char *const *names);

/* Returns the inotify descriptor, to be polled for input. */
int confdir_fd(const struct confdir *dir);

/*
 * Reads pending events. If they may have changed the keys, or if `force` is set because the period
 * has passed, reads the set. Returns true if its content differs from the last returned set, and on
 * the first call. In that case, `set` is filled, and the caller frees it with confdir_set_free.
 */
bool confdir_poll(struct confdir *dir, bool force, struct confdir_set *set);

/* Returns the key `name`, or NULL when it is absent. */
const struct confdir_key *confdir_get(const struct confdir_set *set, const char *name);

void confdir_set_free(struct confdir_set *set);
void confdir_free(struct confdir *dir);

/* For --check: whether the directory that `flag` names can be read. If not, logs an error. */
bool confdir_check(const char *flag, const char *path);

/* Returns a hint if the entry is the configuration of another program, such as CoreDNS; else "". */
const char *confdir_foreign(const char *entry);

#endif
