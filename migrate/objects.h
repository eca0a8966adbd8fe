/* Reads the Kubernetes objects of a cluster's DNS, as `kubectl get -o yaml` prints them, and
 * reports on them. */
#ifndef MIGRATE_OBJECTS_H
#define MIGRATE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "migrate/report.h"

struct json_object;

/* The texts of all ConfigMaps: Corefiles, and what they may import. */
struct objects {
	struct report *report;
	const char *source; /* the file that they are read from */
	struct corefile_text *texts;
	size_t count;
	bool coredns; /* a workload runs CoreDNS, which has nothing to say without its Corefile */
	char corefile_from[254]; /* the ConfigMap that it mounts, "" where it names none */
};

/* One object, its kind and line (documents_sink). */
void objects_take(void *arg, struct json_object *json, const char *kind_hint, unsigned line);

/* corefile_import over the texts: the last part of the pattern is matched against their keys. `arg`
 * is a struct objects. */
size_t objects_import(
    void *arg, const char *pattern, const char *from, struct corefile_text **texts);

/* Whether text `i` is a Corefile itself. */
bool objects_is_corefile(const struct objects *objects, size_t i);

/* 0, or -ENOENT and a line in the log: CoreDNS runs, and its Corefile is in none of the objects. */
int objects_complete(const struct objects *objects);

void objects_free(struct objects *objects);

#endif
