#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/rrset_writer.h"
#include "kubedns/cluster/service_records.h"
#include "lib/hash.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

enum { VERSION_TTL_S = 28800 };

#define DNS_SCHEMA_VERSION "1.1.0" /* Kubernetes DNS-Based Service Discovery 2.2 */

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

void
records_named_ports(struct sets *sets, const struct ports *ports, const uint8_t *name,
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
			continue; /* the name would be too long */
		sets_srv(sets, ports->label_numbers + label->first, label->count, target);
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
	sets_addrs(sets, service->addrs, service->addr_count);
	if (dname_append(&target, config->zone.wire) == 0) {
		sets_srv(sets, ports->numbers, ports->number_count, &target);
		emit(sets, sink, arg, name);
		records_named_ports(sets, ports, name, &target, sink, arg);
	}
	free(ports);
}

static void
external_name(struct sets *sets, const uint8_t *name, const char *target_text, records_sink sink,
    void *arg, const char **why)
{
	struct dname target;
	struct addr addr;

	/* The API does not define an address as a target, but kube-dns accepted it. */
	if (addr_parse(target_text, &addr) == 0) {
		sets_addrs(sets, &addr, 1);
	} else if (dname_from_text(&target, target_text) == 0 && target.len > 1) {
		dname_lower(target.wire, target.len);
		sets_begin(sets, TYPE_CNAME);
		sets_add(sets, target.wire, target.len, NULL, 0);
		sets_end(sets);
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
	case SERVICE_HEADLESS: /* the records of a headless Service are the endpoints of its
			        * slices */
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
	sets_begin(&sets, TYPE_NS);
	if (dname_append(&target, config->zone.wire) == 0)
		sets_add(&sets, target.wire, target.len, NULL, 0);
	sets_end(&sets);
	emit(&sets, sink, arg, apex);
	sets_addrs(&sets, ns_addrs, count);
	emit(&sets, sink, arg, ns);
	sets.ttl_s = VERSION_TTL_S;
	sets_begin(&sets, TYPE_TXT);
	sets_add(&sets, &text_len, 1, text, text_len);
	sets_end(&sets);
	emit(&sets, sink, arg, version);
	free(sets.bytes);
}
