/*
 * Suggests a known name for a misspelt name. The distance is the number of letters inserted,
 * deleted, replaced, or swapped with a neighbour. Case is ignored, and `_` counts as `-`. The
 * functions are pure.
 */
#ifndef LIB_SPELLING_H
#define LIB_SPELLING_H

#include <stddef.h>

enum { SPELLING_LETTERS_MAX = 63 /* a DNS label */ };

/* Returns the distance between `a` and `b`. Each has at most SPELLING_LETTERS_MAX bytes. */
size_t spelling_distance(const char *a, size_t a_len, const char *b, size_t b_len);

struct spelling {
	const char *name; /* as written; `len` bytes */
	size_t len;
	const char *word; /* the nearest word so far; NULL: no word is near */
	size_t distance;
};

/* Begins a search. Names of one letter, or of more than 40, get no suggestion. */
struct spelling spelling_of(const char *name, size_t len);

/* Takes `word` (not copied) if it is nearer than all words before it. A word is not near if more
 * than a third of its letters are wrong. */
void spelling_try(struct spelling *s, const char *word);

#endif
