/*
 * Reads the nanny's /config, a JSON object. The nanny may have another version, so members are looked up by name and type. A member of
 * another type counts as missing. Returned strings belong to the object.
 */
#ifndef SIDECAR_CONTAINERS_NANNY_CONFIG_H
#define SIDECAR_CONTAINERS_NANNY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

/* Returns the member `key` of `object` if the member has this type. Returns NULL for a member of another type, and if `object` is not a
 * JSON object. */
struct json_object *config_member(struct json_object *object, const char *key, enum json_type type);

/* Returns the string `key` of `object`, or "" if it is missing. */
const char *config_string(struct json_object *object, const char *key);

/* Returns the number `key` of `object` if it is from 0 to 1e15, else 0. */
double config_number(struct json_object *object, const char *key);

/* Returns the `i`th item of array `key`. Returns NULL after the last item, or if the item has another type. */
struct json_object *config_item(
    struct json_object *object, const char *key, size_t i, enum json_type type);
size_t config_count(struct json_object *object, const char *key);

/* A refused key of the ConfigMap. */
struct config_refusal {
	const char *key, *reason;
	bool had_good; /* the last good value stays in force */
	bool partly;   /* only some entries of the key are refused; the others are in force */
	bool closed;   /* names of the key get SERVFAIL, because there is no earlier good value */
};

/* Fills in the `i`th refusal. Returns false after the last refusal. */
bool config_refusal_get(struct json_object *config, size_t i, struct config_refusal *refusal);

/* Whether a refused key is closed. */
bool config_closed(struct json_object *config);

/* Returns "dnsmasq" or "unbound": the engine that the nanny runs. Returns "dnsmasq" if the nanny does not report its engine. */
const char *config_engine(struct json_object *config);

/* Whether dnsmasq uses the newest configuration. Returns true if the nanny does not report this. */
bool config_confirmed(struct json_object *config);

/* Returns the first stub server that is given by name and has no known address, or NULL if there is none. Sets `why` to the resolver's
 * reason. */
const char *config_unresolved(struct json_object *config, const char **why);

#endif
