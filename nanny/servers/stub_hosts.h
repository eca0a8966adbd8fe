/*
 * Resolves the host names of stub servers with c-ares, in the caller's loop. dnsmasq must never get
 * a name: it would resolve it synchronously, while all its clients wait. Names under the cluster
 * domain are asked of kubedns, others of the servers given.
 */
#ifndef NANNY_SERVERS_STUB_HOSTS_H
#define NANNY_SERVERS_STUB_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "nanny/servers/stub_host_addrs.h"

struct stub_hosts;

struct stub_hosts_stats {
	uint64_t answers, failures; /* of questions, since the start */
};

/* None yet. Caller frees with stub_hosts_free. */
struct stub_hosts *stub_hosts_new(const char *cluster_domain, const struct server *kubedns);
void stub_hosts_free(struct stub_hosts *names);

/* Sets the servers for names outside the cluster; if they have changed, queries in flight are sent
 * again. */
void stub_hosts_set_servers(struct stub_hosts *names, const struct server *servers, size_t count);

/* Exactly these names from now on: those that stay keep what is known, new ones are asked at once.
 * Returns the number of known names. */
size_t stub_hosts_set(struct stub_hosts *names, const char *const *hosts, size_t count);

/* The descriptor to poll for input, and when stub_hosts_run must be called anyway (INT64_MAX:
 * never). */
int stub_hosts_fd(const struct stub_hosts *names);
int64_t stub_hosts_next_ms(const struct stub_hosts *names, int64_t now_ms);

/* Does what is due and ready; returns the most urgent change since the last call. */
enum stub_host_change stub_hosts_run(struct stub_hosts *names, int64_t now_ms);

/* What is known about `host`, or NULL. */
const struct stub_host *stub_hosts_get(const struct stub_hosts *names, const char *host);

/* The `i`th name, in order, or NULL past the last. */
const struct stub_host *stub_hosts_at(const struct stub_hosts *names, size_t i);

struct stub_hosts_stats stub_hosts_stats(const struct stub_hosts *names);

/*
 * Reads a reply to a question for `host`: the addresses of `family` at the end of its chain
 * of CNAMEs, at most STUB_HOST_ADDRS_MAX, and the least TTL of the chain. Returns their number,
 * or -EBADMSG. Pure.
 */
int stub_hosts_parse_reply(const uint8_t *wire, size_t len, const char *host, int family,
    struct addr *addrs, unsigned *ttl_s);

#endif
