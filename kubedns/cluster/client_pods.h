/*
 * The names and nodes of pods, found by their addresses: who a client is, for people; and for --nearest
 * on which node it is, which the tree is told (pods_place). Kept with
 * --client-pods alone: some 80 bytes a pod with one IPv4 address and a name of 25 bytes (0.8 MB for
 * 10,000 pods, 12 MB for 150,000), beside the 37 of its address. For the main thread alone.
 */
#ifndef KUBEDNS_CLUSTER_CLIENT_PODS_H
#define KUBEDNS_CLUSTER_CLIENT_PODS_H

#include <stdbool.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

struct client_pods;
struct treecache;

/* A node that has pods, once for all of them. */
struct client_node {
	uint32_t hash;
	uint32_t pods;
	uint32_t number; /* in places4 and places6 of the tree */
	char name[];
};

struct client_pod {
	uint32_t hash; /* of the address */
	bool running;
	uint8_t family;
	uint64_t name_hash; /* of namespace and name, as the pod tables have it */
	struct client_node *node;
	uint8_t bytes[]; /* the address, then the name with its NUL */
};

/* `places`: the tree learns which node each pod runs on; NULL: nothing. Caller frees with
 * client_pods_free. */
struct client_pods *client_pods_new(struct treecache *places);

/*
 * The pod has this address. Of two pods that are said to have one address, as while the first ends
 * and the second starts, the running one stays; of two like ones the later. When that one goes, the
 * address is nobody's until the other is put again, which its next change does.
 */
void client_pods_put(struct client_pods *pods, const struct addr *addr, uint64_t name_hash,
    const struct object *object);

/* It has it no more; does nothing if another pod has it by now. */
void client_pods_remove(struct client_pods *pods, const struct addr *addr, uint64_t name_hash);

/* The pod with this address, or NULL. */
const struct client_pod *client_pods_find(const struct client_pods *pods, const struct addr *addr);

const char *client_pod_name(const struct client_pod *pod);

/* Whether a number has come to stand for another node since the last call. */
bool client_pods_renumbered(struct client_pods *pods);

/* All nodes' numbers are below it; and the node with one, or NULL. */
uint32_t client_pods_numbers(const struct client_pods *pods);
const struct client_node *client_pods_node(const struct client_pods *pods, uint32_t number);

void client_pods_free(struct client_pods *pods);

#endif
