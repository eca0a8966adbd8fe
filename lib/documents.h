/*
 * Reads a file of Kubernetes manifests as a stream of json-c values, one object at a time.
 *
 *	---              a document that is an object: passed to the sink at its end
 *	kind: Service
 *	---              a document with `items` (kind: List, ServiceList): each item is passed on
 *	items:           at its end, so a dump of 25,000 objects needs the memory of its largest
 *	- kind: Service  item; `kind` may follow `items`, as kubectl prints it
 *
 * YAML is read as kubectl reads it: quoted scalars are strings; plain null, true, yes, on, 0x1f and
 * 010 have their YAML 1.1 meaning. The reader refuses, with the line number: aliases (a few lines
 * with aliases can expand to gigabytes), unknown tags, keys that are not scalars, duplicate keys,
 * nesting deeper than DOCUMENTS_DEPTH, and objects larger than DOCUMENTS_OBJECT_MAX.
 */
#ifndef LIB_DOCUMENTS_H
#define LIB_DOCUMENTS_H

#include <stdbool.h>
#include <stdio.h>

struct json_object;

enum {
	DOCUMENTS_DEPTH = 64,
	DOCUMENTS_OBJECT_MAX = 8 << 20, /* size of an object: in JSON, its bytes; in YAML, the bytes
					 * of its scalars plus 32 per value */
};

enum documents_format { DOCUMENTS_YAML, DOCUMENTS_JSON };

struct documents_error {
	unsigned line; /* 0: the error concerns the whole file */
	char reason[200];
};

/* Receives one object, which is borrowed for the call. If the object is an item of a list,
 * `kind_hint` is the kind of the list's items; NULL: unknown. `line` is where the object begins. */
typedef void (*documents_sink)(
    void *arg, struct json_object *json, const char *kind_hint, unsigned line);

/*
 * Reads `in` to its end and returns 0. If the file is malformed, returns -EBADMSG and fills
 * `error`; `sink` has received the objects before the error. If the file cannot be read, returns
 * -errno and fills `error`.
 */
int documents_read(FILE *in, enum documents_format format, documents_sink sink, void *arg,
    struct documents_error *error);

#endif
