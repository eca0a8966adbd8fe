/*
 * The whole ConfigMap. kubedns reads it from the API (json_prune, json-c, object), and both kubedns
 * and the nanny check its keys. The input is the JSON of the object. Each key must be valid, or
 * have an error text of limited length.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "kubedns/api/json_prune.h"
#include "kubedns/cluster/object.h"
#include "lib/conf.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REASON_MAX = 400 };

static void
check(int rc, char *why)
{
	if (rc < 0 && (why == NULL || strlen(why) > REASON_MAX || strchr(why, '\n') != NULL))
		abort();
	free(why);
}

static void
judge(const struct object_key_value *entry)
{
	struct conf_stubs stubs;
	struct conf_upstreams upstreams;
	struct conf_federations federations;
	struct conf_hosts hosts;
	struct conf_records records;
	struct conf_rewrites rewrites;
	char *why;
	int rc = conf_stubs_parse(entry->value, entry->len, "cluster.local.", &stubs, &why);

	check(rc, why);
	conf_stubs_free(&stubs);
	rc = conf_upstreams_parse(entry->value, entry->len, &upstreams, &why);
	check(rc, why);
	rc = conf_federations_parse(entry->value, entry->len, &federations, &why);
	check(rc, why);
	rc = conf_hosts_parse(entry->value, entry->len, &hosts, &why);
	check(rc, why);
	conf_hosts_free(&hosts);
	rc = conf_records_parse(entry->value, entry->len, "cluster.local.", &records, &why);
	check(rc, why);
	conf_records_free(&records);
	rc = conf_rewrites_parse(entry->value, entry->len, &rewrites, &why);
	check(rc, why);
	conf_rewrites_free(&rewrites);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct object object;
	const char *why = NULL;
	char *pruned = malloc(size + 1);

	if (pruned == NULL)
		abort();
	size_t len = json_prune_object(json_prune_configmap, (const char *)data, size, pruned);
	struct json_tokener *tokener = json_tokener_new_ex(64);
	struct json_object *json = len ? json_tokener_parse_ex(tokener, pruned, (int)len) : NULL;
	if (json_object_is_type(json, json_type_object) &&
	    object_extract(json, "ConfigMap", &object, &why) == 0) {
		for (size_t i = 0; object.kind == OBJECT_CONFIGMAP && i < object.data_count; i++)
			judge(&object.data[i]);
		object_clear(&object);
	}
	json_object_put(json);
	json_tokener_free(tokener);
	free(pruned);
	return 0;
}
