/*
 * A response of the API server, from its bytes to pruned objects. The first byte selects the form
 * of the response, and the second byte the size of the pieces. The result must not depend on the
 * pieces. If json-c accepts an object before pruning, it must also accept the pruned object.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/api/framer.h"
#include "kubedns/api/json_prune.h"
#include "lib/json_strict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	enum framer_form form;
	uint64_t digest; /* digest of all objects that were passed on */
	int error;
};

static void
mix(struct outcome *o, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		o->digest = (o->digest ^ (uint8_t)bytes[i]) * 0x100000001b3;
	o->digest = (o->digest ^ 0x100) * 0x100000001b3;
}

static bool
is_json(const char *bytes, size_t len)
{
	struct json_tokener *tokener = json_strict_new(64);
	size_t end;
	struct json_object *json =
	    json_strict_parse(tokener, JSON_TOKENER_VALIDATE_UTF8, bytes, len, &end);
	bool good = json != NULL && end == len;

	json_object_put(json);
	json_tokener_free(tokener);
	return good;
}

static int
on_item(void *arg, const char *bytes, size_t len)
{
	struct outcome *o = arg;
	struct json_prune_event event;
	char *in = malloc(len), *out = malloc(len); /* exact size, so that overruns are detected */

	memcpy(in, bytes, len);
	mix(o, bytes, len);
	size_t n = json_prune_object(json_prune_service, in, len, out);
	if (n > len || (n && is_json(in, len) && !is_json(out, n)))
		abort();
	if (o->form == FRAMER_EVENTS &&
	    json_prune_event(json_prune_slice, in, len, out, &event) == 0 && event.object_len > len)
		abort();
	free(in);
	free(out);
	return 0;
}

static int
on_head(void *arg, const char *key, const char *bytes, size_t len)
{
	mix(arg, key, strlen(key));
	mix(arg, bytes, len);
	return 0;
}

static struct outcome
frame(enum framer_form form, const uint8_t *data, size_t size, size_t piece)
{
	struct outcome o = { .form = form };
	const struct framer_sink sink = { .item = on_item, .head = on_head, .arg = &o };
	struct framer f;

	framer_init(&f, form, 1 << 16, &sink);
	for (size_t at = 0; at < size && !o.error; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		char *copy = malloc(n);

		memcpy(copy, data + at, n);
		o.error = framer_feed(&f, copy, n);
		free(copy);
	}
	if (!o.error)
		o.error = framer_end(&f);
	if (o.error && f.why == NULL)
		abort();
	framer_clear(&f);
	return o;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	enum framer_form form = data[0] & 1 ? FRAMER_EVENTS : FRAMER_LIST;
	struct outcome whole = frame(form, data + 2, size - 2, size);
	struct outcome pieces = frame(form, data + 2, size - 2, (size_t)data[1] + 1);
	if (whole.digest != pieces.digest || whole.error != pieces.error)
		abort();
	return 0;
}
