#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/documents.h"
#include "lib/documents_internal.h"

void
documents_error(struct documents_error *error, unsigned line, const char *fmt, ...)
{
	va_list ap;

	error->line = line;
	va_start(ap, fmt);
	vsnprintf(error->reason, sizeof(error->reason), fmt, ap);
	va_end(ap);
}

/* The document's kind if it is a string, else "". */
static const char *
document_kind(struct json_object *document)
{
	struct json_object *kind;

	if (json_object_object_get_ex(document, "kind", &kind) &&
	    json_object_is_type(kind, json_type_string))
		return json_object_get_string(kind);
	return "";
}

bool
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

bool
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
