/*
 * The ConfigMap key `records`: the operator's own names with records of any type, as lines of a
 * master file (RFC 1035 section 5.1).
 *
 *	$ORIGIN corp.example.
 *	@      SOA  ns hostmaster 1 3600 600 86400 60   ; corp.example is a zone of our own
 *	www    A    10.0.0.5
 *	*.apps A    10.0.0.6
 *	other.example. TXT "a name in nobody's zone"
 *
 * Without $ORIGIN, names are absolute, with or without a final dot. A SOA record makes a zone:
 * kubedns answers every name below it, and a name without records gets NXDOMAIN. Without a SOA
 * record, kubedns answers only the names that have records and the names that wildcards match (RFC
 * 4592). $INCLUDE and $GENERATE are refused, and so are records that need signatures or a
 * delegation.
 *
 * The parser is pure. `text` is untrusted, as in lib/conf.h. Time is O(n log n) in the length of
 * the text. Memory is bounded.
 */
#ifndef LIB_CONF_RECORDS_H
#define LIB_CONF_RECORDS_H

#include <stddef.h>
#include <stdint.h>

enum {
	CONF_RECORDS_MAX = 10000,
	CONF_RECORDS_NAMES_MAX = 20000, /* including the root and the empty non-terminals */
	CONF_RECORDS_BYTES_MAX = 2 * 1024 * 1024, /* bytes of names and RDATA, on the wire */
	CONF_RECORDS_RDATA_MAX = 8192,            /* bytes of one RDATA, which must fit into a
						   * message of a zone transfer */
	CONF_RECORDS_SET_MAX = 256,               /* records per name and type */
	CONF_RECORDS_SET_BYTES_MAX = 32 * 1024,
	CONF_RECORDS_TTL_UNSET = UINT32_MAX, /* the line has no TTL and there is no $TTL: use
					      * --ttl */
};

struct conf_record {
	const uint8_t *name, *rdata; /* in lower case; names in RDATA are not compressed */
	uint32_t ttl_s;
	unsigned line;
	uint16_t type, rdata_len;
	uint8_t name_len;
};

/* Sorted by name in canonical order, then by type and RDATA, without duplicates. */
struct conf_records {
	struct conf_record *items;
	size_t count;
	uint8_t *bytes; /* the items point into this */
};

/*
 * Parses the key. Records may be at names in `cluster_domain` (see conf_stubs_parse), as with the
 * key `hosts`. Zones and wildcards may not be in it, and no record may be at the domain itself.
 * Returns 0 or -EINVAL. On failure, `*why` tells the line number and what is wrong in that line
 * (caller frees). Caller frees `records` with conf_records_free.
 */
int conf_records_parse(const char *text, size_t len, const char *cluster_domain,
    struct conf_records *records, char **why);

void conf_records_free(struct conf_records *records);

#endif
