/*
 * The names and nodes of pods, found by their addresses. Logs and pages use them to name the pod of
 * a client. With --nearest, they tell the tree the node on which a client runs (pods_place). They
 * are stored only with --client-pods. A pod with one IPv4 address and a name of 25 bytes needs some
 * 80 bytes (0.8 MB for 10,000 pods, 12 MB for 150,000), in addition to the 37 bytes of its address.
 * Only the main thread uses this module.
 */
#ifndef KUBEDNS_CLUSTER_CLIENT_PODS_H
#define KUBEDNS_CLUSTER_CLIENT_PODS_H

#include <stdbool.h>
#include <stdint.h>

#include "kubedns/cluster/object.h"

struct client_pods;
struct treecache;

/* A node that has pods. All its pods share one entry. */
struct client_node {
	uint32_t hash;
	uint32_t pods;
	uint32_t number; /* number of the node in places4 and places6 of the tree */
	char name[];
};

struct client_pod {
	uint32_t hash; /* hash of the address */
	bool running;
	uint8_t family;
	uint64_t name_hash; /* hash of namespace and name, as in the pod tables */
	struct client_node *node;
	uint8_t bytes[]; /* the address, then the NUL-terminated name */
};

/* `places` is the tree that stores the node of each pod, or NULL if no tree does. Free with
 * client_pods_free(). */
struct client_pods *client_pods_new(struct treecache *places);

/*
 * Stores the pod with this address. Two pods may have the same address for a short time, while the
 * first ends and the second starts. The entry is then the running pod. If both or neither are
 * running, it is the later pod. When that pod is removed, the address has no pod until the next
 * change of the other pod stores it again.
 */
void client_pods_put(struct client_pods *pods, const struct addr *addr, uint64_t name_hash,
    const struct object *object);

/* Removes the pod from this address. Does nothing if another pod has the address now. */
void client_pods_remove(struct client_pods *pods, const struct addr *addr, uint64_t name_hash);

/* Returns the pod with this address, or NULL. */
const struct client_pod *client_pods_find(const struct client_pods *pods, const struct addr *addr);

const char *client_pod_name(const struct client_pod *pod);

/* Whether a number has been assigned to another node since the last call. */
bool client_pods_renumbered(struct client_pods *pods);

/* client_pods_numbers() returns a number above the numbers of all nodes. client_pods_node() returns
 * the node with a number, or NULL. */
uint32_t client_pods_numbers(const struct client_pods *pods);
const struct client_node *client_pods_node(const struct client_pods *pods, uint32_t number);

void client_pods_free(struct client_pods *pods);

#endif
