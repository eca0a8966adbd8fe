#include "kubedns/api/json_skip.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { BLOCK = 64 };

/* One bit for each byte of a block. */
struct masks {
	uint64_t quote, backslash, open, close;
};

#ifdef __SSE2__
static inline uint64_t
equal16(__m128i bytes, char c)
{
	return (uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)));
}

static inline struct masks
classify(const char *block)
{
	struct masks m = { 0 };

	for (unsigned i = 0; i < BLOCK; i += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(block + i));
		/* '[' | 0x20 is '{' and ']' | 0x20 is '}', so two comparisons find all four brackets */
		__m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));

		m.quote |= equal16(bytes, '"') << i;
		m.backslash |= equal16(bytes, '\\') << i;
		m.open |= equal16(folded, '{') << i;
		m.close |= equal16(folded, '}') << i;
	}
	return m;
}
#else
static inline struct masks
classify(const char *block)
{
	struct masks m = { 0 };

	for (unsigned i = 0; i < BLOCK; i++) {
		char c = block[i], folded = (char)(c | 0x20);

		m.quote |= (uint64_t)(c == '"') << i;
		m.backslash |= (uint64_t)(c == '\\') << i;
		m.open |= (uint64_t)(folded == '{') << i;
		m.close |= (uint64_t)(folded == '}') << i;
	}
	return m;
}
#endif

/*
 * Bit i of the result is the parity of bits 0 to i. It is 1 from an opening quote up to the byte
 * before the closing quote.
 */
static inline uint64_t
running_parity(uint64_t x)
{
	x ^= x << 1;
	x ^= x << 2;
	x ^= x << 4;
	x ^= x << 8;
	x ^= x << 16;
	x ^= x << 32;
	return x;
}

/* Population count. Baseline x86-64 has no instruction for it, and the library function uses a
 * table lookup. */
static inline unsigned
bits(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return (unsigned)(x * 0x0101010101010101 >> 56);
}

/*
 * Bitmap of the bytes that follow an unescaped backslash. `*carry` tells whether the byte before
 * the block was an unescaped backslash. It is set to whether the last of the block's `len` bytes is
 * one.
 */
static inline uint64_t
escaped_bytes(uint64_t backslash, bool *carry, size_t len)
{
	uint64_t escaped = *carry, rest = backslash & ~escaped;
	bool after = false;

	while (rest) {
		unsigned i = (unsigned)__builtin_ctzll(rest);

		rest &= rest - 1;
		if (i + 1 == len) {
			after = true;
			break;
		}
		escaped |= 2ULL << i;
		rest &= ~(2ULL << i);
	}
	*carry = after;
	return escaped;
}

/*
 * Scans one block of `len` <= 64 valid bytes, padded with zeros. Returns the offset after the
 * closing bracket, or 0.
 */
static inline size_t
scan_block(struct json_skip *scan, const char *block, size_t len)
{
	struct masks m = classify(block);

	if (m.backslash || scan->escaped)
		m.quote &= ~escaped_bytes(m.backslash, &scan->escaped, len);
	uint64_t inside = running_parity(m.quote) ^ (scan->in_string ? ~0ULL : 0);
	scan->in_string = inside >> 63;
	m.open &= ~inside;
	m.close &= ~inside;
	unsigned closing = bits(m.close);
	if (closing < scan->depth) { /* too few closing brackets to end here, in any order */
		scan->depth = scan->depth - closing + bits(m.open);
		return 0;
	}
	for (uint64_t rest = m.open | m.close; rest; rest &= rest - 1) {
		if (m.open & rest & -rest)
			scan->depth++;
		else if (--scan->depth == 0)
			return (size_t)__builtin_ctzll(rest) + 1;
	}
	return 0;
}

const char *
json_skip_nested(struct json_skip *scan, const char *p, const char *end)
{
	if (scan->depth == 0 && p < end) {
		scan->depth = 1; /* counts the opening bracket itself */
		p++;
	}
	for (; end - p >= BLOCK; p += BLOCK) {
		size_t stop = scan_block(scan, p, BLOCK);

		if (stop)
			return p + stop;
	}
	if (p < end) {
		char last[BLOCK] = { 0 };

		memcpy(last, p, (size_t)(end - p));
		size_t stop = scan_block(scan, last, (size_t)(end - p));
		if (stop)
			return p + stop;
	}
	return NULL;
}

const char *
json_skip_string(const char *p, const char *end, bool *escapes)
{
	p++;
#ifdef __SSE2__
	for (; end - p >= 16; p += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
		uint64_t stop = equal16(bytes, '"') | equal16(bytes, '\\');

		if (stop) {
			p += __builtin_ctzll(stop);
			break;
		}
	}
#endif
	for (; p < end; p++) {
		if (*p == '"')
			return p + 1;
		if (*p == '\\') {
			*escapes = true;
			if (++p == end)
				break;
		}
	}
	return NULL;
}

const char *
json_skip_value(const char *p, const char *end)
{
	if (p == end)
		return NULL;
	if (*p == '"')
		return json_skip_string(p, end, &(bool){ false });
	if (*p == '{' || *p == '[') {
		struct json_skip scan = { 0 };

		return json_skip_nested(&scan, p, end);
	}
	for (const char *q = p; q < end; q++) {
		if (*q == ',' || *q == '}' || *q == ']' || *q == ' ' || *q == '\n' || *q == '\r' ||
		    *q == '\t')
			return q > p ? q : NULL;
	}
	return NULL;
}
