/*
 * Why an answer is negative or surprising, in one sentence: what an extended DNS error says (RFC 8914,
 * in replies to queries with an OPT only) and what an explanation (kubedns/show/explain.h) begins with.
 *
 *	the name, how far it exists --reason_find--> struct reason --reason_text--> "db-1 is not ready"
 *
 * A new reason is one line in enum reason_kind and one in the table of reason.c. Pure. The work is
 * bounded, since any client can send queries for missing names at full rate: one look-up in the
 * index of labels, at most REASON_OWNERS_MAX Services of the same name and REASON_ENDPOINTS_MAX
 * endpoints.
 *
 * A sentence tells a client nothing that it could not find by asking: labels of its own question,
 * and of other namespaces only Services that answer PTR queries. The same objects give the same
 * sentence, in whatever order they arrived.
 */
#ifndef KUBEDNS_ANSWER_REASON_H
#define KUBEDNS_ANSWER_REASON_H

#include "kubedns/answer/zone_lookup.h"

enum reason_kind {
	REASON_NONE,
	/* the name does not exist */
	REASON_NAME,            /* in the zone */
	REASON_SVC_MISSING,     /* web.prod.cluster.local, without its svc */
	REASON_SHORT,           /* web.cluster.local: a Service's name alone */
	REASON_NAMESPACE,       /* is not there */
	REASON_NAMESPACE_OTHER, /* is not there, but another has such a Service */
	REASON_SERVICE,         /* is not there */
	REASON_SERVICE_OTHER,   /* is in another namespace */
	REASON_NO_ADDRESS,      /* the Service has no cluster IP yet */
	REASON_SEARCHED,        /* a resolver's search list made it of an outside name */
	REASON_SEARCHED_MAYBE,
	REASON_NO_ENDPOINTS,
	REASON_NONE_READY,
	REASON_MEMBER,         /* no such endpoint */
	REASON_MEMBER_UNKNOWN, /* none that is ready; there are too many others to look through */
	REASON_MEMBER_NOT_READY,
	REASON_PORT,
	REASON_ZONE_NAME, /* `_zone` stands where --zonal has no name */
	REASON_PODS_OFF,
	REASON_POD_NAME, /* spells no address */
	REASON_POD,      /* no running pod has it (--pods=verified) */
	REASON_POD_BELOW,
	/* it exists, but not with this type */
	REASON_TYPE,
	REASON_IPV4_ONLY,
	REASON_IPV6_ONLY,
	REASON_ONLY_BELOW, /* an empty non-terminal */
	REASON_ZONE,       /* nothing is published in this zone (--zonal) */
	REASON_ZONE_UNKNOWN,
	/* of the server */
	REASON_NOT_SYNCED,
	REASON_STALE,
	REASON_NO_FORWARDER,
	REASON_UPSTREAM_FAILED,
	REASON_FILTERED,
	REASON_EXPLAIN_BUSY,
	REASON_COUNT
};

enum {
	REASON_TEXT_MAX = 240,
	REASON_OWNERS_MAX = 4,
	REASON_ENDPOINTS_MAX = 512,
};

/* Labels point into the name or the tree; NULL where a kind has none. */
struct reason {
	enum reason_kind kind;
	const uint8_t *label;               /* the one that is missing, or not ready */
	const uint8_t *service, *namespace; /* it belongs to */
	const uint8_t *other;               /* a namespace that has such a Service */
	bool more_others;
	const struct name *name;
	unsigned first, last; /* the labels of `name` before the search list */
	unsigned count;       /* endpoints, seconds */
	const char *level;    /* what the missing label would be: "Service" */
	uint16_t qtype;
	const struct dname *zone;
};

/*
 * Why the first `below` labels (at least one) of `name`, which resolve() has resolved to
 * `resolved`, have no record of type `qtype`. REASON_NONE: there is no reason to give.
 */
void reason_find(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below, const struct resolved *resolved, uint16_t qtype);

/* Writes the sentence into `text`, cut with "..." if it is too long; returns its length. */
size_t reason_text(const struct reason *reason, char text[REASON_TEXT_MAX]);

/* The INFO-CODE (RFC 8914) of a reason. */
int reason_ede(enum reason_kind kind);

/* Whether a Service of this owner can be found by asking for PTRs. */
bool reason_may_name(
    const struct answer_config *config, const struct tree *tree, const struct owner *owner);

/* Whether the labels [first, last] look like an outside name to which a resolver has appended its
 * search list, and not like an endpoint below a Service. */
bool reason_looks_searched(const struct name *name, unsigned first, unsigned last);

#endif
