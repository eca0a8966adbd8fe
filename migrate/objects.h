/* Reads the Kubernetes objects of a cluster's DNS, as printed by `kubectl get -o yaml`, and reports
 * on them. */
#ifndef MIGRATE_OBJECTS_H
#define MIGRATE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "migrate/report.h"

struct json_object;

/* A text in a ConfigMap: a Corefile, or a file that a Corefile may import or read. */
struct objects_text {
	struct corefile_text text;
	char *where;   /* names of the key and of its ConfigMap */
	bool corefile; /* the Corefile that CoreDNS reads */
	bool backup;   /* another Corefile in the same ConfigMap, which CoreDNS does not read */
	bool used;
};

struct objects {
	struct report *report;
	const char *source; /* the file that contains the objects */
	struct objects_text *texts;
	size_t count;
	bool left_out;   /* there are more texts than TEXTS_MAX */
	bool coredns;    /* a workload runs CoreDNS, so a Corefile is needed */
	bool kube_dns;   /* the objects include kube-dns's ConfigMap or workload */
	bool custom;     /* there is a ConfigMap beside that of the Corefile */
	bool configured; /* something of a cluster's DNS was read */
	bool partial;    /* the objects include only coredns-custom, which a Corefile imports */
	/* the ConfigMap that CoreDNS's workload mounts; "" if it names none */
	char corefile_from[254];
};

/* Handles one object with its kind and line. Implements documents_sink. */
void objects_take(void *arg, struct json_object *json, const char *kind_hint, unsigned line);

/* Implements corefile_import. Compares the last part of the pattern with the keys of the texts.
 * `arg` is a struct objects. */
size_t objects_import(
    void *arg, const char *pattern, const char *from, struct corefile_text **texts);

/* Reads a file for a plugin (struct plugin_files). The file is the key with the same name. */
bool objects_file(void *arg, const char *path, const char *from, struct corefile_text *text);

/*
 * Call after the last object. Decides the topology. If the objects contain neither a Corefile nor a
 * workload of CoreDNS, makes a Corefile from the keys of coredns-custom. Returns 0. If CoreDNS
 * runs, but its Corefile is missing, logs a line and returns -ENOENT.
 */
int objects_complete(struct objects *objects);

/* Call after all Corefiles have been read. Reports the texts that no Corefile refers to. */
void objects_report_unread(const struct objects *objects);

void objects_free(struct objects *objects);

#endif
