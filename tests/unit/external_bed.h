/*
 * Two external zones, apps.example.com and in.apps.example.com, and the cluster of answer_bed.h.
 * The tests are about the objects that claim names in the external zones.
 */
#ifndef TESTS_UNIT_EXTERNAL_BED_H
#define TESTS_UNIT_EXTERNAL_BED_H

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/external/external.h"
#include "kubedns/cluster/external/object_external.h"
#include "tests/unit/answer_bed.h"
#include "tests/quoted_json.h"

#define WEB                                                                                        \
	"{'kind':'Service','metadata':{'namespace':'default','name':'web',"                        \
	"'creationTimestamp':'2026-01-02T00:00:00Z'},'spec':{'type':'LoadBalancer',"               \
	"'clusterIP':'10.96.0.1','externalIPs':['198.51.100.7'],"                                  \
	"'ports':[{'name':'http','port':80},{'port':443}]},"                                       \
	"'status':{'loadBalancer':{'ingress':[{'ip':'192.0.2.1'},{'ip':'2001:db8::1'}]}}}"
#define ANNOTATED(NAME, CREATED, HOSTS, ADDRESS)                                                   \
	"{'kind':'Service','metadata':{'namespace':'default','name':'" NAME "',"                   \
	"'creationTimestamp':'" CREATED "','annotations':{"                                        \
	"'external-dns.alpha.kubernetes.io/hostname':'" HOSTS "',"                                 \
	"'external-dns.alpha.kubernetes.io/ttl':'1m'}},'spec':{'clusterIP':'10.96.0.2'},"          \
	"'status':{'loadBalancer':{'ingress':[" ADDRESS "]}}}"
#define IP(TEXT)       "{'ip':'" TEXT "'}"
#define HOSTNAME(TEXT) "{'hostname':'" TEXT "'}"
#define JANUARY        "2026-01-01T00:00:00Z"
#define FEBRUARY       "2026-02-01T00:00:00Z"
#define INGRESS(NAME, CREATED, RULES, ADDRESS)                                                     \
	"{'kind':'Ingress','apiVersion':'networking.k8s.io/v1','metadata':{'namespace':'shop',"    \
	"'name':'" NAME "','creationTimestamp':'" CREATED "'},'spec':{'rules':[" RULES "]},"       \
	"'status':{'loadBalancer':{'ingress':[" ADDRESS "]}}}"
#define RULE(HOST) "{'host':'" HOST "'}"
#define GATEWAY(LISTENERS, ADDRESS)                                                                \
	"{'kind':'Gateway','apiVersion':'gateway.networking.k8s.io/v1','metadata':{"               \
	"'namespace':'infra','name':'gw'},'spec':{'listeners':[" LISTENERS "]},"                   \
	"'status':{'addresses':[{'type':'IPAddress','value':'" ADDRESS "'}]}}"
#define LISTENER(NAME, PORT, HOST) "{'name':'" NAME "','port':" PORT ",'hostname':'" HOST "'}"
#define LISTENERSET(NAME, LISTENERS, PARENT, ACCEPTED)                                             \
	"{'kind':'ListenerSet','apiVersion':'gateway.networking.k8s.io/v1','metadata':{"           \
	"'namespace':'team','name':'" NAME "'},'spec':{'parentRef':{" PARENT "},"                  \
	"'listeners':[" LISTENERS "]},'status':{'conditions':[{'type':'Programmed',"               \
	"'status':'True'},{'type':'Accepted','status':'" ACCEPTED "'}]}}"
#define ROUTE(KIND, NAME, HOSTS, PARENT, ACCEPTED)                                                 \
	"{'kind':'" KIND "','apiVersion':'gateway.networking.k8s.io/v1','metadata':{"              \
	"'namespace':'shop','name':'" NAME "'},'spec':{'hostnames':[" HOSTS "]},"                  \
	"'status':{'parents':[{'parentRef':{" PARENT "},'conditions':[{'type':'Programmed',"       \
	"'status':'True'},{'type':'Accepted','status':'" ACCEPTED "'}]}]}}"
#define GW  "'name':'gw','namespace':'infra'"
#define SET "'kind':'ListenerSet','name':'set','namespace':'team'"

static struct external *external;
static struct external_zones zones;
static struct dname names[2];
static struct addr ns_addr;
static struct external_config config;

static inline void
begin_with(const struct external_config *with)
{
	external_free(external);
	external = external_new(with, 7);
	external_begin(external);
	zones.tree = external_tree(external);
}

/* Starts again without objects, like a new process: the test then lists the objects and calls
 * external_begin(). */
static inline void
begin_listing(void)
{
	external_free(external);
	external = external_new(&config, 7);
	zones.tree = external_tree(external);
}

static inline int
begin(void **state)
{
	bed_begin(state);
	assert_int_equal(dname_from_text(&names[0], "apps.example.com"), 0);
	assert_int_equal(dname_from_text(&names[1], "in.apps.example.com"), 0);
	assert_int_equal(addr_parse("203.0.113.53", &ns_addr), 0);
	config = (struct external_config){ .zones = names,
		.zone_count = 2,
		.ns_addrs = &ns_addr,
		.ns_addr_count = 1,
		.ttl_s = 30 };
	zones = (struct external_zones){ .zones = names, .zone_count = 2 };
	external = NULL;
	begin_with(&config);
	external_zones_set(&bed.config, &zones);
	stages_build(&bed.config);
	bed_publish();
	treecache_publish(external_tree(external), 1, true);
	return 0;
}

static inline int
end(void **state)
{
	external_free(external);
	return bed_end(state);
}

/* Sends an event with this object (JSON with ' in place of "). */
static inline void
tell(enum event_type type, const char *text)
{
	const char *why = NULL;
	struct object object;

	struct json_object *json = quoted_json(text);
	if (json == NULL || object_extract(json, NULL, &object, &why) != 0)
		fail_msg("%s: %s", why, text);
	object_read_external(json, &object, &why);
	external_event(external, object.kind, type, &object);
	object_clear(&object);
	json_object_put(json);
	treecache_publish(external_tree(external), 1, true);
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

#define GONE   "NXDOMAIN SOA of apps.example.com."
#define NODATA "NOERROR SOA of apps.example.com."

#endif
