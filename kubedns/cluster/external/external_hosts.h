/*
 * The host names of external.h: the claims of each name, and its records in the tree. host_claims.c
 * decides which object claims which name. This module stores the claims of a name in their order of
 * precedence. It does not handle events.
 */
#ifndef KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_HOSTS_H
#define KUBEDNS_CLUSTER_EXTERNAL_EXTERNAL_HOSTS_H

#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/external/object_external.h"
#include "lib/table.h"
#include "treecache/ports.h"

/* The ranks of claims, in the order of precedence. A CLAIM_CANONICAL whose object has no address or
 * host name ranks as CLAIM_HOST. */
enum claim_rank {
	CLAIM_ZONE,
	CLAIM_CANONICAL,
	CLAIM_HOST,
	/* The object has lost its address. The claim does not count, but keeps its position. */
	CLAIM_ASLEEP,
};

/* The targets of a name. If it has neither addresses nor `target`, the name has no records. */
struct served {
	struct addr *addrs; /* sorted */
	size_t addr_count;
	char *target; /* a load balancer's host name, if there are no addresses; else NULL */
};

/* An object's claim of a name. */
struct claim {
	struct external_host *host;
	struct external_object *object;
	enum claim_rank rank;
	/* Its position among claims of the same rank; 0: older than external_begin() */
	uint32_t since;
	struct served served;
	/* The targets that were added last. Only the pointer is compared, because they may have
	 * been freed. */
	const struct served *last;
};

struct external_object {
	uint32_t hash;
	uint8_t mark;
	enum object_kind kind;
	char *namespace, *name;
	uint64_t version, digest; /* `digest`: hash of the object's content */
	int64_t created_s;
	uint32_t ttl_s;
	struct served served; /* not for a ListenerSet and a route */
	bool balanced;        /* if the object has no addresses, it is waiting for them */
	struct port *ports;   /* for a Service */
	size_t port_count;
	char **hosts;
	size_t host_count;
	struct object_listener *listeners; /* of a Gateway or ListenerSet, which owns the strings */
	size_t listener_count;
	struct object_parent *parents; /* of a ListenerSet or route, which owns the strings */
	size_t parent_count;
	struct claim **claims;
	size_t claim_count, claim_capacity;
	bool complained; /* one host name of the object was refused */
	bool follows;    /* the object is in the table `followed` */
};

/* A name with at least one claim. */
struct external_host {
	uint32_t hash;
	uint32_t claim_count, claim_capacity;
	struct claim **claims; /* the first claim has the name */
	/*
	 * Number of claims whose records differ from the records of the previous claim. If it is
	 * not 0, some claim differs from the first. The number is updated with each change. The
	 * cost of a change thus does not grow with the number of claims.
	 */
	uint32_t steps;
	bool reserved; /* the name is in --external-ns, so no CLAIM_HOST gets it */
	bool has_records, conflict;
	bool has_ports; /* there are SRV records below the name */
	bool dirty;     /* the claims have changed since the last host_settle() */
	/* The position of a claim that was released since host_settle(). A new claim of the same
	 * object takes that position. 0 if no claim was released. */
	uint32_t released_since;
	uint8_t len;
	uint8_t wire[];
};

struct external {
	struct treecache *cache;
	struct external_config config;
	uint64_t seed;
	/* `chosen`: names of the namespaces that the selector matches, if there is a selector */
	struct table objects, hosts, chosen;
	struct table ages; /* ages of namespaces, until external_begin() */
	bool begun;
	uint32_t since;        /* position of the newest claim */
	struct table followed; /* objects, found by the objects that they follow */
	uint8_t mark[OBJECT_KIND_COUNT];
	bool listing[OBJECT_KIND_COUNT];
	size_t counts[OBJECT_KIND_COUNT];
	size_t names, conflicts;
	uint64_t refused;
	struct external_object zone; /* stands for the zones, and claims their own names */
};

/* --- ages of namespaces, which determine the initial order of claims --- */

/* Stores the age of this Namespace until ages_forget(). */
void ages_note(struct external *external, const struct object *object);
void ages_forget(struct external *external);

/* --- hosts and claims --- */

/* Adds the object's claim of a name. If the claim exists already, adds `served` to it. `served` is
 * copied. Returns the claim if it is new, else NULL. */
struct claim *host_claim(struct external *external, const struct dname *name,
    struct external_object *object, enum claim_rank rank, const struct served *served);

/* Removes and frees a claim. Returns its host, on which the caller calls host_settle(). */
struct external_host *host_release(struct claim *claim);

/* Writes the records of the name into the tree. Frees a host without claims. */
void host_settle(struct external *external, struct external_host *host);

/* Writes the zones' own records into the tree. */
void hosts_begin(struct external *external);

/* Whether the name is the apex of one of our zones. */
bool host_is_apex(const struct external *external, const uint8_t *wire);

/* Puts the host's claims into their initial order, and numbers them. */
void host_begin(struct external *external, struct external_host *host);

/* Returns the claim that has the name, or NULL. */
const struct claim *host_first(const struct external_host *host);

/* Reserves the name: no CLAIM_HOST gets it. The name exists from now on. */
void host_reserve(struct external *external, const struct dname *name);

struct external_host *host_find(const struct external *external, const uint8_t *wire);

bool served_is_empty(const struct served *served);
bool served_equal(const struct served *a, const struct served *b);
void served_free(struct served *served);

#endif
