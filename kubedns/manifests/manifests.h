/*
 * --objects-dir: a directory of Kubernetes manifests as a source of events, in place of the API.
 *
 *	directory --inotify--> changed files --documents_read--> objects --difference--> event_sink
 *
 * Read are the files NAME.yaml, NAME.yml and NAME.json that are not hidden, subdirectories left
 * out, as `kubectl apply -f DIR` does; symbolic links are followed, so a mounted ConfigMap works.
 * Objects without a namespace are in "default".
 *
 * The first manifests_run sends LISTING of every kind, each object, SYNCED of every kind. Later
 * ones send what differs: an object that is in no file any more is DELETED. A file counts whole or
 * not at all: while one is being written (between the first write and its close), or is broken, or
 * cannot be read, what it last said stays in force; so does all that the directory said while that
 * is missing. Within a good file an object that cannot be told (no name) is left out, and while
 * there is one nothing of the file is deleted; one with a field that makes no sense keeps what it
 * last said, or is new without that field. So does one with a member that Kubernetes does not know
 * and that is like one that DNS reads (clusterIp); a kind like that (Servcie) is an object that cannot
 * be told. Each such thing is one log line with file, line and reason, and another when the file is
 * good again. An object in two files: the last in name order counts, with a warning.
 *
 * No object is kept in memory: a changed file is read once to see what differs and, if something
 * does, once more to send it. What is remembered is about 90 bytes an object.
 */
#ifndef KUBEDNS_MANIFESTS_MANIFESTS_H
#define KUBEDNS_MANIFESTS_MANIFESTS_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/cluster/object.h"

enum {
	MANIFESTS_FILES_MAX = 100000,
	MANIFESTS_OBJECTS_MAX = 1000000,
	MANIFESTS_FILE_MAX = 1 << 30,  /* bytes */
	MANIFESTS_RUN_BYTES = 1 << 20, /* of a run; a file's last ones may be above it */
};

struct manifests;

/* Watches `path` and reads nothing yet. A directory that is missing or not readable is logged at
 * the first run. Caller frees with manifests_free. */
struct manifests *manifests_new(const char *path, event_sink sink, void *arg);

/* The inotify descriptor to poll for input;
 * -1 when there is none and the period is all there is. */
int manifests_fd(const struct manifests *m);

/*
 * Reads pending events and, at the first call, when something may have changed, or when `force`
 * says that the period has passed, the files that differ. True if the sink was called. Reads
 * MANIFESTS_RUN_BYTES and then returns with the descriptor readable: what is more comes with the
 * next runs, and what is gone with the last of them.
 */
bool manifests_run(struct manifests *m, bool force);

/* Everything that is in the directory was sent once. */
bool manifests_synced(const struct manifests *m);

struct manifests_status {
	size_t files;      /* that are read */
	size_t broken;     /* of them, those whose last reading failed or found a mistake */
	size_t objects;    /* held, those that another file overrides included */
	size_t duplicates; /* of them, those that another file overrides */
	size_t mistakes;   /* found by the last readings: broken files,
			    * bad objects, duplicates, the directory */
	/* The latest of them; NULL while there are none; valid until the next run. */
	const char *error;
};

void manifests_status(const struct manifests *m, struct manifests_status *status);

void manifests_free(struct manifests *m);

/* For --check: reads everything once, logs every mistake, and returns how many there were. */
size_t manifests_check(const char *path);

#endif
