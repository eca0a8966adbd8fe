#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/spelling.h"

enum { LETTERS_MIN = 2, LETTERS_MAX = 40 };

static char
folded(char c)
{
	return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Computes the edit distance row by row. A swap of two neighbours counts as one mistake. To find a
 * swap, the function keeps the two previous rows. */
size_t
spelling_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][SPELLING_LETTERS_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *spare = before;

		before = above;
		above = row;
		row = spare;
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			bool same = folded(a[i - 1]) == folded(b[j - 1]);
			size_t exchange = above[j - 1] + !same;
			size_t cheaper = above[j] < row[j - 1] ? above[j] + 1 : row[j - 1] + 1;

			row[j] = exchange < cheaper ? exchange : cheaper;
			if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
			    folded(a[i - 2]) == folded(b[j - 1]) && before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
	}
	return row[b_len];
}

static bool
comparable(size_t len)
{
	return len >= LETTERS_MIN && len <= LETTERS_MAX;
}

/* Returns the set of characters in a word. A character is represented by its low five bits. */
static uint32_t
letters(const char *word, size_t len)
{
	uint32_t set = 0;

	for (size_t i = 0; i < len; i++)
		set |= UINT32_C(1) << (folded(word[i]) & 31);
	return set;
}

/* Whether one word has too many characters that the other word lacks. One mistake adds at most one
 * such character. */
static bool
too_different(const struct spelling *s, const char *word, size_t len)
{
	uint32_t a = letters(s->name, s->len), b = letters(word, len);

	return (size_t)__builtin_popcount(a & ~b) >= s->distance ||
	       (size_t)__builtin_popcount(b & ~a) >= s->distance;
}

struct spelling
spelling_of(const char *name, size_t len)
{
	return (struct spelling){ .name = name, .len = len, .distance = len / 3 + 1 };
}

void
spelling_try(struct spelling *s, const char *word)
{
	size_t len = strlen(word);

	size_t missing = len < s->len ? s->len - len : len - s->len;

	/* The number of mistakes is at least the difference in length, so most words need no closer look. */
	if (!comparable(s->len) || !comparable(len) || missing >= s->distance ||
	    too_different(s, word, len))
		return;
	size_t d = spelling_distance(s->name, s->len, word, len);
	if (d < s->distance) {
		s->distance = d;
		s->word = word;
	}
}
