/*
 * --external-headless: `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE` of a zone for outside is what
 * `[HOST.|_PORT._PROTO.]SERVICE.NAMESPACE.svc` is in ours, unless the zone has records of its own
 * there. The walk makes the records of our zone, and they are renamed on their way.
 */
#include <string.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/zone_walk_internal.h"

static const uint8_t svc[8 + 8] = "\3svc"; /* tree_child() reads behind the label */

struct headless {
	struct dname from, to; /* the Service's names */
	const struct dname *zone;
};

/* A name of the Service, or below it, in the other zone; false: it is too long there. */
static bool
rename(const struct headless *headless, const struct dname *name, struct dname *renamed)
{
	size_t own = (size_t)name->len - headless->from.len;

	if (own + headless->to.len > DNAME_MAX)
		return false;
	memcpy(renamed->wire, name->wire, own);
	memcpy(renamed->wire + own, headless->to.wire, headless->to.len);
	renamed->len = (uint8_t)(own + headless->to.len);
	return true;
}

/* Whether something else has the name: the cluster, a zone inside this one, or records of the
 * zone's own; as answer_external() looks for them. */
static bool
is_taken(const struct zone_walk *walk, const struct dname *owner)
{
	struct name_buf buf;

	const struct name name = name_copy(&buf, owner->wire, owner->len);
	if (name_below(&name, &walk->config->zone) >= 0 ||
	    external_zone_of(walk->config->external, &name) != walk->headless->zone)
		return true;
	struct external_name found = external_lookup(walk->external, &name, walk->headless->zone);
	return found.node != NULL && !found.wildcard && found.node->records != NULL;
}

void
zone_walk_put_headless(struct zone_walk *walk, const struct zone_record *record)
{
	struct zone_record renamed = *record;
	struct dname owner, before, target;
	uint8_t srv[6 + DNAME_MAX];

	if (!rename(walk->headless, record->owner, &owner) || is_taken(walk, &owner))
		return;
	renamed.owner = &owner;
	if (record->type == TYPE_SRV) {
		before.len = (uint8_t)(record->len - 6);
		memcpy(before.wire, record->rdata + 6, before.len);
		if (!rename(walk->headless, &before, &target))
			return;
		memcpy(srv, record->rdata, 6);
		memcpy(srv + 6, target.wire, target.len);
		renamed.rdata = srv;
		renamed.len = (uint16_t)(6 + target.len);
	}
	walk->stopped = !walk->take(walk->arg, &renamed);
}

static void
put_service(
    struct zone_walk *walk, size_t index, const struct dname *service, const struct node *node)
{
	const struct dname *zone = zone_name(walk->config, index);
	struct headless headless = { .from = *service, .to = *service, .zone = zone };

	if (walk->stopped || node->endpoints == NULL ||
	    (node->endpoints->flags & ENDPOINTS_APEX) == 0 ||
	    dname_append(&headless.from, svc) < 0 ||
	    dname_append(&headless.from, walk->config->zone.wire) < 0 ||
	    dname_append(&headless.to, zone->wire) < 0)
		return;
	walk->headless = &headless;
	zone_walk_put_endpoints(walk, &headless.from, node->endpoints);
	walk->headless = NULL;
}

static bool
has_headless(const struct zone_walk *walk, size_t index)
{
	return zone_is_external(walk->config, index) && walk->config->external->headless &&
	       zone_name(walk->config, index) != walk->config->external->clusterset &&
	       walk->tree->synced && walk->external != NULL;
}

void
zone_walk_headless(struct zone_walk *walk, size_t index, const struct dname *service)
{
	struct dname below = *service;

	if (!has_headless(walk, index) || dname_append(&below, svc) < 0)
		return;
	const struct node *node = tree_find(&walk->plain, below.wire);
	if (node != NULL)
		put_service(walk, index, service, node);
}

/* --- all of them --- */

struct place {
	struct zone_walk *walk;
	size_t index;
	struct dname name; /* of the namespace, or the root */
};

static void
walk_service(void *arg, const struct node *node)
{
	const struct place *place = arg;
	struct dname name = place->name;

	if (dname_prepend(&name, node->label + 1, node->label[0]) == 0)
		put_service(place->walk, place->index, &name, node);
}

static void
walk_namespace(void *arg, const struct node *node)
{
	const struct place *place = arg;
	struct place inside = *place;

	if (dname_prepend(&inside.name, node->label + 1, node->label[0]) == 0)
		tree_children(node, walk_service, &inside);
}

void
zone_walk_all_headless(struct zone_walk *walk, size_t index)
{
	struct place place = { walk, index, { .len = 1 } };
	const struct node *node =
	    has_headless(walk, index) ? tree_child(&walk->plain, walk->plain.root, svc) : NULL;

	if (node != NULL)
		tree_children(node, walk_namespace, &place);
}
