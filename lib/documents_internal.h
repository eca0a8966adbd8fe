/* Shared by documents.c (what both formats need), documents_json.c and documents_yaml.c. */
#ifndef LIB_DOCUMENTS_INTERNAL_H
#define LIB_DOCUMENTS_INTERNAL_H

#include "lib/documents.h"

/* Fills `error`, whose text is cut if it must be. */
void documents_error(struct documents_error *error, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Whether the document whose members were read so far may be a list: its kind ends in List, or is
 * not known yet. `hint` of 64 bytes gets the kind of its items, "" when that is not known.
 */
bool documents_list_hint(struct json_object *document, char *hint);

/* Whether the document is a list whose `items` is null or missing: there is nothing to hand on. */
bool documents_empty_list(struct json_object *document);

/* What YAML 1.1 makes of a plain scalar (NULL: null). */
struct json_object *documents_plain_scalar(const char *s, size_t len);

int documents_read_json(FILE *in, documents_sink sink, void *arg, struct documents_error *error);
int documents_read_yaml(FILE *in, documents_sink sink, void *arg, struct documents_error *error);

#endif
