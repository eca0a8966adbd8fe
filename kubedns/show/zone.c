#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/reply.h"
#include "kubedns/show/zone.h"
#include "lib/log.h"
#include "lib/reply_walk.h"
#include "lib/xalloc.h"
#include "treecache/srv_weight.h"

/* A record of the zone: all are collected, then sorted, then printed. */
struct line {
	char *text; /* "TTL IN TYPE RDATA" */
	uint8_t owner[];
};

struct lines {
	struct line **items;
	size_t count, room;
	const struct answer_config *config;
	const struct tree *tree;
	bool own; /* names of the key hosts are being added */
};

static const struct own_names *
own_names(const struct lines *lines)
{
	const struct answer_context *context = lines->tree->context;

	return context == NULL ? NULL : context->hosts;
}

static void
add_line(struct lines *lines, const struct dname *owner, uint32_t ttl_s, uint16_t type,
    const char *rdata)
{
	char type_text[12];
	const struct own_names *own = lines->own ? NULL : own_names(lines);

	if (own != NULL && own_names_find(own, owner->wire, owner->len) != NULL)
		return; /* these come in its place */
	struct line *line = xmalloc(sizeof *line + owner->len);

	memcpy(line->owner, owner->wire, owner->len);
	line->text = xasprintf("%u IN %s %s", ttl_s, type_name(type, type_text), rdata);
	if (lines->count == lines->room) {
		lines->room = lines->room == 0 ? 1024 : lines->room * 2;
		lines->items = xreallocarray(lines->items, lines->room, sizeof *lines->items);
	}
	lines->items[lines->count++] = line;
}

/* RDATA in presentation form; the types are those that records.c writes. */
static void
add_record(struct lines *lines, const struct dname *owner, const uint8_t *record)
{
	uint16_t type = wire_get16(record + 2), len = wire_get16(record + 10);
	const uint8_t *rdata = record + 12;
	char name[DNAME_TEXT_MAX], text[2 * DNAME_TEXT_MAX + 64];
	struct addr addr = { .family = type == TYPE_A ? AF_INET : AF_INET6 };

	switch (type) {
	case TYPE_A:
	case TYPE_AAAA:
		memcpy(addr.bytes, rdata, len);
		addr_format(&addr, text);
		break;
	case TYPE_SRV:
		snprintf(text, sizeof text, "%u %u %u %s", wire_get16(rdata), wire_get16(rdata + 2),
		    wire_get16(rdata + 4), dname_to_text(rdata + 6, name));
		break;
	case TYPE_TXT: /* one string, of ours: nothing in it needs an escape */
		snprintf(text, sizeof text, "\"%.*s\"", rdata[0], (const char *)rdata + 1);
		break;
	case TYPE_SOA: {
		size_t mname = dname_length(rdata, len), rname = mname;
		rname += dname_length(rdata + mname, len - mname);
		int at = snprintf(text, sizeof text, "%s ", dname_to_text(rdata, name));
		at += snprintf(
		    text + at, sizeof text - (size_t)at, "%s", dname_to_text(rdata + mname, name));
		for (size_t i = 0; i < 5; i++)
			at += snprintf(text + at, sizeof text - (size_t)at, " %u",
			    wire_get32(rdata + rname + 4 * i));
		break;
	}
	default:
		dname_to_text(rdata, text);
		break;
	}
	add_line(lines, owner, wire_get32(record + 6), type, text);
}

static void
add_rrset(struct lines *lines, const struct dname *owner, const struct rrset *set)
{
	const uint8_t *record = set->data;

	for (unsigned i = 0; i < set->count; i++) {
		add_record(lines, owner, record);
		record += 12 + wire_get16(record + 10);
	}
}

static void
add_addr(
    struct lines *lines, const struct dname *owner, const struct slice_endpoints *slice, unsigned i)
{
	struct addr addr = { .family = slice->family };
	char text[ADDR_TEXT_MAX];

	memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
	add_line(lines, owner, lines->config->ttl_s, slice->family == AF_INET ? TYPE_A : TYPE_AAAA,
	    addr_format(&addr, text));
}

/* The records of this type at `owner`, as a client would get them. */
static void
add_answers(struct lines *lines, const struct dname *owner, uint16_t type)
{
	static uint8_t out[DNS_TCP_MAX];
	uint8_t query[512];
	struct answer_info info;
	struct reply_walk walk;
	size_t len = query_write(query, sizeof query, 1, owner->wire, type, CLASS_IN, 0);

	const struct answer_request request = { .config = lines->config,
		.tree = lines->tree,
		.query = query,
		.query_len = len,
		.out = out,
		.max = sizeof out,
		.tcp = true };
	answer(&request, &info);
	if (!reply_walk_begin(&walk, out, info.len))
		return;
	while (walk.left[WALK_ANSWER] > 0 && reply_walk_next(&walk) > 0)
		add_record(lines, owner, out + walk.record.offset);
}

/* The SRV records that one endpoint adds: at the Service's own name, and at its ports' names. */
static void
add_srvs(struct lines *lines, const struct dname *service, const struct endpoint_set *endpoints,
    const struct slice_endpoints *slice, const struct dname *endpoint)
{
	char name[DNAME_TEXT_MAX], text[DNAME_TEXT_MAX + 32];

	dname_to_text(endpoint->wire, name);
	for (unsigned at = 0; at < slice->ports->count; at++) {
		const struct port *port = &slice->ports->items[at];
		struct dname owner = *service;
		if (port->number == 0)
			continue;
		snprintf(text, sizeof text, "0 %u %u %s",
		    srv_weight(endpoint_set_pairs(endpoints, 0)), port->number, name);
		add_line(lines, &owner, lines->config->ttl_s, TYPE_SRV, text);
		if (port->name[0] == 0 ||
		    dname_prepend(&owner, port->proto + 1, port->proto[0]) < 0 ||
		    dname_prepend(&owner, port->name + 1, port->name[0]) < 0)
			continue;
		uint64_t label = port_label(lines->tree->seed, port->name, port->proto);
		snprintf(text, sizeof text, "0 %u %u %s",
		    srv_weight(endpoint_set_pairs(endpoints, label)), port->number, name);
		add_line(lines, &owner, lines->config->ttl_s, TYPE_SRV, text);
	}
}

/* An endpoint in two slices gives two equal lines, of which print_lines() drops one. */
static void
add_endpoint_set(
    struct lines *lines, const struct dname *service, const struct endpoint_set *endpoints)
{
	struct dname endpoint;

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;
		for (unsigned i = 0; i < slice->published; i++) {
			if (endpoint_name(&endpoint, lines->config, slice, i) < 0)
				continue;
			add_addr(lines, &endpoint, slice, i);
			add_answers(lines, &endpoint, TYPE_SRV);
			if ((endpoints->flags & ENDPOINTS_APEX) == 0)
				continue;
			add_addr(lines, service, slice, i);
			add_srvs(lines, service, endpoints, slice, &endpoint);
		}
	}
}

struct below {
	struct lines *lines;
	const struct dname *parent;
};

static void
add_node(struct lines *lines, const struct node *node, const struct dname *name)
{
	const struct rrset *set = NULL;

	while ((set = node_rrset_next(node, set)) != NULL)
		add_rrset(lines, name, set);
	if (node->endpoints != NULL)
		add_endpoint_set(lines, name, node->endpoints);
}

static void
add_below(void *arg, const struct node *node)
{
	const struct below *below = arg;
	struct dname name = *below->parent;
	struct below next = { below->lines, &name };

	if (service_without_ready_endpoints(below->lines->config, node) ||
	    dname_prepend(&name, node->label + 1, node->label[0]) < 0)
		return;
	add_node(below->lines, node, &name);
	tree_children(node, add_below, &next);
}

/* --- zones for the world outside: the records of their own tree --- */

static bool
is_external_zone(const struct answer_config *config, const struct dname *zone)
{
	const struct external_zones *zones = config->external;

	for (size_t i = 0; zones != NULL && i < zones->zone_count; i++)
		if (dname_equal(zone->wire, zones->zones[i].wire))
			return true;
	return false;
}

static void
add_external_below(void *arg, const struct node *node)
{
	const struct below *below = arg;
	struct dname name = *below->parent;
	struct below next = { below->lines, &name };

	/* A zone inside this one is a zone of its own. */
	if (dname_prepend(&name, node->label + 1, node->label[0]) < 0 ||
	    is_external_zone(below->lines->config, &name))
		return;
	add_node(below->lines, node, &name);
	tree_children(node, add_external_below, &next);
}

static void
add_external(struct lines *lines, const struct dname *zone)
{
	const struct external_zones *zones = lines->config->external;
	const struct tree *tree = tree_current(zones->tree);
	const struct node *node = tree_find(tree, zone->wire);
	struct below below = { lines, zone };

	lines->own = true; /* as for the SOA of ours */
	add_answers(lines, zone, TYPE_SOA);
	lines->own = false;
	if (node == NULL)
		return;
	add_node(lines, node, zone);
	tree_children(node, add_external_below, &below);
}

static void
add_soa(struct lines *lines, const struct dname *zone)
{
	const struct answer_config *config = lines->config;
	char name[DNAME_TEXT_MAX];
	char *text;

	dname_to_text(config->zone.wire, name);
	text = xasprintf("ns.dns.%s hostmaster.%s %u 7200 1800 86400 %u", name, name,
	    lines->tree->serial, config->negative_ttl_s);
	add_line(lines, zone, config->ttl_s, TYPE_SOA, text);
	free(text);
}

/* --- reverse zones: the PTRs of each known address in the prefix --- */

static void
add_reverse(struct lines *lines, const struct reverse_zone *zone)
{
	struct addr addr = zone->prefix;
	struct dname owner;
	const struct rrset *ns = node_rrset(lines->tree->root, TYPE_NS);

	if (ns != NULL)
		add_rrset(lines, &zone->name, ns);
	while (
	    reverse_seek(lines->tree, &addr) && addr_in_prefix(&addr, &zone->prefix, zone->bits)) {
		if (answer_reverse_zone(lines->config, &addr, (unsigned)addr_len(&addr) * 8) ==
		    zone) { /* not of a zone inside this one */
			reverse_name(&addr, &owner);
			add_answers(lines, &owner, TYPE_PTR);
		}
		if (!addr_increment(&addr))
			return;
	}
}

/* --- names of the key hosts, in place of the cluster's of the same name --- */

static void
add_own(struct lines *lines, const struct dname *zone)
{
	const struct own_names *names = own_names(lines);
	const struct own_name *own;
	uint32_t place = 0;

	lines->own = true;
	while (names != NULL && (own = own_names_next(names, &place)) != NULL) {
		const struct rrset *set = NULL;
		struct dname owner = { .len = own->len };
		memcpy(owner.wire, own->wire, own->len);
		if (dname_in_zone(owner.wire, zone->wire) < 0)
			continue;
		while ((set = own_name_rrset_next(own, set)) != NULL)
			add_rrset(lines, &owner, set);
	}
}

/* --- the file --- */

static int
by_owner_and_text(const void *a, const void *b)
{
	struct line *const *la = a, *const *lb = b;
	int order = dname_compare((*la)->owner, (*lb)->owner);

	return order != 0 ? order : strcmp((*la)->text, (*lb)->text);
}

static int
print_lines(FILE *out, struct lines *lines)
{
	char name[DNAME_TEXT_MAX];

	assert(lines->items != NULL);
	/* The SOA, which was added first, stays first; named-checkzone wants it so. */
	qsort(lines->items + 1, lines->count - 1, sizeof *lines->items, by_owner_and_text);
	for (size_t i = 0; i < lines->count; i++) {
		if (i > 1 && by_owner_and_text(&lines->items[i - 1], &lines->items[i]) == 0)
			continue;
		fprintf(out, "%s %s\n", dname_to_text(lines->items[i]->owner, name),
		    lines->items[i]->text);
	}
	for (size_t i = 0; i < lines->count; i++) {
		free(lines->items[i]->text);
		free(lines->items[i]);
	}
	free(lines->items);
	return fflush(out) == 0 && !ferror(out) ? 0 : -EIO;
}

int
zone_find(const struct answer_config *config, const char *text, struct dname *zone)
{
	char name[DNAME_TEXT_MAX];

	*zone = config->zone;
	if (*text == '\0')
		return 0;
	if (dname_from_text(zone, text) == 0) {
		if (dname_equal(zone->wire, config->zone.wire))
			return 0;
		for (size_t i = 0; i < config->reverse_zone_count; i++)
			if (dname_equal(zone->wire, config->reverse_zones[i].name.wire))
				return 0;
		if (is_external_zone(config, zone))
			return 0;
	}
	log_errorx("--print-zone: \"%s\": not a zone of this server; there is %s", text,
	    dname_to_text(config->zone.wire, name));
	for (size_t i = 0; i < config->reverse_zone_count; i++)
		log_errorx("--print-zone: and %s",
		    dname_to_text(config->reverse_zones[i].name.wire, name));
	for (size_t i = 0; config->external != NULL && i < config->external->zone_count; i++)
		log_errorx(
		    "--print-zone: and %s", dname_to_text(config->external->zones[i].wire, name));
	return -EINVAL;
}

int
zone_print(FILE *out, const struct answer_config *config, const struct tree *tree,
    const struct dname *zone)
{
	struct lines lines = { .config = config, .tree = tree };
	struct below below = { &lines, zone };

	if (is_external_zone(config, zone)) {
		add_external(&lines, zone);
		add_own(&lines, zone);
		return print_lines(out, &lines);
	}
	lines.own = true; /* the SOA is there whatever the apex has besides */
	add_soa(&lines, zone);
	lines.own = false;
	for (size_t i = 0; i < config->reverse_zone_count; i++)
		if (dname_equal(zone->wire, config->reverse_zones[i].name.wire))
			add_reverse(&lines, &config->reverse_zones[i]);
	if (dname_equal(zone->wire, config->zone.wire)) {
		add_node(&lines, tree->root, zone);
		tree_children(tree->root, add_below, &below);
	}
	add_own(&lines, zone);
	return print_lines(out, &lines);
}
