/*
 * What somebody who wrote an unknown name probably meant: the nearest of the known ones, by letters
 * put in, taken out, exchanged or swapped with a neighbour (capitals count as small letters, `_` as
 * `-`). Pure.
 */
#ifndef LIB_SPELLING_H
#define LIB_SPELLING_H

#include <stddef.h>

enum { SPELLING_LETTERS_MAX = 63 /* a DNS label */ };

/* How many such mistakes make `b`, of at most SPELLING_LETTERS_MAX bytes, out of `a`. */
size_t spelling_distance(const char *a, size_t a_len, const char *b, size_t b_len);

struct spelling {
	const char *name; /* as it was written; `len` bytes */
	size_t len;
	const char *word; /* the nearest so far; NULL: none is near */
	size_t distance;
};

/* Begins; nothing is near to a name of one letter, or of more than 40. */
struct spelling spelling_of(const char *name, size_t len);

/* Takes `word` (kept, not copied) if it is nearer than those before it, and near at all: with more
 * than a third of its letters wrong it is another word. */
void spelling_try(struct spelling *s, const char *word);

#endif
