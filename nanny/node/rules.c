#include "nanny/node/rules.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "nanny/node/nft.h"

enum {
	UDP_HEADER = 8,
	ICMP_HEADER = 8,
	TCP_SEQUENCE = 4, /* byte offsets in the TCP header */
	TCP_FLAGS = 13,
	SOURCE_PORT = 0,
	DESTINATION_PORT = 2,
	DNS_RCODE = UDP_HEADER + 3,
	RCODE_MASK = 0xf,
	FIN = 1,
	SYN = 2,
	RST = 4,
	ACK = 16,
	ALIVE_MAX = 16, /* size of @alive, at least NODE_ADDRESSES_MAX */
};

/* The differences between IPv4 and IPv6. */
struct family {
	uint8_t protocol; /* NFPROTO_* */
	uint8_t icmp;     /* IPPROTO_* number of ICMP */
	uint8_t unreachable[2];
	/* address length, and offsets of the addresses in the IP header */
	uint32_t len, source, destination;
	/* offset of TTL or hop limit, and the header length without options */
	uint32_t hops, header;
	enum nft_key key;
	const char *alive, *here, *rate;
};

static const struct family ipv4 = { .protocol = NFPROTO_IPV4,
	.icmp = IPPROTO_ICMP,
	.unreachable = { ICMP_UNREACH, ICMP_UNREACH_PORT },
	.len = 4,
	.source = 12,
	.destination = 16,
	.hops = 8,
	.header = 20,
	.key = NFT_KEY_IPV4,
	.alive = "alive4",
	.here = NODE_RULES_HERE(AF_INET),
	.rate = "rate4" };
static const struct family ipv6 = { .protocol = NFPROTO_IPV6,
	.icmp = IPPROTO_ICMPV6,
	.unreachable = { ICMP6_DST_UNREACH, ICMP6_DST_UNREACH_NOPORT },
	.len = 16,
	.source = 8,
	.destination = 24,
	.hops = 7,
	.header = 40,
	.key = NFT_KEY_IPV6,
	.alive = "alive6",
	.here = NODE_RULES_HERE(AF_INET6),
	.rate = "rate6" };

static const struct family *
family_of(const struct addr *addr)
{
	return addr->family == AF_INET ? &ipv4 : &ipv6;
}

/* A batch being filled with the rules of one address. */
struct filling {
	struct nft_batch *batch;
	const struct family *family;
	const struct node_address *address;
	const struct node_rules *rules;
};

/* --- conditions --- */

static void
address_is(const struct filling *f, uint32_t offset)
{
	nft_load(f->batch, NFT_PAYLOAD_NETWORK_HEADER, offset, f->family->len);
	nft_compare(f->batch, NFT_CMP_EQ, f->address->addr.bytes, f->family->len);
}

static void
rule_of(const struct filling *f, const char *chain)
{
	nft_rule_begin(f->batch, chain);
	nft_meta(f->batch, NFT_META_NFPROTO);
	nft_compare(f->batch, NFT_CMP_EQ, &f->family->protocol, 1);
}

static void
rule_to(const struct filling *f)
{
	rule_of(f, "query");
	address_is(f, f->family->destination);
}

static void
rule_from(const struct filling *f, const char *chain)
{
	rule_of(f, chain);
	address_is(f, f->family->source);
}

static void
protocol_is(struct nft_batch *batch, uint8_t protocol)
{
	nft_meta(batch, NFT_META_L4PROTO);
	nft_compare(batch, NFT_CMP_EQ, &protocol, 1);
}

static void
port_is(struct nft_batch *batch, uint32_t offset, uint16_t port)
{
	const uint16_t wire = htons(port);

	nft_load(batch, NFT_PAYLOAD_TRANSPORT_HEADER, offset, sizeof wire);
	nft_compare(batch, NFT_CMP_EQ, &wire, sizeof wire);
}

/* Compares a masked byte of the transport header. */
static void
byte_is(struct nft_batch *batch, uint32_t offset, uint8_t mask, enum nft_cmp_ops op, uint8_t value)
{
	nft_load(batch, NFT_PAYLOAD_TRANSPORT_HEADER, offset, 1);
	nft_mask(batch, mask);
	nft_compare(batch, op, &value, 1);
}

static void
tcp_flags(struct nft_batch *batch, uint8_t mask, enum nft_cmp_ops op, uint8_t value)
{
	protocol_is(batch, IPPROTO_TCP);
	byte_is(batch, TCP_FLAGS, mask, op, value);
}

static void
begins_a_connection(struct nft_batch *batch)
{
	tcp_flags(batch, SYN | ACK, NFT_CMP_EQ, SYN);
}

static void
load_client(const struct filling *f, bool query)
{
	if (query)
		nft_load_key(f->batch, f->family->source, f->family->len, SOURCE_PORT);
	else
		nft_load_key(f->batch, f->family->destination, f->family->len, DESTINATION_PORT);
}

static void
is_alive(const struct filling *f, bool alive)
{
	nft_load(f->batch, NFT_PAYLOAD_NETWORK_HEADER, f->family->destination, f->family->len);
	nft_in_set(f->batch, f->family->alive, alive);
}

/* --- chain query: packets to port 53, from pods and from the node --- */

/* Accepts the guard's own packets, which kube-proxy's rules would send to another pod. */
static void
guards_query(const struct filling *f)
{
	rule_to(f);
	address_is(f, f->family->source);
	port_is(f->batch, SOURCE_PORT, f->address->probe_port);
	nft_notrack(f->batch);
	nft_verdict(f->batch, NF_ACCEPT);
	nft_rule_end(f->batch);
}

/*
 * Removes the client's port from @here when the client begins a connection that this node does not
 * serve. An earlier connection may have left the port in @here. If `up` is true, this node serves
 * connections to an address in @alive.
 */
static void
forget_earlier(const struct filling *f, bool up)
{
	rule_to(f);
	begins_a_connection(f->batch);
	if (up)
		is_alive(f, false);
	load_client(f, true);
	nft_update_set(f->batch, NFT_DYNSET_OP_DELETE, f->family->here, 0);
	nft_rule_end(f->batch);
}

/* Limits new connections per client address. A connection from a port that is already in @here
 * counts too. Otherwise a client could reuse its ports and occupy one place in @here for each port. */
static void
limit_rate(const struct filling *f)
{
	rule_to(f);
	begins_a_connection(f->batch);
	is_alive(f, true);
	nft_load(f->batch, NFT_PAYLOAD_NETWORK_HEADER, f->family->source, f->family->len);
	nft_over_rate(f->batch, f->family->rate, NODE_RULES_ALIVE_S, NODE_RULES_TCP_RATE,
	    NODE_RULES_TCP_BURST);
	nft_count(f->batch, NODE_RULES_CROWD);
	nft_verdict(f->batch, NF_DROP);
	nft_rule_end(f->batch);
}

static void
connection_is_here(const struct filling *f)
{
	rule_to(f);
	tcp_flags(f->batch, RST, NFT_CMP_NEQ, 0);
	load_client(f, true);
	nft_in_set(f->batch, f->family->here, true);
	nft_update_set(f->batch, NFT_DYNSET_OP_UPDATE, f->family->here, NODE_RULES_TCP_ENDED_S);
	nft_rule_end(f->batch);

	rule_to(f);
	protocol_is(f->batch, IPPROTO_TCP);
	load_client(f, true);
	nft_in_set(f->batch, f->family->here, true);
	nft_notrack(f->batch);
	nft_verdict(f->batch, NF_ACCEPT);
	nft_rule_end(f->batch);
}

/* Directs new queries and connections to this node's kubedns, while the address is in @alive. */
static void
lead_here(const struct filling *f)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		rule_to(f);
		if (tcp)
			begins_a_connection(f->batch);
		else
			protocol_is(f->batch, IPPROTO_UDP);
		is_alive(f, true);
		if (f->rules->fib)
			nft_daddr_is_local(f->batch);
		nft_notrack(f->batch);
		nft_rule_end(f->batch);
	}
}

/* --- chain reply: packets from port 53 --- */

/* Renews the address in @alive when kubedns answers a probe without an error. */
static void
answer_keeps_alive(const struct filling *f)
{
	rule_from(f, "reply");
	address_is(f, f->family->destination);
	protocol_is(f->batch, IPPROTO_UDP);
	port_is(f->batch, DESTINATION_PORT, f->address->probe_port);
	byte_is(f->batch, DNS_RCODE, RCODE_MASK, NFT_CMP_EQ, 0);
	nft_load(f->batch, NFT_PAYLOAD_NETWORK_HEADER, f->family->source, f->family->len);
	nft_update_set(f->batch, NFT_DYNSET_OP_UPDATE, f->family->alive, NODE_RULES_ALIVE_S);
	nft_rule_end(f->batch);
}

static void
guards_reply(const struct filling *f)
{
	rule_from(f, "reply");
	address_is(f, f->family->destination);
	port_is(f->batch, DESTINATION_PORT, f->address->probe_port);
	nft_notrack(f->batch);
	nft_verdict(f->batch, NF_ACCEPT);
	nft_rule_end(f->batch);
}

/* If a TCP port has no listener, the kernel refuses the connection. This rule drops that refusal, which is a reset with ACK set and sequence number 0. */
static void
hide_refused_connection(const struct filling *f)
{
	const uint32_t none = 0;

	rule_from(f, "reply");
	tcp_flags(f->batch, RST | ACK, NFT_CMP_EQ, RST | ACK);
	nft_load(f->batch, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_SEQUENCE, sizeof none);
	nft_compare(f->batch, NFT_CMP_EQ, &none, sizeof none);
	nft_verdict(f->batch, NF_DROP);
	nft_rule_end(f->batch);
}

/* Drops ICMP errors about queries to port 53, but not ICMP errors about the guard's probes. An ICMP error quotes the header of the packet
 * that caused it. */
static void
hide_refused_query(const struct filling *f)
{
	const uint32_t quoted = ICMP_HEADER + f->family->header;
	const uint8_t probes = NODE_PROBE_HOPS;

	rule_from(f, "out");
	protocol_is(f->batch, f->family->icmp);
	nft_load(f->batch, NFT_PAYLOAD_TRANSPORT_HEADER, 0, sizeof f->family->unreachable);
	nft_compare(f->batch, NFT_CMP_EQ, f->family->unreachable, sizeof f->family->unreachable);
	nft_load(f->batch, NFT_PAYLOAD_TRANSPORT_HEADER, ICMP_HEADER + f->family->hops, 1);
	nft_compare(f->batch, NFT_CMP_NEQ, &probes, 1);
	port_is(f->batch, quoted + DESTINATION_PORT, DNS_PORT);
	nft_verdict(f->batch, NF_DROP);
	nft_rule_end(f->batch);
}

/* Packets with these TCP flags keep their connection in @here for `seconds`. */
static void
keep_here(
    const struct filling *f, uint8_t mask, enum nft_cmp_ops op, uint8_t value, unsigned seconds)
{
	rule_from(f, "reply");
	tcp_flags(f->batch, mask, op, value);
	load_client(f, false);
	nft_update_set(f->batch, NFT_DYNSET_OP_UPDATE, f->family->here, seconds);
	nft_rule_end(f->batch);
}

static void
keep_connections(const struct filling *f)
{
	keep_here(f, SYN, NFT_CMP_EQ, SYN, NODE_RULES_TCP_NEW_S);
	rule_from(f, "reply");
	tcp_flags(f->batch, SYN, NFT_CMP_EQ, SYN);
	load_client(f, false);
	nft_in_set(f->batch, f->family->here, false);
	nft_count(f->batch, NODE_RULES_FULL);
	nft_verdict(f->batch, NF_DROP);
	nft_rule_end(f->batch);
	keep_here(f, SYN | FIN | RST, NFT_CMP_EQ, 0, NODE_RULES_TCP_S);
	keep_here(f, FIN | RST, NFT_CMP_NEQ, 0, NODE_RULES_TCP_ENDED_S);
}

static void
untrack_replies(const struct filling *f)
{
	rule_from(f, "reply");
	nft_notrack(f->batch);
	nft_rule_end(f->batch);
}

/* --- transactions --- */

/* Jumps to a chain for port 53. All packets of the node pass this rule, so for other ports the rule must end after one or two comparisons. */
static void
jump_for_port(struct nft_batch *batch, const char *chain, uint32_t offset, const char *to)
{
	nft_rule_begin(batch, chain);
	port_is(batch, offset, DNS_PORT);
	nft_jump(batch, to);
	nft_rule_end(batch);
}

struct nft_batch *
node_rules_make(const struct node_rules *rules)
{
	static const struct family *const families[] = { &ipv4, &ipv6 };
	struct nft_batch *batch = nft_batch_new(rules->table);
	if (!rules->owner) {
		nft_add_table(batch, 0);
		nft_delete_table(batch);
	}
	nft_add_table(batch, rules->owner ? NFT_TABLE_F_OWNER : 0);
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		const struct family *v = families[i];

		nft_add_set(batch, v->alive, v->key, false, ALIVE_MAX, NODE_RULES_ALIVE_S);
		nft_add_set(batch, v->here, v->key, true, NODE_RULES_TCP_MAX, NODE_RULES_TCP_S);
		nft_add_set(
		    batch, v->rate, v->key, false, NODE_RULES_CLIENTS_MAX, NODE_RULES_ALIVE_S);
	}
	nft_add_counter(batch, NODE_RULES_CROWD);
	nft_add_counter(batch, NODE_RULES_FULL);
	nft_add_chain(batch, "query");
	nft_add_chain(batch, "reply");
	nft_add_base_chain(batch, "in", NF_INET_PRE_ROUTING);
	nft_add_base_chain(batch, "out", NF_INET_LOCAL_OUT);
	/* tests fib support now, so that a kernel without it rejects the table here */
	if (rules->fib) {
		nft_rule_begin(batch, "query");
		nft_daddr_is_local(batch);
		nft_rule_end(batch);
	}
	return batch;
}

struct nft_batch *
node_rules_replace(const struct node_rules *rules, bool up, bool hide)
{
	static const char *const chains[] = { "in", "out", "query", "reply" };
	struct nft_batch *batch = nft_batch_new(rules->table);
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
		nft_flush_chain(batch, chains[i]);
	jump_for_port(batch, "in", DESTINATION_PORT, "query");
	jump_for_port(batch, "out", DESTINATION_PORT, "query");
	jump_for_port(batch, "out", SOURCE_PORT, "reply");
	for (size_t i = 0; i < rules->count; i++) {
		const struct node_address *address = &rules->addresses[i];
		const struct filling f = { .batch = batch,
			.family = family_of(&address->addr),
			.address = address,
			.rules = rules };

		guards_query(&f);
		if (rules->owner)
			forget_earlier(&f, up);
		if (up)
			limit_rate(&f);
		connection_is_here(&f);
		if (up)
			lead_here(&f);
		if (up)
			answer_keeps_alive(&f);
		guards_reply(&f);
		if (hide)
			hide_refused_connection(&f);
		keep_connections(&f);
		untrack_replies(&f);
		if (hide)
			hide_refused_query(&f);
	}
	return batch;
}
