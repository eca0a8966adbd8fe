/* Splits the text of a Corefile into words. */
#ifndef MIGRATE_COREFILE_LEX_H
#define MIGRATE_COREFILE_LEX_H

#include <stdbool.h>
#include <stddef.h>

struct word {
	char *text;
	unsigned file; /* number that the caller gave to the text */
	unsigned line;
	unsigned lines; /* newlines inside a quoted word */
};

struct words {
	struct word *items;
	size_t count;
};

/* Appends the words of `text` to `words`, up to a total of `max`. Returns 0, or -E2BIG. */
int words_read(struct words *words, const char *text, size_t len, unsigned file, size_t max);

void words_free(struct words *words);

#endif
