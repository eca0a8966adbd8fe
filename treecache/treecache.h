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
 *	 |- labels               hash(an owner's first label) -> slot: all owners called "web"
 *	 |- pods4, pods6         address -> number: the namespace and flag bits, set by the caller
 *	 |- places4, places6     address -> number of the node that the pod runs on
 *	 '- slots                slot -> slice, or an owner with an address or label of its own
 *
 * One thread writes. To change a node, it copies the node and the path from the root to it. A block
 * that was made since the last publish is changed in place, so the first sync copies nothing.
 * treecache_publish() exchanges one pointer. The replaced blocks are freed after the RCU grace
 * period. There is never a second full copy of the tree.
 *
 * Readers call tree_current() inside a read section and use no pointer after its end. Readers see
 * one snapshot of the cluster for the whole section, never wait, and write nothing.
 *
 * Each EndpointSlice becomes one slice of packed endpoints, 8 bytes each for IPv4. The entries of a
 * slice form three runs. Each run is sorted by address, then by host name:
 *
 *	[0, unique)          published; no lower slice of the owner publishes the address
 *	[unique, published)  published, but a lower slice (or an earlier entry) counts the address
 *	[published, count)   not ready
 *
 * The unique runs of an owner's slices together are therefore its distinct addresses. An address
 * may be in two slices while it moves from one slice to the other. Even then, it is never missing
 * and never counted twice. A set stores its slices sorted by name, then by index ("lower" above
 * means earlier in that order). The answers thus depend only on the slices, not on the order in
 * which they arrived. Changing a slice costs time in proportion to its own size, because the
 * endpoint index finds the other slices with the same addresses.
 *
 * A zone transfer needs a snapshot for longer than a read section. It asks the writer to hold the
 * snapshot. Blocks that are replaced after that stay in memory until the hold is dropped.
 * Meanwhile, the writer continues to change the tree.
 *
 * No function here reports an error. If memory runs out, the process ends.
 */
#ifndef TREECACHE_TREECACHE_H
#define TREECACHE_TREECACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"
#include "treecache/ports.h"

/* --- for readers --- */

/* An RRset in wire format. Each record has its owner (as a compression pointer to offset 12, the
 * name in the question section), type, class, TTL and RDATA. */
struct rrset {
	uint16_t type;
	uint16_t count;
	uint32_t len; /* length of `data`; the next rrset follows the data, 4-byte aligned */
	uint8_t data[];
};

struct rrsets {
	uint32_t epoch;
	uint32_t len;
	uint8_t bytes[]; /* a sequence of struct rrset */
};

struct endpoint_set;

/* A Service's name below the zone, to which endpoints belong. */
struct owner {
	uint32_t id;   /* part of the keys of the endpoint index */
	uint32_t slot; /* the owner's slot in the indexes of addresses and labels; 0: the owner is
		        * in neither index */
	struct endpoint_set *endpoints; /* for the writer only */
	uint8_t len;
	uint8_t name[]; /* wire format, lower case, ends in the root: "web.default.svc." */
};

struct slice_endpoints {
	uint32_t epoch;
	uint32_t slot;
	const struct owner *owner;
	const struct ports *ports;
	/* Name of the slice. `index` tells slices with the same name apart. For the writer only. */
	const char *name;
	uint16_t index;
	uint16_t unique, published, count;
	uint8_t family;
	bool distinct : 1; /* no two published entries share an address or a host name */
	/* No other slice of the owner publishes a host name of this slice; false: unknown. */
	bool alone : 1;
	bool dashed : 1; /* some host name of the slice may be an address with dashes */
	bool placed : 1; /* the slice has places: see slice_at_place() */
	/* `count` addresses, `count` tags, the places (if any), then the host names as
	 * length-prefixed labels: see slice_name(). */
	uint8_t bytes[];
};

struct endpoint_set_slice {
	const struct slice_endpoints *slice;
	uint32_t slot; /* these three members are copies of fields in *slice, so a walk need not
		        * load the slice */
	uint16_t unique;
	uint8_t family;
};

enum endpoint_set_flags {
	ENDPOINTS_APEX = 1, /* the addresses are records at the owner's name (a headless Service) */
	ENDPOINTS_NOT_READY = 2, /* endpoints that are not ready are published too */
	ENDPOINTS_REVERSE = 4,   /* the addresses answer PTR queries */
	ENDPOINTS_ATTACHED = 8,  /* the owner exists: its node points to the endpoint set */
};

struct endpoint_set {
	uint32_t epoch;
	uint32_t flags;
	const struct owner *owner;
	uint32_t total4, total6; /* distinct published addresses */
	uint32_t published;      /* published entries, duplicates included; 0: no ready endpoint */
	uint32_t dashed;         /* number of slices with a host name that may be an address with
				  * dashes */
	uint32_t count, capacity;
	struct endpoint_set_slice slices[]; /* sorted by name and index */
};

struct node {
	uint32_t epoch;
	uint32_t hash;  /* hash of `label` */
	void *children; /* NULL, a node or a tagged branch: see branch.h */
	const struct rrsets *records;
	const struct endpoint_set *endpoints;
	uint32_t number; /* the namespace's number in pods4 and pods6, set by the caller; 0: none */
	uint8_t flags;   /* set by the caller */
	uint8_t label[]; /* length-prefixed, lower case */
};

/* An ordered set of (key, value) pairs. Keys have 4 or 16 bytes. */
struct pair_btree {
	void *root;
	uint32_t key_len;
};

/* An iterator over the values of one key in a pair_btree. Initialise it with { 0 }. */
struct pair_walk {
	const uint8_t *at; /* the next pair in its leaf */
	unsigned left;     /* pairs left in that leaf from `at` on; 0: search again for `next` */
	uint64_t next;     /* the next value is at least this; above UINT32_MAX: the walk has
			    * ended */
};

struct slot_table {
	void *root;
	uint32_t depth;
};

struct tree {
	uint64_t seed; /* secret seed of the hashes, so nobody outside can choose names that
		        * collide */
	struct node *root;
	struct pair_btree endpoints, reverse4, reverse6, labels, pods4, pods6;
	struct slot_table slots;
	/* Unix time in seconds of the last change that could alter an answer. Never decreases. */
	uint32_t serial;
	bool synced; /* false: the first sync has not finished */
	/* The caller's data that an answer needs in addition to the tree. It is published together
	 * with the tree. */
	const void *context;
	/* The client for which a reader reads. A reader sets it in its own copy of this struct.
	 * NULL: no particular client. */
	const void *view;
	struct pair_btree places4, places6;
};

struct treecache;

struct tree_hold;

/* Returns the snapshot that is held. Any thread that has a reference to the hold may call this,
 * without a read section. */
const struct tree *tree_held(const struct tree_hold *hold);

/* Returns one more reference to the hold. Any thread that has a reference may call this. */
struct tree_hold *tree_hold_share(struct tree_hold *hold);

/* Drops a reference, from any thread. NULL is fine. After the last reference is dropped, the next
 * treecache_reclaim() frees the memory that was kept for the hold. */
void tree_hold_drop(struct tree_hold *hold);

/* Returns the newest published snapshot, never NULL. Call it in a registered thread, inside a read section. */
const struct tree *tree_current(const struct treecache *cache);

/* Returns the child with this length-prefixed lower-case label, or NULL. Reads up to 7 bytes after
 * the label. */
const struct node *tree_child(
    const struct tree *tree, const struct node *parent, const uint8_t *label);

/* Returns the node of a whole name below the zone (wire format, lower case), or NULL if the name
 * has no node. */
const struct node *tree_find(const struct tree *tree, const uint8_t *name);

enum {
	TREE_PATH_MAX = 5,   /* most labels of a node below the zone: _http._tcp.web.default.svc */
	TREE_PATHS_MAX = 64, /* most paths that one call of tree_find_paths() takes */
};

/* The path of a name down the tree: the labels to look up, and the nodes that were found. */
struct tree_path {
	const uint8_t *wire;    /* name in wire format, lower case; 7 bytes after its labels are
				 * readable */
	const uint8_t *offsets; /* offset of each label in `wire` */
	unsigned labels;        /* number of labels below the zone; 0: nothing to look up */
	unsigned count;         /* number of nodes found */
	const struct node *nodes[TREE_PATH_MAX]; /* starts with the node of the name's last label */

	/* State of tree_find_paths(): the block that it reads next. */
	void *at;
	const uint8_t *label;
	uint32_t hash;
	unsigned shift, wanted;
};

/*
 * Finds the nodes of several names and prefetches their records. The lookups advance together, one
 * step at a time. A cache miss of one lookup thus overlaps with work on the other lookups. A single
 * name is looked up directly.
 */
void tree_find_paths(const struct tree *tree, struct tree_path *paths, unsigned count);

/* Calls `visit` for every child, in no order. */
void tree_children(
    const struct node *parent, void (*visit)(void *arg, const struct node *child), void *arg);

/* Like tree_children(), but stops when `visit` returns false, and then returns false. For callers
 * that need only some of very many children. */
bool tree_children_until(
    const struct node *parent, bool (*visit)(void *arg, const struct node *child), void *arg);

/*
 * Compares the children of two nodes, which are from two snapshots of one tree. Calls `visit` for
 * each label whose two nodes are different blocks. `before` or `after` is NULL if only the other
 * snapshot has the label. The cost depends on how much was copied between the two snapshots, not on
 * their size.
 */
void tree_diff_children(const struct node *before, const struct node *after,
    void (*visit)(void *arg, const struct node *before, const struct node *after), void *arg);

/* Returns the node's records of this type, or NULL. */
const struct rrset *node_rrset(const struct node *node, uint16_t type);

/* Returns the record set after `previous`, or the node's first record set if `previous` is NULL.
 * Returns NULL at the end. */
const struct rrset *node_rrset_next(const struct node *node, const struct rrset *previous);

/* Returns the address of entry `i`: 4 or 16 bytes. */
static inline const uint8_t *
slice_addr(const struct slice_endpoints *slice, unsigned i)
{
	return slice->bytes + (size_t)i * (slice->family == AF_INET ? 4 : 16);
}

/* Whether every host name in the slice belongs to one endpoint of the owner only. */
static inline bool
slice_names_unique(const struct slice_endpoints *slice)
{
	return slice->alone && slice->distinct;
}

/* Returns the host name of entry `i` as a length-prefixed label. Returns NULL if the entry is named
 * after its address. */
const uint8_t *slice_name(const struct slice_endpoints *slice, unsigned i);

/* Whether two entries of the slice have the same name: the same host name, or the same address and
 * no host name. */
bool slice_same_name(const struct slice_endpoints *slice, unsigned a, unsigned b);

/* Iterates over the PTR records of one address in a slice. Returns the first published entry, from
 * `from` on, that has this address and a different name than entry `from` - 1. Returns
 * slice->published if there is none. Repeated copies of the address cost nothing extra. */
unsigned slice_next_ptr(const struct slice_endpoints *slice, unsigned from, const uint8_t *bytes);

bool slice_ready(const struct slice_endpoints *slice, unsigned i);

/* The entries of a slice that are at one place. slice_at_place() fills in this struct, and
 * place_entry() reads it. */
struct place_entries {
	const uint8_t *pairs;
	uint32_t count;
};

/* Finds the entries below `limit` that are at `place`, in ascending order. Place 0 has no entries.
 * The cost is a binary search over the slice's places. */
void slice_at_place(const struct slice_endpoints *slice, uint64_t place, unsigned limit,
    struct place_entries *found);

/* Returns the number of the n-th entry that was found. */
unsigned place_entry(const struct place_entries *found, unsigned n);

/* Returns the first entry in [from, to) that has this address, or this host name (a lower-case
 * label). Returns `to` if there is none. */
unsigned slice_find_addr(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *bytes);
unsigned slice_find_name(
    const struct slice_endpoints *slice, unsigned from, unsigned to, const uint8_t *label);

/* Whether a published endpoint has a port with this label. In a set with more than PORT_SLICES_MAX
 * slices, searches only that many slices, and returns true if none of them has the port. */
bool endpoint_set_has_port(const struct endpoint_set *endpoints, uint64_t label);

enum { PORT_SLICES_MAX = 1024 };

/*
 * Returns the weight of the set's SRV records: 100 divided by the number of its ready endpoints, at
 * least 1. A dual-stack endpoint has an address of each family and counts once. All records of a
 * name have the same priority and weight, so clients spread evenly over them (RFC 2782).
 */
static inline unsigned
endpoint_set_weight(const struct endpoint_set *endpoints)
{
	unsigned count =
	    endpoints->total4 > endpoints->total6 ? endpoints->total4 : endpoints->total6;

	return count == 0 || count > 100 ? 1 : 100 / count;
}

/* Returns the name of an endpoint without a host name: its address with dashes, and a 0 after a
 * trailing dash. Writes the label to `label` and returns it. */
const uint8_t *tree_addr_label(const struct addr *addr, uint8_t label[1 + DNAME_LABEL_MAX + 8]);

/* Parses a label that is an address with dashes. Returns 0 or -EINVAL. */
int tree_label_addr(const uint8_t *label, struct addr *addr);

struct endpoint_ref {
	const struct slice_endpoints *slice;
	unsigned i;
};

/* An iterator over published endpoints of a set. It finds either the endpoints with one host name,
 * or the endpoints with one address and no host name. */
struct endpoint_walk {
	const struct tree *tree;
	const struct endpoint_set *endpoints;
	const uint8_t *label; /* host name to find; NULL: find endpoints without a host name, by
			       * address */
	struct addr addr;
	uint32_t hash;
	uint32_t next_slice; /* the next slice to search, in a small set */
	struct pair_walk index;
	const struct slice_endpoints *slice;
	unsigned i;
};

/* `label` is lower case and length-prefixed, and must stay valid during the walk. */
void endpoint_set_find_name(struct endpoint_walk *walk, const struct tree *tree,
    const struct endpoint_set *endpoints, const uint8_t *label);
void endpoint_set_find_unnamed(struct endpoint_walk *walk, const struct tree *tree,
    const struct endpoint_set *endpoints, const struct addr *addr);

/* Gets the next endpoint. Returns false at the end. An address that is in two slices is returned twice. */
bool endpoint_set_next(struct endpoint_walk *walk, struct endpoint_ref *ref);

struct reverse_walk {
	const struct tree *tree;
	struct addr addr;
	struct pair_walk index;
};

/* An owner of an address. */
struct reverse_ref {
	const struct owner *owner;
	const struct slice_endpoints *slice; /* NULL if the owner itself has the address (a
					      * ClusterIP) */
};

/* Iterates over the owners of an address. An owner that has the address itself (a ClusterIP) is
 * returned first. */
void reverse_find(struct reverse_walk *walk, const struct tree *tree, const struct addr *addr);
bool reverse_next(struct reverse_walk *walk, struct reverse_ref *ref);

struct owner_walk {
	const struct tree *tree;
	const uint8_t *label;
	struct pair_walk index;
	uint8_t key[4];
};

/* Iterates over the owners whose first label is `label`, in no particular order. `label` is lower
 * case and length-prefixed; it is not copied, so it must stay valid. */
void owners_find(struct owner_walk *walk, const struct tree *tree, const uint8_t *label);

/* Returns the next owner, or NULL at the end. */
const struct owner *owners_next(struct owner_walk *walk);

/* Moves `*addr` to the lowest address, not below it, that has a PTR record. Returns false if there
 * is no such address. */
bool reverse_seek(const struct tree *tree, struct addr *addr);

/* Whether the namespace with this number has a pod with this address. */
bool pods_has(const struct tree *tree, const struct addr *addr, uint32_t number);

/* Moves `*addr` and `*number` to the lowest pair (pod address, number) that is not below them.
 * Returns false if there is no such pair. */
bool pods_seek(const struct tree *tree, struct addr *addr, uint32_t *number);

/* Returns the number of the node on which the pod with this address runs. Returns 0 if no node is
 * known for the pod, or if several nodes are. */
uint32_t pods_place(const struct tree *tree, const struct addr *addr);

/* Adds one to `*addr`. Returns false if it is the highest address. */
bool addr_increment(struct addr *addr);

/* --- for the writer --- */

struct treecache *treecache_new(uint64_t seed);
void treecache_free(struct treecache *cache);

/* Returns the writer's tree, with changes that are not published yet. For the writer only. */
const struct tree *treecache_next(const struct treecache *cache);

/* Returns the node of a name below the zone, and creates it if necessary. The caller may change it
 * until the next publish. tree_find_paths() finds names of at most TREE_PATH_MAX labels. */
struct node *treecache_edit(struct treecache *cache, const uint8_t *name);

/* Replaces the node's records by `len` bytes of struct rrset, one after the other. If `len` is 0,
 * the node has no records afterwards. The bytes are copied. */
void treecache_records(struct treecache *cache, struct node *node, const void *sets, size_t len);

/* Removes the node's records and all its descendants. Its endpoint set, number and flags stay. */
void treecache_clear(struct treecache *cache, struct node *node);

/* Removes a name that has become empty (no records, endpoint set, number or child), then its empty parents. */
void treecache_prune(struct treecache *cache, const uint8_t *name);

/* Creates an owner of endpoints. `name` is below the zone, and is copied. */
struct owner *treecache_owner(struct treecache *cache, const uint8_t *name);

/* Frees an owner that has no slice and no address and is not attached to a node. */
void treecache_owner_free(struct treecache *cache, struct owner *owner);

/* Sets the ENDPOINTS_* flags. A change costs time in proportion to the owner's endpoints. */
void treecache_endpoint_set_flags(struct treecache *cache, struct owner *owner, uint32_t flags);

/* Adds an address of the owner itself to the reverse index, or removes it. */
void treecache_owner_addr(
    struct treecache *cache, struct owner *owner, const struct addr *addr, bool present);

/* Adds the owner to the index of first labels (owners_find), or removes it. */
void treecache_owner_label(struct treecache *cache, struct owner *owner, bool present);

struct endpoint {
	struct addr addr;
	bool ready;
	const char *name; /* a valid label in any case; NULL: the endpoint is named after its
			   * address */
};

enum { ENDPOINTS_MAX = UINT16_MAX }; /* largest number of endpoints in a slice */

#define PLACE_MAX ((UINT64_C(1) << 48) - 1)

/* A place where an endpoint of a slice is. One endpoint may be at several places. */
struct endpoint_place {
	uint64_t place; /* a number that the caller chooses: 1 to PLACE_MAX */
	uint16_t endpoint;
};

/* The input from which a slice is made. `name` and `ports` must live as long as the slice; the
 * other members are only read during the call. */
struct slice_source {
	const char *name; /* of two slices that publish an address, the slice with the lower name
			   * counts it */
	uint16_t index;   /* decides between slices with the same name: the lower index counts the
			   * address */
	uint8_t family;   /* address family of all endpoints */
	const struct ports *ports;
	const struct endpoint *endpoints;
	size_t count;                        /* ENDPOINTS_MAX at most */
	const struct endpoint_place *places; /* in any order; each place takes 8 bytes in the
					      * slice */
	size_t place_count;
};

/* Creates a slice of `owner` (slot 0) or replaces the slice in `slot`. Returns its slot, which is never 0. */
uint32_t treecache_slice(
    struct treecache *cache, struct owner *owner, uint32_t slot, const struct slice_source *source);

/* Removes a slice and releases its slot. */
void treecache_slice_remove(struct treecache *cache, struct owner *owner, uint32_t slot);

/* Returns the slice in this slot of the writer's tree. */
const struct slice_endpoints *treecache_slice_at(const struct treecache *cache, uint32_t slot);

/* Adds a pod's address in the namespace with this number, or removes it. */
void treecache_pod(struct treecache *cache, const struct addr *addr, uint32_t number, bool present);

/* If `present` is true, stores that the pod with this address runs on the node with this number,
 * which is not 0. Otherwise removes that information. */
void treecache_pod_place(
    struct treecache *cache, const struct addr *addr, uint32_t number, bool present);

/* Replaces the context, which must be from malloc() and now belongs to the cache. The old context
 * is retired. */
void treecache_context(struct treecache *cache, void *context);

/* Frees `ptr`, which must be from malloc(), as soon as no reader can see it. For the caller's
 * memory that the tree points to. */
void treecache_retire(struct treecache *cache, void *ptr);

/* Makes all changes since the last publish visible to readers. `now_s` is Unix time. Returns false
 * if nothing had changed. */
bool treecache_publish(struct treecache *cache, uint32_t now_s, bool synced);

/* Holds the newest published snapshot. The caller gets the only reference to the hold. */
struct tree_hold *treecache_hold(struct treecache *cache);

/* Returns the number of bytes of replaced blocks that are kept for holds. */
size_t treecache_held(const struct treecache *cache);

/* Returns the number of bytes of replaced blocks that are not freed yet. Blocks that are kept for
 * holds are not included. */
size_t treecache_garbage(const struct treecache *cache);

/* Waits for the grace period, then frees the blocks that were replaced before the last publish.
 * Must not be called inside a read section. */
void treecache_reclaim(struct treecache *cache);

#endif
