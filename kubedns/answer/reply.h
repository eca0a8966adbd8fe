/*
 * Writes a reply. The header and the question come first, then the records, section by section. Pure. Every owner name is a compression
 * pointer, either to the question (offset 12) or to the RDATA in which the name first occurs.
 */
#ifndef KUBEDNS_ANSWER_REPLY_H
#define KUBEDNS_ANSWER_REPLY_H

#include "kubedns/answer/reason.h"

enum section { SECTION_ANSWER, SECTION_AUTHORITY, SECTION_ADDITIONAL, SECTION_COUNT };

enum { GLUE_MAX = 512, LABEL_ROOM = 1 + DNAME_LABEL_MAX + 8 };

/* A target in the answer section, and the source of its addresses. */
struct glue {
	const struct node *node; /* node with the addresses; if NULL, see below */
	/* If `node` is NULL: the target has the addresses of all endpoints in this set that have the name of entry `i`. */
	const struct endpoint_set *endpoints;
	/* If `endpoints` is NULL too: only entry `i` of this slice has the address. */
	const struct slice_endpoints *slice;
	uint16_t i;
	uint16_t target; /* offset of the name in the message */
};

/*
 * A hash table of the records and targets in the message. The key is their bytes. The table uses open addressing. Its size is chosen for
 * the message at first use, and is at most 16 KB. The table is used only if an answer could contain the same record twice.
 */
struct record_table {
	uint32_t mask; /* 0 if the table is not used yet */
	/* 0 if the place is free. 65,535 bytes have half as many records of 16 bytes. */
	uint16_t offsets[8192];
};

/*
 * Limits the work that a reply may cost without a result. Such work is a walk over endpoints whose records the reply already has. Anybody
 * who writes EndpointSlices can put one name or address into any number of them. Without this budget, an answer with one record could cost
 * a walk over all of them. Real Services stay far below it. Their slices contain a name once for each family and each list of ports. The
 * unit is the cost of one endpoint in the current slice, about 20 ns.
 */
enum {
	WORK_MAX = 65536,
	WORK_RECORD = 4, /* the cost of making a record that the reply already has */
	WORK_SLICE = 16, /* the cost of looking up a slice */
	WORK_PTR = 64, /* the cost of sorting the name of an endpoint that the reply already has */
};

struct reply {
	struct writer w; /* `max` leaves space for the OPT record */
	const struct answer_config *config;
	const struct tree *tree;
	const struct query *query;
	unsigned counts[SECTION_COUNT];
	enum section section;
	unsigned flags; /* flags of the header, including the rcode */
	unsigned extended_rcode;
	int ede;              /* extended DNS error code (RFC 8914), or -1 */
	const char *ede_text; /* text for people, or NULL; omitted if there is no space */
	bool truncated;
	bool has_keepalive; /* the OPT includes `keepalive`, in units of 100 ms */
	uint16_t keepalive;
	bool full; /* a record of this section did not fit, so the search for more records ends */
	bool tcp;  /* the request arrived over TCP */
	bool ordered; /* --nearest determines the order of an endpoint set */
	/* The upstream reply is from a server of --until-synced. Its records of our zones are accepted. */
	bool from_peers;
	bool not_ready; /* the name is ours, and the first sync has not finished */
	/* Another server gave a negative answer for a name that may become ours. The TTL is limited to --negative-ttl. */
	bool short_denial;
	bool rewritten;     /* the records belong to another name than the name in the question */
	bool rewrite_limit; /* a pattern reached its limit for a candidate */
	bool dedup; /* records may occur twice, so `table` is used to write each record once */
	uint32_t rotation;
	size_t size; /* the client's size limit */
	unsigned glue_count;
	int work_left; /* remaining part of WORK_MAX for walks that find no new record */
	/* An array of GLUE_MAX items, or NULL if no additional section is needed. About GLUE_MAX names fit into the range of a
	 * compression pointer. */
	struct glue *glue;
	struct record_table *table;   /* NULL if no record occurs twice */
	struct answer_thread *thread; /* the thread of the request */
	const struct sockaddr *client;
	struct answer_reason *reason; /* the request's */
	/* `ede_text` may point to this text. reply_begin() does not clear it. */
	char reason_text[REASON_TEXT_MAX];
};

/* Returns whether a walk over endpoints continues. A walk continues while the section may have space for a record and the budget is not
 * used up. */
static inline bool
reply_goes_on(const struct reply *reply)
{
	return !reply->full && reply->work_left > 0;
}

/* Starts a reply to `query`, which was read from the request's message. Sets RA if `forwarding` is true. */
void reply_begin(struct reply *reply, const struct answer_request *request,
    const struct query *query, bool forwarding);

/* Returns whether anybody gets the reason of a negative answer. */
static inline bool
reply_has_reason(const struct reply *reply)
{
	return reply->query->has_edns || reply->reason != NULL;
}

/* Sets the reason of a negative answer, which becomes an extended error if the query has an OPT. REASON_NONE sets nothing. */
void reply_reason(struct reply *reply, const struct reason *reason);

/* Does the same for a kind of reason that needs no other data. */
void reply_reason_kind(struct reply *reply, enum reason_kind kind);

/* The same for a kind of reason that needs a text. */
void reply_reason_text(struct reply *reply, enum reason_kind kind, const char *text);

/* Completes the reply. Adds an OPT if the query had an OPT, and sets counts and flags. Returns the length. */
size_t reply_end(struct reply *reply);

/*
 * The following functions write records whose owner name is at offset `owner`. A record that does not fit ends the answer section and sets
 * TC. In the authority and additional sections, such a record is omitted without TC.
 */

/* Writes an RRset, rotated. */
void reply_rrset(struct reply *reply, size_t owner, const struct rrset *set);

/* Writes one address record. */
void reply_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes);

/* Writes all distinct addresses of one family of an endpoint set. With --nearest, the addresses near the client come first. With
 * --udp-subset over UDP, writes as many as fit. */
void reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family);

/* Writes the records of this type at a name of --zonal, which was resolved to RESOLVED_ZONAL. */
void reply_zonal(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype);

/* Writes the distinct addresses of one family of an endpoint name. */
void reply_endpoints(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family);

/* Writes the SRV records at an endpoint's name, one for each port. The target of these records is the endpoint's name. If `service` is
 * not NULL, it is the Service's name in another zone, and the targets are in that zone. */
void reply_endpoints_srv(struct reply *reply, size_t owner, const struct resolved *resolved,
    const struct dname *service);

/* Writes the SRV records of a headless Service for this label of its ports (`_port._proto`). A label of 0 means all ports. `service` is
 * as for reply_endpoints_srv(). */
void reply_endpoint_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service);

/* Does the same for an endpoint set that is only a part of the name's endpoints. `weight` is the weight of all endpoints of the name.
 * Never uses --nearest. */
void reply_weighted_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    uint64_t port_label, const struct dname *service, unsigned weight);

/* Writes one record with this RDATA. */
void reply_record(struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s,
    const void *rdata, size_t len);

/* Writes the SOA of the zone whose name is at `owner`. A negative answer may be cached for the
 * lower of `ttl_s` and `minimum_s` (RFC 2308). */
void reply_soa(struct reply *reply, size_t owner, uint32_t ttl_s, uint32_t minimum_s);

enum existence { FOUND, NODATA, NXDOMAIN, NOT_READY };

/* Sets AA and the rcode of our NXDOMAIN or NODATA answer, and starts the authority section, where the caller then writes
 * the zone's SOA. */
void reply_denial(struct reply *reply, enum existence existence);

/* Makes a negative reply that may be cached for `ttl_s`. `soa_owner` is the offset of the zone's
 * name in the message. */
void reply_negative(
    struct reply *reply, enum existence existence, size_t soa_owner, uint32_t ttl_s);

/* Sets rcode, AA and SOA from the name's existence. */
static inline void
reply_existence(struct reply *reply, enum existence existence, size_t soa_owner)
{
	if (existence == FOUND)
		reply->flags |= FLAG_AA;
	else
		reply_negative(reply, existence, soa_owner, reply->config->negative_ttl_s);
}

/* Writes the single record that answers ANY (RFC 8482). */
void reply_hinfo(struct reply *reply, size_t owner);

/* Writes the records of this type at the apex of the cluster's zone or of a reverse zone. Returns false if there are none. */
bool reply_apex(struct reply *reply, uint16_t qtype, size_t owner);

/* Writes an RRset of SRV or NS records that all have the target `target`. `target` is NULL if the target is not in the tree. */
void reply_targets(
    struct reply *reply, size_t owner, const struct rrset *set, const struct node *target);

/* Registers a target of the answer section, which is the name of `len` bytes at offset `at`. `node` has the addresses of the target. */
void reply_target(struct reply *reply, size_t at, size_t len, const struct node *node);

/* Writes as many addresses of the targets as fit into the additional section. */
void reply_glue(struct reply *reply);

/* Writes a PTR record whose owner name is at offset `at`. The PTR record points to the name of `owner`. If `label` is not NULL, the PTR
 * record points to the endpoint with that label below `owner`. */
void reply_ptr(struct reply *reply, size_t at, const uint8_t *label, const struct owner *owner);

/* Returns an endpoint's label. The label is the host name, or the address with dashes, which the function writes to `derived`. */
const uint8_t *endpoint_label(
    const struct slice_endpoints *slice, unsigned i, uint8_t derived[LABEL_ROOM]);

/* Sets `*name` to the full name of an endpoint, which is below its Service in the zone. Returns 0 or -ENAMETOOLONG. */
int endpoint_name(struct dname *name, const struct answer_config *config,
    const struct slice_endpoints *slice, unsigned i);

#endif
