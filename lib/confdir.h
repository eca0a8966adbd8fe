/*
 * A ConfigMap mounted as a directory, one file a key, as one consistent set per change.
 *
 * The kubelet writes `..data` (a symlink, swapped by rename) and a link per key through it: a set
 * is read through one resolved `..data`, so it is never half old, half new. A plain directory, a
 * symlink to one, a directory that appears later, is replaced or is deleted work too. Changes come
 * by inotify; the caller's period is the fallback. A directory that is not there, and a file that
 * looks like a misspelt key, are logged once.
 */
#ifndef LIB_CONFDIR_H
#define LIB_CONFDIR_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFDIR_VALUE_MAX = 1 << 20 }; /* a ConfigMap's own limit: 1 MiB in all */

struct confdir_key {
	char *name;
	char *value; /* NUL-terminated; may hold NULs before `len` */
	size_t len;
	char *error; /* why it could not be read (a directory, too large, unreadable), else NULL */
};

/* The keys that were asked for, those that exist, in the order asked. */
struct confdir_set {
	struct confdir_key *keys;
	size_t count;
	bool exists; /* the directory is there */
};

struct confdir;

/* Watches `path`, which need not exist, for the keys `names` (NULL ends; copied). Caller frees with
 * confdir_free. */
struct confdir *confdir_new(const char *path, const char *const *names);

/* The inotify descriptor to poll for input. */
int confdir_fd(const struct confdir *dir);

/*
 * Reads pending events and, if the keys may have changed (or `force`: the period has passed), the
 * set. True if its content differs from the set last returned (the first call always does); `set`
 * is then filled and the caller frees it with confdir_set_free.
 */
bool confdir_poll(struct confdir *dir, bool force, struct confdir_set *set);

/* The key `name`, or NULL when it is absent. */
const struct confdir_key *confdir_get(const struct confdir_set *set, const char *name);

void confdir_set_free(struct confdir_set *set);
void confdir_free(struct confdir *dir);

/* What to say of an entry that is another program's configuration, such as CoreDNS's; "": nothing. */
const char *confdir_foreign(const char *entry);

#endif
