/*
 * One file of Kubernetes manifests as a stream of json-c values, one object at a time.
 *
 *	---              a document that is an object: handed on at its end
 *	kind: Service
 *	---              a document with `items` (kind: List, ServiceList): each item handed on
 *	items:           as it ends, so that a dump of 25,000 objects costs the memory of its
 *	- kind: Service  largest one; `kind` may come after `items`, as kubectl prints it
 *
 * YAML is read as kubectl reads it: what is quoted is a string; plain null, true, yes, on, 0x1f and
 * 010 are what YAML 1.1 makes of them. Refused, with their line: aliases (a few lines of them can
 * stand for gigabytes), unknown tags, keys that are no scalars, a key that comes twice, nesting
 * deeper than DOCUMENTS_DEPTH, objects larger than DOCUMENTS_OBJECT_MAX.
 */
#ifndef LIB_DOCUMENTS_H
#define LIB_DOCUMENTS_H

#include <stdbool.h>
#include <stdio.h>

struct json_object;

enum {
	DOCUMENTS_DEPTH = 64,
	DOCUMENTS_OBJECT_MAX = 8 << 20, /* weight of an object: its bytes in JSON;
					* in YAML the bytes of its scalars and 32 a value */
};

enum documents_format { DOCUMENTS_YAML, DOCUMENTS_JSON };

struct documents_error {
	unsigned line; /* 0: of the file as a whole */
	char reason[200];
};

/*
 * One object: borrowed for the call. `kind_hint` is the kind of its list's items (NULL: not known),
 * `line` where it begins.
 */
typedef void (*documents_sink)(
    void *arg, struct json_object *json, const char *kind_hint, unsigned line);

/*
 * Reads `in` to its end. 0, or -EBADMSG with `error` filled when the file is broken from some line
 * on (objects before it have been handed on), or -errno with `error` when it cannot be read.
 */
int documents_read(FILE *in, enum documents_format format, documents_sink sink, void *arg,
    struct documents_error *error);

#endif
