/*
 * Writes a reply: header, question, then records section by section. Pure. Every owner name is a
 * compression pointer: to the question (offset 12), or to the RDATA in which the name first occurs.
 */
#ifndef KUBEDNS_ANSWER_REPLY_H
#define KUBEDNS_ANSWER_REPLY_H

#include "kubedns/answer/reason.h"

enum section { SECTION_ANSWER, SECTION_AUTHORITY, SECTION_ADDITIONAL, SECTION_COUNT };

enum { GLUE_MAX = 512, LABEL_ROOM = 1 + DNAME_LABEL_MAX + 8 };

/* A target in the answer section, and where its addresses are found. */
struct glue {
	const struct node *node;              /* at this node, or if NULL: */
	const struct endpoint_set *endpoints; /* all endpoints here that have entry `i`'s name */
	const struct slice_endpoints *slice;  /* (endpoints NULL) entry `i` of this slice alone */
	uint16_t i;
	uint16_t target; /* the name's offset in the message */
};

/*
 * A hash table of the records and targets in the message, by their bytes: open addressing, sized
 * for the message when it is first used. 16 KB, only for answers in which a record could come
 * twice.
 */
struct record_table {
	uint32_t mask; /* 0: not used yet */
	/* 0: free. Twice as many as there are records of 16 bytes in 65,535. */
	uint16_t offsets[8192];
};

struct reply {
	struct writer w; /* `max` leaves room for the OPT record */
	const struct answer_config *config;
	const struct tree *tree;
	const struct query *query;
	unsigned counts[SECTION_COUNT];
	enum section section;
	unsigned flags; /* of the header, rcode included */
	unsigned extended_rcode;
	int ede;              /* extended DNS error code (RFC 8914), or -1 */
	const char *ede_text; /* for people, or NULL; left out if there is no room */
	bool truncated;
	bool has_keepalive; /* the OPT says `keepalive`, in 100 ms */
	uint16_t keepalive;
	bool full;           /* a record of this section did not fit: nothing more is looked for */
	bool tcp;            /* the request's */
	bool ordered;        /* --nearest or --udp-subset choose the order of an endpoint set */
	bool from_peers;     /* by --until-synced: records of our zones are taken from it */
	bool not_ready;      /* the name is ours, and the cluster has not been read yet */
	bool about_to_exist; /* looked at with --hold-ms only */
	/* Another server denies a name that may become ours: its TTL is at most --negative-ttl. */
	bool short_denial;
	bool rewritten;     /* the records are those of another name than the question's */
	bool rewrite_limit; /* of a search walk: a pattern ended at its bound */
	bool once; /* records may come twice: each is looked up in `table` and written once */
	uint32_t rotation;
	size_t size; /* the client's limit */
	unsigned glue_count;
	unsigned passed; /* what walks over endpoints cost in vain: reply_internal.h's PASSED_MAX */
	/* GLUE_MAX of them, about as many names as lie within a compression pointer's reach; NULL:
	 * no additional section is wanted. */
	struct glue *glue;
	struct record_table *table;   /* NULL: no record comes twice */
	struct answer_thread *thread; /* the request's */
	struct search_walk *search;   /* of the query's answer_info */
	char reason[REASON_TEXT_MAX]; /* what `ede_text` may point to; reply_begin() skips it */
};

/* Begins a reply to `query`, which was read from the request's message. `forwarding`: RA. */
void reply_begin(struct reply *reply, const struct answer_request *request,
    const struct query *query, bool forwarding);

/* Gives the reply to a query with an OPT an extended error for this reason (REASON_NONE: none). */
void reply_reason(struct reply *reply, const struct reason *reason);

/* The same for a kind that needs no more than the reply has. */
void reply_reason_kind(struct reply *reply, enum reason_kind kind);

/* Completes it: OPT if the query had one, counts and flags. Returns the length. */
size_t reply_end(struct reply *reply);

/*
 * The functions below write records whose owner name is at offset `owner`. A record that does not
 * fit ends the answer section and sets TC; from the other sections it is left out, without TC.
 */

/* An RRset, rotated. */
void reply_rrset(struct reply *reply, size_t owner, const struct rrset *set);

/* One address record. */
void reply_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes);

/* All distinct addresses of one family of an endpoint set, those near the client first with --nearest;
 * with --udp-subset over UDP as many as fit. */
void reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family);

/* The records of this type at a name of --zonal, which was resolved to RESOLVED_ZONAL. */
void reply_zonal(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype);

/* The distinct addresses of one family of an endpoint name. */
void reply_endpoints(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family);

/* SRV records at an endpoint's own name: its ports, with the name itself as target. `service`: the
 * Service's name in another zone, in which targets end; NULL: its name in ours. */
void reply_endpoints_srv(struct reply *reply, size_t owner, const struct resolved *resolved,
    const struct dname *service);

/* SRV records of a headless Service: under this label of its ports (`_port._proto`), or under all
 * (0). `service` as above. */
void reply_endpoint_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service);

/* The same of an endpoint set that is a part of what the name has, with the weight of the whole; never by
 * --nearest. */
void reply_weighted_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service, unsigned weight);

/* One record with this RDATA. */
void reply_record(struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s,
    const void *rdata, size_t len);

/* The SOA of the zone whose name is at `owner`. A denial may be kept for the lesser of `ttl_s` and
 * `minimum_s` (RFC 2308). */
void reply_soa(struct reply *reply, size_t owner, uint32_t ttl_s, uint32_t minimum_s);

enum existence { FOUND, NODATA, NXDOMAIN, NOT_READY };

/* A negative reply that may be kept for `ttl_s`. `soa_owner`: offset of the zone's name in the message. */
void reply_negative(
    struct reply *reply, enum existence existence, size_t soa_owner, uint32_t ttl_s);

/* The one place that turns existence into rcode, AA and SOA. */
static inline void
reply_existence(struct reply *reply, enum existence existence, size_t soa_owner)
{
	if (existence == FOUND)
		reply->flags |= FLAG_AA;
	else
		reply_negative(reply, existence, soa_owner, reply->config->negative_ttl_s);
}

/* The one record that answers ANY (RFC 8482). */
void reply_hinfo(struct reply *reply, size_t owner);

/* The records of this type at the apex of the cluster's zone or of a reverse zone; false: there are none. */
bool reply_apex(struct reply *reply, uint16_t qtype, size_t owner);

/* An RRset of SRV or NS records whose target is `target` in each; NULL: not in the tree. */
void reply_targets(
    struct reply *reply, size_t owner, const struct rrset *set, const struct node *target);

/* The name of `len` bytes at offset `at`, a target in the answer section, has its addresses at the
 * node. */
void reply_target(struct reply *reply, size_t at, size_t len, const struct node *node);

/* The additional section: the addresses of the targets, as far as they fit. */
void reply_glue(struct reply *reply);

/* A PTR at offset `at` (`owner` in the functions above) to an owner's name, or to the endpoint with
 * this label below it. */
void reply_ptr(struct reply *reply, size_t at, const uint8_t *label, const struct owner *owner);

/* An endpoint's own label: its host name, or its address with dashes, in `derived`. */
const uint8_t *endpoint_label(
    const struct slice_endpoints *slice, unsigned i, uint8_t derived[LABEL_ROOM]);

/* The full name of an endpoint, below its Service and the zone; 0 or -ENAMETOOLONG. */
int endpoint_name(struct dname *name, const struct answer_config *config,
    const struct slice_endpoints *slice, unsigned i);

#endif
