/*
 * Reads fields of JSON objects, by the lists of object_fields.h. The first field that is not valid is noted in the
 * reader, with the reason. The text of a complaint is good until the next object is read.
 */
#ifndef KUBEDNS_CLUSTER_OBJECT_READER_H
#define KUBEDNS_CLUSTER_OBJECT_READER_H

#include <json-c/json.h>

#include "kubedns/cluster/object.h"
#include "kubedns/cluster/object_fields.h"

/* What one object's reading found: the first complaint. */
struct reader {
	const char *why;
	bool cut; /* there was more than a bound allows */
};

struct field {
	const char *name;
	struct json_object **value;
};

/* Notes a complaint, unless there is one. */
void field_complain(struct reader *r, const char *why);

/* The same with the value, of which the first bytes are shown: `what "VALUE" why`. */
void field_complain_value(struct reader *r, const char *what, const char *value, const char *why);

/* Each wanted member of `json`; NULL where it is missing or null, or `json` is no object. */
void fields_find(struct json_object *json, const struct field *wanted, size_t count);

/* Declares the variables of a list of object_fields.h, each NULL. */
#define FIELD_DECLARE(key, variable, inside) struct json_object *variable = NULL;
#define FIELDS_DECLARE(LIST)                 LIST(FIELD_DECLARE)

/* Reads them from `json`. */
#define FIELD_WANTED(key, variable, inside) { key, &(variable) },
#define FIELDS_READ(json, LIST)                                                                    \
	fields_find(json, (const struct field[]){ LIST(FIELD_WANTED) },                            \
	    sizeof((const struct field[]){ LIST(FIELD_WANTED) }) / sizeof(struct field))

/* The text of a string without NULs inside; NULL for anything else, with a complaint unless it is
 * missing. */
const char *field_text(struct reader *r, struct json_object *json, const char *why);

/* The same with a default for what is missing or no such string. */
const char *field_text_or(
    struct reader *r, struct json_object *json, const char *deflt, const char *why);

bool field_bool_or(struct reader *r, struct json_object *json, bool deflt, const char *why);

/* `count`, or what a bound allows of it, with a complaint. */
size_t field_bound(struct reader *r, size_t count, size_t max, const char *why);

/* Items of an array; 0 for anything else, with a complaint unless it is missing. */
size_t field_items(struct reader *r, struct json_object *json, const char *why);

bool field_is_label(const char *s);

/* The string if it can be a label of a name, else NULL with a complaint unless it is missing or
 * empty. */
const char *field_label(struct reader *r, struct json_object *json, const char *why);

/* Ports of a Service, a slice or a subset; the caller owns the array, NULL when there are none. */
struct object_port *object_read_ports(struct reader *r, struct json_object *json, size_t *count);

/* RFC 3339 date and time as Unix nanoseconds; 0 for what is not one. */
int64_t object_rfc3339_ns(const char *s);

#endif
