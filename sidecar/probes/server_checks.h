/*
 * The sidecar's own questions, besides those of --probe: two on the clients' path which no cache
 * answers, and one to each server of the configuration in force.
 *
 *	kind       question           asked of               shows
 *	cluster    NAME NS            dnsmasq                dnsmasq reaches kubedns
 *	outside    --outside-name NS  dnsmasq                dnsmasq reaches an upstream server
 *	upstream   --outside-name NS  each upstream server   the server answers
 *	stub       DOMAIN SOA         each stub server       the server answers
 *
 * dnsmasq caches neither NS nor SOA. NAME is that of the first --probe at dnsmasq. Any reply except
 * SERVFAIL counts as an answer: the check is whether the server works, not whether it has the name.
 * A server fails once CHECK_FAILURES questions in a row have failed, since one packet may be lost.
 */
#ifndef SIDECAR_PROBES_SERVER_CHECKS_H
#define SIDECAR_PROBES_SERVER_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"
#include "sidecar/probes/dns_exchange.h"

struct json_object;

enum check_kind { CHECK_CLUSTER, CHECK_OUTSIDE, CHECK_UPSTREAM, CHECK_STUB, CHECK_KIND_COUNT };

enum {
	CHECKS_MAX = 64, /* servers beyond are not asked, and counted */
	CHECK_INTERVAL_MS = 5000,
	CHECK_RETRY_MS = 1000, /* after a failure, until it is known to fail */
	CHECK_TIMEOUT_MS = 2000,
	CHECK_FAILURES = 2,
};

struct check {
	enum check_kind kind;
	struct server server;
	struct dname name;
	char domain[256]; /* of a stub server, the first that names it; else "" */
	struct dns_exchange exchange;
	int64_t due_ns;
	enum cause cause;          /* of the newest question */
	unsigned failures;         /* in a row */
	bool asked;                /* there has been a result */
	int64_t since_ns;          /* when the present state (failing or not) began */
	uint64_t answered, failed; /* questions, since the server is in force */
};

struct server_checks {
	struct server dnsmasq;
	struct dname outside;
	bool has_outside;
	size_t count, skipped; /* servers for which there was no room; at least so many */
	struct check *items[CHECKS_MAX];
	uint64_t forwarded; /* questions that dnsmasq had to forward for us */
};

/* None yet but those asked of `dnsmasq`: for `outside` unless it is NULL, and for `cluster`, a name
 * that kubedns answers, unless that is. Freed with server_checks_close. */
void server_checks_init(struct server_checks *checks, const struct server *dnsmasq,
    const struct dname *outside, const struct dname *cluster, int64_t now_ns);
void server_checks_close(struct server_checks *checks);

/* Exactly the servers of the nanny's /config from now on: those that stay keep their state. */
void server_checks_configure(
    struct server_checks *checks, struct json_object *config, int64_t now_ns);

/* Sends what is due, and goes on with the `i`th after poll() reported `revents` for it. */
void server_checks_run(struct server_checks *checks, size_t i, short revents, int64_t now_ns);

/* When server_checks_run wants to be called at the latest. */
int64_t server_checks_deadline(const struct server_checks *checks);

static inline bool
check_failing(const struct check *check)
{
	return check->failures >= CHECK_FAILURES;
}

/* The first of the kind, NULL without. */
const struct check *server_checks_find(const struct server_checks *checks, enum check_kind kind);

/* How many of the kind there are, and how many of them fail. */
void server_checks_count(
    const struct server_checks *checks, enum check_kind kind, size_t *count, size_t *failing);

/* "cluster", "outside", "upstream", "stub". */
const char *check_kind_name(enum check_kind kind);

#endif
