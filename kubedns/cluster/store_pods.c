/*
 * Addresses of pods (for --pods=verified and --client-pods), and zone and region of nodes (for
 * federations). Queries name a pod by its address, so a 64-bit keyed hash of the pod's own name is
 * enough here. client_pods.h stores the names that are displayed. Pods on their host's network
 * share the host's address, so the store counts the pods of each address.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/xalloc.h"

static bool
same_share(const void *entry, const void *key)
{
	const struct share *a = entry, *b = key;

	return a->number == b->number && addr_equal(&a->addr, &b->addr);
}

/* Adds a pod to this address, or removes one. */
static void
show_addr(struct store *store, const struct addr *addr, uint32_t number, bool present)
{
	struct share key = { .number = number, .addr = *addr };

	key.hash = (uint32_t)hash64(
	    treecache_next(store->cache)->seed + number, addr->bytes, addr_len(addr));
	struct share *share = table_find(&store->shares, key.hash, same_share, &key);
	if (present && pods_has(treecache_next(store->cache), addr, number)) {
		if (share == NULL) {
			share = xmalloc(sizeof *share);
			*share = key;
			table_add(&store->shares, share);
		}
		share->more++;
	} else if (present || share == NULL) {
		treecache_pod(store->cache, addr, number, present);
	} else if (--share->more == 0) {
		table_remove(&store->shares, share);
		free(share);
	}
}

static bool
has_addr(const struct object *object, const struct addr *addr)
{
	for (size_t i = 0; i < object->pod.addr_count; i++)
		if (addr_equal(&object->pod.addrs[i], addr))
			return true;
	return false;
}

static void
drop_addr(struct store *store, struct pod_table *table, struct pod_addr *entry)
{
	struct namespace *namespace = store->by_number[(entry->number & POD_NUMBER) - 1];
	struct addr addr = pod_table_addr(table, entry);

	show_addr(store, &addr, entry->number, false);
	if (store->client_pods != NULL)
		client_pods_remove(store->client_pods, &addr, entry->name_hash);
	pod_table_remove(table, entry);
	namespace->uses--;
	namespace_drop(store, namespace);
}

/* Removes the pod's addresses, except the addresses that `object` still has. Removes all addresses
 * if `object` is NULL. */
static void
forget_addrs(
    struct store *store, struct pod_table *table, uint64_t name_hash, const struct object *object)
{
	struct pod_addr *entry = NULL;

	while ((entry = pod_table_next(table, name_hash, entry)) != NULL) {
		struct addr addr = pod_table_addr(table, entry);

		if (object != NULL && has_addr(object, &addr))
			continue;
		drop_addr(store, table, entry);
		entry = NULL; /* removal moves entries, so the search starts again */
	}
}

static void
forget_pod(struct store *store, uint64_t name_hash, const struct object *object)
{
	forget_addrs(store, &store->pods[0], name_hash, object);
	forget_addrs(store, &store->pods[1], name_hash, object);
}

static bool
has_pod(const struct store *store, uint64_t name_hash)
{
	return pod_table_next(&store->pods[0], name_hash, NULL) != NULL ||
	       pod_table_next(&store->pods[1], name_hash, NULL) != NULL;
}

/* Returns the number of the namespace, with the flag bits of the pod: see tree_content.h. */
static uint32_t
number_of(const struct namespace *namespace, const struct object *object)
{
	return namespace->number | (object->pod.on_host ? POD_ON_HOST : 0) |
	       (object->pod.running ? 0 : POD_NOT_RUNNING);
}

/* Adds an address of a pod. If the address is known already, marks it as listed. */
static void
note_addr(struct store *store, uint64_t name_hash, struct namespace *namespace,
    const struct object *object, const struct addr *addr)
{
	struct pod_table *table = &store->pods[addr->family == AF_INET ? 0 : 1];
	uint32_t number = number_of(namespace, object);
	uint8_t mark = store->mark[OBJECT_POD];
	struct pod_addr *entry = NULL;

	if (store->client_pods != NULL && object->pod.on_host)
		client_pods_remove(store->client_pods, addr, name_hash);
	else if (store->client_pods != NULL)
		client_pods_put(store->client_pods, addr, name_hash, object);
	while ((entry = pod_table_next(table, name_hash, entry)) != NULL)
		if (memcmp(entry->bytes, addr->bytes, addr_len(addr)) == 0)
			break;
	if (entry == NULL) {
		pod_table_add(table, name_hash, number, mark, addr);
		namespace->uses++;
	} else {
		entry->mark = mark;
		if (entry->number == number)
			return;
		show_addr(store, addr, entry->number, false);
		entry->number = number;
	}
	show_addr(store, addr, number, true);
}

/* Whether to store the pod's addresses. The addresses of a pod that is starting or ending are
 * stored only to identify clients. */
static bool
is_kept(const struct store *store, const struct object *object)
{
	return object->pod.addr_count > 0 &&
	       (object->pod.running || (store->client_pods != NULL && !object->pod.ended));
}

void
pod_event(struct store *store, bool deleted, bool relisted, const struct object *object)
{
	(void)relisted;
	uint64_t name_hash = store_hash_names(store, object->namespace, object->name);
	bool wanted = !deleted && is_kept(store, object);
	struct namespace *namespace = wanted ? namespace_get(store, object->namespace)
					     : namespace_find(store, object->namespace);

	if (namespace == NULL)
		return;
	if (object->cut)
		store_note_cut(store, object, &(bool){ false });
	namespace->uses++; /* otherwise the removal of its last address could free the namespace */
	store->present_pods += (size_t)wanted - (size_t)has_pod(store, name_hash);
	forget_pod(store, name_hash, wanted ? object : NULL);
	for (size_t i = 0; wanted && i < object->pod.addr_count; i++)
		note_addr(store, name_hash, namespace, object, &object->pod.addrs[i]);
	namespace->uses--;
	namespace_drop(store, namespace);
}

static void
sweep_table(struct store *store, struct pod_table *table)
{
	struct pod_addr *entry;

	for (size_t i = 0; i < table->capacity; i++)
		while ((entry = pod_table_at(table, i)) != NULL &&
		       entry->mark != store->mark[OBJECT_POD]) {
			uint64_t name_hash = entry->name_hash;

			drop_addr(store, table, entry);
			store->present_pods -= !has_pod(store, name_hash);
		}
}

size_t
pods_sweep(struct store *store)
{
	size_t before = store->present_pods;

	sweep_table(store, &store->pods[0]);
	sweep_table(store, &store->pods[1]);
	return before - store->present_pods;
}

/* --- the pod of an address --- */

bool
store_find_pod(const struct store *store, const struct addr *addr, struct store_pod *pod)
{
	uint32_t number = pods_namespace(treecache_next(store->cache), addr);
	const struct client_pod *known = NULL;

	if (number == 0)
		return false;
	*pod = (struct store_pod){ .namespace =
				       (const char *)store->by_number[number - 1]->label + 1 };
	if (store->client_pods != NULL)
		known = client_pods_find(store->client_pods, addr);
	if (known != NULL) {
		pod->name = client_pod_name(known);
		pod->node = known->node->name;
	}
	return true;
}

/* --- nodes --- */

static bool
same_host(const void *entry, const void *key)
{
	return strcmp(((const struct host *)entry)->name, key) == 0;
}

/* Returns the entry of the node, or NULL. */
static struct host *
node_find_host(const struct store *store, const char *name)
{
	uint32_t hash = (uint32_t)store_hash_names(store, name, "");

	return table_find(&store->hosts, hash, same_host, name);
}

void
node_drop(struct store *store, struct host *host)
{
	store->places_due |= store->config.pod_places;
	table_remove(&store->hosts, host);
	free(host->zone);
	free(host->region);
	free(host);
}

void
node_event(struct store *store, bool deleted, bool relisted, const struct object *object)
{
	(void)relisted;
	struct host *host = node_find_host(store, object->name);

	/* Skips updates that change nothing, because kubelets renew the status of their node every
	 * few minutes. */
	if (host != NULL && !deleted && strcmp(host->zone, object->node.zone) == 0 &&
	    strcmp(host->region, object->node.region) == 0) {
		host->mark = store->mark[OBJECT_NODE];
		return;
	}
	if (host != NULL)
		node_drop(store, host);
	if (deleted)
		return;
	store->places_due |= store->config.pod_places;
	host = xcalloc(1, sizeof *host + strlen(object->name) + 1);
	host->hash = (uint32_t)store_hash_names(store, object->name, "");
	host->mark = store->mark[OBJECT_NODE];
	strcpy(host->name, object->name);
	host->zone = xstrdup(object->node.zone);
	host->region = xstrdup(object->node.region);
	table_add(&store->hosts, host);
}

void
store_location(const struct store *store, const char **zone, const char **region)
{
	const struct host *host, *first = NULL;
	size_t place = 0;

	while ((host = table_next(&store->hosts, &place)) != NULL)
		if (*host->zone != '\0' && *host->region != '\0' &&
		    (first == NULL || strcmp(host->name, first->name) < 0))
			first = host;
	*zone = first == NULL ? "" : first->zone;
	*region = first == NULL ? "" : first->region;
}

/* --- --nearest and --zonal --- */

/*
 * --nearest and --zonal. The tree stores, as numbers, where endpoints are and for which places they
 * are meant. For clients that are known by their address, it also stores the places of the nodes on
 * which pods run.
 *
 *	EndpointSlice --zone, nodeName, hints--> places of a slice's endpoints
 *	Pod --podIPs, nodeName--> address -> number of the node
 *	Node --label--> number of the node -> its place
 */

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

/* Returns the number of the endpoint's places for a zone that precede place `i`. */
static size_t
zones_before(const struct object_slice *slice, size_t i)
{
	size_t count = 0;

	for (size_t k = i; k-- > 0 && slice->places[k].endpoint == slice->places[i].endpoint;)
		count += slice->places[k].kind == PLACE_FOR_ZONE;
	return count;
}

/*
 * Returns an upper bound for the number of places of a slice. Each place counts twice, because
 * endpoints that are not ready get a second place. Each pair of a node and a zone adds one. An
 * endpoint's places for nodes follow its places for zones.
 */
static size_t
place_capacity(const struct object_slice *slice)
{
	size_t capacity = 2 * slice->place_count;

	for (size_t i = 0; i < slice->place_count; i++)
		if (slice->places[i].kind == PLACE_FOR_NODE)
			capacity += zones_before(slice, i);
	return capacity;
}

/* Adds a combined place for the endpoint's node, which is the last place written, and each of its zones. */
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
	*places = xcalloc(place_capacity(from), sizeof **places);
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
