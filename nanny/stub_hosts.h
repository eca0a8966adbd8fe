/*
 * Resolves the host names of stub servers with c-ares, in the caller's loop: dnsmasq must never see
 * a name, since it would look it up while all its clients wait. Names under the cluster domain are
 * asked of kubedns, others of the servers given.
 */
#ifndef NANNY_NAMES_H
#define NANNY_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "nanny/stub_host.h"

struct names;

struct names_stats {
	uint64_t answers, failures; /* of questions, since the start */
};

/* None yet. Caller frees with names_free. */
struct names *names_new(const char *cluster_domain, const struct server *kubedns);
void names_free(struct names *names);

/* The servers for names outside the cluster;
 * questions that are out are asked again if they changed. */
void names_set_servers(struct names *names, const struct server *servers, size_t count);

/* Exactly these names from now on: those that stay keep what is known, new ones are asked at once.
 * Returns the number of known names. */
size_t names_set(struct names *names, const char *const *hosts, size_t count);

/* The descriptor to poll for input, and when names_run must be called anyway (INT64_MAX: never). */
int names_fd(const struct names *names);
int64_t names_next_ms(const struct names *names, int64_t now_ms);

/* Does what is due and ready; returns the most urgent change since the last call. */
enum name_change names_run(struct names *names, int64_t now_ms);

/* What is known about `host`, or NULL. */
const struct name *names_get(const struct names *names, const char *host);

/* The `i`th name, in order, or NULL past the last. */
const struct name *names_at(const struct names *names, size_t i);

struct names_stats names_stats(const struct names *names);

/*
 * Reads a reply to a question for `host`: the addresses of `family` at the end of its chain
 * of CNAMEs, at most NAME_ADDRS_MAX, and the least TTL of the chain. Returns their number,
 * or -EBADMSG. Pure.
 */
int names_parse_reply(const uint8_t *wire, size_t len, const char *host, int family,
    struct addr *addrs, unsigned *ttl_s);

#endif
