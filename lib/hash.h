/*
 * The one hash over bytes: eight at a time, each step a 64 by 64 bit multiplication of which both
 * halves are kept. Nobody who does not know the seed can choose inputs that collide. Not the same
 * on every machine: a hash never leaves the process.
 */
#ifndef LIB_HASH_H
#define LIB_HASH_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* For what nobody gains by colliding with: telling contents apart. */
#define HASH_START UINT64_C(0x9e3779b97f4a7c15)

/* Bytes that have to be readable behind the end of what the `_padded` functions read: they load
 * whole words. */
enum { HASH_PAD = 7 };

/* The next `len` bytes as a number, those behind the eighth left out. */
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
	/* Both halves of the product: no input bit can be cancelled without knowing the seed. */
	unsigned __int128 product = (unsigned __int128)(h ^ word) * (seed | 1);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* 64 bits of hash over `len` bytes. */
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

/* The same over bytes that end where they end. */
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

/* A hash of 32 bits from one of 64. */
static inline uint32_t
hash_fold(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

static inline bool
bytes_equal_padded(const uint8_t *a, const uint8_t *b, size_t len)
{
	for (; len > 8; a += 8, b += 8, len -= 8)
		if (memcmp(a, b, 8) != 0) /* one instruction */
			return false;
	return hash_word_padded(a, len) == hash_word_padded(b, len);
}

#endif
