/*
 * The namespace "default" with a Service of every kind, and with a headless Service with 5,000
 * endpoints. The functions send queries in wire format. ldns parses the replies. It shares no code
 * with kubedns.
 */
#ifndef TESTS_UNIT_ANSWER_WORLD_H
#define TESTS_UNIT_ANSWER_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "kubedns/answer/answer.h"
#include "tests/answer_parts.h"
#include "kubedns/cluster/store.h"
#include "lib/rcu.h"

enum { BIG = 5000, BIG_SLICES = 50 };

struct world {
	struct treecache *cache;
	struct store *store;
	struct answer_config config;
	struct answer_parts parts;
	uint8_t out[DNS_TCP_MAX];
	struct answer_info info;
};

static struct world world;

static inline struct addr
addr(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(text, &a), 0);
	return a;
}

static inline void
add_service(const char *name, enum service_type type, const char *ip, const char *external)
{
	struct object_port ports[] = { { "http", "tcp", 80 }, { "dns", "udp", 53 },
		{ "http3", "udp", 80 } };
	struct object o = { .kind = OBJECT_SERVICE,
		.namespace = "default",
		.name = name,
		.resource_version = "1" };

	o.service = (struct object_service){
		.type = type, .external_name = external, .ports = ports, .port_count = 3
	};
	if (ip != NULL) {
		o.service.addrs[0] = addr(ip);
		o.service.addr_count = 1;
	}
	store_event(world.store, OBJECT_SERVICE, EVENT_ADDED, &o);
}

static struct object_port http = { "http", "tcp", 8080 };

static inline void
put_ports_slice(const char *service, unsigned number, struct object_port *ports,
    unsigned port_count, struct object_endpoint *endpoints, unsigned count)
{
	char name[32];
	struct object_slice slice = { .name = name,
		.service = service,
		.family = AF_INET,
		.ports = ports,
		.port_count = port_count,
		.endpoints = endpoints,
		.endpoint_count = count };
	struct object o = { .kind = OBJECT_SLICES,
		.namespace = "default",
		.name = name,
		.resource_version = "1",
		.slices = &slice,
		.slice_count = 1 };

	snprintf(name, sizeof name, "%s-%u", service, number);
	store_event(world.store, OBJECT_SLICES, EVENT_ADDED, &o);
}

static inline void
put_slice(const char *service, unsigned number, struct object_port *port,
    struct object_endpoint *endpoints, unsigned count)
{
	put_ports_slice(service, number, port, 1, endpoints, count);
}

/* Adds endpoints 10.x.y.z from number `first` on. Every third one has a host name. */
static inline void
add_slice(const char *service, unsigned number, unsigned first, unsigned count)
{
	struct object_endpoint *endpoints = calloc(count, sizeof *endpoints);

	char(*hosts)[16] = calloc(count, sizeof *hosts);

	for (unsigned i = 0; i < count; i++) {
		unsigned n = first + i;

		snprintf(hosts[i], sizeof hosts[i], "h-%u", n);
		endpoints[i] = (struct object_endpoint){ .ready = true,
			.hostname = n % 3 == 0 ? hosts[i] : NULL };
		endpoints[i].addr =
		    (struct addr){ AF_INET, { 10, 1, (uint8_t)(n / 256), (uint8_t)n } };
	}
	put_slice(service, number, &http, endpoints, count);
	free(endpoints);
	free(hosts);
}

/* Adds host names with several endpoints, in one slice and in two, and an address that is in both
 * slices. */
static inline void
add_shared_names(void)
{
	struct object_endpoint one[] = {
		{ .addr = addr("10.2.0.1"), .ready = true, .hostname = "pair" },
		{ .addr = addr("10.2.0.2"), .ready = true, .hostname = "pair" },
		{ .addr = addr("10.2.0.3"), .ready = true, .hostname = "lone" },
	};
	struct object_endpoint both[] = {
		{ .addr = addr("10.2.0.4"), .ready = true, .hostname = "both" },
		{ .addr = addr("10.2.0.5"), .ready = true, .hostname = "only" },
	};
	struct object_endpoint again[] = {
		{ .addr = addr("10.2.0.4"), .ready = true, .hostname = "both" },
		{ .addr = addr("10.2.0.6"), .ready = true, .hostname = "both" },
	};

	put_slice("same", 0, &http, one, 3);
	put_slice("same", 1, &http, both, 2);
	put_slice("same", 2, &http, again, 2);
}

/* Adds a host name with two endpoints whose ports differ only in the protocol. */
static inline void
add_two_protocols(void)
{
	struct object_endpoint first = { addr("10.3.0.1"), .ready = true, .hostname = "twin" };
	struct object_endpoint second = { addr("10.3.0.2"), .ready = true, .hostname = "twin" };
	struct object_port tcp = { "dns", "tcp", 53 }, udp = { "dns", "udp", 53 };

	put_slice("dual", 0, &tcp, &first, 1);
	put_slice("dual", 1, &udp, &second, 1);
}

/*
 * Adds a Service with ports for DNS and metrics on two endpoints. One of the endpoints has no host
 * name. Slices from another controller add one more port to both endpoints.
 */
static inline void
add_many_ports(void)
{
	struct object_port ports[] = { { "dns", "udp", 53 }, { "dns-tcp", "tcp", 53 },
		{ "metrics", "tcp", 9153 } };
	struct object_port more = { "extra", "tcp", 8080 };
	struct object_endpoint endpoints[] = {
		{ .addr = addr("10.4.0.1"), .ready = true, .hostname = "a" },
		{ .addr = addr("10.4.0.2"), .ready = true },
	};

	put_slice("ports", 0, &more, endpoints, 2);
	put_ports_slice("ports", 1, ports, 3, endpoints, 2);
	put_slice("ports", 2, &more, endpoints, 2);
	/* The endpoints are briefly not ready, so another slice now counts their addresses. */
	endpoints[0].ready = endpoints[1].ready = false;
	put_slice("ports", 0, &more, endpoints, 2);
	endpoints[0].ready = endpoints[1].ready = true;
	put_slice("ports", 0, &more, endpoints, 2);
}

static inline int
setup(void **state)
{
	(void)state;
	struct store_config config = { .records = { .ttl_s = 30 } };
	struct addr ns[] = { addr("192.0.2.53"), addr("2001:db8::53") };
	struct object o = { .kind = OBJECT_NAMESPACE,
		.namespace = "",
		.name = "default",
		.resource_version = "1" };

	rcu_join();
	dname_from_text(&world.config.zone, "cluster.local.");
	world.config.ttl_s = 30;
	world.config.negative_ttl_s = 5;
	world.parts.zone.pods = PODS_INSECURE;
	strcpy(world.config.version, "kubedns-test");
	strcpy(world.config.hostname, "pod-1");
	answer_parts_use(&world.config, &world.parts);
	config.records.zone = world.config.zone;
	world.cache = treecache_new(11);
	world.store = store_new(world.cache, &config);
	store_addresses(world.store, ns, 2);
	store_event(world.store, OBJECT_NAMESPACE, EVENT_ADDED, &o);
	add_service("web", SERVICE_CLUSTERIP, "10.96.0.1", "");
	add_service("db", SERVICE_HEADLESS, NULL, "");
	add_service("big", SERVICE_HEADLESS, NULL, "");
	add_service("ports", SERVICE_HEADLESS, NULL, "");
	add_service("same", SERVICE_HEADLESS, NULL, "");
	add_service("dual", SERVICE_HEADLESS, NULL, "");
	add_service("in", SERVICE_EXTERNALNAME, NULL, "web.default.svc.cluster.local");
	add_service("out", SERVICE_EXTERNALNAME, NULL, "www.example.net");
	add_slice("db", 0, 0, 7);
	add_shared_names();
	add_two_protocols();
	add_many_ports();
	for (unsigned s = 0; s < BIG_SLICES; s++)
		add_slice("big", s, 1000 + s * BIG / BIG_SLICES, BIG / BIG_SLICES);
	struct answer_context *context = calloc(1, sizeof *context);
	context->forwarding = true;
	treecache_context(world.cache, context);
	treecache_publish(world.cache, 1700000000, true);
	return 0;
}

static inline int
teardown(void **state)
{
	(void)state;
	store_free(world.store);
	treecache_free(world.cache);
	rcu_part();
	return 0;
}

static inline struct answer_request
request_for(const uint8_t *query, size_t len, bool tcp)
{
	return (struct answer_request){ .config = &world.config,
		.tree = tree_current(world.cache),
		.query = query,
		.query_len = len,
		.out = world.out,
		.max = tcp ? DNS_TCP_MAX : DNS_UDP_PAYLOAD,
		.tcp = tcp };
}

static inline enum answer_outcome
ask_wire(const uint8_t *query, size_t len, bool tcp, uint32_t rotation)
{
	struct answer_request request = request_for(query, len, tcp);

	request.rotation = rotation;
	return answer(&request, &world.info);
}

/* Makes the client's reply from an upstream reply, and returns its length. */
static inline size_t
pass_on(size_t (*made)(
	    const struct answer_request *, const struct upstream_reply *, struct answer_info *),
    const uint8_t *query, size_t len, const uint8_t *upstream, size_t upstream_len)
{
	struct answer_request request = request_for(query, len, false);
	const struct upstream_reply reply = { .wire = upstream, .len = upstream_len };

	return made(&request, &reply, &world.info);
}

static inline enum answer_outcome
ask(const char *text, uint16_t type, uint16_t udp_size, bool tcp, uint32_t rotation)
{
	struct dname name;
	uint8_t query[512];

	assert_int_equal(dname_from_text(&name, text), 0);
	return ask_wire(query,
	    query_write(query, sizeof query, 77, name.wire, type, CLASS_IN, udp_size), tcp,
	    rotation);
}

/* Parses the reply with ldns, to its last byte. The caller frees the result. */
static inline ldns_pkt *
read_again(void)
{
	ldns_pkt *pkt = NULL;

	assert_int_equal(ldns_wire2pkt(&pkt, world.out, world.info.len), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_id(pkt), 77);
	assert_true(ldns_pkt_qr(pkt));
	return pkt;
}

#endif
