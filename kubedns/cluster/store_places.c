/*
 * --nearest and --zonal: where endpoints are and for whom they are meant, as numbers in the tree; and where
 * the nodes are that pods run on, for clients known by their address.
 *
 *	EndpointSlice --zone, nodeName, hints--> places of a slice's endpoints
 *	Pod --podIPs, nodeName--> address -> number of the node
 *	Node --label--> number of the node -> its place
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/xalloc.h"

struct client_place
client_place_of(const char *node, const char *zone)
{
	struct client_place place = { 0 };

	if (*node != '\0')
		place.node = place_number(PLACE_FOR_NODE, node, strlen(node));
	if (*zone != '\0') {
		place.zone = place_number(PLACE_FOR_ZONE, zone, strlen(zone));
		place.in_zone = place_number(PLACE_ZONE, zone, strlen(zone));
	}
	return place;
}

/* How many places for a zone stand before place `i` of the same endpoint. */
static size_t
zones_before(const struct object_slice *slice, size_t i)
{
	size_t count = 0;

	for (size_t k = i; k-- > 0 && slice->places[k].endpoint == slice->places[i].endpoint;)
		count += slice->places[k].kind == PLACE_FOR_ZONE;
	return count;
}

/* All places of a slice, once more for those that are not ready, and pairs: an endpoint's places for nodes
 * come behind those for zones. */
static size_t
room_for_places(const struct object_slice *slice)
{
	size_t room = 2 * slice->place_count;

	for (size_t i = 0; i < slice->place_count; i++)
		if (slice->places[i].kind == PLACE_FOR_NODE)
			room += zones_before(slice, i);
	return room;
}

/* The places of an endpoint's node, which is the last that was written, and each of its zones. */
static size_t
add_both(const struct object_slice *from, size_t i, struct endpoint_place *places, size_t count)
{
	uint16_t endpoint = from->places[i].endpoint;
	uint64_t node = places[count - 1].place;

	for (size_t k = i; k-- > 0 && from->places[k].endpoint == endpoint;) {
		const struct object_place *zone = &from->places[k];
		if (zone->kind == PLACE_FOR_ZONE)
			places[count++] = (struct endpoint_place){
				place_of_both(node,
				    place_number(PLACE_FOR_ZONE, zone->name, strlen(zone->name))),
				endpoint
			};
	}
	return count;
}

size_t
places_of_slice(
    const struct store *store, const struct object_slice *from, struct endpoint_place **places)
{
	size_t count = 0;

	*places = NULL;
	if ((!store->config.nearest && !store->config.zonal) || from->place_count == 0)
		return 0;
	*places = xcalloc(room_for_places(from), sizeof **places);
	for (size_t i = 0; i < from->place_count; i++) {
		const struct object_place *place = &from->places[i];
		if (place->kind == PLACE_ZONE ? !store->config.zonal : !store->config.nearest)
			continue;
		(*places)[count++] = (struct endpoint_place){
			place_number(place->kind, place->name, strlen(place->name)), place->endpoint
		};
		uint64_t number = (*places)[count - 1].place;
		if (place->kind == PLACE_FOR_NODE)
			count = add_both(from, i, *places, count);
		if (place->kind != PLACE_ZONE && !from->endpoints[place->endpoint].ready)
			(*places)[count++] =
			    (struct endpoint_place){ place_not_ready(number), place->endpoint };
	}
	return count;
}

struct node_places *
store_node_places(struct store *store)
{
	struct client_pods *pods = store->client_pods;

	if (pods == NULL || !store->config.pod_places ||
	    (!client_pods_renumbered(pods) && !store->places_due))
		return NULL;
	store->places_due = false;
	uint32_t count = client_pods_numbers(pods);
	struct node_places *made = xcalloc(1, sizeof *made + count * sizeof(struct client_place));
	made->count = count;
	for (uint32_t i = 1; i < count; i++) {
		const struct client_node *node = client_pods_node(pods, i);
		const struct host *host = node == NULL ? NULL : node_find_host(store, node->name);
		if (node != NULL)
			made->items[i] =
			    client_place_of(node->name, host == NULL ? "" : host->zone);
	}
	return made;
}
