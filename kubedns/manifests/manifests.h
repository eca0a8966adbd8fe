/*
 * --objects-dir: a directory of Kubernetes manifests as a source of events, in place of the API.
 *
 *	directory --inotify--> changed files --documents_read--> objects --difference--> event_sink
 *
 * It reads the files NAME.yaml, NAME.yml and NAME.json that are not hidden, without subdirectories,
 * as `kubectl apply -f DIR` does; symbolic links are followed, so a mounted ConfigMap works.
 * Objects without a namespace are in "default".
 *
 * The first manifests_run sends LISTING of every kind, each object, SYNCED of every kind. Later
 * ones send the differences: an object that is in no file any more is DELETED.
 *
 * A file counts as a whole: while it is being written (between the first write and its close), is
 * broken or cannot be read, its last good content stays in force. So does everything while the
 * directory is missing. Within a good file
 *   - an object that cannot be identified (no name, or a misspelled kind such as Servcie) is left
 *     out, and while there is one nothing of the file is deleted;
 *   - an object with an invalid field, or with an unknown member that resembles one that DNS reads
 *     (clusterIp), keeps its last good content; a new object is taken without that field.
 * Each of these is one log line with file, line and reason, and another when the file is good
 * again. Of an object in two files the one in the last file by name counts, with a warning.
 *
 * No object is kept in memory, only some 90 bytes for each: a changed file is read once to find the
 * differences and, if there are any, once more to send them.
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
	MANIFESTS_RUN_BYTES = 1 << 20, /* of a run, which ends after the file that passes it */
};

struct manifests;

/* Watches `path` and reads nothing yet. A directory that is missing or not readable is logged at
 * the first run. Caller frees with manifests_free. */
struct manifests *manifests_new(const char *path, event_sink sink, void *arg);

/* From now on object.external is read, and objects that only --external-zones needs are sent. */
void manifests_read_external(struct manifests *m);

/* From now on object.import is read, and ServiceImports are sent. */
void manifests_read_imports(struct manifests *m);

/* The descriptor to poll for input; -1 without inotify: only the period then shows changes. */
int manifests_fd(const struct manifests *m);

/*
 * Reads pending events and, at the first call, when something may have changed, or when `force`
 * says that the period has passed, the files that differ. True if the sink was called. Reads
 * MANIFESTS_RUN_BYTES and then returns with the descriptor readable: the next runs continue, and
 * the last of them sends the deletions.
 */
bool manifests_run(struct manifests *m, bool force);

/* Whether everything in the directory has been sent once. */
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

/* For --check: reads everything once, with manifests_read_external() and manifests_read_imports() or
 * without, logs every mistake, and returns how many there were. */
size_t manifests_check(const char *path, bool external, bool imports);

#endif
