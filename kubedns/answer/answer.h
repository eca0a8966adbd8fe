/*
 * Turns a query's bytes into a reply's bytes. Pure: no socket, no clock, no log, no allocation for
 * names in the tree.
 *
 *	query -> question -> zone -> existence (zone_lookup.h) -> FOUND | NODATA | NXDOMAIN | NOT_OURS
 *	      -> records -> rcode, AA, SOA -> reply
 *
 * The caller is in an RCU read section of the tree for the whole call; the reply does not point
 * into the tree.
 */
#ifndef KUBEDNS_ANSWER_ANSWER_H
#define KUBEDNS_ANSWER_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"
#include "lib/wire.h"

struct client_place;   /* kubedns/cluster/tree_content.h */
struct external_zones; /* kubedns/answer/external_zones.h */
struct name;           /* kubedns/answer/name.h */
struct stage;          /* kubedns/answer/stage.h */
struct tree;           /* treecache/treecache.h: a snapshot of the cluster */
struct tree_path;

enum pods_mode { PODS_DISABLED, PODS_INSECURE, PODS_VERIFIED };

/* A reverse zone of ours: from --reverse-cidrs, on an octet or nibble border. */
struct reverse_zone {
	struct dname name; /* "96.10.in-addr.arpa." */
	struct addr prefix;
	unsigned bits;
};

enum { STAGES_MAX = 9 };

/* The stages of a configuration, each list ended by NULL: all in their order, and each turn's (stage.h). */
struct stages {
	/* The lengths of the labels before the zone that `missing` answers below, bit by bit: most names that the
	 * zone does not have are below none of them. */
	uint64_t missing_lengths;
	const struct stage *all[STAGES_MAX + 1];
	const struct stage *context[STAGES_MAX + 1], *missing[STAGES_MAX + 1],
	    *outside[STAGES_MAX + 1];
};

/* Set at the start and constant from then on. */
struct answer_config {
	struct dname zone; /* lower case */
	uint32_t ttl_s, negative_ttl_s;
	uint32_t hold_ms; /* how long a query for a name that is about to exist waits; 0: not */
	enum pods_mode pods;
	bool ignore_empty_service;
	bool wildcards;
	bool transfer;      /* --transfer-to: ANSWER_TRANSFER is possible */
	bool transfer_keys; /* --transfer-key: of a SOA query with a TSIG too */
	bool udp_subset;    /* of a headless set too large for UDP a part is sent, without TC */
	struct dname *filter_except; /* lower case: outside zones that are never filtered */
	size_t filter_except_count;
	bool search_inferred;       /* --search-completion=inferred: see search.h */
	bool until_synced;          /* --until-synced: others are asked for our names till then */
	bool search_resolver;       /* CNAMEs that leave our zones are asked of --search-resolver */
	struct dname *search_extra; /* --search-extra: lower case, none of them in our zones */
	size_t search_extra_count;
	struct reverse_zone *reverse_zones;
	size_t reverse_zone_count;
	bool ptr_in_cidrs; /* --ptr=cidrs: addresses outside of these zones have no PTR here */
	const struct external_zones *external; /* --external-zones; NULL: none */
	bool external_only;        /* nothing but these: the configuration of --external-address */
	struct dname *fallthrough; /* names below these that our zones lack: ask other servers */
	size_t fallthrough_count;
	bool visibility;       /* --visibility: clients see what their namespace may (view.h) */
	bool unknown_sees_all; /* --visibility-unknown=all */
	bool nearest;          /* --nearest: see nearest.h */
	bool nearest_only;     /* --nearest-only */
	bool zonal;            /* --zonal */
	bool pod_places;       /* a client is where its pod is; else, of every client: */
	const struct client_place *place; /* NULL: where clients are is not known */
	bool views;                       /* clients are told apart: visibility or pod_places */
	struct stages stages;             /* stages_build() fills them */
	char version[64];                 /* CHAOS version.bind */
	char hostname[64];                /* CHAOS hostname.bind, and NSID */
};

struct own_names; /* kubedns/answer/own_names.h */
struct rewrites;  /* kubedns/answer/rewrites.h */

struct federation {
	uint8_t label[1 + DNAME_LABEL_MAX]; /* its name, lower case, length-prefixed */
	struct dname domain;
};

/* What an answer needs besides the tree and can change while the process runs: published with the
 * tree, as its context (treecache_context). */
struct answer_context {
	bool forwarding; /* names that are not ours are forwarded: RA */
	/* Addresses of outside names that are denied without asking (answer/upstream_stage.h). */
	bool filter_a, filter_aaaa;
	bool front; /* dnsmasq stands behind kubedns, not before it */
	/* Stub domains, whose names dnsmasq sends to servers of their own: names in wire form, one
	 * after the other. */
	const uint8_t *stubs;
	size_t stubs_len;
	/* Since when the source of the objects has not answered, monotonic; 0: it does. */
	int64_t stale_since_ns;
	char region[DNAME_LABEL_MAX + 1],
	    zone[DNAME_LABEL_MAX + 1];       /* this cluster's, from its nodes; "" unknown */
	bool own;                            /* one of these is there: */
	const struct own_names *names;       /* the operator's own, in this block; NULL: none */
	const struct rewrites *rewrites;     /* of the key rewrites; NULL: none */
	const struct visibility *visibility; /* cluster/tree_content.h; not in this block */
	const struct node_places *places;    /* the same */
	size_t federation_count;
	struct federation federations[];
};

enum answer_outcome {
	ANSWER_DROP,    /* not a query that may be answered: send nothing */
	ANSWER_REPLY,   /* `out` holds the reply, whole */
	ANSWER_FORWARD, /* not ours: hand the query to the forwarder; `out` means nothing */
	ANSWER_WAIT,    /* about to exist, and the request may wait: ask again when the tree has
			 * changed; `out` means nothing */
	ANSWER_CHASE,   /* ours up to a CNAME that leaves our zones:
			 * forward `target`/`qtype`, then answer_chased() */
	/* a zone is wanted whole: transfer_answer(), then answer_replied(); `out` and what `info`
	 * says of the reply mean nothing */
	ANSWER_TRANSFER,
};

enum search_form { SEARCH_NONE, SEARCH_DECLARED, SEARCH_INFERRED, SEARCH_REFUSED, SEARCH_FORMS };

/* Why a name that --search-completion=inferred might complete was not walked. */
enum search_refusal {
	SEARCH_TYPE,          /* neither A nor AAAA */
	SEARCH_ONE_LABEL,     /* X has no dot */
	SEARCH_UNDERSCORE,    /* a label of X begins with one */
	SEARCH_NO_NAMESPACE,  /* there is no such namespace */
	SEARCH_OPTED_OUT,     /* its label says no */
	SEARCH_SERVICE,       /* X is below a Service of the namespace */
	SEARCH_FALLS_THROUGH, /* other servers are asked for the name as it is (--fallthrough) */
	SEARCH_NO_RESOLVER,   /* the walk came to an outside name, and nobody may be asked */
	SEARCH_REFUSALS
};

/* A walk along a search list (search.h), and how far it is over the questions to other servers. */
struct search_walk {
	uint8_t form;    /* enum search_form */
	uint8_t refusal; /* enum search_refusal, if the form says so */
	uint8_t denied;  /* outside candidates for which other servers have said NXDOMAIN */
	bool asking;     /* ANSWER_CHASE: `target` is a candidate, and a denial leads to the next */
	bool last;       /* `asking`: the candidate is X itself */
	uint32_t ttl_s;  /* the least TTL of these denials: the most for the reply */
};

/* How near an endpoint is to the client; NEAR_UNKNOWN: where the client is, is not known. */
enum near { NEAR_NODE, NEAR_ZONE, NEAR_FAR, NEAR_CLASSES, NEAR_UNKNOWN = NEAR_CLASSES, NEAR_COUNT };

/* Which kind of name was asked for: the `system` label of kube-dns's metrics. */
enum answer_system { SYSTEM_AUTH, SYSTEM_REVERSE, SYSTEM_RECURSIVE, SYSTEM_COUNT };

struct answer_info {
	enum query_result read;
	uint8_t refused; /* the rcode of a query rejected whatever its name; 0: it was not */
	int below;       /* if `refused` is 0: labels of the name before our zone, -1: outside */
	size_t len;      /* of the reply in `out` */
	enum answer_system system;
	uint8_t rcode;       /* of the reply (the low 4 bits, and BADVERS as 16) */
	bool truncated;      /* TC is set */
	bool filtered;       /* denied by --filter-a or --filter-aaaa */
	bool fell_through;   /* ANSWER_FORWARD of a name of our zones, which do not have it */
	struct query query;  /* for the forwarder: ID, EDNS size, DO, question */
	struct dname target; /* ANSWER_CHASE; `rewritten`, unless a CNAME led on */
	bool direct;         /* ANSWER_CHASE: dnsmasq would send `target` here, to be rewritten */
	bool rewritten;      /* `target` was looked up in place of the question's name */
	bool rewrite_limit;  /* a pattern of the rewrites ended at its bound */
	struct search_walk search;
	bool until_synced; /* as fell_through, before the first sync: for --until-synced */
};

enum { EXPLANATIONS = 4, EXPLANATIONS_MS = 200 /* a thread makes at most so many in this time */ };

/* What answers need of the thread that makes them; for that thread alone. */
struct answer_thread {
	const int64_t *now_ns; /* monotonic */
	/* Why `name` (text) is answered as it is, in lines, for queries for NAME._explain
	 * (explanation_stage.c); `*len` is the text's length. Caller frees. NULL: --explain-by-dns=off. */
	char *(*explain)(const struct answer_config *config, const struct tree *tree,
	    const char *name, size_t *len);
	unsigned explain_left; /* before refill_ns */
	int64_t refill_ns;
	uint64_t *explained, *explain_refused; /* counters; a reader loads them relaxed */
	uint64_t *nearest; /* with --nearest, answers by how near their first endpoint is */
	uint64_t *zonal; /* with --zonal, answers from the zone [0], and from all of the Service */
};

/* One message of a client, what to answer it from, and where the reply goes. */
struct answer_request {
	const struct answer_config *config;
	const struct tree *tree;
	const uint8_t *query; /* the message as it came */
	size_t query_len;
	uint8_t *out; /* room for `max` bytes: 65,535 for TCP, at least 1,232 for UDP */
	size_t max;
	/* Over TCP, in 100 ms: how long the connection may idle, if the client asks (RFC 7828). */
	uint16_t keepalive;
	bool tcp;          /* the reply may be 65,535 bytes; over UDP, the query's EDNS size */
	bool may_wait;     /* with --hold-ms: ANSWER_WAIT is possible */
	uint32_t rotation; /* chooses the first record of a set: a random number */
	struct answer_thread *thread; /* NULL: no time, no explanations */
};

/* Answers one message. */
enum answer_outcome answer(const struct answer_request *request, struct answer_info *info);

/*
 * The same in steps, for a batch of messages: answer_read() parses each and fills in the path to
 * look for, tree_find_paths() finds all paths together, answer_found() answers each from the same
 * tree.
 */
void answer_read(const struct answer_config *config, const uint8_t *query, size_t query_len,
    struct answer_info *info, struct tree_path *path);
enum answer_outcome answer_found(
    const struct answer_request *request, const struct tree_path *path, struct answer_info *info);

/* What another server replied. */
struct upstream_reply {
	const uint8_t *wire; /* NULL: every server failed, which makes SERVFAIL */
	size_t len;
	const char *refused_by; /* `wire` NULL: every server refused, which makes REFUSED; who */
};

/*
 * The reply to a query for which answer() returned CHASE: its CNAMEs, then the answer section of
 * the upstream reply to target/qtype, with that reply's rcode and TC. `info` is the one that
 * answer() filled. Returns the reply's length.
 */
size_t answer_chased(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info);

/*
 * Whether the upstream reply is a step of a search walk and not its end: then info->target is the
 * next candidate, and the caller asks for it. `request` needs no room for a reply.
 */
bool answer_chases_on(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info);

/*
 * The reply to a query for which answer() returned FORWARD, made of the upstream reply: with the
 * client's ID and question, no longer than the client takes (else TC), with an OPT only if the
 * query had one. Returns the reply's length, 0 if the query cannot be answered at all.
 */
size_t answer_forwarded(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info);

/*
 * A reply without records to a query that was read: REFUSED when too many queries of a client are
 * in flight. Returns its length.
 */
size_t answer_rcode(const struct query *query, const uint8_t *wire, size_t wire_len, unsigned rcode,
    uint8_t *out, size_t max);

/* Sets what `info` says of the reply (len, rcode, truncated) from a whole message that another
 * function has written: transfer_answer(). */
void answer_replied(struct answer_info *info, const uint8_t *reply, size_t len);

#endif
