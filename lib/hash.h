/*
 * FNV-1a, 64 bits: for tables and for telling contents apart. It is no defence against chosen
 * keys unless it is seeded with a secret.
 */
#ifndef LIB_HASH_H
#define LIB_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues `hash` (first HASH_START, or a seed) over `len` bytes. */
static inline uint64_t
hash_fnv1a(uint64_t hash, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
