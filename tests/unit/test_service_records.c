/* The records of one Service and of the zone itself: name, type, data and weight. The terms are
 * those of the Kubernetes DNS specification. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/cluster/service_records.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

/* One line per record: "_http._tcp.web.default.svc. SRV 0 100 80
 * web.default.svc.cluster.local.". */
static char lines[1 << 16];
static size_t lines_len;
static uint32_t last_ttl;
static unsigned records;

static void add_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void
add_text(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	int len = vsnprintf(lines + lines_len, sizeof lines - lines_len, format, ap);
	va_end(ap);
	lines_len += len > 0 ? (size_t)len : 0;
	if (lines_len >= sizeof lines) /* of large answers, only the number of records is used */
		lines_len = sizeof lines - 1;
}

static void
add_record(const uint8_t *name, const uint8_t *record)
{
	uint16_t type = wire_get16(record + 2);
	const uint8_t *rdata = record + 12;
	char owner[DNAME_TEXT_MAX], type_text[12], text[DNAME_TEXT_MAX];
	struct addr addr = { .family = type == TYPE_A ? AF_INET : AF_INET6 };

	assert_int_equal(wire_get16(record), 0xc00c);
	assert_int_equal(wire_get16(record + 4), CLASS_IN);
	last_ttl = wire_get32(record + 6);
	records++;
	dname_to_text(name, owner);
	add_text("%s %s ", owner, type_name(type, type_text));
	if (type == TYPE_A || type == TYPE_AAAA) {
		memcpy(addr.bytes, rdata, addr_len(&addr));
		add_text("%s\n", addr_format(&addr, text));
	} else if (type == TYPE_SRV) {
		add_text("%u %u %u %s\n", wire_get16(rdata), wire_get16(rdata + 2),
		    wire_get16(rdata + 4), dname_to_text(rdata + 6, text));
	} else if (type == TYPE_TXT) {
		add_text("\"%.*s\"\n", rdata[0], (const char *)rdata + 1);
	} else {
		add_text("%s\n", dname_to_text(rdata, text));
	}
}

static void
note(void *arg, const uint8_t *name, const void *sets, size_t len)
{
	const uint8_t *p = sets;

	(void)arg;
	while (p < (const uint8_t *)sets + len) {
		const struct rrset *set = (const void *)p;
		const uint8_t *record = set->data;

		for (unsigned i = 0; i < set->count; i++) {
			add_record(name, record);
			record += 12 + wire_get16(record + 10);
		}
		assert_ptr_equal(record, set->data + set->len);
		p = set->data + ((set->len + 3) & ~3u);
	}
}

static struct records_config
config(void)
{
	struct records_config config = { .ttl_s = 30 };

	assert_int_equal(dname_from_text(&config.zone, "cluster.local."), 0);
	lines_len = records = 0;
	lines[0] = '\0';
	return config;
}

static const char *
service(const struct object_service *service, const char **why)
{
	static const uint8_t web[] = "\3web\7default\3svc";
	struct records_config c = config();

	records_for_service(&c, web, service, note, NULL, why);
	return lines;
}

static struct addr
addr(const char *text)
{
	struct addr addr;

	assert_int_equal(addr_parse(text, &addr), 0);
	return addr;
}

/* Makes a ClusterIP Service with these ports. Its address is 10.96.0.1. If `dual`, fd00::1 is a
 * second address. */
static const char *
cluster_ip(struct object_port *ports, size_t count, bool dual)
{
	struct object_service svc = { .type = SERVICE_CLUSTERIP,
		.addrs = { addr("10.96.0.1"), addr("fd00::1") },
		.addr_count = dual ? 2 : 1,
		.ports = ports,
		.port_count = count };
	const char *why;

	service(&svc, &why);
	assert_null(why);
	return lines;
}

#define WEB "web.default.svc.cluster.local."

static void
a_cluster_ip_of_each_family_is_an_address_record(void **state)
{
	(void)state;
	assert_string_equal(cluster_ip(NULL, 0, true),
	    "web.default.svc. A 10.96.0.1\nweb.default.svc. AAAA fd00::1\n");
	assert_int_equal(last_ttl, 30);
}

static void
a_named_port_is_an_srv_at_its_label_and_at_the_bare_name(void **state)
{
	(void)state;
	struct object_port ports[] = { { "http", "tcp", 80 } };

	assert_string_equal(cluster_ip(ports, 1, false),
	    "web.default.svc. A 10.96.0.1\n"
	    "web.default.svc. SRV 0 100 80 " WEB "\n"
	    "_http._tcp.web.default.svc. SRV 0 100 80 " WEB "\n");
}

static void
labels_are_lower_case(void **state)
{
	(void)state;
	struct object_port ports[] = { { "HTTP", "TCP", 80 } };

	assert_non_null(strstr(cluster_ip(ports, 1, false), "_http._tcp.web.default.svc. SRV"));
}

static void
an_unnamed_port_is_at_the_bare_name_only(void **state)
{
	(void)state;
	struct object_port ports[] = { { "", "tcp", 8080 } };

	assert_string_equal(cluster_ip(ports, 1, false),
	    "web.default.svc. A 10.96.0.1\nweb.default.svc. SRV 0 100 8080 " WEB "\n");
}

static void
a_port_without_a_number_has_no_srv(void **state)
{
	(void)state;
	struct object_port ports[] = { { "http", "tcp", 0 } };

	assert_string_equal(cluster_ip(ports, 1, false), "web.default.svc. A 10.96.0.1\n");
}

static void
one_number_over_two_protocols_is_one_pair(void **state)
{
	(void)state;
	struct object_port ports[] = { { "dns", "udp", 53 }, { "dns-tcp", "tcp", 53 },
		{ "metrics", "tcp", 9153 } };

	const char *text = cluster_ip(ports, 3, false);
	assert_non_null(strstr(text, "web.default.svc. SRV 0 50 53 " WEB "\n"
				     "web.default.svc. SRV 0 50 9153 " WEB "\n"));
	assert_non_null(strstr(text, "_dns._udp.web.default.svc. SRV 0 100 53 "));
	assert_non_null(strstr(text, "_dns-tcp._tcp.web.default.svc. SRV 0 100 53 "));
	assert_int_equal(records, 1 + 2 + 3);
}

static void
ports_of_one_label_are_one_set_and_each_pair_once(void **state)
{
	(void)state;
	struct object_port ports[] = { { "http", "tcp", 80 }, { "http", "tcp", 81 },
		{ "http", "tcp", 80 } };

	assert_string_equal(cluster_ip(ports, 3, false),
	    "web.default.svc. A 10.96.0.1\n"
	    "web.default.svc. SRV 0 50 80 " WEB "\n"
	    "web.default.svc. SRV 0 50 81 " WEB "\n"
	    "_http._tcp.web.default.svc. SRV 0 50 80 " WEB "\n"
	    "_http._tcp.web.default.svc. SRV 0 50 81 " WEB "\n");
}

static void
two_addresses_are_one_target(void **state)
{
	(void)state;
	struct object_port ports[] = { { "http", "tcp", 80 } };

	assert_non_null(strstr(cluster_ip(ports, 1, true), "web.default.svc. SRV 0 100 80 " WEB));
}

static void
a_weight_is_the_share_of_100_and_at_least_1(void **state)
{
	(void)state;
	static struct object_port ports[101];
	char want[64];

	for (unsigned i = 0; i < 101; i++)
		ports[i] = (struct object_port){ "", "tcp", (uint16_t)(1 + i) };
	for (unsigned count = 1; count <= 101; count++) {
		snprintf(want, sizeof want, "SRV 0 %u 1 ", count > 100 ? 1 : 100 / count);
		assert_non_null(strstr(cluster_ip(ports, count, false), want));
	}
}

static void
as_many_ports_as_there_may_be_are_each_there_once(void **state)
{
	(void)state;
	static struct object_port ports[PORTS_MAX];
	static char names[PORTS_MAX][8];

	for (unsigned i = 0; i < PORTS_MAX; i++) {
		snprintf(names[i], sizeof names[i], "p%u", i);
		ports[i] = (struct object_port){ names[i], "tcp", (uint16_t)(1 + i) };
	}
	cluster_ip(ports, PORTS_MAX, false);
	assert_int_equal(records, 1 + 2 * PORTS_MAX);
}

static void
headless_and_pending_services_have_no_record_of_their_own(void **state)
{
	(void)state;
	struct object_port ports[] = { { "http", "tcp", 80 } };
	struct object_service svc = { .type = SERVICE_HEADLESS, .ports = ports, .port_count = 1 };
	const char *why;

	assert_string_equal(service(&svc, &why), "");
	svc.type = SERVICE_PENDING;
	assert_string_equal(service(&svc, &why), "");
	assert_null(why);
}

static void
an_external_name_is_a_cname_in_lower_case(void **state)
{
	(void)state;
	struct object_service svc = { .type = SERVICE_EXTERNALNAME,
		.external_name = "DB.Example.com" };
	const char *why;

	assert_string_equal(service(&svc, &why), "web.default.svc. CNAME db.example.com.\n");
	assert_null(why);
}

static void
an_external_name_that_is_an_address_is_an_address_record(void **state)
{
	(void)state;
	struct object_service svc = { .type = SERVICE_EXTERNALNAME, .external_name = "192.0.2.7" };
	const char *why;

	assert_string_equal(service(&svc, &why), "web.default.svc. A 192.0.2.7\n");
	svc.external_name = "2001:db8::7";
	assert_string_equal(service(&svc, &why), "web.default.svc. AAAA 2001:db8::7\n");
	assert_null(why);
}

static void
an_external_name_that_is_no_name_has_no_record_and_a_reason(void **state)
{
	(void)state;
	struct object_service svc = { .type = SERVICE_EXTERNALNAME };
	static const char *const bad[] = { "", ".", "a..b" };
	const char *why;

	for (unsigned i = 0; i < 3; i++) {
		svc.external_name = bad[i];
		assert_string_equal(service(&svc, &why), "");
		assert_non_null(why);
	}
}

static void
the_zone_has_its_name_server_and_its_version(void **state)
{
	(void)state;
	struct records_config c = config();
	struct addr addrs[] = { addr("10.96.0.10"), addr("fd00::a") };

	records_for_zone(&c, addrs, 2, note, NULL);
	assert_string_equal(lines, ". NS ns.dns.cluster.local.\n"
				   "ns.dns. A 10.96.0.10\n"
				   "ns.dns. AAAA fd00::a\n"
				   "dns-version. TXT \"1.1.0\"\n");
	assert_int_equal(last_ttl, 28800);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cluster_ip_of_each_family_is_an_address_record),
		cmocka_unit_test(a_named_port_is_an_srv_at_its_label_and_at_the_bare_name),
		cmocka_unit_test(labels_are_lower_case),
		cmocka_unit_test(an_unnamed_port_is_at_the_bare_name_only),
		cmocka_unit_test(a_port_without_a_number_has_no_srv),
		cmocka_unit_test(one_number_over_two_protocols_is_one_pair),
		cmocka_unit_test(ports_of_one_label_are_one_set_and_each_pair_once),
		cmocka_unit_test(two_addresses_are_one_target),
		cmocka_unit_test(a_weight_is_the_share_of_100_and_at_least_1),
		cmocka_unit_test(as_many_ports_as_there_may_be_are_each_there_once),
		cmocka_unit_test(headless_and_pending_services_have_no_record_of_their_own),
		cmocka_unit_test(an_external_name_is_a_cname_in_lower_case),
		cmocka_unit_test(an_external_name_that_is_an_address_is_an_address_record),
		cmocka_unit_test(an_external_name_that_is_no_name_has_no_record_and_a_reason),
		cmocka_unit_test(the_zone_has_its_name_server_and_its_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
