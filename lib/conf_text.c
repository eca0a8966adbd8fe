#include "lib/conf_text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/json_strict.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* --- refusing --- */

enum { JSON_DEPTH = 8, QUOTED_MAX = 64 };

char *
conf_quote(const char *text)
{
	char out[QUOTED_MAX * 4 + 8];
	size_t n = 0, i = 0;

	out[n++] = '"';
	for (; text[i] && i < QUOTED_MAX; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x20 && c < 0x7f) {
			out[n++] = (char)c;
			continue;
		}
		out[n++] = '\\';
		out[n++] = 'x';
		out[n++] = "0123456789abcdef"[c >> 4];
		out[n++] = "0123456789abcdef"[c & 15];
	}
	strcpy(out + n, text[i] ? "...\"" : "\"");
	return xstrdup(out);
}

int
conf_refuse(char **why, const char *subject, const char *place, const char *reason)
{
	char *quoted = conf_quote(subject);

	*why = xasprintf("%s%s: %s", quoted, place, reason);
	free(quoted);
	return -EINVAL;
}

int
conf_refuse_plain(char **why, const char *reason)
{
	*why = xstrdup(reason);
	return -EINVAL;
}

int
conf_refuse_at(char **why, const char *text, size_t offset, const char *reason)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < offset; i++, column++)
		if (text[i] == '\n') {
			line++;
			column = 0;
		}
	*why = xasprintf("line %zu, column %zu: %s", line, column, reason);
	return -EINVAL;
}

int
conf_refuse_word(char **why, unsigned line, const char *word, const char *reason)
{
	char *quoted = conf_quote(word);

	*why = xasprintf("line %u: %s: %s", line, quoted, reason);
	free(quoted);
	return -EINVAL;
}

/* --- lines --- */

int
conf_lines(const char *text, size_t len, conf_line_reader *read, void *arg, char **why)
{
	unsigned number = 0;
	int rc = 0;

	*why = NULL;
	const char *nul = memchr(text, '\0', len);
	if (nul != NULL)
		return conf_refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	char *copy = xstrndup(text, len), *rest = copy, *line;
	while (rc == 0 && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		if (number == 1 && strcmp(line, "null") == 0)
			continue;
		rc = read(arg, number, line);
	}
	free(copy);
	return rc;
}

/* --- JSON --- */

static void
scan_error(struct conf_json_scan *scan, size_t at, const char *error)
{
	if (scan->error == NULL) {
		scan->error = error;
		scan->error_at = at;
	}
}

/* Finds two things that json-c accepts even in strict mode: \u0000, which would end its C strings
 * early, and a comma before '}'. */
struct conf_json_scan
conf_json_scan(const char *text, size_t len)
{
	struct conf_json_scan scan = { 0 };
	unsigned depth = 0;
	bool in_string = false;
	char before = '\0';

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (in_string) {
			if (c == '\\' && len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
				scan_error(&scan, i, "NUL in a string");
			i += c == '\\';
			in_string = c != '"';
			continue;
		}
		if (conf_is_blank(c))
			continue;
		if ((c == '}' || c == ']') && before == ',')
			scan_error(&scan, i, "comma before the end");
		if (c == '\'' || c == '/')
			scan_error(&scan, i, "unexpected character");
		in_string = c == '"';
		depth += (c == '{' || c == '[');
		depth -= (c == '}' || c == ']');
		scan.members += c == ':' && depth == 1;
		before = c;
	}
	return scan;
}

size_t
conf_json_names(const char *text, size_t len, char ***names)
{
	size_t count = 0, space = 0, from = 0, to = 0;
	unsigned depth = 0;

	*names = NULL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"') {
			for (from = i++; i < len && text[i] != '"'; i++)
				i += text[i] == '\\';
			to = i + 1;
		} else if (text[i] == ':' && depth == 1) {
			char *quoted = xstrndup(text + from, to - from);
			struct json_object *name = json_tokener_parse(quoted);

			if (count == space)
				*names =
				    xreallocarray(*names, space = space * 2 + 64, sizeof **names);
			(*names)[count++] =
			    xstrdup(name == NULL ? "" : json_object_get_string(name));
			json_object_put(name);
			free(quoted);
		}
		depth += text[i] == '{' || text[i] == '[';
		depth -= text[i] == '}' || text[i] == ']';
	}
	return count;
}

/* Whether the text is `null`, or starts with `opening` like the wanted kind of value. */
static bool
begins_with(const char *text, size_t len, char opening)
{
	len = conf_trim(&text, len);
	return *text == opening || (len == 4 && memcmp(text, "null", 4) == 0);
}

/* Refuses a text of another kind. Often, this is a list that is not written as JSON. */
static int
refuse_other(char **why, const char *text, size_t len, const char *wanted)
{
	struct server server;

	len = conf_trim(&text, len);
	bool quoted = len > 2 && text[0] == '"' && text[len - 1] == '"';
	char *shown = xstrndup(text + quoted, len - 2 * quoted);
	if (server_parse(shown, 53, &server, NULL) == 0)
		*why =
		    xasprintf("\"%s\": an address without brackets; write [\"%s\"]", shown, shown);
	else
		conf_refuse(why, shown, "", wanted);
	free(shown);
	return -EINVAL;
}

/* Whether the number at `end`, where json-c stopped, looks like the start of an address. */
static bool
is_bare_address(const char *text, size_t len, size_t end)
{
	return end > 0 && end < len && (text[end] == '.' || text[end] == ':') &&
	       text[end - 1] >= '0' && text[end - 1] <= '9';
}

/* Returns what the character at `at` is taken for, if it only looks like JSON, or NULL. */
static const char *
look_alike(const char *text, size_t len, size_t at)
{
	static const struct {
		const char *bytes, *why;
	} rows[] = {
		{ "\xe2\x80\x9c", "typographic quote (U+201C): write \"" },
		{ "\xe2\x80\x9d", "typographic quote (U+201D): write \"" },
		{ "\xe2\x80\x9e", "typographic quote (U+201E): write \"" },
		{ "\xe2\x80\x98", "typographic quote (U+2018): write \"" },
		{ "\xe2\x80\x99", "typographic quote (U+2019): write \"" },
		{ "\xc2\xab", "typographic quote (U+00AB): write \"" },
		{ "\xc2\xbb", "typographic quote (U+00BB): write \"" },
		{ "\xef\xbc\x82", "wide quote (U+FF02): write \"" },
		{ "\xef\xbc\x9a", "wide colon (U+FF1A): write :" },
		{ "\xef\xbc\x8c", "wide comma (U+FF0C): write ," },
		{ "\xc2\xa0", "no-break space (U+00A0): write an ordinary space" },
		{ "\xe3\x80\x80", "wide space (U+3000): write an ordinary space" },
		{ "\xe2\x80\x8b", "invisible space (U+200B): remove it" },
		{ "\xef\xbb\xbf", "byte order mark (U+FEFF): remove it" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		size_t size = strlen(rows[i].bytes);

		if (len - at >= size && memcmp(text + at, rows[i].bytes, size) == 0)
			return rows[i].why;
	}
	return NULL;
}

/* Returns why the text is not JSON. Recognises common mistakes. */
static const char *
why_no_json(const char *text, size_t len, size_t end, enum json_tokener_error error)
{
	size_t before = end;

	if (is_bare_address(text, len, end))
		return "an address must be in double quotes";
	if (end >= len)
		return json_tokener_error_desc(error);
	const char *character = look_alike(text, len, end);
	if (character != NULL)
		return character;
	while (before > 0 && conf_is_blank(text[before - 1]))
		before--;
	if ((text[end] == ']' || text[end] == '}') && before > 0 && text[before - 1] == ',')
		return "a comma before the end of a list; remove it";
	if (text[end] == '\'' || (end > 0 && text[end - 1] == '\''))
		return "strings must be in double quotes";
	return json_tokener_error_desc(error);
}

int
conf_json_parse(const char *text, size_t len, char opening, const char *wanted,
    struct json_object **object, char **why)
{
	*object = NULL;
	size_t start = conf_skip_blank(text, len, 0);
	if (start == len)
		return 0;
	const char *nul = memchr(text, '\0', len);
	if (nul != NULL)
		return conf_refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	if (len >= INT_MAX)
		return conf_refuse_plain(why, "too large");
	const char *character = look_alike(text, len, start);
	if (character != NULL)
		return conf_refuse_at(why, text, start, character);
	if (!begins_with(text, len, opening))
		return refuse_other(why, text, len, wanted);
	struct json_tokener *tokener = json_strict_new(JSON_DEPTH);
	size_t end;
	*object = json_strict_parse(tokener, JSON_TOKENER_VALIDATE_UTF8, text, len, &end);
	if (json_tokener_get_error(tokener) == json_tokener_continue) {
		/* The end of the text ends a bare number or word. */
		*object = json_tokener_parse_ex(tokener, "", 1);
		end = len;
	}
	enum json_tokener_error error = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	if (error == json_tokener_continue)
		return conf_refuse_at(why, text, len, "unexpected end of data");
	if (error != json_tokener_success)
		return conf_refuse_at(why, text, end, why_no_json(text, len, end, error));
	end = conf_skip_blank(text, len, end);
	if (end == len)
		return 0;
	json_object_put(*object);
	*object = NULL;
	return conf_refuse_at(why, text, end, "text after the end of the value");
}
