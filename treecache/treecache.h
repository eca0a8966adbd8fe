/*
 * The cluster's names as a copy-on-write tree, for one writer and many readers.
 *
 *	struct tree              a snapshot: everything below is const once it is published
 *	 |- root                 names below the zone, labels reversed from the root
 *	 |  '- svc
 *	 |     '- default        children of a name: a hash trie (32 ways, by the label's hash)
 *	 |        |- web         records: [A 10.96.0.10] [SRV 0 100 80 web...]   encoded when built
 *	 |        |  '- _tcp
 *	 |        |     '- _http records: [SRV 0 100 80 web...]
 *	 |        '- db          endpoint set: 3 addresses, apex
 *	 |                        |- slice (slot 7): 10.1.0.4 "db-0", 10.1.0.5 "db-1" | 10.1.0.9
 *	 |                        '- slice (slot 9): 10.1.0.6 "db-2"
 *	 |- endpoints            hash(owner, address or host name) -> slot
 *	 |- reverse4, reverse6   address -> slot, in order: "anything below this prefix" is one seek
 *	 |- labels               hash(an owner's first label) -> slot: who else is called "web"
 *	 |- pods4, pods6         address -> number: the namespace, and bits of the program's
 *	 |- places4, places6     address -> number of the node that the pod runs on
 *	 '- slots                slot -> slice, or the owner whose own address it is
 *
 * One thread writes. It copies what it changes and the path to it; a copy made since the last
 * publish is changed in place, so the first sync copies nothing. treecache_publish exchanges one
 * pointer, and what was replaced is freed after the RCU grace period. There is never a second tree.
 *
 * Readers take tree_current() inside a read section and keep no pointer beyond it. They see one
 * snapshot of the cluster for the whole section, never wait, and write nothing.
 *
 * Endpoints are packed, 8 bytes each for IPv4, a slice per EndpointSlice. A slice's entries come
 * in three runs, each in the order of addresses and then of host names:
 *
 *	[0, unique)          published; no lower slice of the owner publishes the address
 *	[unique, published)  published, but a lower slice (or an entry before) counts the address
 *	[published, count)   not ready
 *
 * An owner's distinct addresses are therefore the unique runs of its slices: an address that is in
 * two slices, as while it moves from one to the other, is never missing and never counted twice.
 * Slices are ordered by name and then by index ("lower" above), and a set holds them in that order:
 * what readers see depends on the slices alone, not on the order in which they arrived. Changing a
 * slice costs its own size: the endpoint index leads to the others without a walk.
 *
 * Who needs a snapshot for longer than a read section, such as a zone transfer, has the writer hold
 * it: what is replaced meanwhile stays in memory until the hold is dropped, and the writer goes on.
 *
 * Nothing here fails, except that running out of memory ends the process.
 */
#ifndef TREECACHE_TREECACHE_H
#define TREECACHE_TREECACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"
#include "treecache/ports.h"

/* --- what readers see --- */

/* An RRset in wire format: of each record the owner as a compression pointer to offset 12 (the
 * question), type, class, TTL and RDATA. */
struct rrset {
	uint16_t type;
	uint16_t count;
	uint32_t len; /* of data; the next rrset begins behind it, 4-byte aligned */
	uint8_t data[];
};

struct rrsets {
	uint32_t epoch;
	uint32_t len;
	uint8_t bytes[]; /* struct rrset after struct rrset */
};

struct endpoint_set;

/* What endpoints belong to: a Service's name below the zone. */
struct owner {
	uint32_t id;   /* part of the keys of the endpoint index */
	uint32_t slot; /* stands for the owner in the indexes of addresses and labels; 0: in none */
	struct endpoint_set *endpoints; /* the writer's alone */
	uint8_t len;
	uint8_t name[]; /* wire, lower case, ends in the root: "web.default.svc." */
};

struct slice_endpoints {
	uint32_t epoch;
	uint32_t slot;
	const struct owner *owner;
	const struct ports *ports;
	const char *name; /* of the slice, and `index` of those of one name; the writer's alone */
	uint16_t index;
	uint16_t unique, published, count;
	uint8_t family;
	bool distinct : 1; /* no two published entries share an address or a host name */
	bool
	    alone : 1; /* no other slice of the owner publishes one of its host names; false: not known */
	bool dashed : 1; /* a host name here may spell an address with dashes */
	bool placed : 1; /* it has places: see slice_at_place */
	/* count addresses; count tags; places, if any; host names as length-prefixed labels: see
	 * slice_name */
	uint8_t bytes[];
};

struct endpoint_set_slice {
	const struct slice_endpoints *slice;
	uint32_t slot; /* copies of the slice's own, so that a walk need not load the slice */
	uint16_t unique;
	uint8_t family;
};

enum endpoint_set_flags {
	ENDPOINTS_APEX = 1, /* the addresses are the owner's own records (a headless Service) */
	ENDPOINTS_NOT_READY = 2, /* endpoints that are not ready are published too */
	ENDPOINTS_REVERSE = 4,   /* the addresses answer PTR queries */
	ENDPOINTS_ATTACHED = 8,  /* the owner exists: the endpoint set hangs at its node */
};

struct endpoint_set {
	uint32_t epoch;
	uint32_t flags;
	const struct owner *owner;
	uint32_t total4, total6; /* distinct published addresses */
	uint32_t published;      /* published entries, doubles included: 0 is "no ready endpoint" */
	uint32_t dashed;         /* slices with a host name that may spell an address with dashes */
	uint32_t count, room;
	struct endpoint_set_slice slices[]; /* by name and index */
};

struct node {
	uint32_t epoch;
	uint32_t hash;  /* of the label */
	void *children; /* tree_find.c's */
	const struct rrsets *records;
	const struct endpoint_set *endpoints;
	uint32_t number; /* the program's: a namespace's in pods4 and pods6; 0 is none */
	uint8_t flags;   /* the program's */
	uint8_t label[]; /* length-prefixed, lower case */
};

/* An ordered set of (key, value) pairs, keys of 4 or 16 bytes. */
struct pair_btree {
	void *root;
	uint32_t key_len;
};

/* A walk over the values under one key of it; { 0 } begins it. */
struct pair_walk {
	const uint8_t *at; /* the pair to look at next, */
	unsigned left;     /* and how many its leaf has from there on; 0: look for `next` */
	uint64_t next;     /* no value below this one is left; above UINT32_MAX: none is */
};

struct slot_table {
	void *root;
	uint32_t depth;
};

struct tree {
	uint64_t seed; /* of the hashes: nobody outside can choose names that collide */
	struct node *root;
	struct pair_btree endpoints, reverse4, reverse6, labels, pods4, pods6;
	struct slot_table slots;
	/* Unix second of the last change that could alter an answer, never backwards. */
	uint32_t serial;
	bool synced; /* false: nothing is known yet */
	/* The program's own, published with the tree: what else an answer needs. */
	const void *context;
	/* The program's own, in a reader's copy of this struct: who the reader is; NULL: nobody in
	 * particular. */
	const void *view;
	struct pair_btree places4, places6;
};

struct treecache;

struct tree_hold;

/* The snapshot that is held; for any thread that has a share in the hold, without a read section. */
const struct tree *tree_held(const struct tree_hold *hold);

/* One share more, returned; from any thread that has one. */
struct tree_hold *tree_hold_share(struct tree_hold *hold);

/* Gives a share back, from any thread; NULL is fine. After the last one the writer frees what was
 * kept, with its next treecache_reclaim(). */
void tree_hold_drop(struct tree_hold *hold);

/* The newest published snapshot, never NULL; for a registered thread inside a read section. */
const struct tree *tree_current(const struct treecache *cache);

/* The child with this length-prefixed lower-case label, or NULL. Reads up to 7 bytes after the
 * label. */
const struct node *tree_child(
    const struct tree *tree, const struct node *parent, const uint8_t *label);

/* Walks a whole name below the zone (wire, lower case); NULL if it does not exist as a node. */
const struct node *tree_find(const struct tree *tree, const uint8_t *name);

enum {
	TREE_PATH_MAX = 5,   /* labels of a node below the zone: _http._tcp.web.default.svc */
	TREE_PATHS_MAX = 64, /* at a time */
};

/* The path of a name down the tree: what to look for, and the nodes that were found. */
struct tree_path {
	const uint8_t *wire;    /* lower case, 7 bytes readable behind its labels */
	const uint8_t *offsets; /* of its labels */
	unsigned labels;        /* that are below the zone; 0: nothing is looked for */
	unsigned count;         /* of nodes */
	const struct node *nodes[TREE_PATH_MAX]; /* the last label's first */

	/* tree_find_paths' own: what it reads next */
	void *at;
	const uint8_t *label;
	uint32_t hash;
	unsigned shift, wanted;
};

/*
 * Finds the nodes of several names and prefetches their records. All paths go down one step at a
 * time, so that a cache miss of one overlaps with work on the others. A single name is just looked
 * up.
 */
void tree_find_paths(const struct tree *tree, struct tree_path *paths, unsigned count);

/* Calls `visit` for every child, in no order. */
void tree_children(
    const struct node *parent, void (*visit)(void *arg, const struct node *child), void *arg);

/* The same until `visit` returns false, which is then returned: for callers that need only some of
 * very many children. */
bool tree_children_until(
    const struct node *parent, bool (*visit)(void *arg, const struct node *child), void *arg);

/*
 * Calls `visit` for each label below two nodes of two snapshots of one tree whose nodes are not the
 * same block; one of them is NULL where only the other snapshot has the label. Costs what has been
 * copied between the two, not their size.
 */
void tree_diff_children(const struct node *before, const struct node *after,
    void (*visit)(void *arg, const struct node *before, const struct node *after), void *arg);

/* The node's records of this type, or NULL. */
const struct rrset *node_rrset(const struct node *node, uint16_t type);

/* Steps through a node's record sets: NULL gives the first, NULL comes at the end. */
const struct rrset *node_rrset_next(const struct node *node, const struct rrset *previous);

/* Address `i` of the slice: 4 or 16 bytes. */
static inline const uint8_t *
slice_addr(const struct slice_endpoints *slice, unsigned i)
{
	return slice->bytes + (size_t)i * (slice->family == AF_INET ? 4 : 16);
}

/* Whether no host name in the slice is shared by two endpoints of the owner. */
static inline bool
slice_names_unique(const struct slice_endpoints *slice)
{
	return slice->alone && slice->distinct;
}

/* Host name of entry `i` as a length-prefixed label, or NULL when it is named for its address. */
const uint8_t *slice_name(const struct slice_endpoints *slice, unsigned i);

/* Whether two entries of the slice have one name: a host name, or that of one address. */
bool slice_same_name(const struct slice_endpoints *slice, unsigned a, unsigned b);

/* The first of the published entries from `from` on with this address and another name than the entry
 * before `from`, if there is one; slice->published if there is none. Goes through a slice's PTRs: to
 * have an address in it any number of times costs no more. */
unsigned slice_next_ptr(const struct slice_endpoints *slice, unsigned from, const uint8_t *bytes);

bool slice_ready(const struct slice_endpoints *slice, unsigned i);

/* The entries of a slice that are at one place; found by slice_at_place, read by place_entry. */
struct place_entries {
	const uint8_t *pairs;
	uint32_t count;
};

/* Finds those of entries [0, limit) that are at this place, in order; none for place 0. A binary
 * search over the slice's places. */
void slice_at_place(const struct slice_endpoints *slice, uint64_t place, unsigned limit,
    struct place_entries *found);

/* The n-th of them. */
unsigned place_entry(const struct place_entries *found, unsigned n);

/* The first of entries [from, to) with this address, or this host name (a lower-case label); `to`
 * if there is none. */
unsigned slice_find_addr(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *bytes);
unsigned slice_find_name(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *label);

/* Whether a published endpoint has a port under this label. Of a set with very many slices only the first
 * PORT_SLICES_MAX are looked at; if none of these has it, the answer is true as well. */
bool endpoint_set_has_port(const struct endpoint_set *endpoints, uint64_t label);

enum { PORT_SLICES_MAX = 1024 };

/*
 * The weight of the set's SRV records: 100 divided by the number of its ready endpoints, at least 1. An endpoint of
 * both families has an address in each and counts once. All records of a name have the same priority and
 * weight, so clients choose evenly (RFC 2782).
 */
static inline unsigned
endpoint_set_weight(const struct endpoint_set *endpoints)
{
	unsigned count =
	    endpoints->total4 > endpoints->total6 ? endpoints->total4 : endpoints->total6;

	return count == 0 || count > 100 ? 1 : 100 / count;
}

/* The name of an endpoint without a host name: its address with dashes, a 0 after a trailing one.
 * Returns the label in `label`. */
const uint8_t *tree_addr_label(const struct addr *addr, uint8_t label[1 + DNAME_LABEL_MAX + 8]);

/* The address that a label with dashes spells; 0 or -EINVAL. */
int tree_label_addr(const uint8_t *label, struct addr *addr);

struct endpoint_ref {
	const struct slice_endpoints *slice;
	unsigned i;
};

/* A walk over the published endpoints of an endpoint set that share a host name, or that share an address and
 * have no host name. */
struct endpoint_walk {
	const struct tree *tree;
	const struct endpoint_set *endpoints;
	const uint8_t *label; /* or NULL: those without, by address */
	struct addr addr;
	uint32_t hash;
	uint32_t next_slice; /* of a small set */
	struct pair_walk index;
	const struct slice_endpoints *slice;
	unsigned i;
};

/* `label`: lower case, length-prefixed; must live as long as the walk. */
void endpoint_set_find_name(struct endpoint_walk *walk, const struct tree *tree,
    const struct endpoint_set *endpoints, const uint8_t *label);
void endpoint_set_find_unnamed(struct endpoint_walk *walk, const struct tree *tree,
    const struct endpoint_set *endpoints, const struct addr *addr);

/* The next one; false at the end. An address that is in two slices comes twice. */
bool endpoint_set_next(struct endpoint_walk *walk, struct endpoint_ref *ref);

struct reverse_walk {
	const struct tree *tree;
	struct addr addr;
	struct pair_walk index;
};

/* What has an address. */
struct reverse_ref {
	const struct owner *owner;
	const struct slice_endpoints *slice; /* NULL: the owner's own address (a ClusterIP) */
};

/* A walk over what has the address: owners whose own it is come first. */
void reverse_find(struct reverse_walk *walk, const struct tree *tree, const struct addr *addr);
bool reverse_next(struct reverse_walk *walk, struct reverse_ref *ref);

struct owner_walk {
	const struct tree *tree;
	const uint8_t *label;
	struct pair_walk index;
	uint8_t key[4];
};

/* A walk over the owners whose first label is this one (lower case, length-prefixed; kept, not
 * copied), in no order. */
void owners_find(struct owner_walk *walk, const struct tree *tree, const uint8_t *label);

/* The next one; NULL at the end. */
const struct owner *owners_next(struct owner_walk *walk);

/* The lowest address not below `*addr` that has a PTR, into `*addr`; false if there is none. */
bool reverse_seek(const struct tree *tree, struct addr *addr);

/* Whether a pod of the namespace with this number has the address. */
bool pods_has(const struct tree *tree, const struct addr *addr, uint32_t number);

/* The lowest (address, number) of the pods that is not below this one; false if there is none. Both
 * are overwritten. */
bool pods_seek(const struct tree *tree, struct addr *addr, uint32_t *number);

/* The number of the node of the pod with this address; 0: none is known, or several are. */
uint32_t pods_place(const struct tree *tree, const struct addr *addr);

/* The address after `*addr`; false if there is none. */
bool addr_increment(struct addr *addr);

/* --- what the writer does --- */

struct treecache *treecache_new(uint64_t seed);
void treecache_free(struct treecache *cache);

/* What the writer has made so far, published or not; for the writer alone. */
const struct tree *treecache_next(const struct treecache *cache);

/* The node of a name below the zone, made if it is missing; changeable until the next publish.
 * tree_find_paths() reaches those of at most TREE_PATH_MAX labels. */
struct node *treecache_edit(struct treecache *cache, const uint8_t *name);

/* Replaces the node's records by `len` bytes of struct rrset after struct rrset (0: none), which
 * are copied. */
void treecache_records(struct treecache *cache, struct node *node, const void *sets, size_t len);

/* Takes away the node's records and everything below it; its endpoint set, number and flags
 * stay. */
void treecache_clear(struct treecache *cache, struct node *node);

/* Removes a name that has become empty (no records, endpoint set, number or child), and then its
 * parents likewise. */
void treecache_prune(struct treecache *cache, const uint8_t *name);

/* A new owner of endpoints; `name`, below the zone, is copied. */
struct owner *treecache_owner(struct treecache *cache, const uint8_t *name);

/* Frees an owner that has no slice and no address and is not attached. */
void treecache_owner_free(struct treecache *cache, struct owner *owner);

/* Sets ENDPOINTS_* flags; costs the owner's size when they change. */
void treecache_endpoint_set_flags(struct treecache *cache, struct owner *owner, uint32_t flags);

/* Puts an address of the owner itself into the reverse index, or takes it out. */
void treecache_owner_addr(
    struct treecache *cache, struct owner *owner, const struct addr *addr, bool present);

/* Adds the owner to the index of first labels (owners_find), or removes it. */
void treecache_owner_label(struct treecache *cache, struct owner *owner, bool present);

struct endpoint {
	struct addr addr;
	bool ready;
	const char *name; /* a legal label, any case; NULL: named for its address */
};

enum { ENDPOINTS_MAX = UINT16_MAX }; /* of a slice */

#define PLACE_MAX ((UINT64_C(1) << 48) - 1)

/* A place that an endpoint of a slice is at: a number of the program's, not 0. It may be at
 * several. */
struct endpoint_place {
	uint64_t place; /* PLACE_MAX at most */
	uint16_t endpoint;
};

/* A slice as its maker has it; all borrowed but for `name` and `ports`, which live as long as
 * it. */
struct slice_source {
	const char *name; /* of two slices with the same address the lower name counts it, ... */
	uint16_t index;   /* ... or the lower index */
	uint8_t family;   /* of all endpoints */
	const struct ports *ports;
	const struct endpoint *endpoints;
	size_t count;                        /* ENDPOINTS_MAX at most */
	const struct endpoint_place *places; /* in any order; 8 bytes each are kept of them */
	size_t place_count;
};

/* Makes (slot 0) or replaces a slice of `owner`; returns its slot, never 0. */
uint32_t treecache_slice(
    struct treecache *cache, struct owner *owner, uint32_t slot, const struct slice_source *source);

/* Takes a slice away and frees its slot. */
void treecache_slice_remove(struct treecache *cache, struct owner *owner, uint32_t slot);

/* The slice in this slot, as the writer has it. */
const struct slice_endpoints *treecache_slice_at(const struct treecache *cache, uint32_t slot);

/* Adds a pod's address in the namespace with this number, or removes it. */
void treecache_pod(struct treecache *cache, const struct addr *addr, uint32_t number, bool present);

/* Says that the pod with this address runs on the node with this number, not 0, or takes it back. */
void treecache_pod_place(
    struct treecache *cache, const struct addr *addr, uint32_t number, bool present);

/* Replaces the context, which came from malloc and is taken; the old one is retired. */
void treecache_context(struct treecache *cache, void *context);

/* Frees `ptr`, which came from malloc, once no reader can see it any more: for memory of the
 * program's own that the tree points to. */
void treecache_retire(struct treecache *cache, void *ptr);

/* Shows readers what was written since the last publish; `now_s` is Unix time. False if nothing had
 * changed. */
bool treecache_publish(struct treecache *cache, uint32_t now_s, bool synced);

/* Holds the newest published snapshot; the caller has the one share of the hold. */
struct tree_hold *treecache_hold(struct treecache *cache);

/* Bytes of what was replaced and is kept for holds. */
size_t treecache_held(const struct treecache *cache);

/* Bytes replaced and not yet freed, without what is kept for holds. */
size_t treecache_garbage(const struct treecache *cache);

/* Waits for the grace period and frees what was replaced before the last publish. Not inside a read
 * section. */
void treecache_reclaim(struct treecache *cache);

#endif
