/* A Corefile's text as words. */
#ifndef MIGRATE_COREFILE_LEX_H
#define MIGRATE_COREFILE_LEX_H

#include <stdbool.h>
#include <stddef.h>

struct word {
	char *text;
	unsigned file; /* the caller's number of the text */
	unsigned line;
	unsigned lines; /* newlines inside of it, when quoted */
};

struct words {
	struct word *items;
	size_t count;
};

/* Appends the words of `text` to `words`, at most up to `max` of them in all. 0, or -E2BIG. */
int words_read(struct words *words, const char *text, size_t len, unsigned file, size_t max);

void words_free(struct words *words);

#endif
