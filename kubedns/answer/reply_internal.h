/*
 * What the files of reply.h share: room for a record, its fixed part, and names below the zone.
 */
#ifndef KUBEDNS_ANSWER_REPLY_INTERNAL_H
#define KUBEDNS_ANSWER_REPLY_INTERNAL_H

#include "kubedns/answer/reply.h"

/*
 * What a section of a reply costs in vain: walking over endpoints that bring no record that it does not have.
 * Whoever writes EndpointSlices can share one name or address among any number of them, and a walk over
 * all would cost their number for an answer of one record. Services in use stay far below: a name is in
 * the slices of both families, once for each list of ports. The unit is an endpoint of a slice at hand, about
 * 20 ns.
 */
enum {
	PASSED_MAX = 65536,
	PASSED_RECORD = 4, /* a record that was made, and is there already */
	PASSED_SLICE = 16, /* a slice that was looked up */
	PASSED_PTR = 64, /* an endpoint whose name was sorted among others, and is there already */
};

/* Room for `len` bytes of a whole record, or NULL: it does not fit. */
static inline uint8_t *
record_room(struct reply *reply, size_t len)
{
	struct writer *w = &reply->w;

	if (reply->full || len > w->max - w->len) {
		reply->full = true;
		if (reply->section == SECTION_ANSWER)
			reply->truncated = true;
		return NULL;
	}
	w->len += len;
	reply->counts[reply->section]++;
	return w->buf + w->len - len;
}

/* Writes a whole record unless the message has it. */
void record_once(struct reply *reply, const uint8_t *record, size_t len);

/* Whether a record or a target of these bytes was written; needs reply->table. */
bool record_known(struct reply *reply, const uint8_t *bytes, size_t len);

/* Whether no earlier call was for the same name as the one at `offset`; needs reply->table. */
bool record_name_is_new(struct reply *reply, size_t offset, size_t len);

/* Writes a record up to its RDATA, and returns where that begins. */
static inline uint8_t *
record_head(uint8_t *p, size_t owner, uint16_t type, uint32_t ttl_s, size_t rdata_len)
{
	wire_put16(p, 0xc000 | (unsigned)owner);
	wire_put16(p + 2, type);
	wire_put16(p + 4, CLASS_IN);
	wire_put32(p + 6, ttl_s);
	wire_put16(p + 10, (unsigned)rdata_len);
	return p + 12;
}

/* An address record; inline, for a set may be thousands of them. */
static inline void
record_addr(struct reply *reply, size_t owner, uint8_t family, const uint8_t *bytes)
{
	size_t len = family == AF_INET ? 4 : 16;
	uint16_t type = family == AF_INET ? TYPE_A : TYPE_AAAA;
	uint8_t record[28];
	uint8_t *p = reply->once ? record : record_room(reply, 12 + len);

	if (p != NULL)
		memcpy(record_head(p, owner, type, reply->config->ttl_s, len), bytes, len);
	if (reply->once)
		record_once(reply, record, 12 + len);
}

/* Bytes of the name `label` (NULL: none) below `owner` and the zone; 0: too long for a name. */
static inline size_t
zone_name_size(const struct answer_config *config, const uint8_t *label, const struct owner *owner)
{
	size_t len = (label == NULL ? 0 : 1u + *label) + owner->len - 1u + config->zone.len;

	return len <= DNAME_MAX ? len : 0;
}

/* Writes that name. */
static inline void
zone_name_put(
    uint8_t *p, const struct answer_config *config, const uint8_t *label, const struct owner *owner)
{
	if (label != NULL) {
		memcpy(p, label, 1u + *label);
		p += 1u + *label;
	}
	memcpy(p, owner->name, owner->len - 1u);
	memcpy(p + owner->len - 1, config->zone.wire, config->zone.len);
}

struct nearest;

/*
 * With --nearest, from a client whose place is known: what of the set is near it, counted, into `*nearest`,
 * whose `family`, `doubles`, `by_port` and `port_label` are set. Returns how many classes an answer has,
 * from NEAR_NODE on; 0: the set is answered as without the flag. Counts the answer.
 */
unsigned nearest_classes(
    const struct reply *reply, const struct endpoint_set *endpoints, struct nearest *nearest);

/* The addresses of an endpoint set, the nearest first; false: nothing is known of the client. */
bool reply_nearest(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family);

/* SRV records of the classes [from, to) of what was counted, with `doubles`; `service` as in
 * reply_endpoint_set_srv(). */
void reply_nearest_srv(struct reply *reply, size_t owner, const struct nearest *nearest,
    unsigned from, unsigned to, const struct dname *service);

#endif
