/*
 * SipHash-1-3, a keyed hash (J.-P. Aumasson, D. J. Bernstein: "SipHash: a fast short-input PRF", 2012). It takes one
 * round for each eight bytes and three at the end. Only someone who knows the seed can choose inputs that collide.
 * Half of the key is the seed. The other half is constant, so 64 bits of the key are secret.
 *
 * Tables of names and addresses that other people choose have a random seed, and no reply, page or log shows the
 * seed or a hash. The hash of the same bytes with the same seed is the same on every machine. Only the digest of
 * records depends on that.
 */
#ifndef LIB_HASH_H
#define LIB_HASH_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The seed for uses where collisions do not help an attacker, such as telling whether content has changed. */
#define HASH_START UINT64_C(0x9e3779b97f4a7c15)

/* The `_padded` functions load whole words. HASH_PAD bytes after the input must be readable. */
enum { HASH_PAD = 7 };

/* The rounds of SipHash-1-3. */
enum { HASH_ROUNDS = 1, HASH_LAST_ROUNDS = 3 };

struct siphash {
	uint64_t v[4];
};

static inline uint64_t
hash_word(const uint8_t bytes[8])
{
	uint64_t word;

	memcpy(&word, bytes, sizeof word);
	return le64toh(word);
}

/* Returns the next `len` bytes, at most eight, as a number. */
static inline uint64_t
hash_word_padded(const uint8_t *bytes, size_t len)
{
	return len == 0 ? 0 : hash_word(bytes) << (64 - 8 * len) >> (64 - 8 * len);
}

static inline uint64_t
siphash_turn(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

/* SipRound, section 2.2 of the paper. */
static inline void
siphash_rounds(struct siphash *s, unsigned count)
{
	uint64_t *v = s->v;

	for (; count > 0; count--) {
		v[0] += v[1], v[2] += v[3];
		v[1] = siphash_turn(v[1], 13) ^ v[0], v[3] = siphash_turn(v[3], 16) ^ v[2];
		v[0] = siphash_turn(v[0], 32);
		v[2] += v[1], v[0] += v[3];
		v[1] = siphash_turn(v[1], 17) ^ v[2], v[3] = siphash_turn(v[3], 21) ^ v[0];
		v[2] = siphash_turn(v[2], 32);
	}
}

static inline struct siphash
siphash_start(uint64_t k0, uint64_t k1)
{
	struct siphash s;

	s.v[0] = k0 ^ UINT64_C(0x736f6d6570736575);
	s.v[1] = k1 ^ UINT64_C(0x646f72616e646f6d);
	s.v[2] = k0 ^ UINT64_C(0x6c7967656e657261);
	s.v[3] = k1 ^ UINT64_C(0x7465646279746573);
	return s;
}

static inline void
siphash_word(struct siphash *s, uint64_t word, unsigned rounds)
{
	s->v[3] ^= word;
	siphash_rounds(s, rounds);
	s->v[0] ^= word;
}

/* Adds the input's last word: its bytes after the last whole word, `last`, and the length of the whole input. Returns the hash. */
static inline uint64_t
siphash_end(struct siphash *s, uint64_t last, size_t len, unsigned rounds, unsigned last_rounds)
{
	siphash_word(s, last | (uint64_t)(len & 0xff) << 56, rounds);
	s->v[2] ^= 0xff;
	siphash_rounds(s, last_rounds);
	return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

/* Returns a 64-bit hash of `len` bytes. */
static inline uint64_t
hash64_padded(uint64_t seed, const uint8_t *bytes, size_t len)
{
	struct siphash s = siphash_start(seed, HASH_START);
	size_t left = len;

	for (; left >= 8; bytes += 8, left -= 8)
		siphash_word(&s, hash_word(bytes), HASH_ROUNDS);
	return siphash_end(&s, hash_word_padded(bytes, left), len, HASH_ROUNDS, HASH_LAST_ROUNDS);
}

/* SipHash of `len` bytes that have no padding, with any key and any number of rounds. */
static inline uint64_t
siphash(
    uint64_t k0, uint64_t k1, const void *start, size_t len, unsigned rounds, unsigned last_rounds)
{
	const uint8_t *bytes = start;
	uint8_t last[8] = { 0 };
	struct siphash s = siphash_start(k0, k1);
	size_t left = len;

	for (; left >= 8; bytes += 8, left -= 8)
		siphash_word(&s, hash_word(bytes), rounds);
	if (left > 0)
		memcpy(last, bytes, left);
	return siphash_end(&s, hash_word(last), len, rounds, last_rounds);
}

/* Returns the 64-bit hash of `len` bytes that have no padding. */
static inline uint64_t
hash64(uint64_t seed, const void *start, size_t len)
{
	return siphash(seed, HASH_START, start, len, HASH_ROUNDS, HASH_LAST_ROUNDS);
}

/* Makes a 32-bit hash from a 64-bit one. */
static inline uint32_t
hash_fold(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/* Returns a place below `count` for a hash. */
static inline size_t
hash_place(uint64_t hash, uint32_t count)
{
	return (size_t)((uint64_t)hash_fold(hash) * count >> 32);
}

static inline bool
bytes_equal_padded(const uint8_t *a, const uint8_t *b, size_t len)
{
	for (; len > 8; a += 8, b += 8, len -= 8)
		if (memcmp(a, b, 8) != 0) /* memcmp() of 8 bytes is one instruction */
			return false;
	return hash_word_padded(a, len) == hash_word_padded(b, len);
}

#endif
