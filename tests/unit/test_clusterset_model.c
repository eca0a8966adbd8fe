/*
 * Names of headless ServiceImports, compared with a model. The model computes the records of random
 * objects, pair by pair. Three things must equal these records: the records of the zone, the
 * answers to queries, and an earlier snapshot after the differences between two snapshots are
 * applied.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/zone_diff.h"
#include "kubedns/answer/stage.h"
#include "kubedns/cluster/clusterset/clusterset.h"
#include "lib/wire.h"
#include "tests/unit/answer_bed.h"

enum { SLICES = 8, ENDPOINTS = 4, PORTS = 3, LINE = 200, LINES_MAX = 4000, ROUNDS = 400 };

static struct clusterset *set;
static struct treecache *cache;
static struct external_zones zones;
static struct dname zone;

/* --- the objects --- */

static const char *const imports[] = { "db", "web" }, *const clusters[] = { "c1", "c2", "west" },
			 *const hosts[] = { NULL, "a", "b", "10-1-0-1" };
static const struct object_port port_kinds[] = { { "http", "tcp", 80 }, { "http", "udp", 80 },
	{ "alt", "tcp", 8080 }, { "", "tcp", 80 }, { "", "tcp", 9 }, { "none", "tcp", 0 },
	{ "http", "tcp", 81 } };

struct model_slice {
	bool there;
	unsigned import, cluster;
	uint8_t family;
	struct object_endpoint endpoints[ENDPOINTS];
	size_t endpoint_count;
	struct object_port ports[PORTS];
	size_t port_count;
};

static struct {
	bool headless[2];
	struct model_slice slices[SLICES];
} world;

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof(ARRAY)[0])

static unsigned
pick(size_t count)
{
	return (unsigned)random() % (unsigned)count;
}

static void
say_slice(unsigned n)
{
	struct model_slice *model = &world.slices[n];
	char name[8];
	struct object_slice slice = { .name = name,
		.family = model->family,
		.endpoints = model->endpoints,
		.endpoint_count = model->endpoint_count,
		.ports = model->ports,
		.port_count = model->port_count };
	const struct object object = { .kind = OBJECT_SLICES,
		.namespace = "test",
		.name = name,
		.resource_version = "",
		.slices = &slice,
		.slice_count = 1,
		.import = { imports[model->import], clusters[model->cluster] } };

	snprintf(name, sizeof name, "s%u", n);
	clusterset_event(
	    set, OBJECT_SLICES, model->there ? EVENT_MODIFIED : EVENT_DELETED, &object);
}

static void
change_slice(void)
{
	unsigned n = pick(SLICES);
	struct model_slice *model = &world.slices[n];

	*model = (struct model_slice){ .there = pick(4) > 0,
		.import = pick(COUNT_OF(imports)),
		.cluster = pick(COUNT_OF(clusters)),
		.family = pick(3) > 0 ? AF_INET : AF_INET6,
		.endpoint_count = pick(ENDPOINTS + 1),
		.port_count = pick(PORTS + 1) };
	for (size_t i = 0; i < model->endpoint_count; i++) {
		struct object_endpoint *endpoint = &model->endpoints[i];
		const char *text = model->family == AF_INET ? "10.1.0.0" : "2001:db8::";

		*endpoint = (struct object_endpoint){ .ready = pick(4) > 0,
			.hostname = hosts[pick(COUNT_OF(hosts))] };
		assert_int_equal(addr_parse(text, &endpoint->addr), 0);
		endpoint->addr.bytes[model->family == AF_INET ? 3 : 15] = (uint8_t)(1 + pick(4));
	}
	for (size_t i = 0; i < model->port_count; i++)
		model->ports[i] = port_kinds[pick(COUNT_OF(port_kinds))];
	say_slice(n);
}

static void
change_import(void)
{
	unsigned n = pick(COUNT_OF(imports));
	const struct object object = { .kind = OBJECT_IMPORT,
		.namespace = "test",
		.name = imports[n],
		.resource_version = "",
		.service = { .type = SERVICE_HEADLESS, .external_name = "" } };

	world.headless[n] = pick(3) > 0;
	clusterset_event(
	    set, OBJECT_IMPORT, world.headless[n] ? EVENT_MODIFIED : EVENT_DELETED, &object);
}

/* --- lists of lines, one per record --- */

struct lines {
	char text[LINES_MAX][LINE];
	size_t count;
};

static int
by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
lines_sort(struct lines *lines)
{
	qsort(lines->text, lines->count, LINE, by_text);
}

__attribute__((format(printf, 2, 3))) static void
line(struct lines *lines, const char *format, ...)
{
	va_list args;

	assert_true(lines->count < LINES_MAX);
	va_start(args, format);
	vsnprintf(lines->text[lines->count++], LINE, format, args);
	va_end(args);
}

static void
lines_unique(struct lines *lines)
{
	size_t kept = 0;

	lines_sort(lines);
	for (size_t i = 0; i < lines->count; i++)
		if (kept == 0 || strcmp(lines->text[kept - 1], lines->text[i]) != 0)
			memmove(lines->text[kept++], lines->text[i], LINE);
	lines->count = kept;
}

static void
expect_lines(const char *what, unsigned round, struct lines *got, struct lines *want)
{
	lines_sort(got);
	lines_sort(want);
	for (size_t i = 0; i < got->count || i < want->count; i++)
		if (i >= got->count || i >= want->count || strcmp(got->text[i], want->text[i]) != 0)
			fail_msg("round %u, %s: has %s, the model %s", round, what,
			    i < got->count ? got->text[i] : "no more",
			    i < want->count ? want->text[i] : "no more");
}

/* --- the model --- */

static void
model_endpoint(
    struct lines *lines, const struct model_slice *slice, const struct object_endpoint *e)
{
	char service[LINE / 2], host[LINE / 2 + 96], addr[64], label[80] = "", text[DNAME_TEXT_MAX];
	uint8_t dashed[1 + DNAME_LABEL_MAX + 8];
	const uint8_t *own = tree_addr_label(&e->addr, dashed);
	struct dname reverse;

	if (e->hostname == NULL)
		memcpy(label, own + 1, own[0]);
	snprintf(service, sizeof service, "%s.test.svc.clusterset.local.", imports[slice->import]);
	snprintf(host, sizeof host, "%s.%s.%s", e->hostname != NULL ? e->hostname : label,
	    clusters[slice->cluster], service);
	addr_format(&e->addr, addr);
	line(lines, "%s %s %s", service, slice->family == AF_INET ? "A" : "AAAA", addr);
	line(lines, "%s %s %s", host, slice->family == AF_INET ? "A" : "AAAA", addr);
	reverse_name(&e->addr, &reverse);
	line(lines, "%s PTR %s", dname_to_text(reverse.wire, text), host);
	for (size_t i = 0; i < slice->port_count; i++) {
		const struct object_port *port = &slice->ports[i];

		if (port->port == 0)
			continue;
		line(lines, "%s SRV %u %s", host, port->port, host);
		line(lines, "%s SRV %u %s", service, port->port, host);
		if (port->name[0] != '\0')
			line(lines, "_%s._%s.%s SRV %u %s", port->name, port->protocol, service,
			    port->port, host);
	}
}

static void
model(struct lines *lines)
{
	lines->count = 0;
	for (unsigned s = 0; s < SLICES; s++) {
		const struct model_slice *slice = &world.slices[s];

		for (size_t i = 0; i < slice->endpoint_count; i++)
			if (slice->there && world.headless[slice->import] &&
			    slice->endpoints[i].ready)
				model_endpoint(lines, slice, &slice->endpoints[i]);
	}
	lines_unique(lines);
}

/* --- the actual records --- */

/* Adds a record without its weight, which srv_weight() checks. `arg` points to a struct lines. */
static bool
take_record(void *arg, const struct zone_record *record)
{
	char owner[DNAME_TEXT_MAX], text[DNAME_TEXT_MAX];
	struct addr addr = { .family = record->type == TYPE_A ? AF_INET : AF_INET6 };

	dname_to_text(record->owner->wire, owner);
	if (record->type == TYPE_SRV) {
		line(arg, "%s SRV %u %s", owner, wire_get16(record->rdata + 4),
		    dname_to_text(record->rdata + 6, text));
	} else if (record->type == TYPE_PTR) {
		line(arg, "%s PTR %s", owner, dname_to_text(record->rdata, text));
	} else if (record->type == TYPE_A || record->type == TYPE_AAAA) {
		memcpy(addr.bytes, record->rdata, record->len);
		addr_format(&addr, text);
		line(arg, "%s %s %s", owner, record->type == TYPE_A ? "A" : "AAAA", text);
	}
	return true;
}

static struct zone_walk
walk_of(struct lines *lines)
{
	lines->count = 0;
	return (struct zone_walk){ .config = &bed.config,
		.trees = { tree_current(bed.cache), tree_current(cache) },
		.take = take_record,
		.arg = lines };
}

/* Applies one difference. `arg` points to the struct lines of the earlier snapshot. */
static bool
take_change(void *arg, size_t index, bool added, const struct zone_record *record)
{
	struct lines *lines = arg;

	(void)index;
	take_record(lines, record);
	if (added)
		return true;
	for (size_t i = 0; i + 1 < lines->count; i++)
		if (strcmp(lines->text[i], lines->text[lines->count - 1]) == 0) {
			memcpy(lines->text[i], lines->text[lines->count - 2], LINE);
			lines->count -= 2;
			return true;
		}
	fail_msg("%s went, and was not there", lines->text[lines->count - 1]);
	return false;
}

/* Returns the expected weight of the SRV records at a name. At the name of an endpoint, whose
 * target is that endpoint, the weight is 100. At the name of a Service or port, the weight is 100
 * divided by the number of addresses. If the two families have different numbers of addresses, the
 * larger number counts. */
static unsigned
srv_weight(const struct lines *want, const char *name, const char *rdata)
{
	unsigned counts[2] = { 0 };
	char start[LINE];

	if (strcmp(strchr(rdata, ' ') + 1, name) == 0)
		return 100;
	while (*name == '_')
		name = strchr(name, '.') + 1;
	for (unsigned six = 0; six < 2; six++) {
		int len = snprintf(start, sizeof start, "%s %s ", name, six ? "AAAA" : "A");

		for (size_t i = 0; i < want->count; i++)
			counts[six] += strncmp(want->text[i], start, (size_t)len) == 0;
	}
	return 100 / (counts[0] > counts[1] ? counts[0] : counts[1]);
}

/* Queries the name and type of the lines [first, end) of the model. The answer must have each of
 * these lines and no other records. */
static void
ask_lines(const struct lines *want, size_t first, size_t end, unsigned round)
{
	char name[LINE], type[8], rdata[LINE], weighted[LINE + 32];

	assert_int_equal(sscanf(want->text[first], "%199s %7s %199[^\n]", name, type, rdata), 3);
	const char *got = bed_ask(name, type), *more = strstr(got, " + ");
	size_t count = 0;
	for (const char *p = got; (p = strstr(p, type)) != NULL && (more == NULL || p < more); p++)
		count += p[strlen(type)] == ' ' && p[-1] == ' ';
	if (count != end - first)
		fail_msg("round %u: %s %s: %zu of %zu records: %s", round, name, type, count,
		    end - first, got);
	for (size_t i = first; i < end; i++) {
		sscanf(want->text[i], "%*s %*s %199[^\n]", rdata);
		if (strcmp(type, "SRV") == 0)
			snprintf(weighted, sizeof weighted, "SRV 0 %u %s",
			    srv_weight(want, name, rdata), rdata);
		else
			snprintf(weighted, sizeof weighted, "%s %s", type, rdata);
		if (strstr(got, weighted) == NULL)
			fail_msg("round %u: %s: %s is not in %s", round, name, weighted, got);
	}
}

static void
ask_all(const struct lines *want, unsigned round)
{
	for (size_t i = 0, end; i < want->count; i = end) {
		size_t len = (size_t)(strchr(strchr(want->text[i], ' ') + 1, ' ') - want->text[i]);

		for (end = i + 1; end < want->count; end++)
			if (strncmp(want->text[i], want->text[end], len + 1) != 0)
				break;
		ask_lines(want, i, end, round);
	}
}

/* --- the test --- */

static int
begin(void **state)
{
	struct clusterset_config config = { .ttl_s = 30 };

	bed_begin(state);
	assert_int_equal(dname_from_text(&zone, "clusterset.local"), 0);
	config.zone = zone;
	zones = (struct external_zones){ .zones = &zone, .zone_count = 1, .clusterset = &zone };
	cache = treecache_new(7);
	set = clusterset_new(&config, cache, 7);
	zones.tree = cache;
	external_zones_set(&bed.config, &zones);
	stages_build(&bed.config);
	bed_reverse_zone("10.0.0.0/8");
	bed_reverse_zone("2001:db8::/32");
	treecache_publish(cache, 1, true);
	bed_publish();
	return 0;
}

static int
end(void **state)
{
	clusterset_free(set);
	treecache_free(cache);
	return bed_end(state);
}

static void
zone_answers_and_differences_are_those_of_the_model(void **state)
{
	static struct lines want, got, moved;

	(void)state;
	srandom(5);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct tree_hold *before = treecache_hold(cache);

		for (unsigned i = 0; i <= pick(3); i++) {
			if (pick(5) == 0)
				change_import();
			else
				change_slice();
			if (pick(2))
				clusterset_settle(set);
		}
		clusterset_settle(set);
		treecache_publish(cache, round + 2, true);
		model(&want);
		struct zone_walk walk = walk_of(&got);
		zone_walk_begin(&walk);
		for (size_t i = 1; i < zone_count(&bed.config); i++)
			assert_true(zone_walk_zone(&walk, i));
		zone_walk_end(&walk);
		expect_lines("the zones", round, &got, &want);
		ask_all(&want, round);
		const struct zone_snapshots snapshots = { { tree_current(bed.cache),
							      tree_held(before) },
			{ tree_current(bed.cache), tree_current(cache) } };
		assert_true(zone_diff(&bed.config, &snapshots, take_change, &moved));
		expect_lines("the differences", round, &moved, &want);
		tree_hold_drop(before);
		treecache_reclaim(cache);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(
	    zone_answers_and_differences_are_those_of_the_model, begin, end) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
