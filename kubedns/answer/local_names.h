/*
 * Local names are names that do not come from the cluster's objects. The operator defines them in
 * the ConfigMap keys `hosts` and `records`, or in other ConfigMaps.
 *
 *	struct local_names   one block without pointers, which is copied as it is
 *	 |- places         hash of a name -> offset of its entry
 *	 |- entries        name | record sets, as in a node of the tree
 *	 '- sources        texts: where names come from
 *
 * The block is rebuilt when a source changes. The block is part of the answer_context, and is
 * published and freed with it. A local name hides the cluster's name of the same spelling, except
 * for the SOA and NS records of our zones. If a name has several sources, only the first one
 * counts.
 *
 * Only a block with zones (SOA records) or wildcards answers for names that have no records in it.
 * Such a block also contains the empty names between a zone or wildcard and the names below it (RFC
 * 4592 section 2.2.2). Such a block also contains cuts. A cut is a domain for which other servers
 * are responsible.
 */
#ifndef KUBEDNS_ANSWER_LOCAL_NAMES_H
#define KUBEDNS_ANSWER_LOCAL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/dname.h"

struct answer_config;
struct conf_hosts;
struct conf_records;
struct name;
struct rrset;
struct tree;

struct local_names {
	uint64_t seed;
	uint32_t size;  /* size of the block in bytes */
	uint32_t count; /* number of names with records */
	/* Offset of the NUL-terminated texts of all sources, starting with source 0. The offset
	 * is 0 if there are no texts. */
	uint32_t sources;
	uint32_t mask;      /* number of places minus 1, which is a power of two minus 1 */
	uint8_t labels_max; /* highest number of labels in a name */
	bool walks;         /* the block has zones or wildcards */
	bool crowded; /* there are more than OWN_EMPTY_MAX empty names; the others are ignored */
	uint32_t places[]; /* offset of an entry, or 0 if the place is free */
};

struct own_name {
	/* Length of the record sets in bytes. The record sets (struct rrset) follow the padded
	 * name. The length is 0 for an empty name. */
	uint32_t sets_len;
	uint16_t source;
	bool cut; /* names below this name are not ours */
	uint8_t len;
	uint8_t wire[]; /* lower case */
};

enum {
	OWN_TYPE_CUT = 65535, /* this number is reserved and not a record type */
	OWN_EMPTY_MAX = 20000,
};

/* A record from which a block is made. All pointers are only used during the call. */
struct own_line {
	const uint8_t *name;  /* lower case */
	const uint8_t *rdata; /* names in it are not compressed */
	uint32_t ttl_s;
	uint16_t type; /* OWN_TYPE_CUT if the line is a cut, not a record */
	uint16_t rdata_len;
	uint16_t source; /* the lowest source that has a line without `waiting` gets the name */
	uint8_t name_len;
	bool waiting; /* the line is only used if all lines of the name have `waiting` */
};

/* Makes a block of these records, and sorts `lines`. Returns NULL if there are no records. The
 * caller frees it with free(). */
struct local_names *local_names_new(struct own_line *lines, size_t count, uint64_t seed);

/* Makes a block of the names of a hosts file, and, if `reverse`, the PTR records of their
 * addresses, with this TTL. Returns NULL if there are no names. The caller frees it with free(). */
struct local_names *local_names_of_hosts(
    const struct conf_hosts *hosts, bool reverse, uint32_t ttl_s, uint64_t seed);

/* Makes a block of records. `ttl_s` is for records without a TTL. Returns the same as
 * local_names_of_hosts(). */
struct local_names *local_names_of_records(
    const struct conf_records *records, uint32_t ttl_s, uint64_t seed);

enum own_claim {
	OWN_REFUSED, /* the source may not define this name */
	OWN_WAITING, /* the source gets the name if no other source already has it */
	OWN_HELD,    /* the source had the name until now */
};

/* Decides about one name of an untrusted source. */
typedef enum own_claim own_judge(void *arg, size_t source, const struct own_name *name);

/* The blocks from which a block is made. Each block is a source, which its text describes. NULL
 * is an empty block. */
struct own_sources {
	const struct local_names *const *blocks;
	const char *const *texts;
	size_t count;
	/* Number of trusted sources, which may define any name. The other sources may not define
	 * a name that a trusted source has. */
	size_t trusted;
	const uint8_t *cuts; /* names of cuts in wire format, lower case, one after the other */
	size_t cuts_len;
	/* Called with `judge_arg`. If `judge` is NULL, all names are OWN_HELD, so the first
	 * source gets a name. */
	own_judge *judge;
	void *judge_arg;
};

/* Merges all sources into one block. Returns the same as local_names_of_hosts(). */
struct local_names *local_names_merge(const struct own_sources *sources);

/* Returns the entry of a name with records (wire format, lower case), or NULL. */
const struct own_name *local_names_find(
    const struct local_names *names, const uint8_t *wire, size_t len);

enum own_kind {
	OWN_NONE,   /* the name is not local */
	OWN_FOUND,  /* the name has records of its own or of a wildcard */
	OWN_EMPTY,  /* the name exists in a local zone, without records */
	OWN_DENIED, /* the name is in a local zone, but does not exist there */
};

struct own_answer {
	enum own_kind kind;
	bool wildcard;
	const struct own_name *name; /* for OWN_FOUND: the entry with the records */
	const struct own_name *zone; /* the zone that contains the name, or NULL */
};

/* Looks up a name (lower case). With `exact`, only the name's own records count, not the zones
 * and wildcards that contain it. */
struct own_answer local_names_ask(
    const struct local_names *names, const struct name *name, bool exact);

/* Looks up a name in the local names that are published with the tree. Uses `exact` for names in
 * the cluster's zone and in external zones. */
struct own_answer own_ask(
    const struct answer_config *config, const struct tree *tree, const struct name *name);

/* Returns the text that names the source of this name, or "" if the sources have no texts. */
const char *local_names_source(const struct local_names *names, const struct own_name *name);

/* Returns the name's records of this type, or NULL. */
const struct rrset *own_name_rrset(const struct own_name *name, uint16_t type);

/* Returns the record set after `previous`, or the first record set if `previous` is NULL.
 * Returns NULL at the end. */
const struct rrset *own_name_rrset_next(const struct own_name *name, const struct rrset *previous);

/* Returns the first entry with records at or after `*place`, and moves `*place` past it. Returns
 * NULL at the end. */
const struct own_name *local_names_next(const struct local_names *names, uint32_t *place);

#endif
