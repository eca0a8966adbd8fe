/*
 * Writes the RDATA of the SOA records of our zones (RFC 1035 section 3.3.13). No other code writes
 * it.
 */
#ifndef KUBEDNS_ANSWER_SOA_H
#define KUBEDNS_ANSWER_SOA_H

#include "lib/dname.h"
#include "lib/wire.h"

enum {
	SOA_REFRESH_S = 7200,
	SOA_RETRY_S = 1800,
	SOA_EXPIRE_S = 86400,
	SOA_RDATA_MAX = 2 * (DNAME_MAX + 12) + 20,
};

struct soa {
	const struct dname *zone;
	const struct dname *primary; /* MNAME, or NULL for `ns.dns` of the zone */
	/* offset of the zone's name in the message, or 0 if it is not in the message */
	size_t zone_at;
	uint32_t serial, minimum_s;
};

/* Writes `head` and then the zone, compressed if the message contains the zone's name. (RFC 1035
 * allows compression for MNAME and RNAME.) Returns the position after the name. Always inlined,
 * because the lengths of the heads are constant. */
static inline __attribute__((always_inline)) uint8_t *
soa_write_name(uint8_t *p, const void *head, size_t len, const struct soa *soa)
{
	memcpy(p, head, len);
	p += len;
	if (soa->zone_at != 0) {
		wire_put16(p, 0xc000 | (unsigned)soa->zone_at);
		return p + 2;
	}
	memcpy(p, soa->zone->wire, soa->zone->len);
	return p + soa->zone->len;
}

/* Returns the length of the RDATA. */
static inline size_t
soa_size(const struct soa *soa)
{
	size_t zone = soa->zone_at != 0 ? 2 : soa->zone->len;

	return (soa->primary != NULL ? soa->primary->len : 7 + zone) + 11 + zone + 20;
}

/* Writes the RDATA and returns its length. Inline, because every NXDOMAIN has an SOA. */
static inline size_t
soa_write(const struct soa *soa, uint8_t rdata[SOA_RDATA_MAX])
{
	static const char mname[] = "\2ns\3dns", rname[] = "\12hostmaster";
	uint8_t *p = rdata;

	if (soa->primary != NULL) {
		memcpy(p, soa->primary->wire, soa->primary->len);
		p += soa->primary->len;
	} else {
		p = soa_write_name(p, mname, sizeof mname - 1, soa);
	}
	p = soa_write_name(p, rname, sizeof rname - 1, soa);
	wire_put32(p, soa->serial);
	wire_put32(p + 4, SOA_REFRESH_S);
	wire_put32(p + 8, SOA_RETRY_S);
	wire_put32(p + 12, SOA_EXPIRE_S);
	wire_put32(p + 16, soa->minimum_s);
	return (size_t)(p + 20 - rdata);
}

#endif
