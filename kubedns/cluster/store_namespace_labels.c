/*
 * --namespace-labels: a Service is in the tree only while the selector matches its namespace. The
 * tree holds a Service's records, not the object that they were made from, so with a selector this
 * file keeps a copy of each Service: when a namespace's labels change, its names are added or
 * removed without asking the API server.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/store_internal.h"
#include "lib/xalloc.h"

struct kept_service {
	uint32_t hash; /* the Service's */
	struct service *service;
	struct kept_service *next, **back; /* of its namespace */
	struct object_service from;        /* all that it points at is in `bytes` */
	_Alignas(struct object_port) char bytes[];
};

/* What is kept of one namespace. */
struct kept_namespace {
	uint32_t hash; /* the namespace's */
	const struct namespace *namespace;
	struct kept_service *first; /* never NULL */
};

static bool
same_service(const void *entry, const void *key)
{
	return ((const struct kept_service *)entry)->service == key;
}

static bool
same_namespace(const void *entry, const void *key)
{
	return ((const struct kept_namespace *)entry)->namespace == key;
}

static struct kept_namespace *
find_namespace(const struct store *store, const struct namespace *namespace)
{
	return table_find(&store->kept_namespaces, namespace->hash, same_namespace, namespace);
}

/* Puts it at the head of its namespace's list. */
static void
link_kept(struct store *store, struct kept_service *kept)
{
	const struct namespace *namespace = kept->service->namespace;
	struct kept_namespace *of = find_namespace(store, namespace);

	if (of == NULL) {
		of = xcalloc(1, sizeof *of);
		of->hash = namespace->hash;
		of->namespace = namespace;
		table_add(&store->kept_namespaces, of);
	}
	kept->next = of->first;
	kept->back = &of->first;
	if (of->first != NULL)
		of->first->back = &kept->next;
	of->first = kept;
}

static void
unlink_kept(struct store *store, struct kept_service *kept)
{
	*kept->back = kept->next;
	if (kept->next != NULL) {
		kept->next->back = kept->back;
		return;
	}
	struct kept_namespace *of = find_namespace(store, kept->service->namespace);
	if (of->first != NULL)
		return;
	table_remove(&store->kept_namespaces, of);
	free(of);
}

/* Copies a string to `*to` and advances `*to` past it. */
static const char *
put_text(char **to, const char *text)
{
	char *copy = *to;

	*to = stpcpy(copy, text) + 1;
	return copy;
}

void
chosen_forget(struct store *store, const struct service *service)
{
	struct kept_service *kept = table_find(&store->kept, service->hash, same_service, service);

	if (kept == NULL)
		return;
	table_remove(&store->kept, kept);
	unlink_kept(store, kept);
	free(kept);
}

void
chosen_keep(struct store *store, struct service *service, const struct object_service *from)
{
	size_t ports = from->port_count * sizeof *from->ports,
	       texts = strlen(from->external_name) + 1;

	chosen_forget(store, service);
	for (size_t i = 0; i < from->port_count; i++)
		texts += strlen(from->ports[i].name) + strlen(from->ports[i].protocol) + 2;
	struct kept_service *kept = xmalloc(sizeof *kept + ports + texts);
	kept->hash = service->hash;
	kept->service = service;
	kept->from = *from;
	kept->from.ports = (void *)kept->bytes;
	char *text = kept->bytes + ports;
	kept->from.external_name = put_text(&text, from->external_name);
	for (size_t i = 0; i < from->port_count; i++)
		kept->from.ports[i] =
		    (struct object_port){ .name = put_text(&text, from->ports[i].name),
			    .protocol = put_text(&text, from->ports[i].protocol),
			    .port = from->ports[i].port };
	table_add(&store->kept, kept);
	link_kept(store, kept);
}

void
chosen_set(struct store *store, struct namespace *namespace, bool chosen)
{
	if (namespace->chosen == chosen)
		return;
	namespace->chosen = chosen;
	const struct kept_namespace *of = find_namespace(store, namespace);
	/* The namespace's node first: a Service's node is below it. */
	if (chosen)
		namespace_show(store, namespace);
	for (struct kept_service *kept = of == NULL ? NULL : of->first; kept != NULL;
	     kept = kept->next) {
		if (chosen)
			service_enter_tree(store, kept->service, &kept->from);
		else
			service_leave_tree(store, kept->service);
	}
	namespace_show(store, namespace);
}

void
chosen_by_labels(struct store *store, struct namespace *namespace, const struct object *object)
{
	const struct label_selector *selector = store->config.namespace_labels;

	if (selector != NULL)
		chosen_set(store, namespace,
		    label_selector_matches(selector, object->labels, object->label_count));
}
