/*
 * nf_tables by netlink: transactions on one table of the family inet, built message by message.
 *
 *	batch_new -> table, sets, counters, chains, rules -> nft_commit: all of it, or nothing
 *
 * Nothing is read of other tables, so that memory and time do not depend on kube-proxy's rules.
 * A rule is the expressions between nft_rule_begin() and nft_rule_end(), as `nft --debug=netlink`
 * prints them: each loads a register, compares one, or acts, and the first comparison that does
 * not hold ends the rule. nft(8) prints what is made here in its own syntax.
 *
 * The kernel removes a table with the flag owner when the socket that made it is closed.
 */
#ifndef NANNY_NODE_NFT_H
#define NANNY_NODE_NFT_H

#include <linux/netfilter/nf_tables.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nft;
struct nft_batch;

/* NULL after one log line. Caller frees with nft_close, which removes tables with the flag
 * owner. */
struct nft *nft_open(void);
void nft_close(struct nft *nft);

/* Sends the batch as one transaction and frees it. 0, or -errno and nothing has changed. */
int nft_commit(struct nft *nft, struct nft_batch *batch);

/* An empty transaction on `table`, which must outlive it. Caller frees with nft_commit or
 * nft_batch_free. */
struct nft_batch *nft_batch_new(const char *table);
void nft_batch_free(struct nft_batch *batch);

void nft_add_table(struct nft_batch *batch, uint32_t flags);
void nft_delete_table(struct nft_batch *batch);

/* A key's field, by nft(8)'s numbers of the types. */
enum nft_key { NFT_KEY_IPV4 = 7, NFT_KEY_IPV6 = 8, NFT_KEY_PORT = 13 };

/* A set that rules change: its elements end `timeout_s` after their last update. `port`: the key is
 * an address and a port. */
void nft_add_set(struct nft_batch *batch, const char *set, enum nft_key address, bool port,
    uint32_t size, unsigned timeout_s);
void nft_add_counter(struct nft_batch *batch, const char *counter);
void nft_add_chain(struct nft_batch *batch, const char *chain);
/* A filter chain at the priority raw, before connection tracking; `hook` is NF_INET_*. */
void nft_add_base_chain(struct nft_batch *batch, const char *chain, uint32_t hook);
void nft_flush_chain(struct nft_batch *batch, const char *chain);

void nft_rule_begin(struct nft_batch *batch, const char *chain);
void nft_rule_end(struct nft_batch *batch);

/* Expressions. `data` and masks are in network byte order; lengths in bytes. */
void nft_meta(struct nft_batch *batch, enum nft_meta_keys key);
void nft_load(struct nft_batch *batch, enum nft_payload_bases base, uint32_t offset, uint32_t len);
/* An address of `len` bytes and a port, as the key of a set made with `port`. */
void nft_load_key(
    struct nft_batch *batch, uint32_t address_offset, uint32_t len, uint32_t port_offset);
void nft_compare(struct nft_batch *batch, enum nft_cmp_ops op, const void *data, size_t len);
void nft_mask(struct nft_batch *batch, uint8_t mask);
void nft_daddr_is_local(struct nft_batch *batch);
void nft_in_set(struct nft_batch *batch, const char *set, bool in);
void nft_update_set(
    struct nft_batch *batch, enum nft_dynset_ops op, const char *set, unsigned timeout_s);
/* Updates the element, and goes on only if it has been updated more than `rate` times a second. */
void nft_over_rate(
    struct nft_batch *batch, const char *set, unsigned timeout_s, unsigned rate, unsigned burst);
void nft_count(struct nft_batch *batch, const char *counter);
void nft_notrack(struct nft_batch *batch);
void nft_verdict(struct nft_batch *batch, uint32_t verdict); /* NF_ACCEPT, NF_DROP */
void nft_jump(struct nft_batch *batch, const char *chain);

/* Reads a counter's packets; 0 or -errno. */
int nft_read_counter(struct nft *nft, const char *table, const char *counter, uint64_t *packets);

/*
 * Counts a set's elements without waiting: nft_count_begin() asks the kernel for them, and each time
 * that nft_count_fd() is readable nft_count_read() takes one buffer of them. It returns 1 when all
 * have been counted, 0 if there are more to come, or -errno, after which the count is at its end.
 */
int nft_count_fd(const struct nft *nft);
int nft_count_begin(struct nft *nft, const char *table, const char *set);
int nft_count_read(struct nft *nft, unsigned *elements);

#endif
