/*
 * Translates another cluster DNS's configuration into ours.
 *
 *	Corefile            --corefile--> blocks and directives --plugins--> report --> text
 *	kubectl get -o yaml --documents--> ConfigMaps (a Corefile in one, what it imports in
 *	                                   others) and Deployments --objects--^
 *
 * It asks no cluster and changes nothing: it reads files and prints text. Every line of a Corefile
 * gets a verdict: carried over, changes, or no equivalent, with what to do then.
 */
#ifndef MIGRATE_MIGRATE_H
#define MIGRATE_MIGRATE_H

#include <stdio.h>

#include "migrate/report.h"

/* Which topology is printed. AUTO: classic for kube-dns, front for CoreDNS, since that works as CoreDNS
 * does: its rewrites by pattern and its query log need a kubedns that every query reaches. */
enum migrate_topology { MIGRATE_AUTO, MIGRATE_CLASSIC, MIGRATE_FRONT };

/*
 * Reads `path` ("-" is standard input), a Corefile or YAML or JSON of Kubernetes objects, and
 * prints the report to `out`. 0, or -errno after an error with file and line was logged; -ENODATA: there
 * is nothing to report on.
 */
int migrate(const char *path, enum migrate_topology topology, FILE *out);

#endif
