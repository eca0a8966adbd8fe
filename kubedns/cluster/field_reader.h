/*
 * Reads fields of JSON objects, by the lists of object_fields.h. The reader notes the reason for
 * the first invalid field. The text of that complaint is valid until the next object is read.
 */
#ifndef KUBEDNS_CLUSTER_FIELD_READER_H
#define KUBEDNS_CLUSTER_FIELD_READER_H

#include <json-c/json.h>

#include "kubedns/cluster/object.h"
#include "kubedns/cluster/object_fields.h"

/* The state while one object is read, with the first complaint. */
struct reader {
	const char *why;
	bool cut; /* the object exceeds a limit */
};

struct field {
	const char *name;
	struct json_object **value;
};

/* Notes a complaint, unless there already is one. */
void field_complain(struct reader *r, const char *why);

/* Notes a complaint that shows the first bytes of the value: `what "VALUE" why`. */
void field_complain_value(struct reader *r, const char *what, const char *value, const char *why);

/* Finds each wanted member of `json`. The value is NULL if the member is missing or null, or if
 * `json` is not an object. */
void fields_find(struct json_object *json, const struct field *wanted, size_t count);

/* Declares the variables of a list of object_fields.h, initialised to NULL. */
#define FIELD_DECLARE(key, variable, inside) struct json_object *variable = NULL;
#define FIELDS_DECLARE(LIST)                 LIST(FIELD_DECLARE)

/* Reads the variables of a list from `json`. */
#define FIELD_WANTED(key, variable, inside) { key, &(variable) },
#define FIELDS_READ(json, LIST)                                                                    \
	fields_find(json, (const struct field[]){ LIST(FIELD_WANTED) },                            \
	    sizeof((const struct field[]){ LIST(FIELD_WANTED) }) / sizeof(struct field))

/* Returns a string value that contains no NUL. Returns NULL for anything else, with a complaint
 * unless the value is missing. */
const char *field_text(struct reader *r, struct json_object *json, const char *why);

/* Like field_text(), but returns `deflt` instead of NULL. */
const char *field_text_or(
    struct reader *r, struct json_object *json, const char *deflt, const char *why);

bool field_bool_or(struct reader *r, struct json_object *json, bool deflt, const char *why);

/* Returns `count`, limited to `max`. Complains if it exceeds the limit. */
size_t field_bound(struct reader *r, size_t count, size_t max, const char *why);

/* Returns the number of items in an array. Returns 0 for anything else, with a complaint unless the
 * value is missing. */
size_t field_items(struct reader *r, struct json_object *json, const char *why);

bool field_is_label(const char *s);

/* Returns the string if it is a valid DNS label. Otherwise returns NULL, with a complaint unless
 * the value is missing or empty. */
const char *field_label(struct reader *r, struct json_object *json, const char *why);

/* Reads the ports of a Service, a slice or a subset. The caller frees the array; NULL if there are none. */
struct object_port *object_read_ports(struct reader *r, struct json_object *json, size_t *count);

/* Converts an RFC 3339 date and time to Unix time in nanoseconds. Returns 0 if `s` is invalid. */
int64_t object_rfc3339_ns(const char *s);

#endif
