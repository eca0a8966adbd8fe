/*
 * The report: a verdict on each line of the old configuration, and what to apply
 * instead.
 *
 * The output is a YAML stream: the report as comments, the ConfigMap kube-dns, a kustomization over
 * conf/kubernetes with the flags, and the same as values of the chart conf/helm/kubedns.
 */
#ifndef MIGRATE_REPORT_H
#define MIGRATE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "migrate/corefile.h"
#include "lib/addr.h"

enum verdict {
	VERDICT_CARRIED, /* means the same here */
	VERDICT_CHANGES, /* carried over, and something is different: the sentence says what */
	VERDICT_NONE,    /* no equivalent: the sentence says what to do */
	VERDICT_COUNT,
};

enum program { PROGRAM_KUBEDNS, PROGRAM_DNSMASQ, PROGRAM_COUNT };

struct report;

struct report *report_new(void);
void report_free(struct report *report);

/* One line of the old configuration and what becomes of it. Secrets in it are not printed. */
void report_line(struct report *report, const struct corefile_line *line, enum verdict verdict,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Adds a flag, once; one of dnsmasq's replaces that of the manifest. */
void report_flag(struct report *report, enum program program, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The server `text` (canonical) of a stub domain, or with NULL of all other names. */
void report_server(struct report *report, const char *domain, const char *text);

/* Sets the cluster's domain, in lower case; false if another is set already, or if it is no
 * zone. */
bool report_domain(struct report *report, const char *domain);

/* The cluster's domain so far; cluster.local when nothing said one. */
const char *report_known_domain(const struct report *report);

/* The cluster's DNS address, as a Service says it. */
void report_cluster_ip(struct report *report, const char *address);

/* CoreDNS's own Deployment, which ours does not replace by its name: how it is scaled away is a step.
 * `replicas`: 0 when it does not say. */
void report_coredns(struct report *report, const char *deployment, int replicas);

/* A line of a key of the ConfigMap that is text. */
enum text_key { TEXT_HOSTS, TEXT_RECORDS, TEXT_REWRITES, TEXT_KEY_COUNT };
void report_text(struct report *report, enum text_key key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints it all. */
void report_print(const struct report *report, const char *source, FILE *out);

#endif
