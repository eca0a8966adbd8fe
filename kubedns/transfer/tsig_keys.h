/*
 * The keys of --transfer-key, from a file that is read again while kubedns runs:
 *
 *	# name       algorithm    secret (base64)                               NOTIFY to
 *	secondary-1  hmac-sha256  mPpNk0Ozd8GU05MbV0VCTtTMUcAtvVHmRHJg2CLl0ck=  192.0.2.53
 *
 * Spaces or tabs between the words; empty lines and what follows a # are ignored. NOTIFY to an
 * address is signed with the first key that names the address, else with the first that names none.
 */
#ifndef KUBEDNS_TRANSFER_TSIG_KEYS_H
#define KUBEDNS_TRANSFER_TSIG_KEYS_H

#include "kubedns/transfer/tsig.h"
#include "lib/addr.h"

enum {
	TSIG_KEYS_MAX = 16,
	TSIG_KEY_NOTIFY_MAX = 16, /* addresses of one */
	TSIG_FILE_MAX = 16384,
	TSIG_WHY_MAX = 512,
};

struct tsig_keys {
	size_t count;
	struct {
		struct tsig_key key;
		struct addr notify[TSIG_KEY_NOTIFY_MAX];
		size_t notify_count; /* 0: all that no other key names */
	} items[TSIG_KEYS_MAX];
};

/* Parses a file's text, which is changed. 0, or -EINVAL with what is wrong, and in which line, in
 * `why`; no secret is in it. */
int tsig_keys_parse(struct tsig_keys *keys, char *text, size_t len, char why[TSIG_WHY_MAX]);

/* Reads the file. 0, or a negative number with what is wrong in `why`. */
int tsig_keys_read(struct tsig_keys *keys, const char *path, char why[TSIG_WHY_MAX]);

/* The key of this name (lower case) and algorithm that a message was signed with, or NULL. */
const struct tsig_key *tsig_keys_find(const struct tsig_keys *keys, const struct tsig *tsig);

/* The key that signs NOTIFY to an address, or NULL: none does. */
const struct tsig_key *tsig_keys_for_notify(const struct tsig_keys *keys, const struct addr *to);

/* Keys that are replaced while other threads use them. */
struct tsig_ring;

/* With a copy of the keys. */
struct tsig_ring *tsig_ring_new(const struct tsig_keys *keys);

/* Replaces them by a copy of these; false if these are the same. */
bool tsig_ring_set(struct tsig_ring *ring, const struct tsig_keys *keys);

/* How many there are. */
size_t tsig_ring_count(struct tsig_ring *ring);

/* The same as tsig_keys_find() and tsig_keys_for_notify(), with a copy of the key in `key`; false:
 * there is none. */
bool tsig_ring_find(struct tsig_ring *ring, const struct tsig *tsig, struct tsig_key *key);
bool tsig_ring_for_notify(struct tsig_ring *ring, const struct addr *to, struct tsig_key *key);

/* NULL is fine. */
void tsig_ring_free(struct tsig_ring *ring);

#endif
