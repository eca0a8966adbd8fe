#include "kubedns/config/hosts_maps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/zone_lookup.h"
#include "kubedns/answer/zones.h"
#include "lib/clock.h"
#include "lib/conf_hosts.h"
#include "lib/conf_keys.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"

struct hosts_map {
	char *namespace, *name;
	char *subject, *source; /* names of the ConfigMap for the log and for explanations */
	size_t scope;           /* index of the ConfigMap's namespace */
	int64_t created_s;
	struct local_names *block; /* made from the last valid content; NULL: no names */
	struct conf_key key;
	bool seen;      /* the current listing has the ConfigMap */
	bool keyless;   /* the ConfigMap has no key `hosts` */
	bool in_force;  /* its names fit into the share of its namespace in HOSTS_MAPS_NAMES_MAX */
	char *left_out; /* why some names are not active, as last logged; NULL: all names are
			 * active */
	size_t left_out_count;
};

struct hosts_maps {
	const struct answer_config *answers;
	const struct hosts_namespace *namespaces;
	size_t namespace_count;
	struct hosts_map items[HOSTS_MAPS_MAX];
	size_t count, names;
	uint64_t seed, crowded; /* `crowded`: events of ConfigMaps that exceeded a limit */
	bool changed;
	int64_t taken_ms;
	struct hosts_maps_round round;
	const uint8_t **stubs; /* the stub domains of the round (hosts_maps_round), sorted */
	size_t stub_count;
	uint8_t holders[HOSTS_MAPS_MAX]; /* namespaces of the blocks of the previous round */
	size_t holder_count;
	/* `listed`: the first listing of a namespace has ended. `settled`: its ConfigMaps were then
	 * applied in a round. */
	bool listed[HOSTS_NAMESPACES_MAX], settled[HOSTS_NAMESPACES_MAX];
};

struct hosts_maps *
hosts_maps_new(
    const struct answer_config *answers, const struct hosts_namespace *namespaces, size_t count)
{
	struct hosts_maps *maps = xcalloc(1, sizeof *maps);

	maps->answers = answers;
	maps->namespaces = namespaces;
	maps->namespace_count = count;
	if (getrandom(&maps->seed, sizeof maps->seed, 0) != sizeof maps->seed)
		log_fatal("getrandom");
	return maps;
}

/* Returns the index of a namespace of the flag. The event source reports no other namespaces. */
static size_t
scope_of(const struct hosts_maps *maps, const char *namespace)
{
	size_t i = 0;

	while (strcmp(maps->namespaces[i].name, namespace) != 0) {
		i++;
		assert(i < maps->namespace_count);
	}
	return i;
}

/* --- one ConfigMap --- */

/* Whether no ConfigMap may define this name. Sets `why` to a static reason. */
static bool
is_forbidden(const struct answer_config *answers, const struct dname *wire, const char **why)
{
	static const uint8_t reverse4[] = "\7in-addr\4arpa", reverse6[] = "\3ip6\4arpa";
	struct name_buf buf;

	const struct name name = name_copy(&buf, wire->wire, wire->len);
	*why = "is in the cluster domain, where only the cluster's objects have names";
	if (name_below(&name, &answers->zone) >= 0)
		return true;
	*why = "is a reverse name, which only the cluster and the operator may have";
	if (dname_in_zone(wire->wire, reverse4) >= 0 || dname_in_zone(wire->wire, reverse6) >= 0)
		return true;
	const struct zone zone = external_zone_of(answers, &name);
	*why = zone.kind == ZONE_CLUSTERSET
		   ? "is in --clusterset-domain, whose names come from other objects"
		   : "is in one of --external-zones, whose names come from other objects";
	return zone.kind != ZONE_NONE;
}

static bool
is_in_suffixes(const struct hosts_namespace *namespace, const uint8_t *wire)
{
	for (size_t i = 0; i < namespace->suffix_count; i++)
		if (dname_in_zone(wire, namespace->suffixes[i].wire) >= 0)
			return true;
	return namespace->suffix_count == 0;
}

/* Returns the reason why the namespace may not have one of these names, or NULL. The caller frees
 * the reason. */
static char *
refuse_names(const struct answer_config *answers, const struct hosts_namespace *namespace,
    const struct conf_hosts *hosts)
{
	char text[DNAME_TEXT_MAX];
	const char *why;

	for (size_t i = 0; i < hosts->count; i++) {
		const struct dname *name = &hosts->items[i].name;

		if (is_forbidden(answers, name, &why))
			return xasprintf(
			    "\"%.128s\": %s; remove it", dname_to_text(name->wire, text), why);
		if (!is_in_suffixes(namespace, name->wire))
			return xasprintf("\"%.128s\": is not in a domain that --hosts-namespaces "
					 "allows for namespace %s; remove it",
			    dname_to_text(name->wire, text), namespace->name);
	}
	return NULL;
}

/* Activates the key's content, or returns the reason why not, which the caller frees. */
static char *
read_key(struct hosts_maps *maps, struct hosts_map *map, const struct object_key_value *key)
{
	struct conf_hosts hosts = { 0 };
	char *why = NULL;

	if (key != NULL && key->len > HOSTS_MAP_BYTES_MAX)
		return xasprintf("%zu bytes; a ConfigMap may have at most 64 KB", key->len);
	if (key != NULL && conf_hosts_parse(key->value, key->len, &hosts, &why) < 0)
		return why;
	if (hosts.count > HOSTS_MAP_NAMES_MAX)
		why = xasprintf(
		    "%zu names with an address; a ConfigMap may have at most 1000", hosts.count);
	else
		why = refuse_names(maps->answers, &maps->namespaces[map->scope], &hosts);
	if (why == NULL) {
		struct local_names *block =
		    local_names_of_hosts(&hosts, false, maps->answers->ttl_s, maps->seed);

		maps->changed |=
		    (block == NULL) != (map->block == NULL) ||
		    (block != NULL && (block->size != map->block->size ||
					  memcmp(block, map->block, block->size) != 0));
		free(map->block);
		map->block = block;
	}
	conf_hosts_free(&hosts);
	return why;
}

static struct hosts_map *
find(struct hosts_maps *maps, const char *namespace, const char *name)
{
	for (size_t i = 0; i < maps->count; i++)
		if (strcmp(maps->items[i].name, name) == 0 &&
		    strcmp(maps->items[i].namespace, namespace) == 0)
			return &maps->items[i];
	return NULL;
}

static void
clear(struct hosts_map *map)
{
	free(map->namespace);
	free(map->name);
	free(map->subject);
	free(map->source);
	free(map->block);
	free(map->left_out);
	conf_key_clear(&map->key);
}

static void
drop(struct hosts_maps *maps, struct hosts_map *map)
{
	maps->changed |= map->block != NULL;
	clear(map);
	*map = maps->items[--maps->count];
}

static int
compare_age(const struct hosts_map *map, int64_t created_s, const char *name)
{
	if (map->created_s != created_s)
		return map->created_s < created_s ? -1 : 1;
	return strcmp(map->name, name);
}

/* Orders ConfigMaps by the position of their namespace in the flag, and within a namespace by age. */
static int
by_scope_and_age(const void *a, const void *b)
{
	const struct hosts_map *map = a, *other = b;

	if (map->scope != other->scope)
		return map->scope < other->scope ? -1 : 1;
	return compare_age(map, other->created_s, other->name);
}

/* Whether there is space for one more ConfigMap. If its namespace has the maximum number, the
 * youngest ConfigMap is not used. The youngest may be the new ConfigMap. */
static bool
make_room(struct hosts_maps *maps, size_t scope, const struct object *object)
{
	const char *namespace = maps->namespaces[scope].name;
	size_t count = 0, allowed = HOSTS_MAPS_MAX / maps->namespace_count;
	struct hosts_map *youngest = NULL;

	for (size_t i = 0; i < maps->count; i++) {
		struct hosts_map *map = &maps->items[i];

		if (map->scope != scope)
			continue;
		count++;
		if (youngest == NULL || by_scope_and_age(map, youngest) > 0)
			youngest = map;
	}
	if (youngest == NULL || count < allowed)
		return true;
	bool replaces = compare_age(youngest, object->created_s, object->name) > 0;
	if (maps->crowded++ == 0)
		log_errorx("ConfigMap %s/%s: ignored: namespace %s has %zu older ones, and no more "
			   "are read: delete some, then change this one",
		    namespace, replaces ? youngest->name : object->name, namespace, allowed);
	if (replaces)
		drop(maps, youngest);
	return replaces;
}

static struct hosts_map *
add(struct hosts_maps *maps, const char *namespace, const struct object *object)
{
	size_t scope = scope_of(maps, namespace);

	if (!make_room(maps, scope, object))
		return NULL;
	struct hosts_map *map = &maps->items[maps->count++];
	*map = (struct hosts_map){ .namespace = xstrdup(namespace),
		.name = xstrdup(object->name),
		.subject = xasprintf("ConfigMap %s/%s", namespace, object->name),
		.source = xasprintf("the key hosts of ConfigMap %s/%s", namespace, object->name),
		.scope = scope,
		.created_s = object->created_s };
	return map;
}

/* --- events --- */

static void
apply_map(struct hosts_maps *maps, const char *namespace, const struct object *object)
{
	struct hosts_map *map = find(maps, namespace, object->name);
	const struct object_key_value *key = NULL;

	/* This is another ConfigMap with the same name. */
	if (map != NULL && map->created_s != object->created_s) {
		drop(maps, map);
		map = NULL;
	}
	if (map == NULL && (map = add(maps, namespace, object)) == NULL)
		return;
	map->seen = true;
	for (size_t i = 0; i < object->data_count; i++)
		if (strcmp(object->data[i].key, "hosts") == 0)
			key = &object->data[i];
	if (key == NULL && !map->keyless)
		log_warnx("%s: has no key hosts, so no names are read from it", map->subject);
	map->keyless = key == NULL;
	char *why = read_key(maps, map, key);
	conf_key_judge(&map->key, map->subject, "hosts", key == NULL ? NULL : key->value,
	    key == NULL ? 0 : key->len, why);
}

/* A listing of a namespace starts (`ended` false) or has ended. At the end, ConfigMaps that were
 * not listed are removed. */
static void
sweep(struct hosts_maps *maps, const char *namespace, bool ended)
{
	for (size_t i = maps->count; i-- > 0;) {
		struct hosts_map *map = &maps->items[i];

		if (strcmp(map->namespace, namespace) != 0)
			continue;
		if (!ended)
			map->seen = false;
		else if (!map->seen)
			drop(maps, map);
	}
}

void
hosts_maps_event(struct hosts_maps *maps, const char *namespace, enum event_type type,
    const struct object *object)
{
	struct hosts_map *map;

	if (maps == NULL)
		return;
	switch (type) {
	case EVENT_LISTING:
		sweep(maps, namespace, false);
		break;
	case EVENT_SYNCED:
		sweep(maps, namespace, true);
		maps->changed |= !maps->listed[scope_of(maps, namespace)];
		maps->listed[scope_of(maps, namespace)] = true;
		break;
	case EVENT_ADDED:
	case EVENT_MODIFIED:
		apply_map(maps, namespace, object);
		break;
	case EVENT_DELETED:
		if ((map = find(maps, namespace, object->name)) != NULL)
			drop(maps, map);
		break;
	}
}

/* --- all ConfigMaps --- */

int64_t
hosts_maps_due_ms(const struct hosts_maps *maps)
{
	if (maps == NULL || !maps->changed)
		return CLOCK_NEVER;
	return maps->taken_ms + HOSTS_MAPS_PERIOD_MS;
}

/* --- stub domains, for namespaces without suffixes --- */

static int
by_dname(const void *a, const void *b)
{
	return dname_compare(*(const uint8_t *const *)a, *(const uint8_t *const *)b);
}

static void
sort_stubs(struct hosts_maps *maps)
{
	const uint8_t *at = maps->round.stubs, *end = at + maps->round.stubs_len;
	size_t capacity = 0;

	maps->stub_count = 0;
	for (; maps->round.stubs_len > 0 && at < end; at += dname_length(at, (size_t)(end - at))) {
		if (maps->stub_count == capacity) {
			capacity = capacity == 0 ? 16 : 2 * capacity;
			maps->stubs = xreallocarray(maps->stubs, capacity, sizeof *maps->stubs);
		}
		maps->stubs[maps->stub_count++] = at;
	}
	if (maps->stub_count > 1)
		qsort(maps->stubs, maps->stub_count, sizeof *maps->stubs, by_dname);
}

static void
forget_stubs(struct hosts_maps *maps)
{
	free(maps->stubs);
	maps->stubs = NULL;
	maps->stub_count = 0;
}

/* Whether the name is in a stub domain and its namespace has no suffix that would allow it. */
static bool
is_stubs(const struct hosts_maps *maps, const struct hosts_map *map, const uint8_t *wire)
{
	if (maps->stub_count == 0 || maps->namespaces[map->scope].suffix_count > 0)
		return false;
	for (const uint8_t *at = wire; *at != 0; at += 1u + *at)
		if (bsearch(&at, maps->stubs, maps->stub_count, sizeof *maps->stubs, by_dname) !=
		    NULL)
			return true;
	return false;
}

/* --- rounds --- */

size_t
hosts_maps_take(struct hosts_maps *maps, const struct hosts_maps_round *round,
    const struct local_names **blocks, const char **sources)
{
	size_t names[HOSTS_NAMESPACES_MAX] = { 0 };

	if (maps == NULL)
		return 0;
	maps->changed = false;
	maps->taken_ms = round->now_ms;
	maps->round = *round;
	sort_stubs(maps);
	if (maps->count > 1)
		qsort(maps->items, maps->count, sizeof maps->items[0], by_scope_and_age);
	for (size_t i = 0; i < maps->count; i++) {
		struct hosts_map *map = &maps->items[i];
		size_t count = map->block == NULL ? 0 : map->block->count;

		map->in_force =
		    names[map->scope] + count <= HOSTS_MAPS_NAMES_MAX / maps->namespace_count;
		names[map->scope] += map->in_force ? count : 0;
		blocks[i] = map->in_force ? map->block : NULL;
		sources[i] = map->source;
	}
	return maps->count;
}

enum own_claim
hosts_maps_claim(void *arg, size_t source, const struct own_name *name)
{
	const struct hosts_maps *maps = arg;
	const struct hosts_maps_round *round = &maps->round;
	const struct hosts_map *map = &maps->items[source - round->first];
	const struct own_name *had;

	if (is_stubs(maps, map, name->wire))
		return OWN_REFUSED;
	if (round->before == NULL ||
	    (had = local_names_find(round->before, name->wire, name->len)) == NULL ||
	    had->source < round->first || had->source - round->first >= maps->holder_count)
		return OWN_WAITING;
	size_t holder = maps->holders[had->source - round->first];
	/* The ConfigMaps in a first listing existed before this process, so the order of the flag
	 * decides, whichever namespace was listed first. */
	return holder == map->scope || (holder > map->scope && !maps->settled[map->scope])
		   ? OWN_HELD
		   : OWN_WAITING;
}

/* Returns the reason why a name is not active. `found` is the active name in its place. The caller
 * frees the reason. */
static char *
reason_of(const struct hosts_maps *maps, const struct hosts_map *map, const struct own_name *name,
    const struct local_names *in_force, const struct own_name *found)
{
	char text[DNAME_TEXT_MAX];
	const char *where =
	    found != NULL ? local_names_source(in_force, found)
	    : is_stubs(maps, map, name->wire)
		? "a stub domain, and --hosts-namespaces allows this namespace none"
		: "a zone of the ConfigMap's key records, or below a wildcard there";

	return xasprintf("%.128s is in %s", dname_to_text(name->wire, text), where);
}

/* Counts the names of one ConfigMap that are not active. Returns the reason for the first such name
 * in canonical order, because the order in the block differs in each process. The caller frees
 * it. */
static char *
find_left_out(const struct hosts_maps *maps, struct hosts_map *map,
    const struct local_names *in_force, size_t source)
{
	const struct own_name *name, *found, *first = NULL, *first_found = NULL;
	uint32_t place = 0;

	map->left_out_count = 0;
	if (map->block != NULL && !map->in_force) {
		map->left_out_count = map->block->count;
		return xasprintf("older ConfigMaps of namespace %s already have the %zu names that "
				 "it may have; all %u are ignored",
		    map->namespace, HOSTS_MAPS_NAMES_MAX / maps->namespace_count,
		    map->block->count);
	}
	while (map->block != NULL && (name = local_names_next(map->block, &place)) != NULL) {
		found = in_force == NULL ? NULL : local_names_find(in_force, name->wire, name->len);
		if (found != NULL && found->source == source)
			continue;
		map->left_out_count++;
		if (first == NULL || dname_compare(name->wire, first->wire) < 0)
			first = name, first_found = found;
	}
	if (first == NULL)
		return NULL;
	char *reason = reason_of(maps, map, first, in_force, first_found);
	char *all = map->left_out_count == 1
			? xasprintf("%s; ignored", reason)
			: xasprintf("%s; ignored, and %zu more", reason, map->left_out_count - 1);
	free(reason);
	return all;
}

void
hosts_maps_judge(struct hosts_maps *maps, const struct local_names *in_force)
{
	if (maps == NULL)
		return;
	maps->names = 0;
	memcpy(maps->settled, maps->listed, sizeof maps->settled);
	maps->holder_count = maps->count;
	for (size_t i = 0; i < maps->count; i++) {
		struct hosts_map *map = &maps->items[i];
		char *why = find_left_out(maps, map, in_force, maps->round.first + i);

		if (why != NULL && (map->left_out == NULL || strcmp(why, map->left_out) != 0))
			log_warnx("%s: hosts: %s", map->subject, why);
		free(map->left_out);
		map->left_out = why;
		maps->names += map->block == NULL ? 0 : map->block->count - map->left_out_count;
		maps->holders[i] = (uint8_t)map->scope;
	}
	maps->round = (struct hosts_maps_round){ 0 };
	forget_stubs(maps);
}

void
hosts_maps_metrics(const struct hosts_maps *maps, struct metrics *m)
{
	size_t refused = 0, left_out = 0;

	if (maps == NULL)
		return;
	for (size_t i = 0; i < maps->count; i++) {
		refused += maps->items[i].key.error != NULL;
		left_out += maps->items[i].left_out_count;
	}
	metrics_family(m, "kubedns_hosts_configmaps", METRIC_GAUGE,
	    "ConfigMaps of --hosts-namespaces that are known.");
	metrics_value(m, (double)maps->count, NULL);
	metrics_family(m, "kubedns_hosts_configmaps_refused", METRIC_GAUGE,
	    "ConfigMaps of --hosts-namespaces whose content is refused; their last good names stay "
	    "in force.");
	metrics_value(m, (double)refused, NULL);
	metrics_family(m, "kubedns_hosts_configmaps_crowded_total", METRIC_COUNTER,
	    "Events of ConfigMaps that were left out because their namespace has too many older "
	    "ones.");
	metrics_value(m, (double)maps->crowded, NULL);
	metrics_family(m, "kubedns_hosts_names", METRIC_GAUGE,
	    "Names of these ConfigMaps: in force, or ignored because another ConfigMap has them, "
	    "they are in a stub domain, or their namespace has too many.");
	metrics_value(m, (double)maps->names, "state", "in_force", NULL);
	metrics_value(m, (double)left_out, "state", "left_out", NULL);
}

void
hosts_maps_free(struct hosts_maps *maps)
{
	for (size_t i = 0; maps != NULL && i < maps->count; i++)
		clear(&maps->items[i]);
	free(maps);
}
