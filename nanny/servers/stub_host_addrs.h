/*
 * The addresses of one stub server's host name over time, and which changes dnsmasq has to know.
 * Pure: answers, failures and times go in.
 *
 * Both families are asked and refreshed separately, each after its TTL. If a refresh fails the last
 * good answer stays. An address that is no longer in the answer is kept for a while: a name that
 * rotates through more addresses than one answer has would otherwise change at every refresh, and
 * each change empties dnsmasq's cache.
 */
#ifndef NANNY_SERVERS_STUB_HOST_ADDRS_H
#define NANNY_SERVERS_STUB_HOST_ADDRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/conf.h"

enum {
	STUB_HOST_ADDRS_MAX = 16, /* of one family in one answer */
	STUB_HOST_KNOWN_MAX = 32, /* in force, both families, vanished ones included */
	STUB_HOST_TTL_MIN_S = 5,
	STUB_HOST_TTL_MAX_S = 300,
	STUB_HOST_KEEP_MIN_MS =
	    60 * 1000, /* a vanished address is kept for five TTLs, within these */
	STUB_HOST_KEEP_MAX_MS = 600 * 1000,
	STUB_HOST_RETRY_MIN_MS = 1000, /* after a failure, doubled each time */
	STUB_HOST_RETRY_MAX_MS = 30 * 1000,
};

enum stub_host_change {
	STUB_HOST_SAME,  /* no change for dnsmasq */
	STUB_HOST_LATER, /* a change that can wait for NANNY_REFRESH_GAP_MS */
	STUB_HOST_NOW,   /* none of the addresses that dnsmasq has is in the answer any more */
};

struct stub_host_addr {
	struct addr addr;
	bool current;          /* in its family's last answer */
	int64_t keep_until_ms; /* when it is not */
};

struct stub_host_family {
	bool pending;      /* a question is out */
	int64_t due_ms;    /* when to ask (again) */
	int64_t until_ms;  /* until when the last good answer holds */
	unsigned failures; /* since the last good answer */
	char error[64];    /* the last one, "" after a good answer */
	bool answered;     /* there has been a good answer, if only "no addresses" */
	unsigned ttl_s;
};

enum { STUB_HOST_V4, STUB_HOST_V6, STUB_HOST_FAMILIES };

struct stub_host {
	char host[CONF_HOST_MAX];
	struct stub_host_family family[STUB_HOST_FAMILIES];
	struct stub_host_addr
	    known[STUB_HOST_KNOWN_MAX]; /* sorted, so that another order is no change */
	size_t known_count;
};

/* A name to be asked for at once. */
void stub_host_init(struct stub_host *name, const char *host, int64_t now_ms);

/*
 * A good answer for one family; `count` may be 0 (the name exists without such addresses). `jitter`
 * is 0..255, drawn by the caller, so that names that were resolved together are not refreshed
 * together.
 */
enum stub_host_change stub_host_answer(struct stub_host *name, int family, const struct addr *addrs,
    size_t count, unsigned ttl_s, int64_t now_ms, unsigned jitter);

/* No answer, or one that says that there is no such name. */
void stub_host_failure(
    struct stub_host *name, int family, const char *error, int64_t now_ms, unsigned jitter);

/* Drops vanished addresses whose time has passed, but never the last ones. */
enum stub_host_change stub_host_expire(struct stub_host *name, int64_t now_ms);

/* When stub_host_expire has something to do or a family is due; INT64_MAX for never. */
int64_t stub_host_next_ms(const struct stub_host *name);

#endif
