/*
 * --migrate: another cluster DNS's configuration becomes ours.
 *
 *	Corefile            --corefile--> blocks and directives --plugins--> report --> text
 *	kubectl get -o yaml --documents--> ConfigMaps (a Corefile in one, what it imports in
 *	                                   others) and Deployments --objects--^
 *
 * Nothing is asked of a cluster and nothing is changed: files go in, text comes out. Every line of
 * a Corefile gets a verdict: carried over, changes, or no equivalent and what to do then.
 */
#ifndef KUBEDNS_MIGRATE_MIGRATE_H
#define KUBEDNS_MIGRATE_MIGRATE_H

#include <stdio.h>

/*
 * Reads `path` ("-" is standard input), a Corefile or YAML or JSON of Kubernetes objects, and prints
 * the report to `out`. 0, or -errno after an error with file and line was logged.
 */
int migrate(const char *path, FILE *out);

/* The same of text that is in memory already, called `name`; for the tests. */
int migrate_text(const char *name, const char *text, size_t len, FILE *out);

#endif
