/*
 * The report: a verdict on each line of the old configuration, and what to apply in its place.
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

enum topology {
	TOPOLOGY_CLASSIC, /* dnsmasq on port 53 with kubedns behind it, as in kube-dns */
	TOPOLOGY_FRONT, /* kubedns on port 53, as CoreDNS: patterns and the query log see each query */
	TOPOLOGY_AUTO, /* not decided yet; never printed */
};

/* Whose flags; dnsmasq's stand behind the nanny's `--`. */
enum program { PROGRAM_KUBEDNS, PROGRAM_DNSMASQ, PROGRAM_NANNY, PROGRAM_COUNT };

struct report;

struct report *report_new(enum topology topology);
void report_free(struct report *report);

enum topology report_topology(const struct report *report);
void report_set_topology(struct report *report, enum topology topology);

/* One line of the old configuration and its verdict. Secrets in the line are not printed. */
void report_line(struct report *report, const struct corefile_line *line, enum verdict verdict,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The same, with the line's first word alone: nobody knows which words of it are secret. */
void report_unknown(struct report *report, const struct corefile_line *line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An option of a plugin, and the verdict on it. */
struct report_option {
	const char *name;
	enum verdict verdict;
	const char *sentence;
};

/* Reports `line` by the option that is its first word; false if no option has that name. */
bool report_option(struct report *report, const struct corefile_line *line,
    const struct report_option *options, size_t count);

/* The advice for what has no equivalent. */
#define KEEP_COREDNS                                                                               \
	"keep a small CoreDNS with these lines for their names, and make its address their stub "  \
	"domain"

/* Whether `word` names a secret or holds one, such as a password in a URL. */
bool report_is_secret(const char *word);

/* Whether any line has been reported. */
bool report_is_empty(const struct report *report);

/* Adds a flag, once; one of dnsmasq's replaces that of the manifest. Takes constant time. */
void report_flag(struct report *report, enum program program, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The server `text` (canonical) of a stub domain, or with NULL of all other names. False: there are
 * as many already as the key may have. */
bool report_server(struct report *report, const char *domain, const char *text);

/* Sets the cluster's domain, in lower case; false if another is set already, or if it is no
 * zone. */
bool report_domain(struct report *report, const char *domain);

/* The cluster's domain so far; cluster.local when nothing said one. */
const char *report_known_domain(const struct report *report);

/* Whether `zone` is the cluster's domain so far or below it. */
bool report_in_cluster(const struct report *report, const char *zone);

/* The cluster's DNS address, as a Service says it. */
void report_cluster_ip(struct report *report, const char *address);

/* CoreDNS's own Deployment, which ours does not replace by its name: a step scales it away.
 * `replicas`: 0 when it does not say. */
void report_coredns(struct report *report, const char *deployment, int replicas);

/* kubedns reads pods too: the ClusterRole gets the right to. */
void report_reads_pods(struct report *report);

/* A line of a key of the ConfigMap that is text. ZONES are lines of the key records too, behind all of
 * RECORDS: their $TTL and $ORIGIN hold for what follows. */
enum text_key {
	TEXT_FEDERATIONS,
	TEXT_HOSTS,
	TEXT_RECORDS,
	TEXT_ZONES,
	TEXT_REWRITES,
	TEXT_KEY_COUNT
};
void report_text(struct report *report, enum text_key key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Lines that the key has so far. */
size_t report_text_count(const struct report *report, enum text_key key);

/* Prints it all. */
void report_print(const struct report *report, const char *source, FILE *out);

#endif
