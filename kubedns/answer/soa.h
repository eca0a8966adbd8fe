/*
 * The RDATA of the SOA records of our zones (RFC 1035 section 3.3.13): the one writer of them.
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
	const struct dname *primary; /* MNAME; NULL: `ns.dns` of the zone */
	size_t zone_at; /* offset of the zone's name in the message; 0: it is not there */
	uint32_t serial, minimum_s;
};

/* Writes `head` and then the zone, by a pointer if the message has it (RFC 1035 allows that for MNAME and
 * RNAME). Returns where it ends. Always inlined: the lengths of the heads are known. */
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

/* Bytes of the RDATA. */
static inline size_t
soa_size(const struct soa *soa)
{
	size_t zone = soa->zone_at != 0 ? 2 : soa->zone->len;

	return (soa->primary != NULL ? soa->primary->len : 7 + zone) + 11 + zone + 20;
}

/* Writes the RDATA; returns its length. Inline: every NXDOMAIN has a SOA. */
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
