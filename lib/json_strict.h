/* Parses JSON with json-c in strict mode: no comments, no trailing commas. */
#ifndef LIB_JSON_STRICT_H
#define LIB_JSON_STRICT_H

#include <stddef.h>

struct json_object;
struct json_tokener;

/* Creates a tokener for json_strict_parse(). Ends the process if memory runs out. */
struct json_tokener *json_strict_new(int depth_max);

/*
 * Parses `text` as json_tokener_parse_ex() does with `flags` (JSON_TOKENER_VALIDATE_UTF8 or 0),
 * STRICT and ALLOW_TRAILING_CHARS. The text may end inside a value, but not inside a character.
 * `*end` is the number of bytes that were read. json-c 0.18, the version of Debian 13, refuses
 * every character beyond ASCII in strict mode (json-c issue 875). Such characters are therefore
 * read in lenient mode, which accepts them only in strings.
 */
struct json_object *json_strict_parse(
    struct json_tokener *tokener, int flags, const char *text, size_t len, size_t *end);

/* Parses all of `text` as one JSON object. Returns NULL if the text is anything else. Caller puts
 * the object. */
struct json_object *json_strict_object(const char *text, size_t len, int depth_max);

#endif
