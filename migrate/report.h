/*
 * The report: a verdict on each line of the old configuration, and the new configuration to apply.
 *
 * The output is a YAML stream. The stream contains the report as comments (lines without an equivalent first, then lines that change, then
 * one list of all others, then the steps), the ConfigMap kube-dns, a kustomization of conf/kubernetes with
 * the flags, and the same flags as values of the chart conf/helm/kubedns.
 */
#ifndef MIGRATE_REPORT_H
#define MIGRATE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "migrate/corefile.h"
#include "lib/addr.h"

enum verdict {
	VERDICT_CARRIED, /* works the same in kubedns */
	VERDICT_CHANGES, /* works with a difference, which the sentence describes */
	VERDICT_NONE,    /* has no equivalent; the sentence says what to do */
	VERDICT_STAYS,   /* belongs to NodeLocal DNSCache, and is not translated */
	VERDICT_COUNT,
};

enum topology {
	TOPOLOGY_CLASSIC, /* dnsmasq listens on port 53 and forwards to kubedns, as in kube-dns */
	/* kubedns listens on port 53, like CoreDNS, so rewrite patterns and the query log see every
	 * query */
	TOPOLOGY_FRONT,
	TOPOLOGY_AUTO, /* not decided yet; never printed */
};

/* The program to which a flag belongs. dnsmasq's flags follow the nanny's `--`. */
enum program { PROGRAM_KUBEDNS, PROGRAM_DNSMASQ, PROGRAM_NANNY, PROGRAM_COUNT };

struct report;

struct report *report_new(enum topology topology);
void report_free(struct report *report);

enum topology report_topology(const struct report *report);
void report_set_topology(struct report *report, enum topology topology);

/* Selects unbound as the nanny's engine, because dnsmasq cannot encrypt queries. The verdicts on later lines are about unbound. */
void report_need_unbound(struct report *report);
bool report_is_unbound(const struct report *report);

/* The names in messages: of the engine, and of the program whose manual has the flags after the nanny's
 * `--`. With unbound, this is the nanny, which translates them. */
static inline const char *
engine_name(const struct report *report)
{
	return report_is_unbound(report) ? "unbound" : "dnsmasq";
}

static inline const char *
flags_owner(const struct report *report)
{
	return report_is_unbound(report) ? "the nanny" : "dnsmasq";
}

/* Reports one line of the old configuration and its verdict. Secrets in the line are not printed. */
void report_line(struct report *report, const struct corefile_line *line, enum verdict verdict,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Reports a line of unknown syntax. Prints only the first word, because any other word may be a secret. */
void report_unknown(struct report *report, const struct corefile_line *line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An option of a plugin and its verdict. */
struct report_option {
	const char *name;
	enum verdict verdict;
	const char *sentence;
};

/* Reports `line` and returns true if its first word is one of the options. Otherwise returns false. */
bool report_option(struct report *report, const struct corefile_line *line,
    const struct report_option *options, size_t count);

/* The advice for a line that has no equivalent. */
#define KEEP_COREDNS                                                                               \
	"keep a small CoreDNS with these lines for their names, and make its address their stub "  \
	"domain"

/* Whether `word` is the name of a secret or contains one, such as a password in a URL. */
bool report_is_secret(const char *word);

/* Whether any line has been reported. */
bool report_is_empty(const struct report *report);

/* Adds a flag unless it was already added. A flag of dnsmasq replaces the same flag in the manifest. O(1). */
void report_flag(struct report *report, enum program program, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds the server `text`, in canonical form, to the stub domain `domain`. If `domain` is NULL, adds it to the upstreams. A tls:// server
 * selects unbound. Returns false if the key already has the maximum number of servers, or servers of the other kind: a list has only
 * tls:// servers or only plain ones. */
bool report_server(struct report *report, const char *domain, const char *text);

/* Sets the cluster's domain, in lower case. Returns false if another domain is already set, or if `domain` is not a zone. */
bool report_domain(struct report *report, const char *domain);

/* Notes that the input has the placeholder `text` instead of the cluster's domain. The steps then ask
 * for the domain. */
void report_unknown_domain(struct report *report, const char *text);

/* Returns the cluster's domain as far as it is known, else cluster.local. */
const char *report_known_domain(const struct report *report);

/* Whether `zone` is the cluster's domain (report_known_domain), or below it. */
bool report_in_cluster(const struct report *report, const char *zone);

/* Sets the cluster's DNS address, which is in the Service. */
void report_cluster_ip(struct report *report, const char *address);

/* Stores the name of CoreDNS's Deployment, which differs from the name of our Deployment. A printed step scales CoreDNS's Deployment down.
 * `replicas` is 0 if unknown. */
void report_coredns(struct report *report, const char *deployment, int replicas);

/* Stores the port of CoreDNS's pods, if it is not 53. Printed steps then make the Service send queries to both ports. */
void report_old_port(struct report *report, const char *port);

/* Notes that the old DNS is kube-dns, whose Deployment has the name of ours. The steps then replace it. */
void report_replaces_kube_dns(struct report *report);

/* Notes that kubedns also reads pods, so the ClusterRole needs this right. */
void report_reads_pods(struct report *report);

/* The text keys of the ConfigMap, to which lines can be added. ZONES are also lines of the key records. Lines of ZONES come after all lines
 * of RECORDS, because $TTL and $ORIGIN in ZONES apply to all lines after them. */
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

/* Returns the number of lines that the key has so far. */
size_t report_text_count(const struct report *report, enum text_key key);

/* Whether a line of the key begins with `start`. */
bool report_text_begins(const struct report *report, enum text_key key, const char *start);

/* Prints the whole report. */
void report_print(const struct report *report, const char *source, FILE *out);

#endif
