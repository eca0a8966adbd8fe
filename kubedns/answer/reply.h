/*
 * Writing a reply: header, question, then records section by section. Pure. Every owner
 * name is a pointer to where the name already stands: the question (offset 12) or the RDATA
 * that introduced it.
 */
#ifndef KUBEDNS_ANSWER_REPLY_H
#define KUBEDNS_ANSWER_REPLY_H

#include "kubedns/answer/resolve.h"

enum section { SECTION_ANSWER, SECTION_AUTHORITY, SECTION_ADDITIONAL, SECTION_COUNT };

enum { GLUE_MAX = 512, LABEL_ROOM = 1 + DNAME_LABEL_MAX + 8 };

/* Where the addresses of a name in the answer section are: at a node, of all endpoints of the endpoint set
 * that have entry `i`'s name, or (neither) of entry `i` alone. */
struct glue {
	const struct node *node;
	const struct endpoint_set *endpoints;
	const struct slice_endpoints *slice;
	uint16_t i;
	uint16_t target; /* the name's offset in the message */
};

struct reply {
	struct writer w; /* `max` leaves room for the OPT */
	const struct answer_config *config;
	const struct tree *tree;
	const struct query *query;
	unsigned counts[SECTION_COUNT];
	enum section section;
	unsigned flags; /* of the header, rcode included */
	unsigned extended_rcode;
	int ede; /* RFC 8914 code to say, or -1 */
	bool truncated;
	uint32_t rotation;
	size_t size; /* the client's limit */
	unsigned glue_count;
	/* GLUE_MAX of them: more names than a pointer reaches, nearly always. NULL: none are wanted. */
	struct glue *glue;
};

/* Begins a reply to `query`, which was read from the request's message. `forwarding`: RA. */
void reply_begin(struct reply *reply, const struct answer_request *request,
    const struct query *query, bool forwarding);

/* Ends it: OPT if the query had one, counts and flags. Returns the length. */
size_t reply_end(struct reply *reply);

/*
 * A record set whose owner is at offset `owner`. In the answer section what does not fit sets TC,
 * cut on a record border; in the others it is left out without.
 */
void reply_rrset(struct reply *reply, size_t owner, const struct rrset *set);

/* One address record. */
void reply_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes);

/* All distinct addresses of one family of an endpoint set. */
void reply_endpoint_set(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family);

/* The distinct addresses of one family of an endpoint name. */
void reply_endpoints(
    struct reply *reply, size_t owner, const struct resolved *resolved, uint8_t family);

/* SRV records of a headless Service: `_port._proto` (labels), or every port (NULL). */
void reply_endpoint_set_srv(struct reply *reply, size_t owner, const struct endpoint_set *endpoints,
    const uint8_t *port, const uint8_t *proto);

/* The weight of each record of such a set: floor(100 / address-and-port pairs), at least 1. */
unsigned endpoint_set_srv_weight(
    const struct endpoint_set *endpoints, const uint8_t *port, const uint8_t *proto);

/* One record with this RDATA. */
void reply_record(struct reply *reply, size_t owner, uint16_t type, uint32_t ttl_s,
    const void *rdata, size_t len);

/* The SOA of the zone at `owner`, for negative answers
 * (its TTL is the negative one) and for SOA queries. */
void reply_soa(struct reply *reply, size_t owner, uint32_t ttl_s);

/* A set of SRVs or NSs that all name `target`. */
void reply_targets(
    struct reply *reply, size_t owner, const struct rrset *set, const struct node *target);

/* Takes back the answer section's last record, which begins at `at`. */
void reply_drop(struct reply *reply, size_t at);

/* The addresses of the SRVs' and NSs' targets, as far as they fit. */
void reply_glue(struct reply *reply);

/* A PTR to an owner, or to the endpoint with this label below it. */
void reply_ptr(struct reply *reply, const uint8_t *label, const struct owner *owner);

/* An endpoint's own label: its host name, or its address with dashes, in `derived`. */
const uint8_t *endpoint_label(
    const struct slice_endpoints *slice, unsigned i, uint8_t derived[LABEL_ROOM]);

/* Full name of an endpoint: its host name or its address with dashes, then the owner and the zone.
 * 0 or -ENAMETOOLONG. */
int endpoint_name(struct dname *name, const struct answer_config *config,
    const struct slice_endpoints *slice, unsigned i);

#endif
