/*
 * Which objects are to be renewed when another changes: routes follow their Gateways, and with
 * --namespace-labels each object its namespace. To look through all objects instead would cost each Gateway
 * their number.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/external_internal.h"
#include "lib/xalloc.h"

/* What is followed, whether it exists or not. */
struct followed {
	uint32_t hash;
	enum object_kind kind;
	size_t count, room; /* of followers */
	struct external_object **followers;
	const char *name; /* behind the namespace */
	char namespace[];
};

static bool
same_followed(const void *entry, const void *key)
{
	const struct followed *followed = entry;
	const struct object_key *wanted = key;

	return followed->kind == wanted->kind && strcmp(followed->name, wanted->name) == 0 &&
	       strcmp(followed->namespace, wanted->namespace) == 0;
}

static struct followed *
find(const struct external *e, const struct object_key *key)
{
	return table_find(&e->followed, object_key_hash(e, key), same_followed, key);
}

static void
follow(struct external *e, struct external_object *object, const struct object_key *key)
{
	struct followed *followed = find(e, key);

	if (followed == NULL) {
		size_t namespace = strlen(key->namespace) + 1, name = strlen(key->name) + 1;
		followed = xcalloc(1, sizeof *followed + namespace + name);
		followed->hash = object_key_hash(e, key);
		followed->kind = key->kind;
		followed->name = followed->namespace + namespace;
		memcpy(followed->namespace, key->namespace, namespace);
		memcpy(followed->namespace + namespace, key->name, name);
		table_add(&e->followed, followed);
	}
	if (followed->count == followed->room) {
		followed->room = followed->room == 0 ? 1 : 2 * followed->room;
		followed->followers =
		    xreallocarray(followed->followers, followed->room, sizeof *followed->followers);
	}
	followed->followers[followed->count++] = object;
}

static void
unfollow(struct external *e, struct external_object *object, const struct object_key *key)
{
	struct followed *followed = find(e, key);
	size_t i = 0;

	while (followed->followers[i] != object)
		i++;
	followed->followers[i] = followed->followers[--followed->count];
	if (followed->count > 0)
		return;
	table_remove(&e->followed, followed);
	free(followed->followers);
	free(followed);
}

/* Calls `act` for all that the object follows, each once. */
static void
each_followed(struct external *e, struct external_object *object,
    void (*act)(struct external *, struct external_object *, const struct object_key *))
{
	for (size_t i = 0; i < object->parent_count; i++) {
		const struct object_parent *parent = &object->parents[i];
		size_t k = 0;
		while (strcmp(object->parents[k].name, parent->name) != 0 ||
		       strcmp(object->parents[k].namespace, parent->namespace) != 0)
			k++;
		if (k == i) /* not one of several of its listeners */
			act(e, object,
			    &(struct object_key){
				OBJECT_GATEWAY, parent->namespace, parent->name });
	}
	if (e->config.namespace_labels != NULL)
		act(e, object, &(struct object_key){ OBJECT_NAMESPACE, "", object->namespace });
}

void
followers_add(struct external *e, struct external_object *object)
{
	each_followed(e, object, follow);
	object->follows = true;
}

void
followers_remove(struct external *e, struct external_object *object)
{
	if (object->follows)
		each_followed(e, object, unfollow);
	object->follows = false;
}

void
followers_renew(struct external *e, enum object_kind kind, const char *namespace, const char *name)
{
	const struct followed *followed = find(e, &(struct object_key){ kind, namespace, name });

	for (size_t i = 0; followed != NULL && i < followed->count; i++)
		claims_renew(e, followed->followers[i]);
}
