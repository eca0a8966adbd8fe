/*
 * Translates another cluster DNS's configuration into a configuration of kubedns.
 *
 *	Corefile            --corefile--> blocks and directives --plugins--> report --> text
 *	kubectl get -o yaml --documents--> ConfigMaps (one with a Corefile, others with its
 *	                                   imports) and Deployments --objects--^
 *
 * The program reads files and prints text. The program does not contact a cluster and changes
 * nothing. For every line of a Corefile, the report contains a verdict: carried over, changes, or
 * no equivalent. A line without an equivalent also gets advice.
 */
#ifndef MIGRATE_MIGRATE_H
#define MIGRATE_MIGRATE_H

#include <stdio.h>

#include "migrate/report.h"

/* The topology of the output. AUTO means classic for kube-dns and front for CoreDNS. CoreDNS's
 * rewrites by pattern and its query log need the front topology, in which every query reaches
 * kubedns. */
enum migrate_topology { MIGRATE_AUTO, MIGRATE_CLASSIC, MIGRATE_FRONT };

/*
 * Reads `path`, or standard input if `path` is "-". The text is a Corefile, or Kubernetes objects
 * in YAML or JSON. Prints the report to `out`. Returns 0, or -errno after it logged an error with
 * file and line. -ENODATA means that there is nothing to report on.
 */
int migrate(const char *path, enum migrate_topology topology, FILE *out);

#endif
