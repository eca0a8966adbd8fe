/*
 * Splits master file entries (RFC 1035 section 5.1) into words. Comments and parentheses are
 * removed; quotes and escapes stay in the words. The functions are pure. The text is untrusted.
 * Time is O(length).
 */
#ifndef LIB_MASTER_FILE_H
#define LIB_MASTER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dname;

enum { MASTER_WORDS_MAX = 256 };

/* An entry. Lines are added until the entry is complete. It is all zeros if it has no line yet. */
struct master_entry {
	char *words[MASTER_WORDS_MAX]; /* pointers into the lines */
	size_t count;
	unsigned line;     /* line of the first word */
	bool blank;        /* the entry begins with a blank, so it has the owner of the previous
			    * entry */
	bool open;         /* a parenthesis is open */
	const char *wrong; /* the word that is refused; "" if the error is not about a word */
};

/* Splits a line into words, in place. Returns 0, or -EINVAL and a static reason in `why`. The entry
 * is complete when no parenthesis is open. */
int master_entry_add(struct master_entry *entry, unsigned line, char *text, const char **why);

/* Ends the entry. The next line begins a new entry. */
void master_entry_next(struct master_entry *entry);

/* Decodes the word's quotes and escapes into `bytes`, which has space for `capacity` bytes. Returns
 * the number of bytes, or -EINVAL and a static reason in `why`. */
int master_bytes(const char *word, uint8_t *bytes, size_t capacity, const char **why);

/* Parses the word as a name, in lower case. A name without a final dot is relative to `origin`, and
 * "@" is the origin. Returns 0, or -EINVAL and a static reason in `why`. */
int master_name(const char *word, const struct dname *origin, struct dname *name, const char **why);

/* Parses an unsigned number up to `max`. Returns false if the word is not such a number. */
bool master_number(const char *word, uint32_t max, uint32_t *value);

/* Parses a time in seconds, such as "3600" or "1h30m", at most 2147483647 (RFC 2181 section 8).
 * Returns false if the word is not such a time. */
bool master_seconds(const char *word, uint32_t *seconds);

#endif
