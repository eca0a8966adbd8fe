#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "kubedns/answer/local_names.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/answer/stage.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/rcu.h"
#include "tests/unit/answer_bed.h"

enum { BED_PORTS_MAX = 200, BED_ENDPOINTS_MAX = 6000, LINES_MAX = 5000 };

struct bed bed;

static uint8_t asked[512]; /* the last query, as it was sent */
static size_t asked_len;
static struct dname asked_name;

static struct object
object_named(enum object_kind kind, const char *name)
{
	return (struct object){ .kind = kind,
		.namespace = kind == OBJECT_NAMESPACE ? "" : bed.namespace,
		.name = name,
		.resource_version = "1" };
}

int
bed_begin(void **state)
{
	struct store_config config = { .records = { .ttl_s = 30 },
		.nearest = true,
		.zonal = true,
		.label = { "kind", "special" } };
	struct object o = object_named(OBJECT_NAMESPACE, "default");
	struct addr ns;

	(void)state;
	rcu_join();
	memset(&bed, 0, sizeof bed);
	bed.namespace = "default";
	dname_from_text(&bed.config.zone, "cluster.local.");
	bed.config.ttl_s = 30;
	bed.config.negative_ttl_s = 5;
	bed.parts.zone.pods = PODS_INSECURE;
	strcpy(bed.config.hostname, "pod-1");
	answer_parts_use(&bed.config, &bed.parts);
	config.records.zone = bed.config.zone;
	bed.cache = treecache_new(0x9e3779b97f4a7c15);
	bed.store = store_new(bed.cache, &config);
	assert_int_equal(addr_parse("192.0.2.53", &ns), 0);
	store_addresses(bed.store, &ns, 1);
	store_event(bed.store, OBJECT_NAMESPACE, EVENT_ADDED, &o);
	bed_forwarding(true);
	bed_publish();
	return 0;
}

int
bed_end(void **state)
{
	(void)state;
	store_free(bed.store);
	treecache_free(bed.cache);
	free(bed.parts.reverse.zones);
	rewrites_free(bed.rewrites);
	free(bed.hosts);
	rcu_part();
	return 0;
}

void
bed_namespace_labelled(const char *name, bool labelled)
{
	struct object_key_value label = { .key = "kind", .value = labelled ? "special" : "other" };
	struct object o = object_named(OBJECT_NAMESPACE, name);

	o.labels = &label;
	o.label_count = 1;
	store_event(bed.store, OBJECT_NAMESPACE, EVENT_ADDED, &o);
	bed.namespace = name;
}

void
bed_namespace(const char *name)
{
	bed_namespace_labelled(name, false);
}

/* Parses "name/proto/number ..." in place. */
static unsigned
read_ports(char *text, struct object_port ports[BED_PORTS_MAX])
{
	unsigned count = 0;
	char *next = NULL;

	for (char *word = strtok_r(text, " ", &next); word != NULL;
	     word = strtok_r(NULL, " ", &next)) {
		char *proto = strchr(word, '/'), *number = strrchr(word, '/');

		assert_true(proto != NULL && number != proto && count < BED_PORTS_MAX);
		*proto = *number = '\0';
		ports[count++] = (struct object_port){ word, proto + 1,
			(uint16_t)strtoul(number + 1, NULL, 10) };
	}
	return count;
}

void
bed_service(const char *name, enum service_type type, const char *address, const char *ports)
{
	struct object_port items[BED_PORTS_MAX];
	char *text = strdup(ports);
	struct object o = object_named(OBJECT_SERVICE, name);

	o.service = (struct object_service){ .type = type,
		.external_name = type == SERVICE_EXTERNALNAME ? address : "",
		.ports = items,
		.port_count = read_ports(text, items) };
	if (type == SERVICE_CLUSTERIP) {
		assert_int_equal(addr_parse(address, &o.service.addrs[0]), 0);
		o.service.addr_count = 1;
	}
	store_event(bed.store, OBJECT_SERVICE, EVENT_ADDED, &o);
	free(text);
}

void
bed_service_delete(const char *name)
{
	struct object o = object_named(OBJECT_SERVICE, name);

	store_event(bed.store, OBJECT_SERVICE, EVENT_DELETED, &o);
}

void
bed_slice(const char *service, const char *name, const char *ports, const char *endpoints)
{
	static struct object_endpoint items[BED_ENDPOINTS_MAX];
	struct object_port port_items[BED_PORTS_MAX];
	char *text = strdup(endpoints), *port_text = strdup(ports), *next = NULL;
	struct object_slice slice = { .name = name,
		.service = service,
		.family = AF_INET, /* the family if there are no endpoints */
		.ports = port_items,
		.port_count = read_ports(port_text, port_items),
		.endpoints = items };
	struct object o = object_named(OBJECT_SLICES, name);

	for (char *word = strtok_r(text, " ", &next); word != NULL;
	     word = strtok_r(NULL, " ", &next)) {
		struct object_endpoint *e = &items[slice.endpoint_count++];
		char *host = strchr(word, '=');

		assert_true(slice.endpoint_count <= BED_ENDPOINTS_MAX);
		if (host != NULL)
			*host++ = '\0';
		*e = (struct object_endpoint){ .ready = *word != '!', .hostname = host };
		assert_int_equal(addr_parse(word + (*word == '!'), &e->addr), 0);
		slice.family = e->addr.family;
	}
	o.slices = &slice;
	o.slice_count = 1;
	store_event(bed.store, OBJECT_SLICES, EVENT_ADDED, &o);
	free(text);
	free(port_text);
}

void
bed_reverse_zone(const char *cidr)
{
	struct reverse_config *config = &bed.parts.reverse;
	char text[64];
	struct reverse_zone *zone;

	config->zones = realloc(config->zones, (config->zone_count + 1) * sizeof *config->zones);
	zone = &config->zones[config->zone_count++];
	snprintf(text, sizeof text, "%s", cidr);
	char *slash = strchr(text, '/');
	*slash = '\0';
	assert_int_equal(addr_parse(text, &zone->prefix), 0);
	zone->bits = (unsigned)strtoul(slash + 1, NULL, 10);
	reverse_name_prefix(&zone->prefix, zone->bits, &zone->name);
}

void
bed_forwarding(bool forwarding)
{
	struct answer_context *context = calloc(1, sizeof *context);

	context->forwarding = forwarding;
	treecache_context(bed.cache, context);
}

struct answer_context *
bed_context(const char *rewrites, const char *hosts)
{
	struct answer_context *context = calloc(1, sizeof *context);
	struct conf_rewrites conf;
	struct conf_hosts conf_hosts;
	char *why;

	/* Two tests call this again after their setup. */
	rewrites_free(bed.rewrites);
	free(bed.hosts);
	assert_int_equal(conf_rewrites_parse(rewrites, strlen(rewrites), &conf, &why), 0);
	assert_int_equal(rewrites_new(&conf, 3, &bed.rewrites, &why), 0);
	conf_rewrites_free(&conf);
	assert_int_equal(conf_hosts_parse(hosts, strlen(hosts), &conf_hosts, &why), 0);
	bed.hosts = local_names_of_hosts(&conf_hosts, true, bed.config.ttl_s, 3);
	conf_hosts_free(&conf_hosts);
	context->forwarding = context->own = true;
	context->rewrites = bed.rewrites;
	context->names = bed.hosts;
	treecache_context(bed.cache, context);
	return context;
}

struct answer_context *
bed_records(const char *records, const char *hosts, const char *cuts)
{
	static const char *const sources[] = { "the ConfigMap's key hosts",
		"the ConfigMap's key records" };
	struct answer_context *context = bed_context("null", hosts);
	struct conf_records conf;
	uint8_t wires[1024];
	size_t len = 0;
	char *why = NULL, *text = strdup(cuts), *next = NULL;

	if (conf_records_parse(records, strlen(records), "cluster.local", &conf, &why) < 0)
		fail_msg("%s", why);
	struct local_names *block = local_names_of_records(&conf, bed.config.ttl_s, 3);
	conf_records_free(&conf);
	for (char *word = strtok_r(text, " ", &next); word != NULL;
	     word = strtok_r(NULL, " ", &next)) {
		struct dname name;

		assert_int_equal(dname_from_text(&name, word), 0);
		memcpy(wires + len, name.wire, name.len);
		len += name.len;
	}
	free(text);
	const struct local_names *const blocks[] = { bed.hosts, block };
	struct local_names *both = local_names_merge(
	    &(struct own_sources){ blocks, sources, 2, 2, wires, len, NULL, NULL });
	free(block);
	free(bed.hosts);
	context->names = bed.hosts = both;
	return context;
}

void
bed_publish(void)
{
	treecache_publish(bed.cache, 1700000000, true);
}

/* --- replies as text --- */

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Removes every occurrence of the zone's name. */
static void
shorten(char *text)
{
	static const char zone[] = ".cluster.local.";
	char *at;

	while ((at = strstr(text, zone)) != NULL)
		memmove(at, at + sizeof zone - 1, strlen(at + sizeof zone - 1) + 1);
}

static char *
record_text(const ldns_rr *rr, const ldns_rdf *qname, const char *prefix)
{
	char *owner = ldns_rdf2str(ldns_rr_owner(rr)), *all = ldns_rr2str(rr), *text = NULL;
	char *type = strstr(all, "\tIN\t");
	bool same = *prefix != '+' && ldns_dname_compare(ldns_rr_owner(rr), qname) == 0;

	assert_non_null(type);
	all[strcspn(all, "\n")] = '\0';
	if (ldns_rr_get_type(rr) == LDNS_RR_TYPE_SOA && *prefix == '~')
		assert_true(asprintf(&text, "SOA of %s", owner) > 0);
	else
		assert_true(asprintf(&text, "%s%s%s%s", *prefix == '~' ? "" : prefix,
				same ? "" : owner, same ? "" : ": ", type + 4) > 0);
	for (char *p = text; *p != '\0'; p++)
		if (*p == '\t')
			*p = ' ';
	shorten(text);
	free(owner);
	free(all);
	return text;
}

static const char *
reply_text_of(const struct dname *name)
{
	static const ldns_pkt_section sections[] = { LDNS_SECTION_ANSWER, LDNS_SECTION_AUTHORITY,
		LDNS_SECTION_ADDITIONAL };

	static const char *const prefixes[] = { "", "~", "+ " };
	static char out[BED_TEXT_MAX * 4];
	static char *lines[LINES_MAX];
	ldns_rdf *qname = ldns_dname_new_frm_data(name->len, name->wire);
	ldns_pkt *pkt = NULL;
	char rcode[12];

	assert_int_equal(ldns_wire2pkt(&pkt, bed.out, bed.info.len), LDNS_STATUS_OK);
	size_t len = (size_t)snprintf(out, sizeof out, "%s%s", rcode_name(bed.info.rcode, rcode),
	    bed.info.truncated ? " TC" : "");
	for (unsigned s = 0; s < 3; s++) {
		ldns_rr_list *list = ldns_pkt_get_section_clone(pkt, sections[s]);
		size_t count = ldns_rr_list_rr_count(list);

		assert_true(count <= LINES_MAX);
		for (size_t i = 0; i < count; i++)
			lines[i] = record_text(ldns_rr_list_rr(list, i), qname, prefixes[s]);
		qsort(lines, count, sizeof lines[0], by_text);
		for (size_t i = 0; i < count; i++) {
			len += (size_t)snprintf(
			    out + len, sizeof out - len, "%s%s", i > 0 ? ", " : " ", lines[i]);
			assert_true(len < sizeof out);
			free(lines[i]);
		}
		ldns_rr_list_deep_free(list);
	}
	ldns_pkt_free(pkt);
	ldns_rdf_deep_free(qname);
	return out;
}

static struct answer_request
request_now(void)
{
	return (struct answer_request){ .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = asked,
		.query_len = asked_len,
		.out = bed.out,
		.max = sizeof bed.out,
		.client = bed.client,
		.tcp = true };
}

static const char *
chase_text(void)
{
	static char out[DNAME_TEXT_MAX + 16];
	char target[DNAME_TEXT_MAX];

	snprintf(out, sizeof out, "CHASE %s", dname_to_text(bed.info.target.wire, target));
	return out;
}

const char *
bed_ask(const char *text, const char *type)
{
	char full[DNAME_TEXT_MAX];
	size_t at = strlen(text);
	bool whole = at > 0 && text[at - 1] == '.';

	snprintf(full, sizeof full, "%s%s", text, whole ? "" : ".cluster.local.");
	assert_int_equal(dname_from_text(&asked_name, full), 0);
	asked_len =
	    query_write(asked, sizeof asked, 77, asked_name.wire, type_number(type), CLASS_IN, 0);
	struct answer_request request = request_now();
	switch (answer(&request, &bed.info)) {
	case ANSWER_MODULE:
		return "MODULE";
	case ANSWER_REPLY:
		return reply_text_of(&asked_name);
	case ANSWER_FORWARD:
		return "FORWARD";
	case ANSWER_CHASE:
		return chase_text();
	case ANSWER_DROP:
		break;
	}
	return "DROP";
}

static void
push_records(ldns_pkt *pkt, ldns_pkt_section section, const char *lines)
{
	char *text = strdup(lines), *next = NULL;

	for (char *line = strtok_r(text, "\n", &next); line != NULL;
	     line = strtok_r(NULL, "\n", &next)) {
		ldns_rr *rr;

		assert_int_equal(ldns_rr_new_frm_str(&rr, line, 0, NULL, NULL), LDNS_STATUS_OK);
		ldns_pkt_push_rr(pkt, section, rr);
	}
	free(text);
}

const char *
bed_told(const char *rcode, const char *answer, const char *authority)
{
	struct upstream_reply said = { 0 };
	struct answer_request request = request_now();
	const struct dname *target = &bed.info.target;
	uint8_t *wire = NULL;

	if (rcode != NULL) {
		ldns_pkt *pkt =
		    ldns_pkt_query_new(ldns_dname_new_frm_data(target->len, target->wire),
			(ldns_rr_type)bed.info.query.qtype, LDNS_RR_CLASS_IN, LDNS_QR | LDNS_RD);

		ldns_pkt_set_rcode(pkt, (uint8_t)ldns_lookup_by_name(ldns_rcodes, rcode)->id);
		push_records(pkt, LDNS_SECTION_ANSWER, answer);
		push_records(pkt, LDNS_SECTION_AUTHORITY, authority);
		assert_int_equal(ldns_pkt2wire(&wire, pkt, &said.len), LDNS_STATUS_OK);
		ldns_pkt_free(pkt);
		said.wire = wire;
	}
	bool on = answer_chases_on(&request, &said, &bed.info);
	if (!on)
		bed.info.len = answer_chased(&request, &said, &bed.info);
	free(wire);
	return on ? chase_text() : reply_text_of(&asked_name);
}

void
bed_expect(const char *name, const char *type, const char *want)
{
	const char *got = bed_ask(name, type);

	if (strcmp(got, want) != 0)
		fail_msg("%s %s:\n  %s\nwant\n  %s", name, type, got, want);
}

/* Formats the extended errors among the options of the OPT. */
static void
ede_text_of(const uint8_t *options, size_t len, char *out, size_t capacity)
{
	*out = '\0';
	for (size_t at = 0; at + 4 <= len; at += 4u + wire_get16(options + at + 2)) {
		size_t size = wire_get16(options + at + 2);

		assert_true(at + 4 + size <= len);
		if (wire_get16(options + at) != 15)
			continue;
		assert_true(size >= 2);
		size_t used = strlen(out);
		snprintf(out + used, capacity - used, "%s%u: %.*s", used > 0 ? "; " : "",
		    wire_get16(options + at + 4), (int)size - 2, options + at + 6);
	}
}

const char *
bed_why(const char *text, const char *type, uint16_t udp_size)
{
	static char out[2048];
	char full[DNAME_TEXT_MAX];
	struct dname name;
	uint8_t query[512];
	size_t at = strlen(text);
	bool whole = at > 0 && text[at - 1] == '.';
	ldns_pkt *pkt = NULL;
	struct answer_thread thread = { .now_ns = &bed.now_ns, .modules = bed.counters };
	struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.out = bed.out,
		.max = DNS_UDP_PAYLOAD,
		.thread = &thread };

	snprintf(full, sizeof full, "%s%s", text, whole ? "" : ".cluster.local.");
	assert_int_equal(dname_from_text(&name, full), 0);
	request.query_len =
	    query_write(query, sizeof query, 77, name.wire, type_number(type), CLASS_IN, udp_size);
	assert_int_equal(answer(&request, &bed.info), ANSWER_REPLY);
	assert_true(bed.info.len <= (udp_size < DNS_UDP_MIN ? DNS_UDP_MIN : udp_size));
	assert_int_equal(ldns_wire2pkt(&pkt, bed.out, bed.info.len), LDNS_STATUS_OK);
	ldns_rdf *options = ldns_pkt_edns_data(pkt);
	assert_true(ldns_pkt_edns(pkt) == (udp_size > 0));
	if (options == NULL)
		*out = '\0';
	else
		ede_text_of(ldns_rdf_data(options), ldns_rdf_size(options), out, sizeof out);
	ldns_pkt_free(pkt);
	return out;
}

void
bed_expect_why(const char *name, const char *type, const char *want)
{
	const char *got = bed_why(name, type, DNS_UDP_PAYLOAD);

	if (strcmp(got, want) != 0)
		fail_msg("%s %s:\n  %s\nwant\n  %s", name, type, got, want);
}
