/*
 * A small cluster in the zone cluster.local, for tests that send queries. Its objects are in the
 * namespace "default" until bed_namespace() sets another namespace. ldns parses the replies of
 * kubedns. It shares no code with kubedns.
 */
#ifndef TESTS_UNIT_ANSWER_BED_H
#define TESTS_UNIT_ANSWER_BED_H

#include "kubedns/cluster/store.h"
#include "tests/answer_parts.h"

enum { BED_TEXT_MAX = 1 << 17 };

struct bed {
	struct treecache *cache;
	struct store *store;
	/* Tests may change `config`, and the objects that it points at, between queries. */
	struct answer_config config;
	struct answer_parts parts;
	const char *namespace;         /* namespace of new objects */
	const struct sockaddr *client; /* who sends the queries of bed_ask(), or NULL */
	int64_t now_ns;                /* the time for bed_why() */
	uint64_t counters[32];         /* of modules, for bed_why() */
	struct rewrites *rewrites;     /* made by bed_context() */
	struct local_names *hosts;
	uint8_t out[DNS_TCP_MAX];
	struct answer_info info;
};

extern struct bed bed;

/* Setup and teardown for cmocka: a cluster whose only object is the namespace "default". */
int bed_begin(void **state);
int bed_end(void **state);

/* Adds a namespace. The objects that the test adds after this call belong to it. */
void bed_namespace(const char *name);

/* Adds a Service. `address` is its ClusterIP or its external name. Ports have the form "http/tcp/80
 * dns/udp/53". */
void bed_service(const char *name, enum service_type type, const char *address, const char *ports);
void bed_service_delete(const char *name);

/* Adds a slice. Endpoints have the form "10.1.0.1=host 10.1.0.2 !10.1.0.3". `!` means not ready.
 * All endpoints are of one family. */
void bed_slice(const char *service, const char *name, const char *ports, const char *endpoints);

/* Adds a reverse zone of ours, such as "10.0.0.0/8". */
void bed_reverse_zone(const char *cidr);

/* Sets whether external names are forwarded. */
void bed_forwarding(bool forwarding);

/* Sets the ConfigMap key `records` to these lines, and adds these stub domains ("a.example
 * b.example"). Also calls bed_context() with `hosts`, and returns its context. The next
 * bed_publish() applies the records. */
struct answer_context *bed_records(const char *records, const char *hosts, const char *cuts);

/* Makes a context with a forwarder and with these lines of the ConfigMap keys `rewrites` and
 * `hosts`. Before the next bed_publish(), the caller may change the other members of the context.
 * The rewrites and names replace those of an earlier call. */
struct answer_context *bed_context(const char *rewrites, const char *hosts);

void bed_publish(void);

/* Adds a namespace with or without the label for NODE_LABELLED (cluster/tree_content.h). The objects
 * that the test adds after this call belong to it. */
void bed_namespace_labelled(const char *name, bool labelled);

/*
 * Sends a query over TCP and returns the answer as text: the rcode, then the sorted records, such
 * as "NOERROR A 10.96.0.1". If the owner of a record is not the name in the query, the record has
 * the prefix "owner: ". A negative answer has "SOA of zone". Records of the additional section have
 * the prefix "+ ". Other outcomes are "FORWARD" and "CHASE name". The text is valid until the next
 * query. Names in cluster.local are shortened: they lack the final ".cluster.local.".
 */
const char *bed_ask(const char *name, const char *type);

/*
 * Sends a query over UDP with an OPT with this size. Returns the extended errors of the reply as
 * text: "0: db-1 is not ready", separated by "; ". Returns "" if there are no extended errors. The
 * text is valid until the next query.
 */
const char *bed_why(const char *name, const char *type, uint16_t udp_size);

/* Fails, and prints both texts, unless bed_why() returns `want`. */
void bed_expect_why(const char *name, const char *type, const char *want);

/*
 * Continues a query for which bed_ask() or this function returned CHASE. The arguments are the
 * reply of the other server. `rcode` is NULL if that server failed. `answer` and `authority` are
 * the records of these sections, as lines of a zone file. "" means no records. The result is the
 * reply to the client or another CHASE, as with bed_ask().
 */
const char *bed_told(const char *rcode, const char *answer, const char *authority);

/* Fails, and prints both texts, unless bed_ask() returns `want`. */
void bed_expect(const char *name, const char *type, const char *want);

#endif
