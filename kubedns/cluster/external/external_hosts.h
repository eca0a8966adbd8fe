/*
 * The host names of external.h: who has a name, and its records in the tree. external.c says which object claims which name;
 * the claims to a name are held here in the order in which they win. Events are not known here.
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_HOSTS_H
#define KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_HOSTS_H

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

/* --- the ages of namespaces, by which claims are in order at the beginning --- */

/* Keeps the age of this Namespace, until ages_forget(). */
void ages_note(struct external *external, const struct object *object);
void ages_forget(struct external *external);

/* --- hosts and claims --- */

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
