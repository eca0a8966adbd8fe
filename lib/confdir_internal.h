/* The parts of confdir: watching the path, and reading one consistent set. Private to confdir*.c. */
#ifndef LIB_CONFDIR_INTERNAL_H
#define LIB_CONFDIR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/confdir.h"

enum { CONFDIR_WATCHES_MAX = 128 };

struct watched_dir {
	int wd;
	char *entry; /* the only name in that directory that matters; NULL: all */
};

/*
 * The path is walked from its root, link by link, and each directory on the way is watched for the
 * one entry that leads on: so a missing directory that appears, a swapped link and a replaced mount
 * are all the same event. The directory itself is watched for everything, and the files behind the
 * keys too, because a write into a bind-mounted file is no event of its directory. A watch is
 * always set before what it watches is read, so whatever happens later is an event.
 */
struct confdir_watch {
	const char *path;
	char *const *names; /* of the keys; NULL ends */
	int fd;
	bool warned; /* that inotify is not available */
	struct watched_dir watches[CONFDIR_WATCHES_MAX];
	size_t count;
};

/* Opens inotify and watches nothing yet; `path` and `names` are borrowed. */
void confdir_watch_init(struct confdir_watch *w, const char *path, char *const *names);

/* Reads the pending events; true if one of them may have changed a key. */
bool confdir_watch_changed(struct confdir_watch *w);

/*
 * Sets the watches again, before the set is read. The new ones are added first and those that are
 * no longer needed removed afterwards: an unchanged path gives the same descriptors, and no event
 * of our own making.
 */
void confdir_watch_renew(struct confdir_watch *w);

void confdir_watch_clear(struct confdir_watch *w);

/*
 * Reads the keys `names` (NULL ends) below `path` through one resolved `..data`. Where that is
 * exchanged again and again meanwhile, every key is in error until the next event or the period.
 */
void confdir_read(const char *path, char *const *names, struct confdir_set *set);

#endif
