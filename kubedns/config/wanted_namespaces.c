#include "kubedns/config/wanted_namespaces.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

enum list { LIST_NAMES, LIST_HOSTS, LIST_COUNT };

/* For each flag, the consequence of a missing namespace. */
static const struct {
	const char *flag, *why;
} lists[LIST_COUNT] = {
	[LIST_NAMES] = { "--namespaces",
	    "neither the Namespace nor a Service in it exists, so all its names get NXDOMAIN" },
	[LIST_HOSTS] = { "--hosts-namespaces",
	    "there is no such Namespace, so no ConfigMap can be read from it" },
};

struct wanted_namespace {
	enum list list;
	const char *name;
	char *meant;     /* the most similar existing namespace; NULL: none */
	size_t distance; /* distance of `meant` */
	bool checked, exists;
};

struct wanted_namespaces {
	struct wanted_namespace *items;
	size_t count, counts[LIST_COUNT], missing[LIST_COUNT];
};

static void
add(struct wanted_namespaces *wanted, enum list list, char *const *names)
{
	for (; names != NULL && *names != NULL; names++) {
		wanted->items =
		    xreallocarray(wanted->items, wanted->count + 1, sizeof *wanted->items);
		wanted->items[wanted->count++] =
		    (struct wanted_namespace){ .list = list, .name = *names };
		wanted->counts[list]++;
	}
}

struct wanted_namespaces *
wanted_namespaces_new(char *const *names, char *const *hosts)
{
	struct wanted_namespaces *wanted = xcalloc(1, sizeof *wanted);

	add(wanted, LIST_NAMES, names);
	if (names == NULL) /* with --namespaces, the store has no other namespaces */
		add(wanted, LIST_HOSTS, hosts);
	return wanted;
}

static void
consider(struct wanted_namespace *item, const char *existing)
{
	struct spelling near = spelling_of(item->name, strlen(item->name));

	if (item->meant != NULL && item->distance < near.distance)
		near.distance = item->distance;
	spelling_try(&near, existing);
	if (near.word == NULL || strcmp(existing, item->name) == 0)
		return;
	free(item->meant);
	item->meant = xstrdup(existing);
	item->distance = near.distance;
}

void
wanted_namespaces_event(
    struct wanted_namespaces *wanted, enum event_type type, const struct object *object)
{
	if (wanted->count == 0 || type != EVENT_ADDED || object == NULL)
		return;
	const char *name = object->kind == OBJECT_NAMESPACE ? object->name
			   : object->kind == OBJECT_SERVICE ? object->namespace
							    : NULL;
	for (size_t i = 0; name != NULL && i < wanted->count; i++)
		if (!wanted->items[i].exists)
			consider(&wanted->items[i], name);
}

/* Formats `"x": why`. The caller frees it. */
static char *
complaint(const struct wanted_namespace *item)
{
	return xasprintf("%s: \"%s\": %s%s%s%s", lists[item->list].flag, item->name,
	    lists[item->list].why, item->meant == NULL ? "" : "; did you mean \"",
	    item->meant == NULL ? "" : item->meant, item->meant == NULL ? "" : "\"?");
}

/* Without the permission to read Namespaces, a namespace without Services is unknown. */
static bool
is_there(const struct wanted_namespace *item, const struct store *store)
{
	if (item->list == LIST_HOSTS && store_count(store, OBJECT_NAMESPACE) == 0)
		return true;
	return store_has_namespace(store, item->name);
}

void
wanted_namespaces_check(struct wanted_namespaces *wanted, const struct store *store)
{
	memset(wanted->missing, 0, sizeof wanted->missing);
	for (size_t i = 0; i < wanted->count; i++) {
		struct wanted_namespace *item = &wanted->items[i];
		bool exists = is_there(item, store);
		bool news = !item->checked || exists != item->exists;

		if (news && !exists) {
			char *text = complaint(item);

			log_warnx("%s", text);
			free(text);
		} else if (news && item->checked) {
			log_info("%s: \"%s\": exists now", lists[item->list].flag, item->name);
		}
		item->checked = true;
		item->exists = exists;
		wanted->missing[item->list] += !exists;
	}
}

/* Appends to a text on the heap. */
static void
append(char **notes, char *more)
{
	char *both = xasprintf("%s%s\n", *notes, more);

	free(more);
	free(*notes);
	*notes = both;
}

char *
wanted_namespaces_notes(const struct wanted_namespaces *wanted, bool names)
{
	char *notes = xstrdup("");

	for (enum list list = 0; list < LIST_COUNT && !names; list++)
		if (wanted->missing[list] > 0)
			append(&notes, xasprintf("%s: %zu of %zu not found", lists[list].flag,
					   wanted->missing[list], wanted->counts[list]));
	for (size_t i = 0; i < wanted->count && names; i++)
		if (wanted->items[i].checked && !wanted->items[i].exists)
			append(&notes, complaint(&wanted->items[i]));
	return notes;
}

void
wanted_namespaces_metrics(const struct wanted_namespaces *wanted, struct metrics *m)
{
	metrics_family(m, "kubedns_namespaces_missing", METRIC_GAUGE,
	    "Namespaces of --namespaces and --hosts-namespaces that do not exist.");
	metrics_value(m, (double)(wanted->missing[LIST_NAMES] + wanted->missing[LIST_HOSTS]), NULL);
}

void
wanted_namespaces_free(struct wanted_namespaces *wanted)
{
	if (wanted == NULL)
		return;
	for (size_t i = 0; i < wanted->count; i++)
		free(wanted->items[i].meant);
	free(wanted->items);
	free(wanted);
}
