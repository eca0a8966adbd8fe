/*
 * The hash function for bytes. It takes eight bytes at a time, and each step keeps both halves of a
 * 64 by 64 bit multiplication. Only someone who knows the seed can choose inputs that collide.
 * Most hashes have a random seed and never leave the process. The hash of the same bytes with the
 * same seed is the same on every machine; only the digest of records depends on that.
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

/* Returns the next `len` bytes as a number. Bytes after the eighth are ignored. */
static inline uint64_t
hash_word_padded(const uint8_t *bytes, size_t len)
{
	uint64_t word;

	memcpy(&word, bytes, 8);
	word = le64toh(word);
	return len >= 8 ? word : len == 0 ? 0 : word << (64 - 8 * len) >> (64 - 8 * len);
}

static inline uint64_t
hash_step(uint64_t h, uint64_t word, uint64_t seed)
{
	/* With both halves of the product, nobody can cancel input bits without knowing the seed. */
	unsigned __int128 product = (unsigned __int128)(h ^ word) * (seed | 1);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns a 64-bit hash of `len` bytes. */
static inline uint64_t
hash64_padded(uint64_t seed, const uint8_t *bytes, size_t len)
{
	uint64_t h = seed ^ len;

	for (;; bytes += 8, len -= 8) {
		h = hash_step(h, hash_word_padded(bytes, len), seed);
		if (len <= 8)
			return h;
	}
}

/* Returns the 64-bit hash of `len` bytes that have no padding. */
static inline uint64_t
hash64(uint64_t seed, const void *start, size_t len)
{
	const uint8_t *bytes = start;
	uint8_t last[8 + HASH_PAD] = { 0 };
	uint64_t h = seed ^ len;

	for (; len > 8; bytes += 8, len -= 8)
		h = hash_step(h, hash_word_padded(bytes, 8), seed);
	if (len > 0)
		memcpy(last, bytes, len);
	return hash_step(h, hash_word_padded(last, len), seed);
}

/* Makes a 32-bit hash from a 64-bit one. If inputs differ in one byte, some bits of their 64-bit
 * hashes are often equal. Bit i of the result depends on the bits 0 to i + 32 of `hash`. */
static inline uint32_t
hash_fold(uint64_t hash)
{
	return (uint32_t)(hash * HASH_START >> 32);
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
