/*
 * Helpers for the parsers of the keys (conf.h, conf_hosts.h, conf_records.h, conf_rewrites.h): they
 * read strict JSON or lines of words, and build the messages that refuse a key.
 */
#ifndef LIB_CONF_TEXT_H
#define LIB_CONF_TEXT_H

#include "lib/conf.h"

struct json_object;

static inline bool
conf_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Returns the first offset at or after `from` that is not blank. */
static inline size_t
conf_skip_blank(const char *text, size_t len, size_t from)
{
	while (from < len && conf_is_blank(text[from]))
		from++;
	return from;
}

/* Removes blanks from both ends of `*text`; returns the remaining length. */
static inline size_t
conf_trim(const char **text, size_t len)
{
	size_t from = conf_skip_blank(*text, len, 0);

	*text += from;
	for (len -= from; len > 0 && conf_is_blank((*text)[len - 1]);)
		len--;
	return len;
}

/* Facts that json-c does not report about a text that it has accepted. */
struct conf_json_scan {
	size_t members;    /* members of the outermost object as written; of two members with the
			    * same name, json-c keeps only the last */
	const char *error; /* a syntax error that json-c accepts; NULL: none */
	size_t error_at;
};

/* Returns `text` in quotes, safe for a log line and for JSON. Long text is shortened, and each byte
 * that is not printable ASCII is written as \xHH. Caller frees. */
char *conf_quote(const char *text);

/* Each of the four conf_refuse functions sets `*why` (caller frees) and returns -EINVAL. This
 * function writes `"subject"place: reason`. */
int conf_refuse(char **why, const char *subject, const char *place, const char *reason);

/* Writes only the reason. */
int conf_refuse_plain(char **why, const char *reason);

/* Writes `line N, column N: reason`. */
int conf_refuse_at(char **why, const char *text, size_t offset, const char *reason);

/* Writes `line N: "word": reason`. */
int conf_refuse_word(char **why, unsigned line, const char *word, const char *reason);

/* Reads line `number` of a key, counted from 1; may write to the line. Returns 0, or a negative
 * errno value to stop. */
typedef int conf_line_reader(void *arg, unsigned number, char *line);

/* Calls the reader for each line of a key that is not JSON. A first line "null" is skipped. A key with a NUL
 * byte is refused. */
int conf_lines(const char *text, size_t len, conf_line_reader *read, void *arg, char **why);

/*
 * Parses all of `text` as one JSON value, strictly. A NULL object stands for JSON's null or a blank
 * text. A text that starts with neither null nor `opening` is refused with the reason `wanted`.
 */
int conf_json_parse(const char *text, size_t len, char opening, const char *wanted,
    struct json_object **object, char **why);

/* Returns the number of members of the outermost object, and sets `names` to their names as strings
 * without escapes. Caller frees each name and the list. For a text that conf_json_parse has accepted. */
size_t conf_json_names(const char *text, size_t len, char ***names);

/* Scans a text that conf_json_parse has accepted. */
struct conf_json_scan conf_json_scan(const char *text, size_t len);

#endif
