/*
 * A small cluster in the zone cluster.local, for tests to ask; its objects are in the namespace
 * "default" until bed_namespace() says another. Its replies
 * are read by ldns, which shares no line with us.
 */
#ifndef TESTS_UNIT_ANSWER_BED_H
#define TESTS_UNIT_ANSWER_BED_H

#include "kubedns/answer/answer.h"
#include "kubedns/cluster/store.h"

enum { BED_TEXT_MAX = 1 << 17 };

struct bed {
	struct treecache *cache;
	struct store *store;
	struct answer_config config; /* may be changed between questions */
	const char *namespace;       /* of what is made from now on */
	int64_t now_ns;              /* for bed_why() */
	struct rewrites *rewrites;   /* of bed_context() */
	struct own_names *hosts;
	uint8_t out[DNS_TCP_MAX];
	struct answer_info info;
};

extern struct bed bed;

/* cmocka's setup and teardown: the namespace alone. */
int bed_begin(void **state);
int bed_end(void **state);

/* A namespace, in which what follows is made. */
void bed_namespace(const char *name);

/* A Service; `address`: its ClusterIP, or its external name. Ports as "http/tcp/80 dns/udp/53". */
void bed_service(const char *name, enum service_type type, const char *address, const char *ports);
void bed_service_delete(const char *name);

/* A slice; endpoints as "10.1.0.1=host 10.1.0.2 !10.1.0.3" (!: not ready), all of one family. */
void bed_slice(const char *service, const char *name, const char *ports, const char *endpoints);

/* A reverse zone of ours: "10.0.0.0/8". */
void bed_reverse_zone(const char *cidr);

/* Whether there is a forwarder. */
void bed_forwarding(bool forwarding);

/* Puts these lines of the key records, and cuts at these domains ("a.example b.example"), beside the
 * hosts of bed_context()'s context, which it makes; for the next bed_publish(). */
struct answer_context *bed_records(const char *records, const char *hosts, const char *cuts);

/* A context with a forwarder and these lines of the ConfigMap's keys, for the next bed_publish(); what
 * else it says may be changed before. It replaces the rewrites and names of an earlier call. */
struct answer_context *bed_context(const char *rewrites, const char *hosts);

void bed_publish(void);

/* A namespace, with the label that declines search completion or without, in which what follows is
 * made. */
void bed_namespace_search(const char *name, bool no_search);

/*
 * Asks over TCP and says what was answered, one word for the rcode and then the records, sorted:
 * "NOERROR A 10.96.0.1", with "owner: " before those of another name than the question's, "SOA of
 * zone" for a negative answer's, and "+ " before the additional section's. "FORWARD", "CHASE name".
 * The text is valid until the next question; names are short for cluster.local without their final
 * ".cluster.local.".
 */
const char *bed_ask(const char *name, const char *type);

/*
 * Asks with an OPT and this size over UDP, and says what the extended errors of the reply are:
 * "0: db-1 is not ready", with "; " between several; "" without one. Valid until the next question.
 */
const char *bed_why(const char *name, const char *type, uint16_t udp_size);

/* Fails, with both texts, unless it says `want`. */
void bed_expect_why(const char *name, const char *type, const char *want);

/*
 * What becomes of the question that bed_ask() or this called CHASE when the other server says this:
 * an rcode (NULL: it failed), records of the answer section and the authority section as lines of a
 * zone file ("": none). As bed_ask(): another CHASE, or the reply.
 */
const char *bed_told(const char *rcode, const char *answer, const char *authority);

/* Fails, with both texts, unless bed_ask() says `want`. */
void bed_expect(const char *name, const char *type, const char *want);

#endif
