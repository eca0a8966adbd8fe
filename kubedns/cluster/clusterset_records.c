/*
 * What readers see of one ServiceImport. The records of a ClusterSetIP are a Service's (service_records.h); of a
 * headless one the tree shows the endpoints that clusterset_slices.c has packed.
 */
#include "kubedns/cluster/clusterset.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/clusterset_internal.h"
#include "kubedns/cluster/tree_content.h"

/* `SERVICE.NAMESPACE.svc.` */
static void
name_below_zone(const struct import *import, struct dname *name)
{
	*name = (struct dname){ .len = 1 };
	dname_prepend(name, "svc", 3);
	dname_prepend(name, import->namespace, strlen(import->namespace));
	dname_prepend(name, import->name, strlen(import->name));
	dname_lower(name->wire, name->len);
}

void
import_owner_name(const struct clusterset *cs, const struct import *import, struct dname *name)
{
	name_below_zone(import, name);
	dname_append(name, cs->config.zone.wire); /* the options leave room */
}

/* --- ClusterSetIP --- */

/* The records_sink of names below the zone; `arg` is the struct clusterset. */
static void
put_below_zone(void *arg, const uint8_t *wire, const void *sets, size_t len)
{
	struct clusterset *cs = arg;
	struct dname name = { .len = (uint8_t)dname_length(wire, DNAME_MAX) };

	memcpy(name.wire, wire, name.len);
	if (dname_append(&name, cs->config.zone.wire) == 0)
		treecache_records(cs->cache, treecache_edit(cs->cache, name.wire), sets, len);
}

static void
show_ip(struct clusterset *cs, struct import *import)
{
	struct records_config config = { .zone = cs->config.zone, .ttl_s = cs->config.ttl_s };
	struct object_service service = { .type = import->type,
		.addr_count = import->addr_count,
		.external_name = "",
		.ports = import->ports,
		.port_count = import->port_count };
	struct dname below;
	const char *why;

	memcpy(service.addrs, import->addrs, sizeof service.addrs);
	name_below_zone(import, &below);
	/* It exists without records too. */
	treecache_edit(cs->cache, import->owner->name)->number = NODE_PERMANENT;
	records_for_service(&config, below.wire, &service, put_below_zone, cs, &why);
	for (size_t i = 0; i < import->addr_count; i++)
		treecache_owner_addr(cs->cache, import->owner, &import->addrs[i], true);
	memcpy(import->shown_addrs, import->addrs, sizeof import->shown_addrs);
	import->shown_addr_count = import->addr_count;
}

static void
hide_ip(struct clusterset *cs, struct import *import)
{
	struct node *node = treecache_edit(cs->cache, import->owner->name);

	treecache_clear(cs->cache, node);
	node->number = 0;
	for (size_t i = 0; i < import->shown_addr_count; i++)
		treecache_owner_addr(cs->cache, import->owner, &import->shown_addrs[i], false);
	import->shown_addr_count = 0;
	treecache_prune(cs->cache, import->owner->name);
}

/* --- headless --- */

/* Shows the endpoints of an owner at its name, or hides them. */
static void
show_endpoints(struct clusterset *cs, struct owner *owner, uint32_t flags, uint8_t node_flag)
{
	bool on = flags != 0 && owner->endpoints->published > 0;

	if (on == ((owner->endpoints->flags & ENDPOINTS_ATTACHED) != 0))
		return;
	treecache_endpoint_set_flags(cs->cache, owner, on ? flags | ENDPOINTS_ATTACHED : 0);
	treecache_edit(cs->cache, owner->name)->flags = on ? node_flag : 0;
	if (!on)
		treecache_prune(cs->cache, owner->name);
}

static void
show_import(struct clusterset *cs, struct import *import, bool on)
{
	for (size_t i = 0; i < import->cluster_count; i++)
		if (import->clusters[i]->owner != NULL)
			show_endpoints(cs, import->clusters[i]->owner, on ? ENDPOINTS_REVERSE : 0,
			    NODE_IMPORT_CLUSTER);
	show_endpoints(cs, import->owner, on ? ENDPOINTS_APEX : 0, NODE_IMPORT);
}

/* --- the whole --- */

void
import_write(struct clusterset *cs, struct import *import)
{
	enum import_shows now = !import->present || !import->shown ? IMPORT_NOTHING
				: import->type == SERVICE_HEADLESS ? IMPORT_ENDPOINTS
								   : IMPORT_IP;

	if (import->shows == IMPORT_IP)
		hide_ip(cs, import);
	show_import(cs, import, now == IMPORT_ENDPOINTS);
	if (now == IMPORT_IP)
		show_ip(cs, import);
	import->shows = now;
	import->endpoints = now == IMPORT_ENDPOINTS ? import->owner->endpoints->published : 0;
	import->cut = now == IMPORT_ENDPOINTS && import->cut_slices > 0;
}
