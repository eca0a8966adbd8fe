/*
 * --objects-dir: a directory of Kubernetes manifests as a source of events, in place of the API.
 *
 *	directory --inotify--> changed files --documents_read--> objects --difference--> event_sink
 *
 * Like `kubectl apply -f DIR`, it reads the files NAME.yaml, NAME.yml and NAME.json, without hidden
 * files and subdirectories. It follows symbolic links, so a mounted ConfigMap works. Objects
 * without a namespace are in "default".
 *
 * The first manifests_run() sends LISTING for every kind, each object, and SYNCED for every kind.
 * Later calls send the differences. An object that is no longer in any file is DELETED.
 *
 * A file counts as a whole. Its last valid content stays in effect while the file is invalid, while
 * it cannot be read, and while it is being written (between the first write and its close). While
 * the directory is missing, all files keep their last valid content. Within a valid file
 *   - an object that cannot be identified (no name, or a misspelled kind such as Servcie) is ignored,
 *     and while there is one, no object of the file is deleted;
 *   - an object with an invalid field, or with an unknown member that resembles one that DNS reads
 *     (clusterIp), keeps its last valid content; a new object is accepted without that field. Each
 *     of these mistakes causes one log line with file, line and reason, and another line when the
 *     file is valid again. If an object is in two files, the file with the last name takes
 *     precedence, with a warning.
 *
 * Objects are not kept in memory. Each object needs some 90 bytes. A changed file is read once to
 * find the differences. If there are any, it is read a second time to send them.
 */
#ifndef KUBEDNS_MANIFESTS_MANIFESTS_H
#define KUBEDNS_MANIFESTS_MANIFESTS_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/cluster/object.h"

enum {
	MANIFESTS_FILES_MAX = 100000,
	MANIFESTS_OBJECTS_MAX = 1000000,
	MANIFESTS_FILE_MAX = 1 << 30, /* bytes */
	/* Bytes read in a run. The file that exceeds this limit is the last file of the run. */
	MANIFESTS_RUN_BYTES = 1 << 20,
};

struct manifests;

/* Watches `path`. Does not read anything yet. A directory that is missing or unreadable is logged
 * by the first run. Free with manifests_free(). */
struct manifests *manifests_new(const char *path, event_sink sink, void *arg);

/* From now on, reads object.external, and sends objects that only --external-zones needs. */
void manifests_read_external(struct manifests *m);

/* From now on, reads object.import, and sends ServiceImports. */
void manifests_read_imports(struct manifests *m);

/* Returns the descriptor to poll for input, or -1 without inotify. Changes are then only found
 * periodically. */
int manifests_fd(const struct manifests *m);

/*
 * Reads pending events. Then reads the files that differ. It does so at the first call, if
 * something may have changed, and if `force` is set because the period has passed. Returns true if
 * it called the sink. After MANIFESTS_RUN_BYTES, it returns and leaves the descriptor readable. The
 * next calls continue, and the last of these calls sends the deletions.
 */
bool manifests_run(struct manifests *m, bool force);

/* Whether all objects of the directory have been sent once. */
bool manifests_synced(const struct manifests *m);

struct manifests_status {
	size_t files;      /* number of files that are read */
	size_t broken;     /* files whose last reading failed or found a mistake */
	size_t objects;    /* number of objects, including objects that another file overrides */
	size_t duplicates; /* objects that another file overrides */
	/* Mistakes that the last readings found: invalid files, invalid objects, duplicates, and an
	 * unreadable directory. */
	size_t mistakes;
	/* The latest mistake, or NULL. Valid until the next run. */
	const char *error;
};

void manifests_status(const struct manifests *m, struct manifests_status *status);

void manifests_free(struct manifests *m);

/* For --check: reads all files once, optionally with manifests_read_external() and
 * manifests_read_imports(). Logs every mistake and returns their number. */
size_t manifests_check(const char *path, bool external, bool imports);

#endif
