/* A file of manifests, as YAML and as JSON, up to the objects that the store would get. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/documents.h"
#include "kubedns/manifests/manifests_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct manifests_index index_of_none;

static void
on_object(void *arg, struct json_object *json, const char *hint, unsigned line)
{
	struct object object;
	const char *why;
	uint64_t *sum = arg;

	if (line == 0)
		abort();
	if (object_extract(json, hint, &object, &why) != 0) {
		return;
	}
	if (object.name == NULL || object.namespace == NULL)
		abort();
	*sum += manifest_digest(&index_of_none, &object);
	object_clear(&object);
}

static void
read_as(enum documents_format format, const uint8_t *data, size_t size)
{
	struct documents_error error;
	uint64_t sum = 0;
	char *copy = malloc(size);

	if (copy == NULL)
		abort();
	memcpy(copy, data, size);
	FILE *in = fmemopen(copy, size, "r");
	if (in == NULL)
		abort();
	if (documents_read(in, format, on_object, &sum, &error) != 0 && error.reason[0] == '\0')
		abort(); /* the author of the file must get a reason */
	fclose(in);
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0) {
		read_as(DOCUMENTS_YAML, data, size);
		read_as(DOCUMENTS_JSON, data, size);
	}
	return 0;
}
