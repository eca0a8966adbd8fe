/*
 * The key records of the ConfigMap: the operator's own names with records of any type, as lines of a
 * master file (RFC 1035 section 5.1).
 *
 *	$ORIGIN corp.example.
 *	@      SOA  ns hostmaster 1 3600 600 86400 60   ; corp.example is a zone of our own
 *	www    A    10.0.0.5
 *	*.apps A    10.0.0.6
 *	other.example. TXT "a name in nobody's zone"
 *
 * Without $ORIGIN names are absolute, with or without a final dot. Below a name with a SOA record all
 * names are ours: one without a record is NXDOMAIN. Without a SOA record only the names that have records
 * are ours, and those that wildcards stand for (RFC 4592). $INCLUDE and $GENERATE are refused, and so is what would need
 * signatures or a delegation.
 *
 * Pure; `text` is untrusted, as in lib/conf.h. Time is n log n in its length, memory bounded.
 */
#ifndef LIB_CONF_RECORDS_H
#define LIB_CONF_RECORDS_H

#include <stddef.h>
#include <stdint.h>

enum {
	CONF_RECORDS_MAX = 10000,
	CONF_RECORDS_NAMES_MAX = 20000, /* with the empty names between them and the root */
	CONF_RECORDS_BYTES_MAX = 2 * 1024 * 1024, /* of names and data, on the wire */
	CONF_RECORDS_RDATA_MAX = 8192,            /* of one: a message of a transfer holds it */
	CONF_RECORDS_SET_MAX = 256,               /* records of one name and type */
	CONF_RECORDS_SET_BYTES_MAX = 32 * 1024,
	CONF_RECORDS_TTL_UNSET = UINT32_MAX, /* neither the line nor $TTL says: --ttl */
};

struct conf_record {
	const uint8_t *name, *rdata; /* in lower case; names in RDATA not compressed */
	uint32_t ttl_s;
	unsigned line;
	uint16_t type, rdata_len;
	uint8_t name_len;
};

/* In the canonical order of names, then by type and RDATA, each once. */
struct conf_records {
	struct conf_record *items;
	size_t count;
	uint8_t *bytes; /* that the items point to */
};

/*
 * `cluster_domain`: as for conf_stubs_parse(); records may stand at names in it, as hosts may, but
 * neither zones nor wildcards, and nothing at the domain itself. 0, or -EINVAL and in `*why` (caller
 * frees) the line and what is wrong with it. Caller frees with conf_records_free.
 */
int conf_records_parse(const char *text, size_t len, const char *cluster_domain,
    struct conf_records *records, char **why);

void conf_records_free(struct conf_records *records);

#endif
