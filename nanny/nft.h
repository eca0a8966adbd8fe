/*
 * libnftables, loaded only by a nanny with the node role. A context keeps one netlink socket, and
 * the kernel removes a table with the flag owner when that socket is closed.
 */
#ifndef NANNY_NFT_H
#define NANNY_NFT_H

struct nft;

/* NULL after one log line. Caller frees with nft_close, which removes tables with the flag
 * owner. */
struct nft *nft_open(void);
void nft_close(struct nft *nft);

/* Runs commands in one transaction; 0, or -EIO and nothing has changed: `why`, if it is not NULL,
 * is then the first line of the reason, valid until the next call. */
int nft_run(struct nft *nft, const char *commands, const char **why);

#endif
