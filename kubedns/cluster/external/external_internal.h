/*
 * What the files of external.h share: external.c (events, the objects that claim names, and which objects follow another) and
 * external_hosts.c (which names an object claims, who has a name, and its records).
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_INTERNAL_H
#define KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_INTERNAL_H

#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/external/object_external.h"
#include "lib/table.h"
#include "treecache/ports.h"

/* In the order in which they win; but a CLAIM_CANONICAL that nothing serves is in line with CLAIM_HOST. */
enum claim_rank {
	CLAIM_ZONE,
	CLAIM_CANONICAL,
	CLAIM_HOST,
	CLAIM_ASLEEP, /* nothing serves it, and it did: it does not count, but keeps its place */
};

/* What answers for a name; neither: nothing does. */
struct served {
	struct addr *addrs; /* sorted */
	size_t addr_count;
	char *target; /* without addresses: a load balancer's host name; NULL: none */
};

/* One object's claim to one name. */
struct claim {
	struct external_host *host;
	struct external_object *object;
	enum claim_rank rank;
	uint32_t since; /* its place among claims of the same rank; 0: before external_begin() */
	struct served served;
	const struct served *last; /* what was added to it last: to be compared, it may be gone */
};

struct object_key {
	enum object_kind kind;
	const char *namespace, *name;
};

struct external_object {
	uint32_t hash;
	uint8_t mark;
	enum object_kind kind;
	char *namespace, *name;
	uint64_t version, digest; /* of its content */
	int64_t created_s;
	uint32_t ttl_s;
	struct served served; /* not of a route */
	bool balanced;        /* it waits for that, if it has none */
	struct port *ports;   /* of a Service */
	size_t port_count;
	char **hosts;
	size_t host_count;
	struct object_listener *listeners; /* of a Gateway; strings are its own */
	size_t listener_count;
	struct object_parent *parents; /* of a route; strings are its own */
	size_t parent_count;
	struct claim **claims;
	size_t claim_count, claim_room;
	bool complained; /* it has a host name that was refused */
	bool follows;    /* it is in `followed` */
};

/* A name that somebody claims. */
struct external_host {
	uint32_t hash;
	uint32_t claim_count, claim_room;
	struct claim **claims; /* the one that has the name first */
	/* Claims whose records would be others than those of the claim before: with one, somebody's
	 * are others than the first's. Kept at each change, so that its cost does not grow with the
	 * number of claims. */
	uint32_t steps;
	bool reserved; /* a name of --external-ns: no CLAIM_HOST has it */
	bool has_records, conflict;
	bool has_ports; /* SRV records below it */
	bool dirty;     /* its claims have changed since host_settle() */
	/* The place of the claim that was released since host_settle(), for the one that the same object
	 * makes instead; 0: none. */
	uint32_t released_since;
	uint8_t len;
	uint8_t wire[];
};

struct external {
	struct treecache *cache;
	struct external_config config;
	uint64_t seed;
	struct table objects, hosts, chosen; /* `chosen`: names of namespaces, with a selector */
	struct table ages;                   /* namespaces, until external_begin() */
	bool begun;
	uint32_t since;        /* the last claim's */
	struct table followed; /* objects by what they follow */
	uint8_t mark[OBJECT_KIND_COUNT];
	bool listing[OBJECT_KIND_COUNT];
	size_t counts[OBJECT_KIND_COUNT];
	size_t names, conflicts;
	uint64_t refused;
	struct external_object zone; /* claims the zones' own names */
};

/* --- external.c: objects that claim names --- */

uint32_t object_key_hash(const struct external *external, const struct object_key *key);

/* The object of this kind, or NULL. */
struct external_object *external_object_find(const struct external *external, enum object_kind kind,
    const char *namespace, const char *name);

/* The entry of this object, made if it is missing. */
struct external_object *external_object_get(struct external *external, const struct object *from);

/* Copies what is kept of `source`, whose claims are then to be renewed; false: nothing of it has
 * changed. */
bool external_object_renew(
    struct external *external, struct external_object *object, const struct object *source);

/* Takes its claims back and frees it. */
void external_object_drop(struct external *external, struct external_object *object);

/* How many of its addresses count. */
size_t external_object_addrs(const struct external *external, const struct object *source);

/* --- external.c: which objects follow another --- */

/* The object follows what it depends on, and no longer; its content must not change between. */
void followers_add(struct external *external, struct external_object *object);
void followers_remove(struct external *external, struct external_object *object);

/* Renews the claims of all objects that follow this one. A namespace is in the namespace "". */
void followers_renew(
    struct external *external, enum object_kind kind, const char *namespace, const char *name);

/* --- external.c --- */

/* When the namespace was made, Unix; INT64_MAX: unknown. Only until external_begin() has ended. */
int64_t external_namespace_created_s(const struct external *external, const char *name);

/* Whether --namespace-labels, if given, matches the namespace. */
bool external_namespace_is_chosen(const struct external *external, const char *name);

/* --- external_hosts.c: which names an object claims --- */

/* Makes the object's claims anew from what is known; and takes them all back. */
void claims_renew(struct external *external, struct external_object *object);
void claims_drop(struct external *external, struct external_object *object);

/* The index of the longest of our zones that the name is in, or -1. */
int claims_zone(const struct external *external, const uint8_t *wire);

/* --- external_hosts.c --- */

/* The object's claim to a name, made if missing; `served` is copied, or added to the claim's. */
struct claim *host_claim(struct external *external, const struct dname *name,
    struct external_object *object, enum claim_rank rank, const struct served *served);

/* Takes a claim back and frees it; returns its host, to be settled. */
struct external_host *host_release(struct claim *claim);

/* Puts into the tree what the name has now; frees a host that nobody claims. */
void host_settle(struct external *external, struct external_host *host);

/* Puts the zones' own records into the tree. */
void hosts_begin(struct external *external);

/* Whether a zone of ours has this name. */
bool host_is_apex(const struct external *external, const uint8_t *wire);

/* Puts the host's claims in the order of the beginning, and numbers them. */
void host_begin(struct external *external, struct external_host *host);

/* The claim that has the name, or NULL. */
const struct claim *host_first(const struct external_host *host);

/* Keeps a name from all that is claimed as a host name; it exists from now on. */
void host_reserve(struct external *external, const struct dname *name);

struct external_host *host_find(const struct external *external, const uint8_t *wire);

bool served_is_empty(const struct served *served);
bool served_equal(const struct served *a, const struct served *b);
void served_free(struct served *served);

#endif
