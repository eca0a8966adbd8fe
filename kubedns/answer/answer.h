/*
 * Turns a query's bytes into a reply's bytes. Pure: no socket, no clock, no log, no allocation for
 * names in the tree.
 *
 *	query -> name -> stages (stages.h), until one answers -> records, or rcode and SOA -> reply
 *	                                no stage has the name -> ANSWER_FORWARD, or REFUSED
 *
 * The caller must be in an RCU read section of the tree during the whole call. The reply does not
 * point into the tree.
 */
#ifndef KUBEDNS_ANSWER_ANSWER_H
#define KUBEDNS_ANSWER_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/answer/stages.h"
#include "lib/addr.h"
#include "lib/dname.h"
#include "lib/wire.h"

struct answer_reason;   /* kubedns/answer/reason.h */
struct endpoint_choice; /* kubedns/answer/nearest.h */
struct message_handler; /* kubedns/answer/message.h */
struct tree;            /* treecache/treecache.h: a snapshot of the cluster */
struct tree_path;
struct view_config; /* kubedns/answer/view.h */

/* The configuration of answers, which is set at startup and does not change afterwards. */
struct answer_config {
	struct dname zone; /* lower case */
	uint32_t ttl_s, negative_ttl_s;
	/* The configuration of each stage, indexed by the stage's id. The element is NULL if the
	 * stage is disabled. The stage's header declares the type and a function that returns
	 * it: zone_config(), reverse_config(), ... */
	const void *stage_config[STAGE_COUNT];
	/* The stages of enabled modules, in a list that ends with NULL, or NULL. They get the names that
	 * the cluster's zone does not have (ORDER_MISSING). kubedns/config/module_set.c makes the list. */
	const struct stage *const *module_stages;
	struct stages stages; /* stages_build() fills them */
	/* The message handlers of enabled modules, in a list that ends with NULL, or NULL (message.h) */
	const struct message_handler *const *handlers;
	const struct view_config *view; /* NULL if all clients see the same (view.h) */
	/* If `choice` is NULL, an answer has all endpoints, rotated (nearest.h). */
	const struct endpoint_choice *choice;
	char version[64];  /* the answer to CHAOS version.bind */
	char hostname[64]; /* the answer to CHAOS hostname.bind, and the NSID */
};

struct local_names; /* kubedns/answer/local_names.h */
struct rewrites;    /* kubedns/answer/rewrites.h */

struct federation {
	/* Name of the federation, lower case, length-prefixed. */
	uint8_t label[1 + DNAME_LABEL_MAX];
	struct dname domain;
};

/* Why a stub domain has no usable server. */
struct stub_refusal {
	uint32_t stub; /* offset of its name in answer_context.stubs */
	uint32_t
	    text; /* offset of the sentence in answer_context.stub_refusal_texts; it may be empty */
};

/* Data that answers need in addition to the tree. The data can change while the process runs.
 * The data is published with the tree, as the tree's context (treecache_context). */
struct answer_context {
	bool forwarding; /* external names are forwarded, so replies have RA */
	/* Addresses of external names get a negative answer without forwarding
	 * (answer/upstream_stage.h). */
	bool filter_a, filter_aaaa;
	bool front; /* the front topology: kubedns forwards to dnsmasq */
	/* The stub domains, in wire format, one after the other. dnsmasq or unbound sends their
	 * names to the servers of the stub domain. In the first `stubs_encrypted_len` bytes are the
	 * domains that kubedns must not query itself, because it cannot encrypt queries. */
	const uint8_t *stubs;
	size_t stubs_len, stubs_encrypted_len;
	/* Offsets of the stub domains in `stubs`, in the order of strcmp(). */
	const uint32_t *stub_order;
	size_t stub_count;
	/* In front, and a stub domain is inside one of our zones or among the reverse names. The longest
	 * domain wins, so kubedns forwards the names of this stub domain (answer/upstream_stage.c). */
	bool stubs_inside;
	/* The stub domains in the first bytes have no usable server. Their names get SERVFAIL. */
	size_t stubs_closed_len;
	/* Why, for each of these domains, in the order of `stubs`. */
	const struct stub_refusal *stub_refusals;
	size_t stub_refusal_count;
	const char *stub_refusal_texts;
	/* A refused key asks for TLS (lib/conf_closed.h). All external names get SERVFAIL. */
	bool closed;
	bool
	    unread; /* `closed` is set because the ConfigMap of --config-map has not been read yet */
	/* The time since which the source of the objects has not responded (monotonic). The time
	 * is 0 while the source responds. */
	int64_t stale_since_ns;
	char region[DNAME_LABEL_MAX + 1],
	    /* Region and zone of this cluster, from its nodes; "" if unknown. */
	    zone[DNAME_LABEL_MAX + 1];
	bool
	    own; /* a stage of ORDER_CONTEXT has something to do: `names` or `rewrites` is not NULL, or `stubs_inside` is set */
	/* The operator's local names, which are part of this block, or NULL. */
	const struct local_names *names;
	const struct rewrites *rewrites;     /* from the ConfigMap key `rewrites`, or NULL */
	const struct visibility *visibility; /* not in this block (see cluster/tree_content.h) */
	const struct node_places *places;    /* not in this block (see cluster/tree_content.h) */
	size_t federation_count;
	struct federation federations[];
};

enum answer_outcome {
	ANSWER_DROP,    /* not a query that may be answered: send nothing */
	ANSWER_REPLY,   /* `out` contains the complete reply */
	ANSWER_FORWARD, /* not our name: pass the query to the forwarder; `out` is undefined */
	/* Our records end in a CNAME that leaves our zones. Forward `target`/`qtype`, then call
	 * answer_chased(). */
	ANSWER_CHASE,
	/* A module answers the query: call message_answer(info->handler), then answer_replied()
	 * (message.h). `out`, and the fields of `info` about the reply, are undefined. */
	ANSWER_MODULE,
};

enum { CLAIM_BYTES = 32 };

/*
 * A stage claims a query (stage_claim() in stage.h) if it tries several names for it, the candidates. Some
 * candidates need a query to another server. `block` is the stage's own memory about the query. It is kept
 * while other servers are queried.
 */
struct claim {
	const struct stage *owner; /* the stage that `block` belongs to, or NULL */
	/* The stage that makes the answer, or NULL. The owner may also leave the query to others. */
	const struct stage *stage;
	/* With ANSWER_CHASE: `target` is a candidate. If the candidate does not exist, the stage
	 * tries the next one. */
	bool candidate;
	bool last; /* with `candidate`: no other candidate follows */
	_Alignas(8) uint8_t block[CLAIM_BYTES];
};

/* How near an endpoint is to the client. NEAR_UNKNOWN means that the client's place is unknown. */
enum near { NEAR_NODE, NEAR_ZONE, NEAR_FAR, NEAR_CLASSES, NEAR_UNKNOWN = NEAR_CLASSES, NEAR_COUNT };

/* The kind of the name in the query, which is the label `system` of kube-dns's metrics. */
enum answer_system { SYSTEM_AUTH, SYSTEM_REVERSE, SYSTEM_RECURSIVE, SYSTEM_COUNT };

struct answer_info {
	enum query_result read;
	/* rcode of a query that was rejected regardless of its name, otherwise 0 */
	uint8_t refused;
	/* Number of labels of the name before our zone's name. -1 if the name is outside our zone, or
	 * if the stages do not answer the query. */
	int below;
	size_t len; /* length of the reply in `out` */
	enum answer_system system;
	uint8_t rcode;      /* rcode of the reply (the lower 4 bits, and BADVERS as 16) */
	bool truncated;     /* TC is set */
	bool filtered;      /* negative answer because of --filter-a or --filter-aaaa */
	bool fell_through;  /* ANSWER_FORWARD for a name of our zones that does not exist there */
	struct query query; /* for the forwarder: ID, EDNS size, DO, question */
	/* With ANSWER_CHASE: the name to look up. If the query's name was rewritten and no CNAME
	 * follows, the target is the rewritten name. */
	struct dname target;
	/* With ANSWER_CHASE: dnsmasq would send `target` back to kubedns, to be rewritten. */
	bool direct;
	bool rewritten;     /* `target` was looked up in place of the query's name */
	bool rewrite_limit; /* a pattern of the rewrites reached its limit */
	struct claim claim;
	bool until_synced; /* before the first sync: send the query to --until-synced */
	/* The handler of the module that answers the query instead of the stages, or NULL */
	const struct message_handler *handler;
};

enum { EXPLANATIONS = 4 /* see explanation_stage.h */ };

/* Data of a thread that makes answers. Only that thread uses it. */
struct answer_thread {
	const int64_t *now_ns; /* monotonic time */
	int64_t refill_ns;     /* when explanations are counted from 0 again */
	unsigned explain_made; /* explanations since then, and the clients that got them */
	struct addr explain_clients[EXPLANATIONS];
	uint64_t *explained, *explain_refused; /* counters; readers load them with relaxed order */
	/* with --nearest: numbers of answers, by the class of their first endpoint */
	uint64_t *nearest;
	uint64_t *modules; /* the counters of modules */
	/* With --zonal: [0] counts answers with endpoints of the zone, and [1] answers with
	 * endpoints of the whole Service. */
	uint64_t *zonal;
};

/* A client's message, the sources of the answer, and the buffer for the reply. */
struct answer_request {
	const struct answer_config *config;
	const struct tree *tree;
	const uint8_t *query; /* the message as it was received */
	size_t query_len;
	uint8_t *out; /* buffer of `max` bytes: 65,535 for TCP, at least 1,232 for UDP */
	size_t max;
	/* For TCP: the idle timeout in units of 100 ms. The reply contains the timeout if the
	 * client requests it (RFC 7828). */
	uint16_t keepalive;
	/* True for TCP, where the reply may have 65,535 bytes. For UDP, the query's EDNS size is
	 * the limit. */
	bool tcp;
	uint32_t rotation;            /* random number that selects the first record of a set */
	struct answer_thread *thread; /* if NULL, there are no clock and no explanations */
	/* for the shares of clients in explanations; NULL is one client */
	const struct sockaddr *client;
	/* Gets the reason of the answer, which points into `info` and the tree (reason.h). NULL for
	 * clients, who get it as an extended error. */
	struct answer_reason *reason;
};

/* Answers one message. */
enum answer_outcome answer(const struct answer_request *request, struct answer_info *info);

/*
 * answer() in steps, for a batch of messages. answer_read() parses a message and fills in the path
 * to look up. tree_find_paths() looks up all paths together. answer_found() answers each message
 * from the same tree.
 */
void answer_read(const struct answer_config *config, const uint8_t *query, size_t query_len,
    struct answer_info *info, struct tree_path *path);
enum answer_outcome answer_found(
    const struct answer_request *request, const struct tree_path *path, struct answer_info *info);

/* A reply of another server. */
struct upstream_reply {
	const uint8_t *wire; /* NULL if every server failed: the reply is SERVFAIL */
	size_t len;
	/* The names of the servers, if `wire` is NULL and every server refused. The reply is
	 * then REFUSED. */
	const char *refused_by;
};

/*
 * Makes the reply to a query for which answer() returned CHASE. The reply has our CNAMEs, then the
 * answer section of the upstream reply to target/qtype. Its rcode and TC are from the upstream
 * reply. `info` is from answer(). Returns the reply's length.
 */
size_t answer_chased(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info);

/*
 * Returns whether a stage tries another candidate after this upstream reply. Then info->target is the
 * next candidate, which the caller must look up. `request` needs no buffer for a reply.
 */
bool answer_chases_on(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info);

/*
 * Makes the reply to a query for which answer() returned FORWARD, from the upstream reply. The
 * reply has the client's ID and question. The reply has an OPT only if the query had an OPT. If the
 * reply would be longer than the client accepts, it is shortened and has TC. Returns the reply's
 * length, or 0 if the query cannot be answered at all.
 */
size_t answer_forwarded(const struct answer_request *request, const struct upstream_reply *upstream,
    struct answer_info *info);

/*
 * Makes a reply without records to a query that was read, such as REFUSED when too many queries of
 * a client are in flight. Returns its length.
 */
size_t answer_rcode(const struct query *query, const uint8_t *wire, size_t wire_len, unsigned rcode,
    uint8_t *out, size_t max);

/* Sets `len`, `rcode` and `truncated` of `info` from a complete reply of a module. */
void answer_replied(struct answer_info *info, const uint8_t *reply, size_t len);

#endif
