/*
 * The words of master file entries (RFC 1035 section 5.1): comments and parentheses are taken out,
 * quotes and escapes stay in the words, for what reads them. Pure, untrusted text, time linear in its
 * length.
 */
#ifndef LIB_MASTER_FILE_H
#define LIB_MASTER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dname;

enum { MASTER_WORDS_MAX = 256 };

/* An entry; lines are added until it is whole. All zero: none yet. */
struct master_entry {
	char *words[MASTER_WORDS_MAX]; /* point into the lines */
	size_t count;
	unsigned line;     /* of the first word */
	bool blank;        /* begins with a blank: the owner is the last entry's */
	bool open;         /* a parenthesis is */
	const char *wrong; /* the word that is refused; "" if it is none */
};

/* Cuts up a line, in place. 0, or -EINVAL and a static reason in `why`. The entry is whole when none of
 * its parentheses is open. */
int master_entry_add(struct master_entry *entry, unsigned line, char *text, const char **why);

/* The entry has been read: the next line begins another. */
void master_entry_next(struct master_entry *entry);

/*
 * The bytes that a word stands for, without quotes and escapes, into `bytes` of `room`; their number,
 * or -EINVAL and a static reason in `why`.
 */
int master_bytes(const char *word, uint8_t *bytes, size_t room, const char **why);

/* The name that a word stands for, in lower case: below `origin` if it has no final dot; "@" is the
 * origin. 0, or -EINVAL and a static reason in `why`. */
int master_name(const char *word, const struct dname *origin, struct dname *name, const char **why);

/* An unsigned number up to `max`; false: it is none. */
bool master_number(const char *word, uint32_t max, uint32_t *value);

/* Seconds: "3600", "1h30m". At most 2147483647 (RFC 2181 section 8); false: it is none. */
bool master_seconds(const char *word, uint32_t *seconds);

#endif
