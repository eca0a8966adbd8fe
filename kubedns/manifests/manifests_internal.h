/* Shared by manifests.c (the runs, and comparing a file with its known content), manifests_files.c
 * (the list of files, and inotify) and manifests_spelling.c (mistakes). */
#ifndef KUBEDNS_MANIFESTS_MANIFESTS_INTERNAL_H
#define KUBEDNS_MANIFESTS_MANIFESTS_INTERNAL_H

#include <time.h>
#include <sys/types.h>

#include "kubedns/manifests/manifests_index.h"
#include "kubedns/manifests/manifests.h"

/* Identifies a version of a file without reading it. It is all zero if the file was never read, or
 * must be read again. */
struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};

struct file {
	struct manifest_file held; /* name and objects of the file */
	struct stamp stamp;
	size_t mistakes; /* number of mistakes that the last reading found */
	bool writing;    /* somebody has written to the file and not closed it */
	bool present;    /* the file was in the directory at the last scan */
	bool known;      /* the file was valid at least once; `held` has its last valid content */
	bool sweep;      /* entries that the last reading did not find are deleted */
	/* Some of its objects take precedence again, because a later file no longer has them. */
	bool replay;
};

struct manifests {
	char *path;
	/* The parent directory, and the directory's name in it. `base` is NULL if there is nothing
	 * to watch there. */
	char *parent, *base;
	event_sink sink;
	void *arg;
	int epoll, inotify, again; /* `again` is an eventfd, readable if there is more to do */
	int dir_watch, parent_watch;
	int dir;             /* open only during a scan */
	struct file **files; /* sorted by name */
	size_t file_count;
	struct manifests_index index;
	size_t duplicates;
	bool listing, synced;
	bool external; /* see manifests_read_external() */
	bool imports;  /* see manifests_read_imports() */
	/* The next run continues the scan after this file. NULL if no scan is incomplete. */
	char *after;
	off_t budget;  /* number of bytes that this run may still read */
	bool dirty;    /* a scan might find changes */
	bool sent;     /* this run has called the sink */
	bool verbose;  /* --check: every mistake is logged */
	int dir_errno; /* errno of the last failure to read the directory, or 0 */
	char *error;
};

struct stat;
struct json_object;

struct stamp manifests_stamp(const struct stat *st);

/* Whether files with this name are read. */
bool manifests_is_manifest(const char *name);

/* Returns the index of this name in m->files, or the index at which to insert the name. */
size_t manifests_file_place(const struct manifests *m, const char *name);

/* Returns the file with this name, and creates it if necessary. Returns NULL if there are too many files. */
struct file *manifests_file_named(struct manifests *m, const char *name);

/* Sets m->parent and m->base from m->path. */
void manifests_split_path(struct manifests *m);

/* Watches the directory to which the path leads now. It may be another directory than before. */
void manifests_watch(struct manifests *m);

/* Reads pending inotify events; sets `writing` and `dirty`. */
void manifests_events(struct manifests *m);

/* Logs a mistake in `file` at `line` (0: the whole file) and counts it. */
void manifests_mistake(struct manifests *m, struct file *file, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Finds a mistake that an API server would reject, in an object for which object_extract() returned
 * `err`. There are three such mistakes: the group does not have this version (-ENOTSUP), the
 * externalName is not a host name (it is then emptied), or the EndpointSlice has no Service.
 * Describes the mistake in `what`. Returns false if there is none.
 */
bool manifests_doubtful(struct json_object *json, const char *kind_hint, struct object *object,
    int err, char *what, size_t size);

/*
 * Finds a probable misspelling in an object. It is an unknown member that resembles a member that
 * DNS reads, or (`*in_kind`) the kind itself. Describes it in `what`. Returns false if there is
 * none.
 */
bool manifests_misspelled(
    struct json_object *json, const char *kind_hint, char *what, size_t size, bool *in_kind);

/* Reads a file that has changed and sends the differences. Deletions wait for manifests_sweep(). */
void manifests_take(struct manifests *m, struct file *file);

/* Sends the deletions of the objects that a file no longer has after a reading. Sends the deletions
 * of all objects of files that are no longer present. */
void manifests_sweep(struct manifests *m);

#endif
