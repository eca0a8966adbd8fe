/* A cluster set that tests fill with objects and query. Objects are written as JSON with ' in place
 * of ". */
#ifndef TESTS_UNIT_CLUSTERSET_FIXTURE_H
#define TESTS_UNIT_CLUSTERSET_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <json-c/json.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/clusterset/clusterset.h"
#include "tests/unit/answer_bed.h"
#include "tests/quoted_json.h"

#define IMPORT_IN(NS, NAME, TYPE, IPS, PORTS)                                                      \
	"{'kind':'ServiceImport','apiVersion':'multicluster.x-k8s.io/v1alpha1','metadata':{"       \
	"'namespace':'" NS "','name':'" NAME "'},'spec':{'type':'" TYPE "','ips':[" IPS "],"       \
	"'ports':[" PORTS "]}}"
#define IMPORT(NAME, TYPE, IPS, PORTS) IMPORT_IN("test", NAME, TYPE, IPS, PORTS)
#define PORT(NAME, PROTO, NUMBER)      "{'name':'" NAME "','protocol':'" PROTO "','port':" NUMBER "}"
#define HTTPS                          PORT("https", "TCP", "443")
#define SLICE(NAME, LABELS, TYPE, ENDPOINTS, PORTS)                                                \
	"{'kind':'EndpointSlice','apiVersion':'discovery.k8s.io/v1','metadata':{"                  \
	"'namespace':'test','name':'" NAME "','labels':{" LABELS "}},'addressType':'" TYPE "',"    \
	"'endpoints':[" ENDPOINTS "],'ports':[" PORTS "]}"
#define OF(NAME, CLUSTER)                                                                          \
	"'multicluster.kubernetes.io/service-name':'" NAME "',"                                    \
	"'multicluster.kubernetes.io/source-cluster':'" CLUSTER "'"
#define HOST(ADDRESS, NAME) "{'addresses':['" ADDRESS "'],'hostname':'" NAME "'}"
#define PLAIN(ADDRESS)      "{'addresses':['" ADDRESS "']}"
#define UNREADY(ADDRESS)    "{'addresses':['" ADDRESS "'],'conditions':{'ready':false}}"
#define HEADLESS            IMPORT("headless", "Headless", "", HTTPS)
#define ZONE                ".clusterset.local."
#define SVC                 ".test.svc.clusterset.local."
#define GONE                "NXDOMAIN SOA of clusterset.local."
#define NODATA              "NOERROR SOA of clusterset.local."

static struct clusterset *set;
static struct treecache *cache;
static struct external_zones zones;
static struct dname zone;
static struct addr ns_addr;

static inline void
begin_with(const struct clusterset_config *config)
{
	clusterset_free(set);
	treecache_free(cache);
	cache = treecache_new(7);
	set = clusterset_new(config, cache, 7);
	zones.tree = cache;
	treecache_publish(cache, 1, true);
}

static inline struct clusterset_config
config(void)
{
	return (struct clusterset_config){
		.zone = zone, .ttl_s = 30, .ns_addrs = &ns_addr, .ns_addr_count = 1
	};
}

static inline int
begin(void **state)
{
	const struct clusterset_config *plain;

	bed_begin(state);
	assert_int_equal(dname_from_text(&zone, "clusterset.local"), 0);
	assert_int_equal(addr_parse("10.96.0.10", &ns_addr), 0);
	plain = &(struct clusterset_config){
		.zone = zone, .ttl_s = 30, .ns_addrs = &ns_addr, .ns_addr_count = 1
	};
	zones = (struct external_zones){ .zones = &zone, .zone_count = 1, .clusterset = &zone };
	set = NULL;
	cache = NULL;
	begin_with(plain);
	external_zones_set(&bed.config, &zones);
	stages_build(&bed.config);
	bed_forwarding(true);
	bed_publish();
	return 0;
}

static inline int
end(void **state)
{
	clusterset_free(set);
	treecache_free(cache);
	return bed_end(state);
}

/* Sends an event with this object (JSON with ' in place of "), but does not apply it to the tree
 * yet. */
static inline void
queue(enum event_type type, const char *text)
{
	const char *why = NULL;
	struct object object;

	struct json_object *json = quoted_json(text);
	if (json == NULL || object_extract(json, NULL, &object, &why) != 0)
		fail_msg("%s: %s", why, text);
	object_read_import_labels(json, &object, &why);
	clusterset_event(set, object.kind, type, &object);
	object_clear(&object);
	json_object_put(json);
}

static inline void
settle(void)
{
	clusterset_settle(set);
	treecache_publish(cache, 1, true);
}

static inline void
tell(enum event_type type, const char *text)
{
	queue(type, text);
	settle();
}

static inline void
add(const char *text)
{
	tell(EVENT_ADDED, text);
}

struct row {
	const char *name, *type, *want;
};

static inline void
expect(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bed_expect(rows[i].name, rows[i].type, rows[i].want);
}
#define EXPECT(...)                                                                                \
	expect((const struct row[]){ __VA_ARGS__ },                                                \
	    sizeof((const struct row[]){ __VA_ARGS__ }) / sizeof(struct row))

#define ROW(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
