/*
 * libnftables, loaded when it is needed: a nanny that needs none of it carries none of it. A context
 * keeps one netlink socket, and a table with the flag owner lives as long as that.
 */
#ifndef NANNY_NFT_H
#define NANNY_NFT_H

struct nft;

/* NULL after one log line. Caller frees with nft_close, which takes the tables with the flag owner
 * away. */
struct nft *nft_open(void);
void nft_close(struct nft *nft);

/* Runs commands in one transaction; 0, or -EIO and nothing has changed: `why`, if it is not NULL, is
 * then the first line of the reason, valid until the next call. */
int nft_run(struct nft *nft, const char *commands, const char **why);

#endif
