/* Reads the Kubernetes objects of a cluster's DNS, as `kubectl get -o yaml` prints them, and
 * reports on them. */
#ifndef MIGRATE_OBJECTS_H
#define MIGRATE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "migrate/report.h"

struct json_object;

/* A key of a ConfigMap that is text: a Corefile, or a file that it may import or read. */
struct objects_text {
	struct corefile_text text;
	char *where;   /* the key and its ConfigMap */
	bool corefile; /* CoreDNS begins with it */
	bool backup;   /* another Corefile beside that, which CoreDNS does not read */
	bool used;
};

struct objects {
	struct report *report;
	const char *source; /* the file that they are read from */
	struct objects_text *texts;
	size_t count;
	bool left_out; /* more than TEXTS_MAX */
	bool coredns;  /* a workload runs CoreDNS, which has nothing to say without its Corefile */
	bool kube_dns; /* its ConfigMap or workload */
	bool partial;  /* no Corefile, but what one imports by custom: coredns-custom alone */
	char corefile_from[254]; /* the ConfigMap that it mounts, "" where it names none */
};

/* One object, its kind and line (documents_sink). */
void objects_take(void *arg, struct json_object *json, const char *kind_hint, unsigned line);

/* corefile_import over the texts: the last part of the pattern is matched against their keys. `arg`
 * is a struct objects. */
size_t objects_import(
    void *arg, const char *pattern, const char *from, struct corefile_text **texts);

/* The same for a plugin's file (struct plugin_files): the key of that name. */
bool objects_file(void *arg, const char *path, const char *from, struct corefile_text *text);

/*
 * All objects have been taken: decides the topology, and makes a Corefile of coredns-custom's parts
 * where the Corefile itself is not there. 0, or -ENOENT and a line in the log: CoreDNS runs, and neither
 * is in the objects.
 */
int objects_complete(struct objects *objects);

/* All Corefiles have been read: reports on the texts that none of them names. */
void objects_report_unread(const struct objects *objects);

void objects_free(struct objects *objects);

#endif
