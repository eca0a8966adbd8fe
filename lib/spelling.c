#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "lib/spelling.h"

enum { LETTERS_MIN = 2, LETTERS_MAX = 40 };

static char
folded(char c)
{
	return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

/* Levenshtein's distance; `b_len` is LETTERS_MAX at most. */
static size_t
distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t row[LETTERS_MAX + 1];

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t exchange = diagonal + (folded(a[i - 1]) != folded(b[j - 1]));
			size_t cheaper = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

			diagonal = row[j];
			row[j] = exchange < cheaper ? exchange : cheaper;
		}
	}
	return row[b_len];
}

static bool
comparable(size_t len)
{
	return len >= LETTERS_MIN && len <= LETTERS_MAX;
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

	if (!comparable(s->len) || !comparable(len))
		return;
	size_t d = distance(s->name, s->len, word, len);
	if (d < s->distance) {
		s->distance = d;
		s->word = word;
	}
}
