#include "kubedns/wanted_namespaces.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

struct wanted_namespace {
	const char *name;
	char *meant;     /* the existing namespace that is most like it; NULL: none is */
	size_t distance; /* of `meant` */
	bool checked, exists;
};

struct wanted_namespaces {
	struct wanted_namespace *items;
	size_t count, missing;
};

struct wanted_namespaces *
wanted_namespaces_new(char *const *names)
{
	struct wanted_namespaces *wanted = xcalloc(1, sizeof *wanted);

	if (names == NULL)
		return wanted;
	while (names[wanted->count] != NULL)
		wanted->count++;
	wanted->items = xcalloc(wanted->count + 1, sizeof *wanted->items);
	for (size_t i = 0; i < wanted->count; i++)
		wanted->items[i].name = names[i];
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

/* `"x": why`; caller frees. */
static char *
complaint(const struct wanted_namespace *item)
{
	return xasprintf(
	    "--namespaces: \"%s\": neither the Namespace nor a Service in it is known, "
	    "so all its names are NXDOMAIN%s%s%s",
	    item->name, item->meant == NULL ? "" : "; did you mean \"",
	    item->meant == NULL ? "" : item->meant, item->meant == NULL ? "" : "\"?");
}

void
wanted_namespaces_check(struct wanted_namespaces *wanted, const struct store *store)
{
	wanted->missing = 0;
	for (size_t i = 0; i < wanted->count; i++) {
		struct wanted_namespace *item = &wanted->items[i];
		bool exists = store_has_namespace(store, item->name);
		bool news = !item->checked || exists != item->exists;

		if (news && !exists) {
			char *text = complaint(item);
			log_warnx("%s", text);
			free(text);
		} else if (news && item->checked) {
			log_info("--namespaces: \"%s\": exists now", item->name);
		}
		item->checked = true;
		item->exists = exists;
		wanted->missing += !exists;
	}
}

char *
wanted_namespaces_notes(const struct wanted_namespaces *wanted, bool names)
{
	if (wanted->missing > 0 && !names)
		return xasprintf(
		    "--namespaces: %zu of %zu not found\n", wanted->missing, wanted->count);
	char *notes = xstrdup("");
	for (size_t i = 0; i < wanted->count && wanted->missing > 0; i++) {
		if (wanted->items[i].exists)
			continue;
		char *text = complaint(&wanted->items[i]), *more = xasprintf("%s%s\n", notes, text);
		free(text);
		free(notes);
		notes = more;
	}
	return notes;
}

void
wanted_namespaces_metrics(const struct wanted_namespaces *wanted, struct metrics *m)
{
	metrics_family(m, "kubedns_namespaces_missing", METRIC_GAUGE,
	    "Namespaces of --namespaces that do not exist.");
	metrics_value(m, (double)wanted->missing, NULL);
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
