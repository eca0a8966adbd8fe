/*
 * Transactions on one nf_tables table of the family inet. A transaction is built message by message
 * and sent by netlink.
 *
 *	nft_batch_new -> table, sets, counters, chains, rules -> nft_commit: all or nothing
 *
 * Other tables are never read, so memory and time do not depend on the number of kube-proxy's
 * rules. A rule consists of the expressions between nft_rule_begin() and nft_rule_end(), as `nft
 * --debug=netlink` prints them. Each expression loads a register, compares a register, or performs
 * an action. The first comparison that fails ends the rule. `nft list ruleset` shows the resulting
 * rules.
 *
 * The kernel removes a table with the flag owner when the socket that created it is closed.
 */
#ifndef NANNY_NODE_NFT_H
#define NANNY_NODE_NFT_H

#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nft;
struct nft_batch;

/* Returns NULL after one log line. Caller frees with nft_close, which also removes tables with the
 * flag owner. */
struct nft *nft_open(void);
void nft_close(struct nft *nft);

/* Sends the batch as one transaction and frees it. Returns 0, or -errno if nothing was changed. */
int nft_commit(struct nft *nft, struct nft_batch *batch);

/* Returns an empty transaction on `table`. The string `table` must stay valid until the batch is
 * freed. Caller frees with nft_commit or nft_batch_free. */
struct nft_batch *nft_batch_new(const char *table);
void nft_batch_free(struct nft_batch *batch);

void nft_add_table(struct nft_batch *batch, uint32_t flags);
void nft_delete_table(struct nft_batch *batch);

/* The field types of set keys, with the numbers that nft(8) uses. */
enum nft_key { NFT_KEY_IPV4 = 7, NFT_KEY_IPV6 = 8, NFT_KEY_PORT = 13 };

/* Adds a set that rules can update. An element expires `timeout_s` after its last update. If `port`
 * is true, the key is an address and a port. */
void nft_add_set(struct nft_batch *batch, const char *set, enum nft_key address, bool port,
    uint32_t size, unsigned timeout_s);
void nft_add_counter(struct nft_batch *batch, const char *counter);
void nft_add_chain(struct nft_batch *batch, const char *chain);
/* Adds a filter chain with the priority raw, before connection tracking. `hook` is NF_INET_*. */
void nft_add_base_chain(struct nft_batch *batch, const char *chain, uint32_t hook);
void nft_flush_chain(struct nft_batch *batch, const char *chain);

void nft_rule_begin(struct nft_batch *batch, const char *chain);
void nft_rule_end(struct nft_batch *batch);

/* Expressions of the current rule. `data` and masks are in network byte order; lengths are in
 * bytes. */
void nft_meta(struct nft_batch *batch, enum nft_meta_keys key);
void nft_load(struct nft_batch *batch, enum nft_payload_bases base, uint32_t offset, uint32_t len);
/* Loads an address of `len` bytes and a port, which together are the key of a set that was created
 * with `port`. */
void nft_load_key(
    struct nft_batch *batch, uint32_t address_offset, uint32_t len, uint32_t port_offset);
void nft_compare(struct nft_batch *batch, enum nft_cmp_ops op, const void *data, size_t len);
void nft_mask(struct nft_batch *batch, uint8_t mask);
void nft_daddr_is_local(struct nft_batch *batch);
void nft_in_set(struct nft_batch *batch, const char *set, bool in);
void nft_update_set(
    struct nft_batch *batch, enum nft_dynset_ops op, const char *set, unsigned timeout_s);
/* Updates the element. The rule continues only if the element was updated more than `rate` times
 * per second. */
void nft_over_rate(
    struct nft_batch *batch, const char *set, unsigned timeout_s, unsigned rate, unsigned burst);
void nft_count(struct nft_batch *batch, const char *counter);
void nft_notrack(struct nft_batch *batch);
void nft_verdict(struct nft_batch *batch, uint32_t verdict); /* NF_ACCEPT or NF_DROP */
void nft_jump(struct nft_batch *batch, const char *chain);

/* Reads the packet count of a counter. Returns 0 or -errno. */
int nft_read_counter(struct nft *nft, const char *table, const char *counter, uint64_t *packets);

/*
 * Counts a set's elements without blocking. nft_count_begin() requests them from the kernel. Each
 * time nft_count_fd() is readable, nft_count_read() takes one buffer of elements. nft_count_read()
 * returns 1 when all elements are counted, 0 if more elements follow, or -errno, which ends the
 * count.
 */
int nft_count_fd(const struct nft *nft);
int nft_count_begin(struct nft *nft, const char *table, const char *set);
int nft_count_read(struct nft *nft, unsigned *elements);

#endif
