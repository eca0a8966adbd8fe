/* JSON as a stream of json-c values, read in pieces of 64 KiB. */
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/documents.h"
#include "lib/documents_internal.h"
#include "lib/utf8.h"

enum { CHUNK = 65536 };

/*
 * json-c's tokener reads the values, chunk by chunk; the syntax around them at the top (the
 * document's braces, keys and commas, and those of `items`) is read here, so that no list is ever
 * built whole.
 */
struct json {
	FILE *in;
	struct json_tokener *tokener;
	char buf[CHUNK];
	size_t at, len; /* whole characters: what has been read of them, and all */
	size_t rest;    /* bytes behind them, of a character that is cut off or wrong */
	unsigned line;
	size_t weight; /* bytes of the object being read */
	documents_sink sink;
	void *arg;
	struct documents_error *error;
};

static int
fail(struct json *j, const char *reason)
{
	documents_error(j->error, j->line, "%s", reason);
	return -EBADMSG;
}

/* 1: there is a byte at j->at; 0: the file has ended; -errno. */
static int
fill(struct json *j)
{
	if (j->at < j->len)
		return 1;
	errno = 0;
	memmove(j->buf, j->buf + j->len, j->rest);
	size_t got = fread(j->buf + j->rest, 1, sizeof(j->buf) - j->rest, j->in);
	j->at = 0;
	j->len = utf8_whole(j->buf, j->rest + got);
	j->rest += got - j->len;
	if (j->len > 0)
		return 1;
	if (j->rest > 0 && !ferror(j->in))
		return fail(j, json_tokener_error_desc(json_tokener_error_parse_utf8_string));
	if (!ferror(j->in))
		return 0;
	int err = errno != 0 ? errno : EIO;
	documents_error(j->error, 0, "%s", strerror(err));
	return -err;
}

static void
advance(struct json *j, size_t count)
{
	const char *p = j->buf + j->at, *end = p + count;

	while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		j->line++;
		p++;
	}
	j->at += count;
}

/* The next byte that is no white space, not consumed; 0 at the end of the file; -errno. */
static int
peek(struct json *j)
{
	for (;;) {
		int got = fill(j);
		if (got <= 0)
			return got;
		char c = j->buf[j->at];
		if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
			return c != '\0' ? (unsigned char)c : fail(j, "a NUL");
		advance(j, 1);
	}
}

/* Consumes the next byte that is no white space if it is `a` or `b`, and returns it. */
static int
expect(struct json *j, char a, char b)
{
	int c = peek(j);

	if (c < 0)
		return c;
	if (c == 0)
		return fail(j, "ends in the middle of an object");
	if (c != a && c != b) {
		documents_error(
		    j->error, j->line, a == b ? "'%c' expected" : "'%c' or '%c' expected", a, b);
		return -EBADMSG;
	}
	j->at++;
	return c;
}

/* One value of any kind; `value` is NULL for null. Caller puts it. */
static int
read_value(struct json *j, struct json_object **value)
{
	json_tokener_reset(j->tokener);
	for (;;) {
		int got = fill(j);
		if (got <= 0)
			return got < 0 ? got : fail(j, "ends in the middle of a value");
		*value = json_tokener_parse_ex(j->tokener, j->buf + j->at, (int)(j->len - j->at));
		enum json_tokener_error err = json_tokener_get_error(j->tokener);
		size_t used = json_tokener_get_parse_end(j->tokener);
		advance(j, used);
		j->weight += used;
		if (err != json_tokener_success && err != json_tokener_continue)
			return fail(j, json_tokener_error_desc(err));
		if (j->weight > DOCUMENTS_OBJECT_MAX) {
			json_object_put(*value);
			*value = NULL;
			return fail(j, "an object is larger than 8 MiB");
		}
		if (err == json_tokener_success)
			return 0;
	}
}

static int
read_items(struct json *j, const char *hint)
{
	j->at++; /* [ */
	int c = peek(j);
	if (c == ']') {
		j->at++;
		return 0;
	}
	do {
		struct json_object *item;
		c = peek(j); /* so that the line is the item's own */
		if (c < 0)
			return c;
		unsigned line = j->line;
		j->weight = 0;
		int err = read_value(j, &item);
		if (err != 0)
			return err;
		j->sink(j->arg, item, hint, line);
		json_object_put(item);
		c = expect(j, ',', ']');
	} while (c == ',');
	j->weight = 0;
	return c < 0 ? c : 0;
}

static int
read_key(struct json *j, const struct json_object *document, struct json_object **key)
{
	int c = peek(j);

	if (c <= 0)
		return c < 0 ? c : fail(j, "ends in the middle of an object");
	if (c != '"')
		return fail(j, "a key expected");
	int err = read_value(j, key);
	if (err != 0)
		return err;
	const char *s = json_object_get_string(*key);
	if (strlen(s) != (size_t)json_object_get_string_len(*key))
		err = fail(j, "a key holds a NUL");
	else if (json_object_object_get_ex(document, s, NULL))
		err = fail(j, "a key comes twice");
	else
		err = expect(j, ':', ':');
	if (err > 0)
		return 0;
	json_object_put(*key);
	return err;
}

static int
read_member(struct json *j, struct json_object *document, bool *list)
{
	struct json_object *key, *value = NULL;
	char hint[64];
	int err = read_key(j, document, &key);

	if (err != 0)
		return err;
	const char *name = json_object_get_string(key);
	int c = peek(j);
	if (c < 0) {
		err = c;
	} else if (strcmp(name, "items") == 0 && c == '[' && documents_list_hint(document, hint)) {
		*list = true;
		err = read_items(j, hint[0] != '\0' ? hint : NULL);
	} else {
		err = read_value(j, &value);
	}
	if (err == 0)
		json_object_object_add(document, name, value);
	json_object_put(key);
	return err;
}

static int
read_document(struct json *j)
{
	struct json_object *document = json_object_new_object();
	unsigned line = j->line;
	bool list = false;
	int err = 0;

	j->weight = 0;
	j->at++; /* { */
	int c = peek(j);
	if (c == '}')
		j->at++;
	while (c > 0 && c != '}') {
		err = read_member(j, document, &list);
		c = err != 0 ? err : expect(j, ',', '}');
	}
	if (c > 0 && !list && !documents_empty_list(document))
		j->sink(j->arg, document, NULL, line);
	json_object_put(document);
	return c > 0 ? 0 : c < 0 ? c : fail(j, "ends in the middle of an object");
}

int
documents_read_json(FILE *in, documents_sink sink, void *arg, struct documents_error *error)
{
	struct json j = { .in = in, .line = 1, .sink = sink, .arg = arg, .error = error };
	int c;

	j.tokener = json_tokener_new_ex(DOCUMENTS_DEPTH);
	if (j.tokener == NULL)
		return -ENOMEM;
	/* fill() checks the encoding, many bytes at a time; json-c's own check takes a sixth of the
	 * whole time. */
	json_tokener_set_flags(j.tokener, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	while ((c = peek(&j)) > 0) {
		c = c == '{' ? read_document(&j) : fail(&j, "a document is not an object");
		if (c != 0)
			break;
	}
	json_tokener_free(j.tokener);
	return c;
}
