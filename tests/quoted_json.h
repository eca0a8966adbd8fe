/* Objects in the text of tests: JSON with ' in place of ". */
#ifndef TESTS_QUOTED_JSON_H
#define TESTS_QUOTED_JSON_H

#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

/* The value; NULL: it is no JSON. Caller releases it with json_object_put. */
static inline struct json_object *
quoted_json(const char *text)
{
	char *copy = strdup(text);

	for (char *quote = copy; (quote = strchr(quote, '\'')) != NULL;)
		*quote = '"';
	struct json_object *json = json_tokener_parse(copy);
	free(copy);
	return json;
}

#endif
