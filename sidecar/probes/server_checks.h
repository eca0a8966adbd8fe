/*
 * The sidecar's own queries, in addition to the queries of --probe. Two queries use the path of clients, and no cache answers them. One
 * further query goes to each server of the configuration in force.
 *
 *	kind       query              sent to                shows
 *	cluster    NAME NS            dnsmasq                dnsmasq reaches kubedns
 *	outside    --outside-name NS  dnsmasq                dnsmasq reaches an upstream server
 *	upstream   --outside-name NS  each upstream server   the server answers
 *	stub       DOMAIN SOA         each stub server       the server answers
 *
 * dnsmasq caches neither NS nor SOA records. NAME is the name of the first --probe that queries dnsmasq. Any response except SERVFAIL
 * counts as an answer, because the check is whether the server works, not whether the name exists. A server is failing once CHECK_FAILURES
 * queries in a row have failed, because a single packet may be lost.
 */
#ifndef SIDECAR_PROBES_SERVER_CHECKS_H
#define SIDECAR_PROBES_SERVER_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/conf.h"
#include "lib/dname.h"
#include "sidecar/probes/dns_exchange.h"

struct json_object;

enum check_kind { CHECK_CLUSTER, CHECK_OUTSIDE, CHECK_UPSTREAM, CHECK_STUB, CHECK_KIND_COUNT };

enum {
	CHECKS_MAX = 64, /* further servers are counted, but not checked */
	CHECK_INTERVAL_MS = 5000,
	/* Time between the queries to a server that failed the last one. The query to a silent server takes CHECK_TIMEOUT_MS. */
	CHECK_RETRY_MS = 1000,
	CHECK_TIMEOUT_MS = 2000,
	CHECK_FAILURES = 2,
	/* A server is slow if a reply takes at least CHECK_SLOW_MS, until one takes less than CHECK_FAST_MS. unbound avoids a server that
	 * takes 400 ms more than the others. */
	CHECK_SLOW_MS = 1000,
	CHECK_FAST_MS = 400,
};

struct check {
	enum check_kind kind;
	struct server server;
	struct dname name;
	char tls_name[CONF_HOST_MAX]; /* for a tls:// server, else "" */
	char domain[256]; /* first stub domain that uses this stub server; "" for other checks */
	struct dns_exchange exchange;
	int64_t due_ns;
	enum cause cause;          /* result of the newest query */
	unsigned failures;         /* number of failed queries in a row */
	bool asked;                /* at least one query has ended */
	bool slow;                 /* see CHECK_SLOW_MS */
	int64_t since_ns;          /* time when the server last started or stopped failing */
	uint64_t answered, failed; /* numbers of queries since the server was configured */
};

struct server_checks {
	struct server dnsmasq;
	struct tls_trust *trust;
	/* A bit for each port of a tls:// server that the sandbox does not allow and that was logged.
	 * NULL if there is none. */
	uint8_t *closed_ports;
	struct dname outside;
	bool has_outside;
	/* `skipped` is the number of servers beyond CHECKS_MAX, or a lower bound of it */
	size_t count, skipped;
	struct check *items[CHECKS_MAX];
	/* a server answers again, or is no longer slow; the caller sets it to false */
	bool recovered;
	uint64_t forwarded; /* number of the sidecar's queries that dnsmasq had to forward */
};

/* Initialises the checks that query `dnsmasq`: one for the external name `outside`, and one for `cluster`, a name that kubedns answers. If
 * a name is NULL, there is no such check. `ca` is the file with the CA certificates for tls:// servers; it must live as long as the checks.
 * Caller frees with server_checks_close. */
void server_checks_init(struct server_checks *checks, const struct server *dnsmasq,
    const struct dname *outside, const struct dname *cluster, const char *ca, int64_t now_ns);
void server_checks_close(struct server_checks *checks);

/* Replaces the checks of servers with checks of the servers in the nanny's /config. A server that stays keeps its state. */
void server_checks_configure(
    struct server_checks *checks, struct json_object *config, int64_t now_ns);

/* Sends the query of the `i`th check if it is due. If the query is in flight, continues it after poll() reported `revents`. */
void server_checks_run(struct server_checks *checks, size_t i, short revents, int64_t now_ns);

/* Returns the latest time at which the caller must call server_checks_run. */
int64_t server_checks_deadline(const struct server_checks *checks);

static inline bool
check_failing(const struct check *check)
{
	return check->failures >= CHECK_FAILURES;
}

/* Returns the first check of this kind, or NULL if there is none. */
const struct check *server_checks_find(const struct server_checks *checks, enum check_kind kind);

/* Counts the checks of this kind, and how many of these checks are failing. */
void server_checks_count(
    const struct server_checks *checks, enum check_kind kind, size_t *count, size_t *failing);

/* Returns the name of the kind: "cluster", "outside", "upstream" or "stub". */
const char *check_kind_name(enum check_kind kind);

#endif
