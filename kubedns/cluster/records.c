#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/records.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/srv_weight.h"
#include "treecache/treecache.h"

enum { VERSION_TTL_S = 28800 };

#define DNS_SCHEMA_VERSION "1.1.0" /* Kubernetes DNS-Based Service Discovery 2.2 */

/* RRsets being built for the tree; it grows, since a Service may have any number of ports. */
struct sets {
	uint8_t *bytes;
	size_t len, room;
	size_t open; /* where the set being written begins */
	uint32_t ttl_s;
};

static void *
sets_grow(struct sets *sets, size_t len)
{
	if (sets->len + len > sets->room) {
		sets->room = (sets->len + len) * 2;
		sets->bytes = xreallocarray(sets->bytes, sets->room, 1);
	}
	sets->len += len;
	return sets->bytes + sets->len - len;
}

static struct rrset *
sets_current(struct sets *sets)
{
	return (void *)(sets->bytes + sets->open);
}

static void
set_begin(struct sets *sets, uint16_t type)
{
	sets->open = sets->len;
	struct rrset *set = sets_grow(sets, sizeof *set);
	*set = (struct rrset){ .type = type };
}

/* Adds a record to the open set; rdata in two parts. */
static void
set_add(struct sets *sets, const void *head, size_t head_len, const void *tail, size_t tail_len)
{
	size_t len = 12 + head_len + tail_len;
	uint8_t *p = sets_grow(sets, len);
	struct rrset *set = sets_current(sets);

	wire_put16(p, 0xc000 | DNS_HEADER);
	wire_put16(p + 2, set->type);
	wire_put16(p + 4, CLASS_IN);
	wire_put32(p + 6, sets->ttl_s);
	wire_put16(p + 10, (unsigned)(head_len + tail_len));
	memcpy(p + 12, head, head_len);
	if (tail_len > 0)
		memcpy(p + 12 + head_len, tail, tail_len);
	set->count++;
	set->len += (uint32_t)len;
}

/* Closes the open set; one without records vanishes. */
static void
set_end(struct sets *sets)
{
	struct rrset *set = sets_current(sets);

	if (set->count == 0) {
		sets->len = sets->open;
		return;
	}
	while (sets->len % 4 != 0)
		*(uint8_t *)sets_grow(sets, 1) = 0;
}

static void
add_addrs(struct sets *sets, const struct addr *addrs, size_t count)
{
	static const struct {
		uint16_t type;
		uint8_t family;
	} kinds[] = { { TYPE_A, AF_INET }, { TYPE_AAAA, AF_INET6 } };

	for (size_t k = 0; k < 2; k++) {
		set_begin(sets, kinds[k].type);
		for (size_t i = 0; i < count; i++)
			if (addrs[i].family == kinds[k].family)
				set_add(sets, addrs[i].bytes, addr_len(&addrs[i]), NULL, 0);
		set_end(sets);
	}
}

static void
emit(struct sets *sets, records_sink sink, void *arg, const uint8_t *name)
{
	if (sets->len > 0)
		sink(arg, name, sets->bytes, sets->len);
	sets->len = 0;
}

static void
lower_label(uint8_t *label, const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > DNAME_LABEL_MAX - 1) {
		label[0] = 0;
		return;
	}
	label[0] = (uint8_t)(len + 1);
	label[1] = '_';
	memcpy(label + 2, text, len);
	dname_lower(label + 2, len);
}

void
records_port(struct port *port, const struct object_port *from)
{
	memset(port, 0, sizeof *port);
	port->number = from->port;
	lower_label(port->name, from->name);
	lower_label(port->proto, from->protocol);
}

static void
add_srv(struct sets *sets, unsigned weight, uint16_t port, const struct dname *target)
{
	uint8_t head[6];

	wire_put16(head, 0);
	wire_put16(head + 2, weight);
	wire_put16(head + 4, port);
	set_add(sets, head, sizeof head, target->wire, target->len);
}

/* The SRV set of these ports, at a name that they share. */
static void
srv_set(struct sets *sets, const uint16_t *numbers, unsigned count, const struct dname *target)
{
	set_begin(sets, TYPE_SRV);
	for (unsigned i = 0; i < count; i++)
		add_srv(sets, srv_weight(count), numbers[i], target);
	set_end(sets);
}

/* `_port._proto.name` for every named port of a ClusterIP Service (specification 2.3.2). */
static void
named_ports(struct sets *sets, const struct ports *ports, const uint8_t *name,
    const struct dname *target, records_sink sink, void *arg)
{
	for (size_t i = 0; i < ports->label_count; i++) {
		const struct port_label *label = &ports->labels[i];
		const struct port *port = &ports->items[label->item];
		struct dname owner = { .len = (uint8_t)dname_length(name, DNAME_MAX) };
		if (label->unnamed)
			continue;
		memcpy(owner.wire, name, owner.len);
		if (dname_prepend(&owner, port->proto + 1, port->proto[0]) < 0 ||
		    dname_prepend(&owner, port->name + 1, port->name[0]) < 0)
			continue; /* no name can be so long */
		srv_set(sets, ports->label_numbers + label->first, label->count, target);
		emit(sets, sink, arg, owner.wire);
	}
}

static void
cluster_ip(const struct records_config *config, struct sets *sets, const uint8_t *name,
    const struct object_service *service, records_sink sink, void *arg)
{
	struct port *items = xcalloc(service->port_count, sizeof *items);
	struct dname target = { .len = (uint8_t)dname_length(name, DNAME_MAX) };

	memcpy(target.wire, name, target.len);
	for (size_t i = 0; i < service->port_count; i++)
		records_port(&items[i], &service->ports[i]);
	struct ports *ports = ports_new(HASH_START, items, service->port_count);
	free(items);
	add_addrs(sets, service->addrs, service->addr_count);
	if (dname_append(&target, config->zone.wire) == 0) {
		srv_set(sets, ports->numbers, ports->number_count, &target);
		emit(sets, sink, arg, name);
		named_ports(sets, ports, name, &target, sink, arg);
	}
	free(ports);
}

static void
external_name(struct sets *sets, const uint8_t *name, const char *target_text, records_sink sink,
    void *arg, const char **why)
{
	struct dname target;
	struct addr addr;

	if (addr_parse(target_text, &addr) ==
	    0) { /* not what the API means, but what kube-dns did */
		add_addrs(sets, &addr, 1);
	} else if (dname_from_text(&target, target_text) == 0 && target.len > 1) {
		dname_lower(target.wire, target.len);
		set_begin(sets, TYPE_CNAME);
		set_add(sets, target.wire, target.len, NULL, 0);
		set_end(sets);
	} else {
		*why = "externalName is not a DNS name";
	}
	emit(sets, sink, arg, name);
}

void
records_for_service(const struct records_config *config, const uint8_t *name,
    const struct object_service *service, records_sink sink, void *arg, const char **why)
{
	struct sets sets = { .ttl_s = config->ttl_s };

	*why = NULL;
	switch (service->type) {
	case SERVICE_CLUSTERIP:
		cluster_ip(config, &sets, name, service, sink, arg);
		break;
	case SERVICE_EXTERNALNAME:
		external_name(&sets, name, service->external_name, sink, arg, why);
		break;
	case SERVICE_HEADLESS: /* its endpoints' slices are its records */
	case SERVICE_PENDING:
		break;
	}
	free(sets.bytes);
}

void
records_for_zone(const struct records_config *config, const struct addr *ns_addrs, size_t count,
    records_sink sink, void *arg)
{
	static const uint8_t ns[] = "\2ns\3dns", version[] = "\13dns-version", apex[] = "";
	static const char text[] = DNS_SCHEMA_VERSION;
	struct sets sets = { .ttl_s = config->ttl_s };
	struct dname target = { .len = sizeof ns };
	uint8_t text_len = sizeof text - 1;

	memcpy(target.wire, ns, sizeof ns);
	set_begin(&sets, TYPE_NS);
	if (dname_append(&target, config->zone.wire) == 0)
		set_add(&sets, target.wire, target.len, NULL, 0);
	set_end(&sets);
	emit(&sets, sink, arg, apex);
	add_addrs(&sets, ns_addrs, count);
	emit(&sets, sink, arg, ns);
	sets.ttl_s = VERSION_TTL_S;
	set_begin(&sets, TYPE_TXT);
	set_add(&sets, &text_len, 1, text, text_len);
	set_end(&sets);
	emit(&sets, sink, arg, version);
	free(sets.bytes);
}
