/*
 * One stub server's host name over time: what its answers mean for dnsmasq. Pure: answers, failures
 * and times go in.
 *
 * Both families are asked and refreshed separately, each after its TTL. What was once good stays
 * when a refresh fails. An address that is no longer in the answer is kept for a while: servers
 * that rotate through more addresses than they show would otherwise be a change at every refresh,
 * and each change empties dnsmasq's cache.
 */
#ifndef NANNY_NAME_H
#define NANNY_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/conf.h"

enum {
	NAME_ADDRS_MAX = 16, /* of one family in one answer */
	NAME_KNOWN_MAX = 32, /* in force, both families, vanished ones included */
	NAME_TTL_MIN_S = 5,
	NAME_TTL_MAX_S = 300,
	NAME_KEEP_MIN_MS = 60 * 1000, /* a vanished address is kept for five TTLs, within these */
	NAME_KEEP_MAX_MS = 600 * 1000,
	NAME_RETRY_MIN_MS = 1000, /* after a failure, doubled each time */
	NAME_RETRY_MAX_MS = 30 * 1000,
};

enum name_change {
	NAME_SAME,  /* nothing for dnsmasq */
	NAME_LATER, /* a change that can wait for its turn */
	NAME_NOW,   /* none of the addresses that dnsmasq has is in the answer any more */
};

struct name_addr {
	struct addr addr;
	bool current;          /* in its family's last answer */
	int64_t keep_until_ms; /* when it is not */
};

struct name_family {
	bool pending;      /* a question is out */
	int64_t due_ms;    /* when to ask (again) */
	int64_t until_ms;  /* until when the last good answer holds */
	unsigned failures; /* since the last good answer */
	char error[64];    /* the last one, "" after a good answer */
	bool answered;     /* there has been a good answer, if only "no addresses" */
	unsigned ttl_s;
};

enum { NAME_V4, NAME_V6, NAME_FAMILIES };

struct name {
	char host[CONF_HOST_MAX];
	struct name_family family[NAME_FAMILIES];
	struct name_addr known[NAME_KNOWN_MAX]; /* sorted, so that another order is no change */
	size_t known_count;
};

/* A name to be asked for at once. */
void name_init(struct name *name, const char *host, int64_t now_ms);

/*
 * A good answer for one family; `count` may be 0 (the name exists without such addresses). `jitter`
 * is 0..255, drawn by the caller: names that were found together shall not be refreshed together.
 */
enum name_change name_answer(struct name *name, int family, const struct addr *addrs, size_t count,
    unsigned ttl_s, int64_t now_ms, unsigned jitter);

/* No answer, or one that says that there is no such name. */
void name_failure(
    struct name *name, int family, const char *error, int64_t now_ms, unsigned jitter);

/* Lets go of vanished addresses whose time has passed, never of the last ones. */
enum name_change name_expire(struct name *name, int64_t now_ms);

/* When name_expire has something to do or a family is due; INT64_MAX for never. */
int64_t name_next_ms(const struct name *name);

#endif
