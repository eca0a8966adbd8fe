/*
 * The reason why an answer is negative or surprising, in one sentence. The sentence is the text of
 * an extended DNS error, and the start of an explanation (kubedns/show/explain.h). Extended DNS
 * errors are only in replies to queries with an OPT (RFC 8914).
 *
 *	the name, and the part of it that exists --reason_find--> struct reason --reason_text--> "db-1 is not ready"
 *
 * A new reason needs one line in enum reason_kind and one in the table of reason.c. Pure. The work
 * is limited, because any client can send queries for missing names at full rate. A reason costs
 * one lookup in the index of labels, and a look at no more than REASON_OWNERS_MAX Services of the
 * same name and REASON_ENDPOINTS_MAX endpoints.
 *
 * A sentence contains no secrets, only facts that DNS queries reveal, and the mistake in a refused entry of
 * stubDomains. A sentence contains labels of
 * the client's query. A sentence names a Service of another namespace only if PTR queries find that
 * Service. The same objects give the same sentence, in whatever order they arrived.
 */
#ifndef KUBEDNS_ANSWER_REASON_H
#define KUBEDNS_ANSWER_REASON_H

#include "kubedns/answer/zone_lookup.h"

enum reason_kind {
	REASON_NONE,
	/* the name does not exist */
	REASON_NAME,        /* the zone does not have the name */
	REASON_SVC_MISSING, /* web.prod.cluster.local: the label svc is missing */
	REASON_SHORT,       /* web.cluster.local: the namespace and svc are missing */
	REASON_NAMESPACE,   /* the namespace does not exist */
	/* The namespace does not exist, but another namespace has such a Service. */
	REASON_NAMESPACE_OTHER,
	REASON_SERVICE,       /* the Service does not exist */
	REASON_SERVICE_OTHER, /* the Service is in another namespace */
	REASON_NO_ADDRESS,    /* the Service has no ClusterIP yet */
	REASON_SEARCHED,      /* a resolver's search list made the name from an external name */
	REASON_SEARCHED_MAYBE,
	REASON_NO_ENDPOINTS,
	REASON_NONE_READY,
	REASON_MEMBER, /* no endpoint has the name */
	/* No ready endpoint has the name, and there are too many other endpoints to search them. */
	REASON_MEMBER_UNKNOWN,
	REASON_MEMBER_NOT_READY,
	REASON_PORT,
	REASON_ZONE_NAME, /* a name with `_zone` that is not a name of --zonal */
	REASON_PODS_OFF,
	REASON_POD_NAME, /* the label is not an address */
	REASON_POD,      /* no running pod has the address (--pods=verified) */
	REASON_POD_BELOW,
	/* the name exists, but not with this type */
	REASON_TYPE,
	REASON_IPV4_ONLY,
	REASON_IPV6_ONLY,
	REASON_ONLY_BELOW, /* an empty non-terminal */
	REASON_ZONE,       /* no endpoint is published in this zone (--zonal) */
	REASON_ZONE_UNKNOWN,
	/* reasons that concern the server */
	REASON_NOT_SYNCED,
	REASON_STALE,
	REASON_NO_FORWARDER,
	REASON_CONFIG_UNREAD,
	REASON_STUB_REFUSED, /* the ConfigMap's text has a mistake, which the sentence names */
	REASON_STUB_CLOSED,
	REASON_ENCRYPTED, /* the name must be encrypted, and kubedns cannot encrypt queries */
	REASON_UPSTREAM_FAILED,
	REASON_FILTERED,
	/* The kinds before this number have a sentence. The others say how a stage has answered. */
	REASON_SENTENCES,
	REASON_EXISTS = REASON_SENTENCES,
	REASON_WILDCARD, /* a wildcard matches the name, or the name has wildcards */
	REASON_EMPTY,    /* the name exists, without records */
	REASON_MISSING,
	REASON_SENT, /* other servers are queried for the name */
	REASON_COUNT,
	/* A stage's own reasons begin with this number. */
	REASON_OF_STAGE = REASON_COUNT
};

enum {
	REASON_TEXT_MAX = 240,
	REASON_OWNERS_MAX = 4,
	REASON_ENDPOINTS_MAX = 512,
};

/* The labels point into the name or the tree. Labels that the kind does not use are NULL. */
struct reason {
	enum reason_kind kind;
	const uint8_t *label;               /* the label that is missing or not ready */
	const uint8_t *service, *namespace; /* the Service and namespace to which it belongs */
	const uint8_t *other;               /* another namespace that has such a Service */
	bool more_others;
	const struct name *name;
	unsigned first, last; /* the range of labels of `name` before the search list */
	unsigned count;       /* number of endpoints or seconds */
	const char *level;    /* the kind of the missing label: "Service" */
	uint16_t qtype;
	const struct dname *zone;
	const char *text; /* the message about a mistake in the ConfigMap */
};

/*
 * The reason of a whole answer, for a request that asks for it (struct answer_request). The first
 * stage that answers the query's name sets `stage`, `kind` and `object`. The stage may also have
 * set another name before.
 */
struct answer_reason {
	enum stage_id stage; /* the caller of answer() sets it to STAGE_COUNT before */
	unsigned kind;       /* an enum reason_kind, or one of the stage's own reasons */
	/* What `kind` refers to, as the stage defines it. For the zone stage, `resolved` or NULL. */
	const void *object;
	struct name name; /* the query's name, or the name that a rewrite replaced it with */
	int below;        /* number of labels before the cluster zone's name, or -1 */
	struct resolved resolved;
	/* The reason of the extended error, which may be about the target of an alias. The kind is
	 * REASON_NONE if there is none. */
	struct reason denial;
	struct name denied; /* denial.name */
	struct name_buf name_buf, denied_buf;
};

/* Copies the reason of an extended error. */
void reason_keep(struct answer_reason *answer, const struct reason *reason);

/*
 * Finds the reason why the first `below` labels (at least one) of `name`, which resolve() has
 * resolved to `resolved`, have no record of type `qtype`. The kind is REASON_NONE if there is no
 * reason to report.
 */
void reason_find(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below, const struct resolved *resolved, uint16_t qtype);

/* Writes the sentence to `text`, truncated with "..." if it is too long. Returns its length. */
size_t reason_text(const struct reason *reason, char text[REASON_TEXT_MAX]);

/* Returns the INFO-CODE (RFC 8914) of a reason. */
int reason_ede(enum reason_kind kind);

/* Returns whether PTR queries can find a Service with this owner. */
bool reason_may_name(
    const struct answer_config *config, const struct tree *tree, const struct owner *owner);

#endif
