#include "nanny/node/nft.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	BATCH_MAX = 128 * 1024,
	MESSAGE_ROOM = 4096, /* reserved for the next message; no message here is larger */
	READ_MAX = 32 * 1024,
	PRIORITY_RAW = -300,
	REGISTER = NFT_REG_1, /* register used by comparisons and set lookups */
};

struct nft {
	struct mnl_socket *change, *read, *count;
	unsigned seq;
	unsigned counted;
};

struct nft_batch {
	const char *table;
	unsigned seq;
	struct nlmsghdr *message, *last; /* the message being written, and the last complete one */
	struct nlattr *expressions;
	size_t len;
	bool overflow;
	_Alignas(struct nlmsghdr) uint8_t bytes[BATCH_MAX];
};

/* --- the sockets --- */

static struct mnl_socket *
open_netfilter(int flags)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | flags);

	if (s != NULL && mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) == 0)
		return s;
	log_error("node: netlink socket of nf_tables");
	if (s != NULL)
		mnl_socket_close(s);
	return NULL;
}

struct nft *
nft_open(void)
{
	struct nft *nft = xcalloc(1, sizeof *nft);
	int capacity = BATCH_MAX;

	if ((nft->change = open_netfilter(SOCK_NONBLOCK)) == NULL ||
	    (nft->read = open_netfilter(SOCK_NONBLOCK)) == NULL ||
	    (nft->count = open_netfilter(SOCK_NONBLOCK)) == NULL) {
		nft_close(nft);
		return NULL;
	}
	/* A transaction is sent in a single write, so the buffer must be large. If the process may
	 * not force the buffer size, the default size is often enough. */
	setsockopt(
	    mnl_socket_get_fd(nft->change), SOL_SOCKET, SO_SNDBUFFORCE, &capacity, sizeof capacity);
	return nft;
}

void
nft_close(struct nft *nft)
{
	if (nft == NULL)
		return;
	struct mnl_socket *const all[] = { nft->change, nft->read, nft->count };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i] != NULL)
			mnl_socket_close(all[i]);
	free(nft);
}

/* --- messages --- */

static struct nlmsghdr *
put_header(void *at, uint16_t type, uint16_t flags, unsigned seq, uint8_t family, uint16_t res_id)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(at);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	message->nlmsg_seq = seq;
	struct nfgenmsg *head = mnl_nlmsg_put_extra_header(message, sizeof *head);
	head->nfgen_family = family;
	head->version = NFNETLINK_V0;
	head->res_id = htons(res_id);
	return message;
}

static uint16_t
nft_type(unsigned type)
{
	return (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type);
}

/* Begins the next message. When the batch is full, further messages overwrite each other and the
 * batch is marked as overflowed. */
static void
begin(struct nft_batch *b, uint16_t type, uint16_t flags, uint8_t family, uint16_t res_id)
{
	if (b->len + MESSAGE_ROOM > sizeof b->bytes) {
		b->overflow = true;
		b->len = 0;
	}
	b->message = put_header(b->bytes + b->len, type, flags, ++b->seq, family, res_id);
}

static void
end(struct nft_batch *b)
{
	b->len += b->message->nlmsg_len; /* the length includes padding to four bytes */
	b->last = b->message;
	b->message = NULL;
}

static void
begin_nft(struct nft_batch *b, unsigned type, uint16_t flags)
{
	begin(b, nft_type(type), flags, NFPROTO_INET, 0);
}

static void
put_u32(struct nft_batch *b, uint16_t type, uint32_t value)
{
	mnl_attr_put_u32(b->message, type, htonl(value));
}

static void
put_text(struct nft_batch *b, uint16_t type, const char *text)
{
	mnl_attr_put_strz(b->message, type, text);
}

struct nft_batch *
nft_batch_new(const char *table)
{
	struct nft_batch *b = xcalloc(1, sizeof *b);

	b->table = table;
	begin(b, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	end(b);
	return b;
}

void
nft_batch_free(struct nft_batch *batch)
{
	free(batch);
}

void
nft_add_table(struct nft_batch *b, uint32_t flags)
{
	begin_nft(b, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	put_text(b, NFTA_TABLE_NAME, b->table);
	put_u32(b, NFTA_TABLE_FLAGS, flags);
	end(b);
}

void
nft_delete_table(struct nft_batch *b)
{
	begin_nft(b, NFT_MSG_DELTABLE, 0);
	put_text(b, NFTA_TABLE_NAME, b->table);
	end(b);
}

void
nft_add_set(struct nft_batch *b, const char *set, enum nft_key address, bool port, uint32_t size,
    unsigned timeout_s)
{
	enum { TYPE_BITS = 6, PORT_LEN = 4 /* fields are padded to whole registers */ };
	uint32_t len = address == NFT_KEY_IPV4 ? 4 : 16;
	begin_nft(b, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_EXCL);
	put_text(b, NFTA_SET_TABLE, b->table);
	put_text(b, NFTA_SET_NAME, set);
	put_u32(b, NFTA_SET_FLAGS, NFT_SET_EVAL | NFT_SET_TIMEOUT);
	put_u32(b, NFTA_SET_KEY_TYPE,
	    port ? (uint32_t)address << TYPE_BITS | NFT_KEY_PORT : (uint32_t)address);
	put_u32(b, NFTA_SET_KEY_LEN, port ? len + PORT_LEN : len);
	put_u32(b, NFTA_SET_ID, b->seq);
	mnl_attr_put_u64(b->message, NFTA_SET_TIMEOUT, htobe64((uint64_t)timeout_s * 1000));
	struct nlattr *nest = mnl_attr_nest_start(b->message, NFTA_SET_DESC);
	put_u32(b, NFTA_SET_DESC_SIZE, size);
	mnl_attr_nest_end(b->message, nest);
	end(b);
}

void
nft_add_counter(struct nft_batch *b, const char *counter)
{
	begin_nft(b, NFT_MSG_NEWOBJ, NLM_F_CREATE);
	put_text(b, NFTA_OBJ_TABLE, b->table);
	put_text(b, NFTA_OBJ_NAME, counter);
	put_u32(b, NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER);
	struct nlattr *nest = mnl_attr_nest_start(b->message, NFTA_OBJ_DATA);
	mnl_attr_put_u64(b->message, NFTA_COUNTER_BYTES, 0);
	mnl_attr_put_u64(b->message, NFTA_COUNTER_PACKETS, 0);
	mnl_attr_nest_end(b->message, nest);
	end(b);
}

void
nft_add_chain(struct nft_batch *b, const char *chain)
{
	begin_nft(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	put_text(b, NFTA_CHAIN_TABLE, b->table);
	put_text(b, NFTA_CHAIN_NAME, chain);
	end(b);
}

void
nft_add_base_chain(struct nft_batch *b, const char *chain, uint32_t hook)
{
	begin_nft(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	put_text(b, NFTA_CHAIN_TABLE, b->table);
	put_text(b, NFTA_CHAIN_NAME, chain);
	put_text(b, NFTA_CHAIN_TYPE, "filter");
	put_u32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
	struct nlattr *nest = mnl_attr_nest_start(b->message, NFTA_CHAIN_HOOK);
	put_u32(b, NFTA_HOOK_HOOKNUM, hook);
	put_u32(b, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_RAW);
	mnl_attr_nest_end(b->message, nest);
	end(b);
}

void
nft_flush_chain(struct nft_batch *b, const char *chain)
{
	begin_nft(b, NFT_MSG_DELRULE, 0);
	put_text(b, NFTA_RULE_TABLE, b->table);
	put_text(b, NFTA_RULE_CHAIN, chain);
	end(b);
}

/* --- rules --- */

void
nft_rule_begin(struct nft_batch *b, const char *chain)
{
	begin_nft(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	put_text(b, NFTA_RULE_TABLE, b->table);
	put_text(b, NFTA_RULE_CHAIN, chain);
	b->expressions = mnl_attr_nest_start(b->message, NFTA_RULE_EXPRESSIONS);
}

void
nft_rule_end(struct nft_batch *b)
{
	mnl_attr_nest_end(b->message, b->expressions);
	end(b);
}

/* A netlink expression. An expression is an element of a rule's list or, with another attribute
 * type, part of another expression. */
struct expression {
	struct nlattr *outer, *data;
};

static struct expression
open_expression(struct nft_batch *b, uint16_t type, const char *name)
{
	struct expression e = { .outer = mnl_attr_nest_start(b->message, type) };

	put_text(b, NFTA_EXPR_NAME, name);
	e.data = mnl_attr_nest_start(b->message, NFTA_EXPR_DATA);
	return e;
}

static void
close_expression(struct nft_batch *b, struct expression e)
{
	mnl_attr_nest_end(b->message, e.data);
	mnl_attr_nest_end(b->message, e.outer);
}

static void
put_data(struct nft_batch *b, uint16_t type, const void *data, size_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(b->message, type);

	mnl_attr_put(b->message, NFTA_DATA_VALUE, len, data);
	mnl_attr_nest_end(b->message, nest);
}

void
nft_meta(struct nft_batch *b, enum nft_meta_keys key)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "meta");

	put_u32(b, NFTA_META_DREG, REGISTER);
	put_u32(b, NFTA_META_KEY, key);
	close_expression(b, e);
}

static void
load_to(
    struct nft_batch *b, uint32_t reg, enum nft_payload_bases base, uint32_t offset, uint32_t len)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "payload");

	put_u32(b, NFTA_PAYLOAD_DREG, reg);
	put_u32(b, NFTA_PAYLOAD_BASE, base);
	put_u32(b, NFTA_PAYLOAD_OFFSET, offset);
	put_u32(b, NFTA_PAYLOAD_LEN, len);
	close_expression(b, e);
}

void
nft_load(struct nft_batch *b, enum nft_payload_bases base, uint32_t offset, uint32_t len)
{
	load_to(b, REGISTER, base, offset, len);
}

void
nft_load_key(struct nft_batch *b, uint32_t address_offset, uint32_t len, uint32_t port_offset)
{
	nft_load(b, NFT_PAYLOAD_NETWORK_HEADER, address_offset, len);
	load_to(b, len == sizeof(struct in_addr) ? NFT_REG32_01 : NFT_REG_2,
	    NFT_PAYLOAD_TRANSPORT_HEADER, port_offset, sizeof(in_port_t));
}

void
nft_compare(struct nft_batch *b, enum nft_cmp_ops op, const void *data, size_t len)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "cmp");

	put_u32(b, NFTA_CMP_SREG, REGISTER);
	put_u32(b, NFTA_CMP_OP, op);
	put_data(b, NFTA_CMP_DATA, data, len);
	close_expression(b, e);
}

void
nft_mask(struct nft_batch *b, uint8_t mask)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "bitwise");

	put_u32(b, NFTA_BITWISE_SREG, REGISTER);
	put_u32(b, NFTA_BITWISE_DREG, REGISTER);
	put_u32(b, NFTA_BITWISE_LEN, sizeof mask);
	put_data(b, NFTA_BITWISE_MASK, &mask, sizeof mask);
	put_data(b, NFTA_BITWISE_XOR, &(uint8_t){ 0 }, sizeof mask);
	close_expression(b, e);
}

void
nft_daddr_is_local(struct nft_batch *b)
{
	const uint32_t local = RTN_LOCAL; /* in host byte order, as the kernel expects */
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "fib");

	put_u32(b, NFTA_FIB_DREG, REGISTER);
	put_u32(b, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	put_u32(b, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
	close_expression(b, e);
	nft_compare(b, NFT_CMP_EQ, &local, sizeof local);
}

void
nft_in_set(struct nft_batch *b, const char *set, bool in)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "lookup");

	put_text(b, NFTA_LOOKUP_SET, set);
	put_u32(b, NFTA_LOOKUP_SREG, REGISTER);
	if (!in)
		put_u32(b, NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
	close_expression(b, e);
}

static struct expression
open_dynset(struct nft_batch *b, enum nft_dynset_ops op, const char *set, unsigned timeout_s)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "dynset");

	put_text(b, NFTA_DYNSET_SET_NAME, set);
	put_u32(b, NFTA_DYNSET_OP, op);
	put_u32(b, NFTA_DYNSET_SREG_KEY, REGISTER);
	if (timeout_s > 0)
		mnl_attr_put_u64(
		    b->message, NFTA_DYNSET_TIMEOUT, htobe64((uint64_t)timeout_s * 1000));
	return e;
}

void
nft_update_set(struct nft_batch *b, enum nft_dynset_ops op, const char *set, unsigned timeout_s)
{
	close_expression(b, open_dynset(b, op, set, timeout_s));
}

void
nft_over_rate(
    struct nft_batch *b, const char *set, unsigned timeout_s, unsigned rate, unsigned burst)
{
	struct expression e = open_dynset(b, NFT_DYNSET_OP_UPDATE, set, timeout_s);
	struct expression limit = open_expression(b, NFTA_DYNSET_EXPR, "limit");

	mnl_attr_put_u64(b->message, NFTA_LIMIT_RATE, htobe64(rate));
	mnl_attr_put_u64(b->message, NFTA_LIMIT_UNIT, htobe64(1 /* one second */));
	put_u32(b, NFTA_LIMIT_BURST, burst);
	put_u32(b, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
	put_u32(b, NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV);
	close_expression(b, limit);
	close_expression(b, e);
}

void
nft_count(struct nft_batch *b, const char *counter)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "objref");

	put_u32(b, NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
	put_text(b, NFTA_OBJREF_IMM_NAME, counter);
	close_expression(b, e);
}

void
nft_notrack(struct nft_batch *b)
{
	struct nlattr *outer = mnl_attr_nest_start(b->message, NFTA_LIST_ELEM);

	put_text(b, NFTA_EXPR_NAME, "notrack");
	mnl_attr_nest_end(b->message, outer);
}

static void
put_verdict(struct nft_batch *b, uint32_t verdict, const char *chain)
{
	struct expression e = open_expression(b, NFTA_LIST_ELEM, "immediate");

	put_u32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	struct nlattr *data = mnl_attr_nest_start(b->message, NFTA_IMMEDIATE_DATA);
	struct nlattr *nest = mnl_attr_nest_start(b->message, NFTA_DATA_VERDICT);
	put_u32(b, NFTA_VERDICT_CODE, verdict);
	if (chain != NULL)
		put_text(b, NFTA_VERDICT_CHAIN, chain);
	mnl_attr_nest_end(b->message, nest);
	mnl_attr_nest_end(b->message, data);
	close_expression(b, e);
}

void
nft_verdict(struct nft_batch *b, uint32_t verdict)
{
	put_verdict(b, verdict, NULL);
}

void
nft_jump(struct nft_batch *b, const char *chain)
{
	put_verdict(b, (uint32_t)NFT_JUMP, chain);
}

/* --- sending --- */

/*
 * Reads the kernel's reply to a transaction. When the write returns, the kernel has committed or
 * rejected the transaction. The kernel's replies wait in the socket: an error for each rejected
 * message, or an acknowledgement of the last message.
 */
static int
read_verdict(struct nft *nft, unsigned last)
{
	_Alignas(struct nlmsghdr) uint8_t buffer[8192];
	ssize_t got;
	int rc = -EPROTO;

	while ((got = mnl_socket_recvfrom(nft->change, buffer, sizeof buffer)) > 0) {
		const struct nlmsghdr *at = (const struct nlmsghdr *)buffer;
		int left = (int)got;

		for (; mnl_nlmsg_ok(at, left); at = mnl_nlmsg_next(at, &left)) {
			const struct nlmsgerr *word = mnl_nlmsg_get_payload(at);

			if (at->nlmsg_type != NLMSG_ERROR)
				continue;
			if (word->error != 0 && (rc == -EPROTO || rc == 0))
				rc = word->error;
			else if (at->nlmsg_seq == last && rc == -EPROTO)
				rc = 0;
		}
	}
	return got < 0 && errno != EAGAIN ? -errno : rc;
}

int
nft_commit(struct nft *nft, struct nft_batch *b)
{
	uint8_t old[8192];

	b->last->nlmsg_flags |= NLM_F_ACK;
	unsigned last = b->last->nlmsg_seq;
	begin(b, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	end(b);
	int rc = b->overflow ? -E2BIG : 0;
	/* discard replies to earlier batches, because each batch starts again at the same sequence
	 * number */
	while (mnl_socket_recvfrom(nft->change, old, sizeof old) > 0)
		;
	if (rc == 0 && mnl_socket_sendto(nft->change, b->bytes, b->len) < 0)
		rc = -errno;
	if (rc == 0)
		rc = read_verdict(nft, last);
	nft_batch_free(b);
	return rc;
}

/* --- reading --- */

static int
note_packets(const struct nlattr *attr, void *data)
{
	uint64_t *packets = data;

	if (mnl_attr_get_type(attr) == NFTA_COUNTER_PACKETS &&
	    mnl_attr_validate(attr, MNL_TYPE_U64) == 0)
		*packets = be64toh(mnl_attr_get_u64(attr));
	return MNL_CB_OK;
}

static int
note_object(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == NFTA_OBJ_DATA &&
	    mnl_attr_validate(attr, MNL_TYPE_NESTED) == 0)
		mnl_attr_parse_nested(attr, note_packets, data);
	return MNL_CB_OK;
}

static int
read_object(const struct nlmsghdr *message, void *data)
{
	mnl_attr_parse(message, sizeof(struct nfgenmsg), note_object, data);
	return MNL_CB_OK;
}

int
nft_read_counter(struct nft *nft, const char *table, const char *counter, uint64_t *packets)
{
	/* Zeroed, because Debian 12's libmnl does not set the padding of attributes. */
	_Alignas(struct nlmsghdr) uint8_t buffer[8192] = { 0 };
	struct nlmsghdr *message =
	    put_header(buffer, nft_type(NFT_MSG_GETOBJ), 0, ++nft->seq, NFPROTO_INET, 0);

	mnl_attr_put_strz(message, NFTA_OBJ_TABLE, table);
	mnl_attr_put_strz(message, NFTA_OBJ_NAME, counter);
	mnl_attr_put_u32(message, NFTA_OBJ_TYPE, htonl(NFT_OBJECT_COUNTER));
	if (mnl_socket_sendto(nft->read, message, message->nlmsg_len) < 0)
		return -errno;
	ssize_t got = mnl_socket_recvfrom(nft->read, buffer, sizeof buffer);
	if (got < 0 || mnl_cb_run(buffer, (size_t)got, nft->seq, mnl_socket_get_portid(nft->read),
			   read_object, packets) < 0)
		return -errno;
	return 0;
}

int
nft_count_fd(const struct nft *nft)
{
	return mnl_socket_get_fd(nft->count);
}

int
nft_count_begin(struct nft *nft, const char *table, const char *set)
{
	_Alignas(struct nlmsghdr) uint8_t buffer[1024] = { 0 }; /* as in nft_read_counter() */

	nft->counted = 0;
	struct nlmsghdr *message = put_header(
	    buffer, nft_type(NFT_MSG_GETSETELEM), NLM_F_DUMP, ++nft->seq, NFPROTO_INET, 0);
	mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_TABLE, table);
	mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_SET, set);
	return mnl_socket_sendto(nft->count, message, message->nlmsg_len) < 0 ? -errno : 0;
}

/* Counts the elements in one message. The message contains a list with one attribute for each
 * element. */
static int
count_element(const struct nlattr *element, void *data)
{
	unsigned *count = data;

	(void)element;
	(*count)++;
	return MNL_CB_OK;
}

static int
count_elements(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) == NFTA_SET_ELEM_LIST_ELEMENTS)
		mnl_attr_parse_nested(attr, count_element, data);
	return MNL_CB_OK;
}

/* Ignores NLM_F_DUMP_INTR, which reports that the set changed during the dump, because the count
 * need not be exact. */
int
nft_count_read(struct nft *nft, unsigned *elements)
{
	static _Alignas(struct nlmsghdr) uint8_t buffer[READ_MAX];
	ssize_t got = mnl_socket_recvfrom(nft->count, buffer, sizeof buffer);

	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	const struct nlmsghdr *at = (const struct nlmsghdr *)buffer;
	int left = (int)got;
	for (; mnl_nlmsg_ok(at, left); at = mnl_nlmsg_next(at, &left))
		switch (at->nlmsg_type) {
		case NLMSG_DONE:
			*elements = nft->counted;
			return 1;
		case NLMSG_ERROR:
			return ((const struct nlmsgerr *)mnl_nlmsg_get_payload(at))->error;
		default:
			mnl_attr_parse(at, sizeof(struct nfgenmsg), count_elements, &nft->counted);
		}
	return 0;
}
