/* What manifests.c (the runs, and what changed in a file), manifests_watch.c (which files there are, and inotify) and
 * manifests_spelling.c (mistakes) share. */
#ifndef KUBEDNS_MANIFESTS_MANIFESTS_INTERNAL_H
#define KUBEDNS_MANIFESTS_MANIFESTS_INTERNAL_H

#include <time.h>
#include <sys/types.h>

#include "kubedns/manifests/manifests_index.h"
#include "kubedns/manifests/manifests.h"

/* Tells one content of a file from another without reading it. All zero: never read, or to be read
 * again. */
struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};

struct file {
	struct manifest_file held; /* its name and objects */
	struct stamp stamp;
	size_t mistakes; /* found by its last reading */
	bool writing;    /* someone has written and not closed yet */
	bool present;    /* in the directory at the last scan */
	bool known;      /* was read well once: what it holds is its last good content */
	bool sweep;      /* entries that were not seen are gone */
	bool replay;     /* some of its objects count again, since a later file gave them up */
};

struct manifests {
	char *path;
	char *parent, *base; /* the directory above and the name in it;
			      * base NULL when there is nothing to watch there */
	event_sink sink;
	void *arg;
	int epoll, inotify, again; /* `again` is an eventfd: there is more to do */
	int dir_watch, parent_watch;
	int dir;             /* open during a scan */
	struct file **files; /* by name */
	size_t file_count;
	struct manifests_index index;
	size_t duplicates;
	bool listing, synced;
	bool external; /* see manifests_read_external() */
	bool imports;  /* see manifests_read_imports() */
	char *after;  /* a scan goes on after this file, at the next run; NULL: none is under way */
	off_t budget; /* bytes that this run may still read */
	bool dirty;   /* a scan might find something */
	bool sent;    /* the sink was called by this run */
	bool verbose; /* --check: every mistake is logged */
	int dir_errno; /* why the directory could not be read, 0 when it could */
	char *error;
};

struct stat;
struct json_object;

struct stamp manifests_stamp(const struct stat *st);

/* Whether a file of this name is read. */
bool manifests_is_manifest(const char *name);

/* The position of this name in m->files, or where it would be. */
size_t manifests_file_place(const struct manifests *m, const char *name);

/* The file of this name, made if need be; NULL when there are too many. */
struct file *manifests_file_named(struct manifests *m, const char *name);

/* Sets m->parent and m->base from m->path. */
void manifests_split_path(struct manifests *m);

/* Watches what the path names now, which may be another directory than the last time. */
void manifests_watch(struct manifests *m);

/* Reads pending inotify events; sets `writing` and `dirty`. */
void manifests_events(struct manifests *m);

/* Logs a mistake in `file` at `line` (0: as a whole) and counts it. */
void manifests_mistake(struct manifests *m, struct file *file, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Describes in `what` what an API server would refuse in an object that was extracted with `err`: a
 * version of a known group that does not exist (-ENOTSUP), an externalName that is no host name, which
 * is emptied, or an EndpointSlice of no Service. False: there is nothing.
 */
bool manifests_doubtful(struct json_object *json, const char *kind_hint, struct object *object,
    int err, char *what, size_t size);

/*
 * Describes in `what` the probable misspelling in an object: an unknown member that resembles one
 * that DNS reads, or (`*in_kind`) the kind itself. False: there is none.
 */
bool manifests_misspelled(
    struct json_object *json, const char *kind_hint, char *what, size_t size, bool *in_kind);

/* Reads a file that has changed and sends the differences, except deletions, which wait for
 * manifests_sweep. */
void manifests_take(struct manifests *m, struct file *file);

/* Sends the deletions: objects that are gone from the files that were taken, and those of files
 * that are no longer present. */
void manifests_sweep(struct manifests *m);

#endif
