/*
 * The ConfigMap key federations. The parser must return a value or a reason. An accepted value has
 * only names that a zone can contain. An accepted value must be the same after it is written and
 * parsed again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/xalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *
written(const struct conf_federations *federations)
{
	char *text = xstrdup("");

	for (size_t i = 0; i < federations->count; i++) {
		const struct conf_federation *f = &federations->items[i];
		char *more = xasprintf("%s%s%s=%s", text, i ? "," : "", f->name, f->domain);

		free(text);
		text = more;
	}
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_federations federations, again;
	char *why;

	if (conf_federations_parse((const char *)data, size, &federations, &why) < 0) {
		if (why == NULL || federations.count || strlen(why) > 400)
			abort();
		free(why);
		return 0;
	}
	for (size_t i = 0; i < federations.count; i++) {
		char name[CONF_HOST_MAX];
		const char *reason;

		if (strchr(federations.items[i].name, '.') != NULL ||
		    conf_name_parse(federations.items[i].name, name, &reason) < 0 ||
		    conf_name_parse(federations.items[i].domain, name, &reason) < 0)
			abort();
	}
	char *text = written(&federations);
	if (*text && (conf_federations_parse(text, strlen(text), &again, &why) < 0 ||
			 memcmp(&again, &federations, sizeof again) != 0))
		abort();
	free(text);
	return 0;
}
