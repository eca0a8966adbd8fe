/*
 * Keeps the addresses of a stub server's host name over time, and decides which changes dnsmasq
 * needs to know. Pure: the input is answers, failures and times.
 *
 * IPv4 and IPv6 addresses are looked up separately, and each is refreshed after its TTL. If a
 * refresh fails, the last good answer stays in use. An address that has vanished from the answer is
 * kept for a while. A name may have more addresses than fit into one answer. If vanished addresses
 * were dropped at once, such a name would change at every refresh. Each change empties dnsmasq's
 * cache.
 */
#ifndef NANNY_SERVERS_STUB_HOST_ADDRS_H
#define NANNY_SERVERS_STUB_HOST_ADDRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/conf.h"

enum {
	STUB_HOST_ADDRS_MAX = 16, /* addresses of one family in one answer */
	STUB_HOST_KNOWN_MAX = 32, /* addresses in use, of both families, including vanished ones */
	STUB_HOST_TTL_MIN_S = 5,
	STUB_HOST_TTL_MAX_S = 300,
	/* A vanished address is kept for five TTLs, within these limits. */
	STUB_HOST_KEEP_MIN_MS = 60 * 1000,
	STUB_HOST_KEEP_MAX_MS = 600 * 1000,
	/* wait after a failure; doubles each time up to the maximum */
	STUB_HOST_RETRY_MIN_MS = 1000,
	STUB_HOST_RETRY_MAX_MS = 30 * 1000,
};

enum stub_host_change {
	STUB_HOST_SAME,  /* nothing changes for dnsmasq */
	STUB_HOST_LATER, /* a change that may wait for NANNY_REFRESH_GAP_MS */
	/* urgent: the answer contains none of the addresses that dnsmasq uses */
	STUB_HOST_NOW,
};

struct stub_host_addr {
	struct addr addr;
	bool current;          /* the last answer for its family contained it */
	int64_t keep_until_ms; /* expiry of an address that is not current */
};

struct stub_host_family {
	bool pending;      /* a query is in flight */
	int64_t due_ms;    /* time of the next query */
	int64_t until_ms;  /* expiry of the last good answer */
	unsigned failures; /* failures since the last good answer */
	char error[64];    /* last error; "" after a good answer */
	bool answered;     /* at least one good answer has arrived, possibly without addresses */
	unsigned ttl_s;
};

enum { STUB_HOST_V4, STUB_HOST_V6, STUB_HOST_FAMILIES };

struct stub_host {
	char host[CONF_HOST_MAX];
	struct stub_host_family family[STUB_HOST_FAMILIES];
	/* sorted, so that a different order in the answer does not count as a change */
	struct stub_host_addr known[STUB_HOST_KNOWN_MAX];
	size_t known_count;
};

/* Initialises a name. The first lookup of the name is due at once. */
void stub_host_init(struct stub_host *name, const char *host, int64_t now_ms);

/*
 * Handles a good answer for one family. `count` is 0 if the name exists without such addresses.
 * `jitter` is a random number 0..255 from the caller. Because of the jitter, names that were
 * resolved together are not refreshed together.
 */
enum stub_host_change stub_host_answer(struct stub_host *name, int family, const struct addr *addrs,
    size_t count, unsigned ttl_s, int64_t now_ms, unsigned jitter);

/* Handles a failed lookup, or an answer that the name does not exist. */
void stub_host_failure(
    struct stub_host *name, int family, const char *error, int64_t now_ms, unsigned jitter);

/* Drops vanished addresses that have expired, but never the last address. */
enum stub_host_change stub_host_expire(struct stub_host *name, int64_t now_ms);

/* Returns when stub_host_expire must run or a family must be refreshed. Returns CLOCK_NEVER if
 * neither is due. */
int64_t stub_host_next_ms(const struct stub_host *name);

#endif
