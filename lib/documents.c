#include "lib/documents.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "lib/json_strict.h"
#include "lib/utf8.h"

/* Fills `error`; its text is truncated if necessary. */
static void documents_error(struct documents_error *error, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the document, as far as it was read, may be a list, because its kind ends in List or is
 * unknown. `hint` of 64 bytes gets the kind of the items, or "" if that kind is unknown. */
static bool documents_list_hint(struct json_object *document, char *hint);

/* Whether the document is a list whose `items` is null or missing. Such a list has no objects. */
static bool documents_empty_list(struct json_object *document);

/* Converts a plain scalar as YAML 1.1 does. Returns NULL for null. */
static struct json_object *documents_plain_scalar(const char *s, size_t len);

static int documents_read_json(
    FILE *in, documents_sink sink, void *arg, struct documents_error *error);
static int documents_read_yaml(
    FILE *in, documents_sink sink, void *arg, struct documents_error *error);

static void
documents_error(struct documents_error *error, unsigned line, const char *fmt, ...)
{
	va_list ap;

	error->line = line;
	va_start(ap, fmt);
	vsnprintf(error->reason, sizeof error->reason, fmt, ap);
	va_end(ap);
}

/* Returns the document's kind if it is a string, else "". */
static const char *
document_kind(struct json_object *document)
{
	struct json_object *kind;

	if (json_object_object_get_ex(document, "kind", &kind) &&
	    json_object_is_type(kind, json_type_string))
		return json_object_get_string(kind);
	return "";
}

static bool
documents_list_hint(struct json_object *document, char *hint)
{
	const char *kind = document_kind(document);
	size_t len = strlen(kind);

	hint[0] = '\0';
	if (len == 0)
		return true;
	if (len < 4 || strcmp(kind + len - 4, "List") != 0)
		return false;
	if (len - 4 < 64) {
		memcpy(hint, kind, len - 4);
		hint[len - 4] = '\0';
	}
	return true;
}

static bool
documents_empty_list(struct json_object *document)
{
	const char *kind = document_kind(document);
	size_t len = strlen(kind);
	struct json_object *items = NULL;

	json_object_object_get_ex(document, "items", &items);
	return len >= 4 && strcmp(kind + len - 4, "List") == 0 && items == NULL;
}

int
documents_read(FILE *in, enum documents_format format, documents_sink sink, void *arg,
    struct documents_error *error)
{
	*error = (struct documents_error){ 0 };
	return format == DOCUMENTS_JSON ? documents_read_json(in, sink, arg, error)
					: documents_read_yaml(in, sink, arg, error);
}

/* --- JSON, read in pieces of 64 KiB --- */

enum { CHUNK = 65536 };

/* Reads JSON in chunks. json-c's tokener reads the values. The top level (braces, keys and commas
 * of the document and of `items`) is parsed here. No list is thus ever completely in memory. */
struct json {
	FILE *in;
	struct json_tokener *tokener;
	char buf[CHUNK];
	size_t at, len; /* bytes consumed and bytes available, of complete characters */
	size_t rest;    /* bytes after `len`, of an incomplete or invalid character */
	unsigned line;
	size_t weight; /* size of the object being read */
	documents_sink sink;
	void *arg;
	struct documents_error *error;
};

static int
json_fail(struct json *j, const char *reason)
{
	documents_error(j->error, j->line, "%s", reason);
	return -EBADMSG;
}

/* Returns 1 if there is a byte at j->at, 0 at the end of the file, or -errno. */
static int
fill(struct json *j)
{
	if (j->at < j->len)
		return 1;
	errno = 0;
	memmove(j->buf, j->buf + j->len, j->rest);
	size_t got = fread(j->buf + j->rest, 1, sizeof j->buf - j->rest, j->in);
	j->at = 0;
	j->len = utf8_whole(j->buf, j->rest + got);
	j->rest += got - j->len;
	if (j->len > 0)
		return 1;
	if (j->rest > 0 && !ferror(j->in))
		return json_fail(j, json_tokener_error_desc(json_tokener_error_parse_utf8_string));
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

/* Returns the next byte that is not white space, without consuming it. Returns 0 at the end of the
 * file, or -errno. */
static int
peek(struct json *j)
{
	for (;;) {
		int got = fill(j);

		if (got <= 0)
			return got;
		char c = j->buf[j->at];
		if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
			return c != '\0' ? (unsigned char)c : json_fail(j, "a NUL");
		advance(j, 1);
	}
}

/* If the next byte that is not white space is `a` or `b`, consumes and returns it. */
static int
expect(struct json *j, char a, char b)
{
	int c = peek(j);

	if (c < 0)
		return c;
	if (c == 0)
		return json_fail(j, "ends in the middle of an object");
	if (c != a && c != b) {
		documents_error(
		    j->error, j->line, a == b ? "'%c' expected" : "'%c' or '%c' expected", a, b);
		return -EBADMSG;
	}
	j->at++;
	return c;
}

/* Reads one value of any kind. `value` is NULL for null. Caller puts it. */
static int
json_read_value(struct json *j, struct json_object **value)
{
	json_tokener_reset(j->tokener);
	for (;;) {
		int got = fill(j);

		if (got <= 0)
			return got < 0 ? got : json_fail(j, "ends in the middle of a value");
		size_t used;
		/* fill() checks the encoding many bytes at a time. json-c's own check would take a
		 * sixth of the total time. */
		*value = json_strict_parse(j->tokener, 0, j->buf + j->at, j->len - j->at, &used);
		enum json_tokener_error err = json_tokener_get_error(j->tokener);
		advance(j, used);
		j->weight += used;
		if (err != json_tokener_success && err != json_tokener_continue)
			return json_fail(j, json_tokener_error_desc(err));
		if (j->weight > DOCUMENTS_OBJECT_MAX) {
			json_object_put(*value);
			*value = NULL;
			return json_fail(j, "an object is larger than 8 MiB");
		}
		if (err == json_tokener_success)
			return 0;
	}
}

static int
json_read_items(struct json *j, const char *hint)
{
	j->at++; /* [ */
	int c = peek(j);
	if (c == ']') {
		j->at++;
		return 0;
	}
	do {
		struct json_object *item;

		c = peek(j); /* moves j->line to the item */
		if (c < 0)
			return c;
		unsigned line = j->line;
		j->weight = 0;
		int err = json_read_value(j, &item);
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
json_read_key(struct json *j, const struct json_object *document, struct json_object **key)
{
	int c = peek(j);

	if (c <= 0)
		return c < 0 ? c : json_fail(j, "ends in the middle of an object");
	if (c != '"')
		return json_fail(j, "a key expected");
	int err = json_read_value(j, key);
	if (err != 0)
		return err;
	const char *s = json_object_get_string(*key);
	if (strlen(s) != (size_t)json_object_get_string_len(*key))
		err = json_fail(j, "a key holds a NUL");
	else if (json_object_object_get_ex(document, s, NULL))
		err = json_fail(j, "a key is given twice");
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
	int err = json_read_key(j, document, &key);

	if (err != 0)
		return err;
	const char *name = json_object_get_string(key);
	int c = peek(j);
	if (c < 0) {
		err = c;
	} else if (strcmp(name, "items") == 0 && c == '[' && documents_list_hint(document, hint)) {
		*list = true;
		err = json_read_items(j, hint[0] != '\0' ? hint : NULL);
	} else {
		err = json_read_value(j, &value);
	}
	if (err == 0)
		json_object_object_add(document, name, value);
	json_object_put(key);
	return err;
}

static int
json_read_document(struct json *j)
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
	return c > 0 ? 0 : c < 0 ? c : json_fail(j, "ends in the middle of an object");
}

static int
documents_read_json(FILE *in, documents_sink sink, void *arg, struct documents_error *error)
{
	struct json j = { .in = in, .line = 1, .sink = sink, .arg = arg, .error = error };
	int c;

	j.tokener = json_strict_new(DOCUMENTS_DEPTH);
	while ((c = peek(&j)) > 0) {
		c = c == '{' ? json_read_document(&j)
			     : json_fail(&j, "a document is not an object");
		if (c != 0)
			break;
	}
	json_tokener_free(j.tokener);
	return c;
}

/* --- YAML, from libyaml's events --- */

/*
 * Builds json-c values from libyaml's events, recursively, to a depth of at most DOCUMENTS_DEPTH. A
 * function that reads a value is called with the value's first event in y->event. On success it
 * returns 0 and has consumed the value's last event. After any other result, reading stops.
 */
struct yaml {
	yaml_parser_t parser;
	yaml_event_t event; /* the current event */
	size_t weight;      /* size of the object being built */
	unsigned depth;
	documents_sink sink;
	void *arg;
	struct documents_error *error;
};

static int
yaml_fail(struct yaml *y, const char *reason)
{
	documents_error(y->error, (unsigned)y->event.start_mark.line + 1, "%s", reason);
	return -EBADMSG;
}

static int
fail_parser(struct yaml *y)
{
	const yaml_parser_t *p = &y->parser;
	size_t line = p->error == YAML_READER_ERROR ? p->mark.line : p->problem_mark.line;

	if (p->error == YAML_READER_ERROR && errno != 0 && ferror(p->input.file)) {
		int err = errno;

		documents_error(y->error, 0, "%s", strerror(err));
		return -err;
	}
	const char *problem = p->problem != NULL ? p->problem : "not YAML";
	documents_error(y->error, (unsigned)line + 1, "%s%s%s%s", problem,
	    p->context != NULL ? " " : "", p->context != NULL ? p->context : "",
	    strstr(problem, "cannot start any token") != NULL
		? "; is it a tab? YAML is indented by spaces"
		: "");
	return -EBADMSG;
}

/* Frees the event in y->event and reads the next one into it. */
static int
next(struct yaml *y)
{
	yaml_event_delete(&y->event);
	errno = 0;
	if (!yaml_parser_parse(&y->parser, &y->event))
		return fail_parser(y);
	if (y->event.type == YAML_ALIAS_EVENT)
		return yaml_fail(y, "aliases are not accepted");
	return 0;
}

static int
weigh(struct yaml *y, size_t bytes)
{
	y->weight += bytes + 32;
	if (y->weight > DOCUMENTS_OBJECT_MAX)
		return yaml_fail(y, "an object is larger than 8 MiB");
	return 0;
}

static bool
is_any(const char *s, const char *const *words)
{
	for (; *words != NULL; words++) {
		if (strcmp(s, *words) == 0)
			return true;
	}
	return false;
}

/* Whether all of `s` is an integer in Go's syntax: 12, -7, 0x1f, 0o17, 0b11, and 017 as octal. */
static bool
integer(const char *s, int64_t *value)
{
	const char *p = s + (*s == '-' || *s == '+');
	int base = 10;

	if (p[0] == '0' && p[1] != '\0') {
		base = p[1] == 'x' ? 16 : p[1] == 'b' ? 2 : 8;
		p += p[1] == 'x' || p[1] == 'b' || p[1] == 'o' ? 2 : 1;
	}
	if (strspn(p, "0123456789abcdefABCDEF") != strlen(p) || *p == '\0')
		return false;
	char *end;
	errno = 0;
	unsigned long long n = strtoull(p, &end, base);
	if (*end != '\0' || errno != 0 || n > INT64_MAX)
		return false;
	*value = *s == '-' ? -(int64_t)n : (int64_t)n;
	return true;
}

static bool
floating(const char *s, double *value)
{
	/* strtod also accepts "nan", "infinity" and hexadecimal numbers. YAML writes them
	 * differently. */
	if (strspn(s, "+-.0123456789eE") != strlen(s) || strpbrk(s, "0123456789") == NULL)
		return false;
	char *end;
	*value = strtod(s, &end);
	return *end == '\0';
}

static struct json_object *
documents_plain_scalar(const char *s, size_t len)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
	static const char *const trues[] = { "true", "True", "TRUE", "yes", "Yes", "YES", "on",
		"On", "ON", NULL };
	static const char *const falses[] = { "false", "False", "FALSE", "no", "No", "NO", "off",
		"Off", "OFF", NULL };
	int64_t i;
	double d;

	if (len > 64 || strlen(s) != len)
		return json_object_new_string_len(s, (int)len);
	if (is_any(s, nulls))
		return NULL;
	if (is_any(s, trues))
		return json_object_new_boolean(true);
	if (is_any(s, falses))
		return json_object_new_boolean(false);
	if (integer(s, &i))
		return json_object_new_int64(i);
	if (floating(s, &d))
		return json_object_new_double(d);
	return json_object_new_string_len(s, (int)len);
}

static int
read_scalar(struct yaml *y, struct json_object **value)
{
	const char *tag = (const char *)y->event.data.scalar.tag;
	const char *s = (const char *)y->event.data.scalar.value;
	size_t len = y->event.data.scalar.length;
	bool plain = y->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	if (tag != NULL) {
		/* "!" and !!str make any scalar a string. The other core tags agree with the type
		 * of the plain scalar. */
		if (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0)
			plain = false;
		else if (strcmp(tag, YAML_NULL_TAG) != 0 && strcmp(tag, YAML_BOOL_TAG) != 0 &&
			 strcmp(tag, YAML_INT_TAG) != 0 && strcmp(tag, YAML_FLOAT_TAG) != 0)
			return yaml_fail(y, "unknown tag");
	}
	int err = weigh(y, len);
	if (err == 0)
		*value = plain ? documents_plain_scalar(s, len)
			       : json_object_new_string_len(s, (int)len);
	return err;
}

static int yaml_read_value(struct yaml *y, struct json_object **value);

static int
deeper(struct yaml *y)
{
	if (y->depth >= DOCUMENTS_DEPTH)
		return yaml_fail(y, "nested too deep");
	y->depth++;
	return weigh(y, 32);
}

/* Consumes the current value without building it. */
static int
skip_value(struct yaml *y)
{
	unsigned open = 0;

	for (;;) {
		switch (y->event.type) {
		case YAML_MAPPING_START_EVENT:
		case YAML_SEQUENCE_START_EVENT:
			if (++open > 4 * DOCUMENTS_DEPTH)
				return yaml_fail(y, "nested too deep");
			break;
		case YAML_MAPPING_END_EVENT:
		case YAML_SEQUENCE_END_EVENT:
			open--;
			break;
		default:
			break;
		}
		if (open == 0)
			return 0;
		int err = next(y);
		if (err != 0)
			return err;
	}
}

static int
read_sequence(struct yaml *y, struct json_object **value)
{
	int err = deeper(y);

	if (err != 0)
		return err;
	struct json_object *array = json_object_new_array_ext(4);
	while ((err = next(y)) == 0 && y->event.type != YAML_SEQUENCE_END_EVENT) {
		struct json_object *item = NULL;

		err = yaml_read_value(y, &item);
		if (err != 0) {
			json_object_put(item);
			break;
		}
		json_object_array_add(array, item);
	}
	y->depth--;
	*value = array;
	return err;
}

/* Copies the key in y->event to `*key`, and reads the first event of the value. */
static int
yaml_read_key(struct yaml *y, const struct json_object *mapping, char **key)
{
	if (y->event.type != YAML_SCALAR_EVENT)
		return yaml_fail(y, "a key is not a scalar");
	const char *s = (const char *)y->event.data.scalar.value;
	if (strlen(s) != y->event.data.scalar.length)
		return yaml_fail(y, "a key holds a NUL");
	if (json_object_object_get_ex(mapping, s, NULL))
		return yaml_fail(y, "a key is given twice");
	int err = weigh(y, y->event.data.scalar.length);
	if (err != 0)
		return err;
	*key = strdup(s);
	if (*key == NULL)
		return -ENOMEM;
	return next(y);
}

static int
read_mapping(struct yaml *y, struct json_object **value)
{
	int err = deeper(y);

	if (err != 0)
		return err;
	struct json_object *object = *value = json_object_new_object();
	while ((err = next(y)) == 0 && y->event.type != YAML_MAPPING_END_EVENT) {
		char *key = NULL;
		struct json_object *member = NULL;

		err = yaml_read_key(y, object, &key);
		/* managedFields is half of a dump's bytes, and DNS does not need it. */
		if (err == 0)
			err = strcmp(key, "managedFields") == 0 ? skip_value(y)
								: yaml_read_value(y, &member);
		if (err == 0)
			json_object_object_add(object, key, member);
		else
			json_object_put(member);
		free(key);
		if (err != 0)
			break;
	}
	y->depth--;
	return err;
}

/* Builds the value whose first event is in y->event. The caller puts `*value`, which may be set
 * even after an error. */
static int
yaml_read_value(struct yaml *y, struct json_object **value)
{
	switch (y->event.type) {
	case YAML_SCALAR_EVENT:
		return read_scalar(y, value);
	case YAML_SEQUENCE_START_EVENT:
		return read_sequence(y, value);
	case YAML_MAPPING_START_EVENT:
		return read_mapping(y, value);
	default:
		return yaml_fail(y, "unexpected end");
	}
}

/* Passes the items of a list to the sink, one by one. */
static int
yaml_read_items(struct yaml *y, const char *hint)
{
	int err;

	while ((err = next(y)) == 0 && y->event.type != YAML_SEQUENCE_END_EVENT) {
		unsigned line = (unsigned)y->event.start_mark.line + 1;
		struct json_object *item = NULL;

		y->weight = 0;
		y->depth = 0;
		err = yaml_read_value(y, &item);
		if (err == 0)
			y->sink(y->arg, item, hint, line);
		json_object_put(item);
		if (err != 0)
			break;
	}
	return err;
}

/* Reads a document's mapping. Passes an object to the sink at its end, and each item of a list at
 * the item's end. */
static int
read_top(struct yaml *y)
{
	unsigned line = (unsigned)y->event.start_mark.line + 1;
	struct json_object *object = json_object_new_object();
	bool list = false;
	int err;

	y->weight = 0;
	y->depth = 1;
	while ((err = next(y)) == 0 && y->event.type != YAML_MAPPING_END_EVENT) {
		char *key = NULL;
		struct json_object *member = NULL;

		err = yaml_read_key(y, object, &key);
		if (err == 0) {
			char hint[64];

			if (strcmp(key, "items") == 0 &&
			    y->event.type == YAML_SEQUENCE_START_EVENT &&
			    documents_list_hint(object, hint)) {
				list = true;
				err = yaml_read_items(y, hint[0] != '\0' ? hint : NULL);
				y->weight = 0;
				y->depth = 1;
			} else {
				err = yaml_read_value(y, &member);
			}
		}
		if (err == 0)
			json_object_object_add(object, key, member);
		else
			json_object_put(member);
		free(key);
		if (err != 0)
			break;
	}
	if (err == 0 && !list && !documents_empty_list(object))
		y->sink(y->arg, object, NULL, line);
	json_object_put(object);
	return err;
}

static int
yaml_read_document(struct yaml *y)
{
	int err = next(y);

	if (err != 0)
		return err;
	if (y->event.type == YAML_MAPPING_START_EVENT)
		err = read_top(y);
	else if (y->event.type != YAML_SCALAR_EVENT || y->event.data.scalar.length > 0)
		return yaml_fail(y, "a document is not an object");
	if (err == 0)
		err = next(y); /* the document's end */
	return err;
}

static int
documents_read_yaml(FILE *in, documents_sink sink, void *arg, struct documents_error *error)
{
	struct yaml y = { .sink = sink, .arg = arg, .error = error };
	int err;

	if (!yaml_parser_initialize(&y.parser))
		return -ENOMEM;
	yaml_parser_set_input_file(&y.parser, in);
	yaml_parser_set_encoding(&y.parser, YAML_UTF8_ENCODING);
	while ((err = next(&y)) == 0 && y.event.type != YAML_STREAM_END_EVENT) {
		if (y.event.type == YAML_DOCUMENT_START_EVENT)
			err = yaml_read_document(&y);
		if (err != 0)
			break;
	}
	yaml_event_delete(&y.event);
	yaml_parser_delete(&y.parser);
	return err;
}
