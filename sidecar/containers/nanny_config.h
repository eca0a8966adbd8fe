/*
 * Reads the nanny's /config: a JSON object that may be of a newer version than ours, so members are
 * looked up by name and type, and one that is missing or of another type is left out. Strings
 * belong to the object.
 */
#ifndef SIDECAR_CONTAINERS_NANNY_CONFIG_H
#define SIDECAR_CONTAINERS_NANNY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

/* The member `key` of `object` if that is an object and the member of this type, else NULL. */
struct json_object *config_member(struct json_object *object, const char *key, enum json_type type);

/* The same for a string, "" when there is none. */
const char *config_string(struct json_object *object, const char *key);

/* The same for a number from 0 to 1e15, 0 when there is none. */
double config_number(struct json_object *object, const char *key);

/* The `i`th item of array `key` as an object or string of this type, NULL past the last (an item of
 * another type is NULL too). */
struct json_object *config_item(
    struct json_object *object, const char *key, size_t i, enum json_type type);
size_t config_count(struct json_object *object, const char *key);

/* A key of the ConfigMap that was refused. */
struct config_refusal {
	const char *key, *reason;
	bool had_good; /* the last good value is in force; else there is none */
};

/* The `i`th refusal; false past the last. */
bool config_refusal_get(struct json_object *config, size_t i, struct config_refusal *refusal);

/* Whether dnsmasq has the newest configuration; true when the nanny does not say. */
bool config_confirmed(struct json_object *config);

/* The `i`th stub server given by name for which no address is known; NULL past the last. `why` is
 * the resolver's reason. */
const char *config_unresolved(struct json_object *config, size_t i, const char **why);

#endif
