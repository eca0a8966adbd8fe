#include "lib/json_strict.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/log.h"
#include "lib/utf8.h"

struct json_tokener *
json_strict_new(int depth_max)
{
	struct json_tokener *tokener = json_tokener_new_ex(depth_max);

	if (tokener == NULL)
		log_fatalx("out of memory");
	return tokener;
}

static bool
is_ascii(char c)
{
	return ((uint8_t)c & 0x80) == 0;
}

enum { RUN_MAX = 1024 };

/*
 * Returns the length of the run at the start of `text` in which all bytes are ASCII, or no byte is.
 * A run of ASCII ends after RUN_MAX bytes. Otherwise a short value would cost as much as all the
 * text after it.
 */
static size_t
run_len(const char *text, size_t len)
{
	bool ascii = is_ascii(*text);
	size_t at = 0;

	if (ascii && len > RUN_MAX)
		len = RUN_MAX;
	for (uint64_t eight; ascii && len - at >= sizeof eight; at += sizeof eight) {
		memcpy(&eight, text + at, sizeof eight);
		if ((eight & UINT64_C(0x8080808080808080)) != 0)
			break;
	}
	while (at < len && is_ascii(text[at]) == ascii)
		at++;
	return at;
}

struct json_object *
json_strict_parse(
    struct json_tokener *tokener, int flags, const char *text, size_t len, size_t *end)
{
	struct json_object *value;

	*end = 0;
	do {
		size_t run = *end < len ? run_len(text + *end, len - *end) : 0;
		bool strict = run == 0 || is_ascii(text[*end]);

		/* json-c loses a character that is split between two calls. */
		if (!strict && *end + run < len && utf8_whole(text + *end, run) < run)
			run++;
		json_tokener_set_flags(tokener,
		    (strict ? JSON_TOKENER_STRICT : 0) | flags | JSON_TOKENER_ALLOW_TRAILING_CHARS);
		value = json_tokener_parse_ex(tokener, text + *end, (int)run);
		*end += json_tokener_get_parse_end(tokener);
	} while (*end < len && json_tokener_get_error(tokener) == json_tokener_continue);
	return value;
}

struct json_object *
json_strict_object(const char *text, size_t len, int depth_max)
{
	struct json_tokener *tokener = json_strict_new(depth_max);
	size_t end;
	struct json_object *object =
	    json_strict_parse(tokener, JSON_TOKENER_VALIDATE_UTF8, text, len, &end);

	json_tokener_free(tokener);
	while (end < len && strchr(" \t\r\n", text[end]) != NULL && text[end] != '\0')
		end++;
	if (end == len && json_object_is_type(object, json_type_object))
		return object;
	json_object_put(object);
	return NULL;
}
