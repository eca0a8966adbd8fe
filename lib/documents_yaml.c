/* YAML as a stream of json-c values, from libyaml's events. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <yaml.h>

#include "lib/documents.h"
#include "lib/documents_internal.h"

/*
 * Makes json-c values of libyaml's events, by recursion that DOCUMENTS_DEPTH bounds. A function
 * that reads a value is called with the value's first event in y->event, and has consumed its last
 * one when it returns 0; after any other result the stream is not read further.
 */
struct yaml {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one */
	size_t weight;      /* of the object being built */
	unsigned depth;
	documents_sink sink;
	void *arg;
	struct documents_error *error;
};

static int
fail(struct yaml *y, const char *reason)
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
		return fail(y, "aliases are not accepted");
	return 0;
}

static int
weigh(struct yaml *y, size_t bytes)
{
	y->weight += bytes + 32;
	if (y->weight > DOCUMENTS_OBJECT_MAX)
		return fail(y, "an object is larger than 8 MiB");
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

/* Whether the whole of `s` is an integer as Go spells it: 12, -7, 0x1f, 0o17, 0b11, and 017 as
 * octal. */
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
	/* strtod also reads "nan", "infinity" and hexadecimal, which YAML spells otherwise. */
	if (strspn(s, "+-.0123456789eE") != strlen(s) || strpbrk(s, "0123456789") == NULL)
		return false;
	char *end;
	*value = strtod(s, &end);
	return *end == '\0';
}

struct json_object *
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
		/* "!" and !!str make a string of anything; the other core tags say what a plain
		 * scalar is anyway. */
		if (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0)
			plain = false;
		else if (strcmp(tag, YAML_NULL_TAG) != 0 && strcmp(tag, YAML_BOOL_TAG) != 0 &&
			 strcmp(tag, YAML_INT_TAG) != 0 && strcmp(tag, YAML_FLOAT_TAG) != 0)
			return fail(y, "unknown tag");
	}
	int err = weigh(y, len);
	if (err == 0)
		*value = plain ? documents_plain_scalar(s, len)
			       : json_object_new_string_len(s, (int)len);
	return err;
}

static int read_value(struct yaml *y, struct json_object **value);

static int
deeper(struct yaml *y)
{
	if (y->depth >= DOCUMENTS_DEPTH)
		return fail(y, "nested too deep");
	y->depth++;
	return weigh(y, 32);
}

/* Consumes the started value without building it. */
static int
skip_value(struct yaml *y)
{
	unsigned open = 0;

	for (;;) {
		switch (y->event.type) {
		case YAML_MAPPING_START_EVENT:
		case YAML_SEQUENCE_START_EVENT:
			if (++open > 4 * DOCUMENTS_DEPTH)
				return fail(y, "nested too deep");
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
		err = read_value(y, &item);
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

/* Copies the key in y->event to `*key`, and reads the first event of its value. */
static int
read_key(struct yaml *y, const struct json_object *mapping, char **key)
{
	if (y->event.type != YAML_SCALAR_EVENT)
		return fail(y, "a key is not a scalar");
	const char *s = (const char *)y->event.data.scalar.value;
	if (strlen(s) != y->event.data.scalar.length)
		return fail(y, "a key holds a NUL");
	if (json_object_object_get_ex(mapping, s, NULL))
		return fail(y, "a key comes twice");
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
		err = read_key(y, object, &key);
		/* Half of a dump's bytes, and nothing that DNS needs. */
		if (err == 0)
			err = strcmp(key, "managedFields") == 0 ? skip_value(y)
								: read_value(y, &member);
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

/* Builds the value whose first event is in y->event; the caller puts `*value`, which may be there
 * even after an error. */
static int
read_value(struct yaml *y, struct json_object **value)
{
	switch (y->event.type) {
	case YAML_SCALAR_EVENT:
		return read_scalar(y, value);
	case YAML_SEQUENCE_START_EVENT:
		return read_sequence(y, value);
	case YAML_MAPPING_START_EVENT:
		return read_mapping(y, value);
	default:
		return fail(y, "unexpected end");
	}
}

/* The items of a list, handed on one by one. */
static int
read_items(struct yaml *y, const char *hint)
{
	int err;

	while ((err = next(y)) == 0 && y->event.type != YAML_SEQUENCE_END_EVENT) {
		unsigned line = (unsigned)y->event.start_mark.line + 1;
		struct json_object *item = NULL;
		y->weight = 0;
		y->depth = 0;
		err = read_value(y, &item);
		if (err == 0)
			y->sink(y->arg, item, hint, line);
		json_object_put(item);
		if (err != 0)
			break;
	}
	return err;
}

/* A document's mapping: an object, handed on at its end, or a list, whose items are handed on as
 * they end. */
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
		err = read_key(y, object, &key);
		if (err == 0) {
			char hint[64];
			if (strcmp(key, "items") == 0 &&
			    y->event.type == YAML_SEQUENCE_START_EVENT &&
			    documents_list_hint(object, hint)) {
				list = true;
				err = read_items(y, hint[0] != '\0' ? hint : NULL);
				y->weight = 0;
				y->depth = 1;
			} else {
				err = read_value(y, &member);
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
read_document(struct yaml *y)
{
	int err = next(y);

	if (err != 0)
		return err;
	if (y->event.type == YAML_MAPPING_START_EVENT)
		err = read_top(y);
	else if (y->event.type != YAML_SCALAR_EVENT || y->event.data.scalar.length > 0)
		return fail(y, "a document is not an object");
	if (err == 0)
		err = next(y); /* the document's end */
	return err;
}

int
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
			err = read_document(&y);
		if (err != 0)
			break;
	}
	yaml_event_delete(&y.event);
	yaml_parser_delete(&y.parser);
	return err;
}
