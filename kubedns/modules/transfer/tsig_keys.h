/*
 * The keys of --transfer-key. kubedns reads their file again while it runs:
 *
 *	# name       algorithm    secret (base64)                               NOTIFY to
 *	secondary-1  hmac-sha256  mPpNk0Ozd8GU05MbV0VCTtTMUcAtvVHmRHJg2CLl0ck=  192.0.2.53
 *
 * Words are separated by spaces or tabs. Empty lines and text after a # are ignored. A NOTIFY is
 * signed with the first key that lists its destination address, otherwise with the first key that
 * lists no address.
 */
#ifndef KUBEDNS_MODULES_TRANSFER_TSIG_KEYS_H
#define KUBEDNS_MODULES_TRANSFER_TSIG_KEYS_H

#include "kubedns/modules/transfer/tsig.h"
#include "lib/addr.h"

enum {
	TSIG_KEYS_MAX = 16,
	TSIG_KEY_NOTIFY_MAX = 16, /* addresses for one key */
	TSIG_FILE_MAX = 16384,
	TSIG_WHY_MAX = 512,
};

struct tsig_keys {
	size_t count;
	struct {
		struct tsig_key key;
		struct addr notify[TSIG_KEY_NOTIFY_MAX];
		size_t notify_count; /* 0 if the key is for all addresses that no other key lists */
	} items[TSIG_KEYS_MAX];
};

/* Parses a file's text, which is modified. Returns 0, or -EINVAL. After an error, `why` has the
 * mistake and its line number, without any secret. */
int tsig_keys_parse(struct tsig_keys *keys, char *text, size_t len, char why[TSIG_WHY_MAX]);

/* Reads the file. Returns 0, or a negative number. After an error, `why` has the mistake. */
int tsig_keys_read(struct tsig_keys *keys, const char *path, char why[TSIG_WHY_MAX]);

/* Returns the key with the name (lower case) and the algorithm of this TSIG, or NULL. */
const struct tsig_key *tsig_keys_find(const struct tsig_keys *keys, const struct tsig *tsig);

/* Returns the key that signs NOTIFY to an address, or NULL. */
const struct tsig_key *tsig_keys_for_notify(const struct tsig_keys *keys, const struct addr *to);

/* Keys that can be replaced while other threads use them. */
struct tsig_ring;

/* Copies the keys. */
struct tsig_ring *tsig_ring_new(const struct tsig_keys *keys);

/* Replaces the keys by copies of `keys`. Returns false if they are the same. */
bool tsig_ring_set(struct tsig_ring *ring, const struct tsig_keys *keys);

/* Returns the number of keys. */
size_t tsig_ring_count(struct tsig_ring *ring);

/* Like tsig_keys_find() and tsig_keys_for_notify(), but they copy the key to `*key`. Return
 * false if there is none. */
bool tsig_ring_find(struct tsig_ring *ring, const struct tsig *tsig, struct tsig_key *key);
bool tsig_ring_for_notify(struct tsig_ring *ring, const struct addr *to, struct tsig_key *key);

/* NULL is fine. */
void tsig_ring_free(struct tsig_ring *ring);

#endif
