#include "sidecar/containers/nanny_config.h"

#include <string.h>

struct json_object *
config_member(struct json_object *object, const char *key, enum json_type type)
{
	struct json_object *member;

	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &member) || !json_object_is_type(member, type))
		return NULL;
	return member;
}

const char *
config_string(struct json_object *object, const char *key)
{
	struct json_object *member = config_member(object, key, json_type_string);

	return member != NULL ? json_object_get_string(member) : "";
}

double
config_number(struct json_object *object, const char *key)
{
	struct json_object *member;

	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &member) ||
	    !(json_object_is_type(member, json_type_int) ||
		json_object_is_type(member, json_type_double)))
		return 0;
	double value = json_object_get_double(member);
	return value >= 0 && value <= 1e15 ? value : 0;
}

size_t
config_count(struct json_object *object, const char *key)
{
	struct json_object *array = config_member(object, key, json_type_array);

	return array != NULL ? json_object_array_length(array) : 0;
}

struct json_object *
config_item(struct json_object *object, const char *key, size_t i, enum json_type type)
{
	if (i >= config_count(object, key))
		return NULL;
	struct json_object *item =
	    json_object_array_get_idx(config_member(object, key, json_type_array), i);
	return json_object_is_type(item, type) ? item : NULL;
}

bool
config_refusal_get(struct json_object *config, size_t i, struct config_refusal *refusal)
{
	struct json_object *item = config_item(config, "refused", i, json_type_object);

	if (item == NULL)
		return false;
	refusal->key = config_string(item, "key");
	refusal->reason = config_string(item, "reason");
	struct json_object *had = config_member(item, "previousInForce", json_type_boolean);
	refusal->had_good = had == NULL || json_object_get_boolean(had);
	refusal->partly = json_object_get_boolean(config_member(item, "partly", json_type_boolean));
	refusal->closed = json_object_get_boolean(config_member(item, "closed", json_type_boolean));
	return true;
}

const char *
config_engine(struct json_object *config)
{
	struct json_object *child = config_member(config, "dnsmasq", json_type_object);

	return strcmp(config_string(child, "engine"), "unbound") == 0 ? "unbound" : "dnsmasq";
}

bool
config_closed(struct json_object *config)
{
	struct config_refusal refusal;

	for (size_t i = 0; config_refusal_get(config, i, &refusal); i++)
		if (refusal.closed)
			return true;
	return false;
}

bool
config_confirmed(struct json_object *config)
{
	struct json_object *confirmed = config_member(config, "confirmed", json_type_boolean);

	return confirmed == NULL || json_object_get_boolean(confirmed);
}

static const char *
resolver_error(struct json_object *name)
{
	const char *error = config_string(config_member(name, "A", json_type_object), "error");

	return error[0] != '\0'
		   ? error
		   : config_string(config_member(name, "AAAA", json_type_object), "error");
}

const char *
config_unresolved(struct json_object *config, const char **why)
{
	for (size_t i = 0; i < config_count(config, "names"); i++) {
		struct json_object *name = config_item(config, "names", i, json_type_object);

		if (name == NULL || config_count(name, "addresses") > 0)
			continue;
		*why = resolver_error(name);
		if ((*why)[0] != '\0') /* a lookup without an answer yet is not an error */
			return config_string(name, "name");
	}
	return NULL;
}
