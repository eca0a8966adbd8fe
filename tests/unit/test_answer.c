/*
 * Every message that we write, read again by ldns, which shares no line with us; and every message
 * that a stranger can send.
 */
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
#include "kubedns/cluster/store.h"
#include "lib/rcu.h"

enum { BIG = 5000, BIG_SLICES = 50, RANDOM_PACKETS = 100000 };

struct world {
	struct treecache *cache;
	struct store *store;
	struct answer_config config;
	uint8_t out[DNS_TCP_MAX];
	struct answer_info info;
};

static struct world world;

static struct addr
addr(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(text, &a), 0);
	return a;
}

static void
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

static void
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

static void
put_slice(const char *service, unsigned number, struct object_port *port,
    struct object_endpoint *endpoints, unsigned count)
{
	put_ports_slice(service, number, port, 1, endpoints, count);
}

/* Endpoints 10.x.y.z from number `first` on, every third one with a host name. */
static void
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

/* Host names of several endpoints, in one slice and in two, and an address that is in both. */
static void
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

/* One host name of two endpoints, whose ports differ by protocol alone. */
static void
add_two_protocols(void)
{
	struct object_endpoint first = { addr("10.3.0.1"), .ready = true, .hostname = "twin" };
	struct object_endpoint second = { addr("10.3.0.2"), .ready = true, .hostname = "twin" };
	struct object_port tcp = { "dns", "tcp", 53 }, udp = { "dns", "udp", 53 };

	put_slice("dual", 0, &tcp, &first, 1);
	put_slice("dual", 1, &udp, &second, 1);
}

/*
 * DNS and metrics of two endpoints, one without a host name, and a slice of another controller's
 * with one more port of both.
 */
static void
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
	/* Not ready for a moment: since then another slice counts its addresses. */
	endpoints[0].ready = endpoints[1].ready = false;
	put_slice("ports", 0, &more, endpoints, 2);
	endpoints[0].ready = endpoints[1].ready = true;
	put_slice("ports", 0, &more, endpoints, 2);
}

static int
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
	world.config.pods = PODS_INSECURE;
	strcpy(world.config.version, "kubedns-test");
	strcpy(world.config.hostname, "pod-1");
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

static int
teardown(void **state)
{
	(void)state;
	store_free(world.store);
	treecache_free(world.cache);
	rcu_part();
	return 0;
}

static struct answer_request
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

static enum answer_outcome
ask_wire(const uint8_t *query, size_t len, bool tcp, uint32_t rotation)
{
	struct answer_request request = request_for(query, len, tcp);

	request.rotation = rotation;
	return answer(&request, &world.info);
}

/* What is made for the client of an upstream reply, NULL for none. */
static size_t
pass_on(size_t (*made)(
	    const struct answer_request *, const struct upstream_reply *, struct answer_info *),
    const uint8_t *query, size_t len, const uint8_t *upstream, size_t upstream_len)
{
	struct answer_request request = request_for(query, len, false);
	const struct upstream_reply reply = { .wire = upstream, .len = upstream_len };

	return made(&request, &reply, &world.info);
}

static enum answer_outcome
ask(const char *text, uint16_t type, uint16_t udp_size, bool tcp, uint32_t rotation)
{
	struct dname name;
	uint8_t query[512];

	assert_int_equal(dname_from_text(&name, text), 0);
	return ask_wire(query,
	    query_write(query, sizeof query, 77, name.wire, type, CLASS_IN, udp_size), tcp,
	    rotation);
}

/* ldns reads the reply to its last byte; caller frees. */
static ldns_pkt *
read_again(void)
{
	ldns_pkt *pkt = NULL;

	assert_int_equal(ldns_wire2pkt(&pkt, world.out, world.info.len), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_id(pkt), 77);
	assert_true(ldns_pkt_qr(pkt));
	return pkt;
}

static const char *const names[] = { "cluster.local.", "ns.dns.cluster.local.",
	"dns-version.cluster.local.", "web.default.svc.cluster.local.",
	"_http._tcp.web.default.svc.cluster.local.", "db.default.svc.cluster.local.",
	"_http._tcp.db.default.svc.cluster.local.", "h-3.db.default.svc.cluster.local.",
	"10-1-0-1.db.default.svc.cluster.local.", "big.default.svc.cluster.local.",
	"_http._tcp.big.default.svc.cluster.local.", "in.default.svc.cluster.local.",
	"out.default.svc.cluster.local.", "nothing.default.svc.cluster.local.",
	"1-2-3-4.default.pod.cluster.local.", "1-2-3-4.x.pod.cluster.local.",
	"1.0.96.10.in-addr.arpa.", "3.0.1.10.in-addr.arpa.", "example.com.", "." };
static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_PTR, TYPE_SOA, TYPE_NS,
	TYPE_TXT, TYPE_CNAME, TYPE_HTTPS, TYPE_CAA, TYPE_DS, TYPE_HINFO, TYPE_ANY, TYPE_AXFR };
static const uint16_t sizes[] = { 0, 512, 700, 1232, 4096 };

static void
ldns_reads_every_message_and_none_is_longer_than_the_client_takes(void **state)
{
	(void)state;
	unsigned replies = 0;

	for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
		for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
			for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
				for (unsigned tcp = 0; tcp < 2; tcp++) {
					enum answer_outcome outcome = ask(names[n], types[t],
					    sizes[s], tcp > 0, (uint32_t)(n + t));
					if (outcome == ANSWER_FORWARD)
						continue;
					size_t limit = sizes[s] < 512    ? 512
						       : sizes[s] > 1232 ? 1232
									 : sizes[s];
					assert_true(world.info.len <= (tcp ? 65535 : limit));
					ldns_pkt *pkt = read_again();
					assert_int_equal(ldns_pkt_edns(pkt), sizes[s] > 0);
					assert_int_equal(ldns_pkt_tc(pkt), world.info.truncated);
					ldns_pkt_free(pkt);
					replies++;
				}
	assert_true(replies > 2000);
}

static void
each_endpoint_that_has_a_name_answers_it_once(void **state)
{
	static const struct {
		const char *name;
		unsigned addresses;
	} shared[] = { { "pair", 2 }, { "lone", 1 }, { "both", 2 }, { "only", 1 }, { "none", 0 } };
	(void)state;

	for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
		char name[64];
		snprintf(name, sizeof name, "%s.same.default.svc.cluster.local.", shared[i].name);
		assert_int_equal(ask(name, TYPE_A, 1232, false, 0), ANSWER_REPLY);
		ldns_pkt *pkt = read_again();
		assert_int_equal(ldns_pkt_ancount(pkt), shared[i].addresses);
		ldns_pkt_free(pkt);
		ask(name, TYPE_AAAA, 1232, false, 0);
		assert_int_equal(world.info.rcode, shared[i].addresses > 0 ? 0 : RCODE_NXDOMAIN);
	}
	/* An SRV names each once, and brings all its addresses. */
	ask("_http._tcp.same.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 4);
	assert_int_equal(ldns_pkt_arcount(pkt), 6);
	ldns_pkt_free(pkt);
}

/* The second record is the same as the first: it is taken back, and so are its addresses. */
static void
a_target_that_a_wildcard_finds_twice_brings_its_addresses_once(void **state)
{
	(void)state;
	world.config.wildcards = true;
	ask("_dns.*.dual.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0);
	world.config.wildcards = false;
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 1);
	assert_int_equal(ldns_pkt_arcount(pkt), 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
		    ldns_dname_compare(ldns_rr_rdf(ldns_rr_list_rr(ldns_pkt_answer(pkt), 0), 3),
			ldns_rr_owner(ldns_rr_list_rr(ldns_pkt_additional(pkt), i))),
		    0);
	ldns_pkt_free(pkt);
}

static void
no_srv_record_comes_twice_and_none_is_left_out(void **state)
{
	static const char *const wanted[] = { "53 a", "9153 a", "8080 a", "53 10-4-0-2",
		"9153 10-4-0-2", "8080 10-4-0-2" };
	(void)state;

	assert_int_equal(
	    ask("ports.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	char *text = ldns_rr_list2str(ldns_pkt_answer(pkt));
	assert_int_equal(ldns_pkt_ancount(pkt), 6);
	for (size_t i = 0; i < 6; i++) {
		char target[64];
		snprintf(target, sizeof target, " %s.ports.default", wanted[i]);
		assert_non_null(strstr(text, target));
	}
	assert_int_equal(ldns_pkt_arcount(pkt), 2);
	free(text);
	ldns_pkt_free(pkt);
	ask("web.default.svc.cluster.local.", TYPE_SRV, 1232, false, 0);
	pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 2); /* of three ports, two have one number */
	ldns_pkt_free(pkt);
}

/* In a zone of 234 bytes "h-3.db.default.svc" fits into a name, "10-1-0-1.db.default.svc" does not. */
static void
a_target_that_is_longer_than_names_may_be_is_left_out(void **state)
{
	struct dname zone = world.config.zone, name;
	char text[DNAME_TEXT_MAX];

	(void)state;
	snprintf(text, sizeof text, "%063d.%063d.%063d.%040d.", 0, 0, 0, 0);
	assert_int_equal(dname_from_text(&world.config.zone, text), 0);
	assert_int_equal(world.config.zone.len, 234);
	snprintf(text, sizeof text, "db.default.svc.%063d.%063d.%063d.%040d.", 0, 0, 0, 0);
	assert_int_equal(ask(text, TYPE_SRV, 1232, true, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 3); /* of the seven those with a host name */
	assert_int_equal(dname_from_text(&name, text), 0);
	for (unsigned i = 0; i < 3; i++) {
		const ldns_rr *rr = ldns_rr_list_rr(ldns_pkt_answer(pkt), i);
		assert_int_equal(ldns_rdf_size(ldns_rr_rdf(rr, 3)), name.len + 4); /* "h-0" */
	}
	ldns_pkt_free(pkt);
	world.config.zone = zone;
}

static void
a_set_that_is_too_large_for_udp_is_cut_on_a_record_border(void **state)
{
	(void)state;
	assert_int_equal(
	    ask("big.default.svc.cluster.local.", TYPE_A, 1232, false, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_true(ldns_pkt_tc(pkt));
	assert_true(ldns_pkt_edns(pkt));
	assert_true(ldns_pkt_ancount(pkt) > 60);
	ldns_pkt_free(pkt);
}

/* A message holds 65,535 bytes, an A record takes 16 of them: 4,092 addresses are what TCP can
 * carry of 5,000. */
static void
a_set_that_is_too_large_for_tcp_is_cut_there_too(void **state)
{
	(void)state;
	assert_int_equal(ask("big.default.svc.cluster.local.", TYPE_A, 0, true, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_true(ldns_pkt_tc(pkt));
	assert_in_range(ldns_pkt_ancount(pkt), 4080, 4095);
	ldns_pkt_free(pkt);
}

static void
every_address_of_a_large_set_comes_first_sometime(void **state)
{
	(void)state;
	static bool seen[65536];
	unsigned distinct = 0;

	for (uint32_t rotation = 0; rotation < BIG; rotation++) {
		ask("big.default.svc.cluster.local.", TYPE_A, 1232, false, rotation);
		const uint8_t *first = world.out + DNS_HEADER + world.info.query.question_len + 12;
		unsigned n = first[2] * 256u + first[3];
		distinct += !seen[n];
		seen[n] = true;
	}
	assert_int_equal(distinct, BIG);
}

static void
a_query_cut_at_every_length_is_formerr_or_nothing(void **state)
{
	(void)state;
	struct dname name;
	uint8_t query[512];

	dname_from_text(&name, "web.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *copy = malloc(cut + 1); /* as short as it says, for the sanitizer to see */
		memcpy(copy, query, cut);
		enum answer_outcome outcome = ask_wire(copy, cut, false, 0);
		if (cut < 2)
			assert_int_equal(outcome, ANSWER_DROP);
		else
			assert_int_equal(world.info.rcode, RCODE_FORMERR);
		free(copy);
	}
}

static void
a_compression_loop_in_the_question_is_formerr(void **state)
{
	(void)state;
	uint8_t query[] = { 0, 77, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1 };

	assert_int_equal(ask_wire(query, sizeof query, false, 0), ANSWER_REPLY);
	assert_int_equal(world.info.rcode, RCODE_FORMERR);
}

static void
a_padded_query_of_4096_bytes_is_answered(void **state)
{
	(void)state;
	struct dname name;
	uint8_t query[4096] = { 0 };

	dname_from_text(&name, "web.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	wire_put16(query + len - 2, (unsigned)(sizeof query - len));
	wire_put16(query + len, 12); /* padding, RFC 7830 */
	wire_put16(query + len + 2, (unsigned)(sizeof query - len - 4));
	assert_int_equal(ask_wire(query, sizeof query, false, 0), ANSWER_REPLY);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 1);
	ldns_pkt_free(pkt);
}

static void
random_and_mutated_packets_get_replies_that_ldns_reads(void **state)
{
	(void)state;
	uint32_t random = 1;

	for (unsigned n = 0; n < 2 * RANDOM_PACKETS; n++) {
		uint8_t query[600];
		size_t len;
		if (n < RANDOM_PACKETS) {
			len = (random = random * 1664525u + 1013904223u) >> 23;
			for (size_t i = 0; i < len; i++)
				query[i] =
				    (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
		} else {
			struct dname name;
			dname_from_text(&name, names[n % (sizeof names / sizeof names[0])]);
			len = query_write(query, sizeof query, 77, name.wire, types[n % 13],
			    CLASS_IN, n % 3 ? 1232 : 0);
			for (unsigned m = 0; m <= n % 4; m++) {
				random = random * 1664525u + 1013904223u;
				query[(random >> 8) % len] = (uint8_t)(random >> 24);
			}
		}
		enum answer_outcome outcome = ask_wire(query, len, n % 2, n);
		if (outcome != ANSWER_REPLY)
			continue;
		ldns_pkt *pkt = NULL;
		assert_true(world.info.len >= DNS_HEADER);
		assert_int_equal(ldns_wire2pkt(&pkt, world.out, world.info.len), LDNS_STATUS_OK);
		ldns_pkt_free(pkt);
	}
}

static size_t
upstream_reply(const ldns_pkt *query, const char *const *records, uint8_t **wire)
{
	ldns_pkt *reply = ldns_pkt_clone(query);
	size_t len = 0;

	ldns_pkt_set_qr(reply, true);
	for (; *records != NULL; records++) {
		ldns_rr *rr = NULL;
		assert_int_equal(
		    ldns_rr_new_frm_str(&rr, *records, 60, NULL, NULL), LDNS_STATUS_OK);
		ldns_pkt_push_rr(reply, LDNS_SECTION_ANSWER, rr);
	}
	assert_int_equal(ldns_pkt2wire(wire, reply, &len), LDNS_STATUS_OK);
	ldns_pkt_free(reply);
	return len;
}

static void
a_chased_reply_is_our_cname_and_upstreams_addresses(void **state)
{
	(void)state;
	static const char *const records[] = { "www.example.net. 60 IN CNAME edge.example.org.",
		"edge.example.org. 60 IN A 192.0.2.1", NULL };
	struct dname name;
	uint8_t query[512], *upstream = NULL;

	dname_from_text(&name, "out.default.svc.cluster.local.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	assert_int_equal(ask_wire(query, len, false, 0), ANSWER_CHASE);
	ldns_pkt *asked = ldns_pkt_query_new(
	    ldns_dname_new_frm_str("www.example.net."), LDNS_RR_TYPE_A, LDNS_RR_CLASS_IN, LDNS_RD);
	size_t upstream_len = upstream_reply(asked, records, &upstream);
	pass_on(answer_chased, query, len, upstream, upstream_len);
	ldns_pkt *pkt = read_again();
	assert_int_equal(ldns_pkt_ancount(pkt), 3);
	assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_NOERROR);
	ldns_pkt_free(pkt);
	assert_int_equal(ask_wire(query, len, false, 0), ANSWER_CHASE);
	pass_on(answer_chased, query, len, NULL, 0);
	pkt = read_again();
	assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_SERVFAIL);
	ldns_pkt_free(pkt);
	ldns_pkt_free(asked);
	free(upstream);
}

/* What another server says of names in our zones: its answers stop there, its rcode stays. */
static void
upstreams_records_of_our_zones_are_not_passed_on(void **state)
{
	(void)state;
	static const char *const first[] = { "web.default.svc.cluster.local. 60 IN A 192.0.2.66",
		"www.example.net. 60 IN A 192.0.2.1", NULL };
	static const char *const last[] = {
		"www.example.net. 60 IN CNAME web.DEFAULT.svc.cluster.local.",
		"web.default.svc.cluster.local. 60 IN A 192.0.2.66", NULL
	};
	static const char *const reverse[] = {
		"www.example.net. 60 IN CNAME 1.0.96.10.in-addr.arpa.",
		"1.0.96.10.in-addr.arpa. 60 IN A 192.0.2.66", NULL
	};
	static const struct {
		const char *const *records;
		unsigned kept, chased; /* with our own CNAME */
	} rows[] = { { first, 0, 2 }, { last, 1, 2 }, { reverse, 1, 2 } };
	struct reverse_zone zone = { .prefix = addr("10.0.0.0"), .bits = 8 };
	uint8_t query[512];

	assert_int_equal(dname_from_text(&zone.name, "10.in-addr.arpa."), 0);
	world.config.reverse_zones = &zone;
	world.config.reverse_zone_count = 1;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		for (unsigned chase = 0; chase < 2; chase++) {
			struct dname name;
			uint8_t *upstream = NULL;
			dname_from_text(
			    &name, chase ? "out.default.svc.cluster.local." : "www.example.net.");
			size_t len =
			    query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
			assert_int_equal(
			    ask_wire(query, len, false, 0), chase ? ANSWER_CHASE : ANSWER_FORWARD);
			ldns_pkt *asked =
			    ldns_pkt_query_new(ldns_dname_new_frm_str("www.example.net."),
				LDNS_RR_TYPE_A, LDNS_RR_CLASS_IN, LDNS_RD);
			size_t upstream_len = upstream_reply(asked, rows[i].records, &upstream);
			pass_on(chase ? answer_chased : answer_forwarded, query, len, upstream,
			    upstream_len);
			ldns_pkt *pkt = read_again();
			assert_int_equal(
			    ldns_pkt_ancount(pkt), chase ? rows[i].chased : rows[i].kept);
			assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_NOERROR);
			assert_true(ldns_pkt_edns(pkt));
			ldns_pkt_free(pkt);
			ldns_pkt_free(asked);
			free(upstream);
		}
	world.config.reverse_zone_count = 0;
}

static void
refused_by_every_server_is_refused_and_says_by_whom(void **state)
{
	(void)state;
	const struct upstream_reply none = { .refused_by = "refused by 192.0.2.53:53" };
	uint8_t query[512];
	struct dname name;

	for (unsigned edns = 0; edns < 2; edns++)
		for (unsigned chase = 0; chase < 2; chase++) {
			dname_from_text(
			    &name, chase ? "out.default.svc.cluster.local." : "www.example.net.");
			size_t len = query_write(
			    query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, edns ? 1232 : 0);
			struct answer_request request = request_for(query, len, false);
			ask_wire(query, len, false, 0);
			(chase ? answer_chased : answer_forwarded)(&request, &none, &world.info);
			ldns_pkt *pkt = read_again();
			assert_int_equal(ldns_pkt_get_rcode(pkt), LDNS_RCODE_REFUSED);
			assert_int_equal(world.info.rcode, RCODE_REFUSED);
			assert_int_equal(ldns_pkt_edns(pkt), edns);
			assert_int_equal(memmem(world.out, world.info.len, none.refused_by,
					     strlen(none.refused_by)) != NULL,
			    edns);
			ldns_pkt_free(pkt);
		}
}

/* Whatever upstream sends, at every length and with any byte changed,
 * what we pass on is a message. */
static void
mutated_upstream_replies_are_passed_on_whole_or_not_at_all(void **state)
{
	(void)state;
	static const char *const records[] = { "www.example.net. 60 IN CNAME edge.example.org.",
		"edge.example.org. 60 IN A 192.0.2.1", "edge.example.org. 60 IN A 192.0.2.2",
		NULL };
	struct dname name;
	uint8_t query[512], *upstream = NULL;
	uint32_t random = 5;

	dname_from_text(&name, "www.example.net.");
	size_t len = query_write(query, sizeof query, 77, name.wire, TYPE_A, CLASS_IN, 1232);
	ldns_pkt *asked = ldns_pkt_query_new(
	    ldns_dname_new_frm_str("www.example.net."), LDNS_RR_TYPE_A, LDNS_RR_CLASS_IN, LDNS_RD);
	size_t upstream_len = upstream_reply(asked, records, &upstream);
	for (unsigned n = 0; n < 50000; n++) {
		size_t cut = n < upstream_len ? n : upstream_len;
		uint8_t *copy = malloc(cut + 1);
		memcpy(copy, upstream, cut);
		for (unsigned m = 0; n > upstream_len && m < n % 4; m++) {
			random = random * 1664525u + 1013904223u;
			copy[(random >> 8) % cut] = (uint8_t)(random >> 24);
		}
		assert_true(pass_on(answer_forwarded, query, len, copy, cut) >= DNS_HEADER);
		assert_int_equal(wire_get16(world.out), 77);
		free(copy);
	}
	ldns_pkt_free(asked);
	free(upstream);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ldns_reads_every_message_and_none_is_longer_than_the_client_takes),
		cmocka_unit_test(each_endpoint_that_has_a_name_answers_it_once),
		cmocka_unit_test(no_srv_record_comes_twice_and_none_is_left_out),
		cmocka_unit_test(a_target_that_a_wildcard_finds_twice_brings_its_addresses_once),
		cmocka_unit_test(a_target_that_is_longer_than_names_may_be_is_left_out),
		cmocka_unit_test(a_set_that_is_too_large_for_udp_is_cut_on_a_record_border),
		cmocka_unit_test(a_set_that_is_too_large_for_tcp_is_cut_there_too),
		cmocka_unit_test(every_address_of_a_large_set_comes_first_sometime),
		cmocka_unit_test(a_query_cut_at_every_length_is_formerr_or_nothing),
		cmocka_unit_test(a_compression_loop_in_the_question_is_formerr),
		cmocka_unit_test(a_padded_query_of_4096_bytes_is_answered),
		cmocka_unit_test(random_and_mutated_packets_get_replies_that_ldns_reads),
		cmocka_unit_test(a_chased_reply_is_our_cname_and_upstreams_addresses),
		cmocka_unit_test(upstreams_records_of_our_zones_are_not_passed_on),
		cmocka_unit_test(refused_by_every_server_is_refused_and_says_by_whom),
		cmocka_unit_test(mutated_upstream_replies_are_passed_on_whole_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
