/*
 * Resolves the host names of stub servers with c-ares, in the caller's event loop. The servers file
 * must never contain a host name, because dnsmasq would resolve it synchronously while all its
 * clients wait. kubedns resolves names under the cluster domain, and the given servers resolve all
 * other names.
 */
#ifndef NANNY_SERVERS_STUB_HOSTS_H
#define NANNY_SERVERS_STUB_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "nanny/servers/stub_host_addrs.h"

struct stub_hosts;

struct stub_hosts_stats {
	uint64_t answers, failures; /* lookups since the start */
};

/* Creates an empty set of names. Caller frees with stub_hosts_free. */
struct stub_hosts *stub_hosts_new(const char *cluster_domain, const struct server *kubedns);
void stub_hosts_free(struct stub_hosts *names);

/* Sets the servers for names outside the cluster. If they changed, queries in flight are sent
 * again. */
void stub_hosts_set_servers(struct stub_hosts *names, const struct server *servers, size_t count);

/* Replaces the set of names. Names that stay keep their addresses; new names are looked up at once.
 * Returns the number of names. */
size_t stub_hosts_set(struct stub_hosts *names, const char *const *hosts, size_t count);

/* Return the descriptor to poll for input, and the time when stub_hosts_run must be called even
 * without input (CLOCK_NEVER if no call is due). */
int stub_hosts_fd(const struct stub_hosts *names);
int64_t stub_hosts_next_ms(const struct stub_hosts *names, int64_t now_ms);

/* Handles due lookups and pending answers. Returns the most urgent change since the last call. */
enum stub_host_change stub_hosts_run(struct stub_hosts *names, int64_t now_ms);

/* Returns the state of `host`, or NULL if `host` is not in the set. */
const struct stub_host *stub_hosts_get(const struct stub_hosts *names, const char *host);

/* Returns the `i`th name in sorted order, or NULL after the last name. */
const struct stub_host *stub_hosts_at(const struct stub_hosts *names, size_t i);

struct stub_hosts_stats stub_hosts_stats(const struct stub_hosts *names);

/*
 * Parses a response to a lookup of `host`. Copies at most STUB_HOST_ADDRS_MAX addresses of `family`
 * at the end of the CNAME chain to `addrs`. Sets `*ttl_s` to the lowest TTL in the chain. Returns
 * the number of addresses, or -EBADMSG. Pure.
 */
int stub_hosts_parse_reply(const uint8_t *wire, size_t len, const char *host, int family,
    struct addr *addrs, unsigned *ttl_s);

#endif
