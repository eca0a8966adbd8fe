/*
 * The operator's own names, from the ConfigMap's keys hosts and records and from other ConfigMaps,
 * beside those of the cluster.
 *
 *	struct own_names   one block without pointers, which is copied as it is
 *	 |- places         hash of a name -> offset of its entry
 *	 |- entries        name | record sets, as in a node of the tree
 *	 '- sources        texts: where names come from
 *
 * Made anew when a source changes; part of the answer_context, with which it is published and freed.
 * A name that is here hides the cluster's of the same name,
 * but for the SOA and NS records of our zones. Of several sources of a name the first one
 * alone has it.
 *
 * Only a block with zones (SOA records) or wildcards says anything about names that have no records in
 * it. For those it holds the empty names between a zone or a wildcard and the names below (RFC 4592
 * section 2.2.2), and cuts: domains below which others answer.
 */
#ifndef KUBEDNS_ANSWER_OWN_NAMES_H
#define KUBEDNS_ANSWER_OWN_NAMES_H

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

struct own_names {
	uint64_t seed;
	uint32_t size;    /* of the block */
	uint32_t count;   /* of names with records */
	uint32_t sources; /* offset of NUL-terminated texts, source 0's first; 0: there are none */
	uint32_t mask;    /* places - 1, a power of two */
	uint8_t labels_max; /* of a name */
	bool walks;         /* there are zones or wildcards */
	bool crowded;       /* more than OWN_EMPTY_MAX empty names: the rest are as if not there */
	uint32_t places[];  /* 0: free */
};

struct own_name {
	uint32_t
	    sets_len; /* of struct rrset after struct rrset, behind the padded name; 0: empty */
	uint16_t source;
	bool cut; /* names below it are not ours */
	uint8_t len;
	uint8_t wire[]; /* lower case */
};

enum {
	OWN_TYPE_CUT = 65535, /* reserved: no type of a record */
	OWN_EMPTY_MAX = 20000,
};

/* One record of those that a block is made of; all borrowed. */
struct own_line {
	const uint8_t *name;  /* lower case */
	const uint8_t *rdata; /* names in it not compressed */
	uint32_t ttl_s;
	uint16_t type; /* or OWN_TYPE_CUT: no record, but a cut */
	uint16_t rdata_len;
	uint16_t source; /* the lowest has the name, of those that are not `waiting` */
	uint8_t name_len;
	bool waiting; /* another line's name, if one of the same name does not wait */
};

/* A block of these records; sorts `lines`. NULL if there are none; caller frees with free(). */
struct own_names *own_names_new(struct own_line *lines, size_t count, uint64_t seed);

/* The names of a hosts file, and the PTRs of their addresses if `reverse`, with this TTL. NULL if there
 * are none; caller frees with free(). */
struct own_names *own_names_of_hosts(
    const struct conf_hosts *hosts, bool reverse, uint32_t ttl_s, uint64_t seed);

/* Records, with this TTL where they have none. As above. */
struct own_names *own_names_of_records(
    const struct conf_records *records, uint32_t ttl_s, uint64_t seed);

enum own_claim {
	OWN_REFUSED, /* the source may not have this name */
	OWN_WAITING, /* it has the name if no source holds it */
	OWN_HELD,    /* it had the name until now */
};

/* Decides what becomes of one name of a source that is not trusted. */
typedef enum own_claim own_judge(void *arg, size_t source, const struct own_name *name);

/* What a block is made of: others (NULL: an empty one), each a source of that text. */
struct own_sources {
	const struct own_names *const *blocks;
	const char *const *texts;
	size_t count;
	size_t trusted; /* the first so many may have any name; the rest none that these know of */
	const uint8_t *cuts; /* names of cuts, in wire form, lower case, one after the other */
	size_t cuts_len;
	own_judge *judge; /* with `judge_arg`; NULL: all OWN_HELD, so the first source has a name */
	void *judge_arg;
};

/* One block of them all. As above. */
struct own_names *own_names_merge(const struct own_sources *sources);

/* The entry of a name with records (wire, lower case), or NULL. */
const struct own_name *own_names_find(
    const struct own_names *names, const uint8_t *wire, size_t len);

enum own_kind {
	OWN_NONE,   /* not ours */
	OWN_FOUND,  /* has records: its own, or a wildcard's */
	OWN_EMPTY,  /* exists in a zone of ours, without records */
	OWN_DENIED, /* does not exist in a zone of ours */
};

struct own_answer {
	enum own_kind kind;
	bool wildcard;
	const struct own_name *name; /* FOUND: whose records */
	const struct own_name *zone; /* the zone that the name is in; NULL: none */
};

/* What is known of a name (lower case). `exact`: only from its own records, not from zones and
 * wildcards around it. */
struct own_answer own_names_ask(const struct own_names *names, const struct name *name, bool exact);

/* The same of the names that are published with the tree; `exact` for names in the cluster's zone and in
 * those for the world outside. */
struct own_answer own_ask(
    const struct answer_config *config, const struct tree *tree, const struct name *name);

/* The text of the source that a name is from, "" if there are none. */
const char *own_names_source(const struct own_names *names, const struct own_name *name);

/* The name's records of this type, or NULL. */
const struct rrset *own_name_rrset(const struct own_name *name, uint16_t type);

/* Steps through its record sets: NULL gives the first, NULL comes at the end. */
const struct rrset *own_name_rrset_next(const struct own_name *name, const struct rrset *previous);

/* The first entry with records at or after `*place`, which is moved past it; NULL at the end. */
const struct own_name *own_names_next(const struct own_names *names, uint32_t *place);

#endif
