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

/*
 * Reads `path` ("-" is standard input), a Corefile or YAML or JSON of Kubernetes objects, and
 * prints the report to `out`. 0, or -errno after an error with file and line was logged.
 */
int migrate(const char *path, FILE *out);

/* The same for a text in memory, called `name`; for the tests. */
int migrate_text(const char *name, const char *text, size_t len, FILE *out);

#endif
