#include "kubedns/cluster/client_pods.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/table.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

struct client_pods {
	struct table pods, nodes;
	/* NULL if the tree does not store nodes; nodes have no numbers then */
	struct treecache *places;
	struct client_node **by_number;
	uint32_t numbers, capacity; /* the numbers in use are below `numbers` */
	bool renumbered;
};

struct client_pods *
client_pods_new(struct treecache *places)
{
	struct client_pods *pods = xcalloc(1, sizeof *pods);

	pods->places = places;
	pods->numbers = 1; /* 0 stands for no node */
	return pods;
}

/* The hash needs no secret key. The cluster assigns the addresses of pods and the names of nodes,
 * and clients cannot choose them. */
static uint32_t
hash_of(const void *bytes, size_t len)
{
	return (uint32_t)hash64(HASH_START, bytes, len);
}

/* --- nodes --- */

static bool
same_node(const void *entry, const void *key)
{
	return strcmp(((const struct client_node *)entry)->name, key) == 0;
}

/* Assigns a free number to the node. Walks over all numbers, but only when a node gets its first pod. */
static void
node_number(struct client_pods *pods, struct client_node *node)
{
	uint32_t number = 1;

	while (number < pods->numbers && pods->by_number[number] != NULL)
		number++;
	if (number >= pods->capacity) {
		pods->capacity = pods->capacity == 0 ? 16 : 2 * pods->capacity;
		pods->by_number =
		    xreallocarray(pods->by_number, pods->capacity, sizeof(struct client_node *));
	}
	if (number == pods->numbers)
		pods->numbers++;
	pods->by_number[number] = node;
	node->number = number;
	pods->renumbered = true;
}

static struct client_node *
node_take(struct client_pods *pods, const char *name)
{
	uint32_t hash = hash_of(name, strlen(name));
	struct client_node *node = table_find(&pods->nodes, hash, same_node, name);

	if (node == NULL) {
		node = xcalloc(1, sizeof *node + strlen(name) + 1);
		node->hash = hash;
		strcpy(node->name, name);
		table_add(&pods->nodes, node);
		if (pods->places != NULL)
			node_number(pods, node);
	}
	node->pods++;
	return node;
}

static void
node_leave(struct client_pods *pods, struct client_node *node)
{
	if (--node->pods > 0)
		return;
	table_remove(&pods->nodes, node);
	if (pods->places != NULL)
		pods->by_number[node->number] = NULL;
	free(node);
}

bool
client_pods_renumbered(struct client_pods *pods)
{
	bool renumbered = pods->renumbered;

	pods->renumbered = false;
	return renumbered;
}

uint32_t
client_pods_numbers(const struct client_pods *pods)
{
	return pods->numbers;
}

const struct client_node *
client_pods_node(const struct client_pods *pods, uint32_t number)
{
	return number == 0 || number >= pods->numbers ? NULL : pods->by_number[number];
}

/* --- pods --- */

static size_t
bytes_of(const struct client_pod *pod)
{
	return pod->family == AF_INET ? 4 : 16;
}

static bool
same_addr(const void *entry, const void *key)
{
	const struct client_pod *pod = entry;
	const struct addr *addr = key;

	return pod->family == addr->family && memcmp(pod->bytes, addr->bytes, bytes_of(pod)) == 0;
}

const char *
client_pod_name(const struct client_pod *pod)
{
	return (const char *)pod->bytes + bytes_of(pod);
}

const struct client_pod *
client_pods_find(const struct client_pods *pods, const struct addr *addr)
{
	return table_find(&pods->pods, hash_of(addr->bytes, addr_len(addr)), same_addr, addr);
}

/* Adds the place of the pod to the tree, or removes it. */
static void
show_place(const struct client_pods *pods, const struct client_pod *pod, bool present)
{
	struct addr addr = { .family = pod->family };

	if (pods->places == NULL)
		return;
	memcpy(addr.bytes, pod->bytes, bytes_of(pod));
	treecache_pod_place(pods->places, &addr, pod->node->number, present);
}

static void
drop(struct client_pods *pods, struct client_pod *pod)
{
	show_place(pods, pod, false);
	table_remove(&pods->pods, pod);
	node_leave(pods, pod->node);
	free(pod);
}

void
client_pods_put(struct client_pods *pods, const struct addr *addr, uint64_t name_hash,
    const struct object *object)
{
	uint32_t hash = hash_of(addr->bytes, addr_len(addr));
	struct client_pod *pod = table_find(&pods->pods, hash, same_addr, addr);
	size_t len = addr_len(addr);

	if (pod != NULL && pod->name_hash == name_hash &&
	    strcmp(pod->node->name, object->pod.node) == 0) {
		pod->running = object->pod.running;
		return;
	}
	if (pod != NULL && pod->name_hash != name_hash && pod->running && !object->pod.running)
		return;
	if (pod != NULL)
		drop(pods, pod);
	pod = xmalloc(sizeof *pod + len + strlen(object->name) + 1);
	*pod = (struct client_pod){ .hash = hash,
		.running = object->pod.running,
		.family = addr->family,
		.name_hash = name_hash,
		.node = node_take(pods, object->pod.node) };
	memcpy(pod->bytes, addr->bytes, len);
	strcpy((char *)pod->bytes + len, object->name);
	table_add(&pods->pods, pod);
	show_place(pods, pod, true);
}

void
client_pods_remove(struct client_pods *pods, const struct addr *addr, uint64_t name_hash)
{
	struct client_pod *pod =
	    table_find(&pods->pods, hash_of(addr->bytes, addr_len(addr)), same_addr, addr);

	if (pod != NULL && pod->name_hash == name_hash)
		drop(pods, pod);
}

void
client_pods_free(struct client_pods *pods)
{
	if (pods == NULL)
		return;
	for (size_t i = 0; i < pods->pods.capacity; i++)
		if (pods->pods.places[i] != NULL) {
			struct client_pod *pod = pods->pods.places[i];

			node_leave(pods, pod->node);
			free(pod);
		}
	table_free(&pods->pods);
	table_free(&pods->nodes);
	free(pods->by_number);
	free(pods);
}
