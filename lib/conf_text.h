/*
 * How a key's content is read, whatever it means: strict JSON, or lines of words; and how it is refused.
 * The parsers of the keys (conf.h, conf_hosts.h, conf_records.h, conf_rewrites.h) are written with this.
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

/* The text's first offset from `from` on that is not blank. */
static inline size_t
conf_skip_blank(const char *text, size_t len, size_t from)
{
	while (from < len && conf_is_blank(text[from]))
		from++;
	return from;
}

/* Cuts the blanks off both ends of `*text`; returns what is left of `len`. */
static inline size_t
conf_trim(const char **text, size_t len)
{
	size_t from = conf_skip_blank(*text, len, 0);

	*text += from;
	for (len -= from; len > 0 && conf_is_blank((*text)[len - 1]);)
		len--;
	return len;
}

/* What json-c does not tell about a text that it has accepted. */
struct conf_json_scan {
	size_t members;    /* of the outermost object as written:
			    * json-c keeps the last of two of a name */
	const char *error; /* what json-c lets pass, NULL if nothing */
	size_t error_at;
};

/* `text` in quotes, fit for a log line and for JSON: shortened, and each byte that is not printable ASCII
 * written as \xHH. Caller frees. */
char *conf_quote(const char *text);

/* Each sets *why (caller frees) and returns -EINVAL. `"subject"place: reason`. */
int conf_refuse(char **why, const char *subject, const char *place, const char *reason);

/* The reason alone. */
int conf_refuse_plain(char **why, const char *reason);

/* `line N, column N: reason`. */
int conf_refuse_at(char **why, const char *text, size_t offset, const char *reason);

/* `line N: "word": reason`. */
int conf_refuse_word(char **why, unsigned line, const char *word, const char *reason);

/* Takes line `number` of a key, counted from 1; may write to it. 0 or a negative errno value, which
 * ends the reading. */
typedef int conf_line_reader(void *arg, unsigned number, char *line);

/* Calls the reader for each line of a key that is not JSON. A first line "null" is skipped. A key with a NUL
 * byte is refused. */
int conf_lines(const char *text, size_t len, conf_line_reader *read, void *arg, char **why);

/*
 * Parses the whole of `text` as one JSON value, strictly. A NULL object is JSON's null or a blank
 * text. A text that begins as neither null nor `opening` is refused with `wanted`.
 */
int conf_json_parse(const char *text, size_t len, char opening, const char *wanted,
    struct json_object **object, char **why);

/* Scans a text that conf_json_parse has accepted. */
struct conf_json_scan conf_json_scan(const char *text, size_t len);

#endif
