#include "migrate/scope.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/dname.h"
#include "lib/xalloc.h"

/* Converts `10.1.0.0/16` to its reverse zone. Returns NULL if the network does not end at a whole
 * byte. */
static char *
network_zone(const char *word)
{
	char text[ADDR_TEXT_MAX];
	const char *slash = strchr(word, '/');
	struct addr addr;
	char *end;

	if (slash == NULL || slash[1] == '\0' || (size_t)(slash - word) >= sizeof text)
		return NULL;
	memcpy(text, word, (size_t)(slash - word));
	text[slash - word] = '\0';
	long bits = strtol(slash + 1, &end, 10);
	if (*end || bits < 8 || bits > 24 || bits % 8 || addr_parse(text, &addr) < 0 ||
	    addr.family != AF_INET)
		return NULL;
	if (bits == 8)
		return xasprintf("%d.in-addr.arpa", addr.bytes[0]);
	if (bits == 16)
		return xasprintf("%d.%d.in-addr.arpa", addr.bytes[1], addr.bytes[0]);
	return xasprintf("%d.%d.%d.in-addr.arpa", addr.bytes[2], addr.bytes[1], addr.bytes[0]);
}

bool
zone_is_placeholder(const char *word)
{
	return strpbrk(word, "${}%<>") != NULL || strncmp(word, "__", 2) == 0;
}

char *
zone_parse(const char *word)
{
	struct dname name;
	const char *scheme = strstr(word, "://");

	if (scheme != NULL)
		word = scheme + 3;
	if (strchr(word, '/') != NULL)
		return network_zone(word);
	size_t len = strcspn(word, ":");
	char *zone = xstrndup(word, len);
	while (len > 0 && zone[len - 1] == '.')
		zone[--len] = '\0';
	if (len == 0) {
		free(zone);
		return xstrdup(".");
	}
	for (char *c = zone; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (zone_is_placeholder(zone) || dname_from_text(&name, zone) < 0) {
		free(zone);
		return NULL;
	}
	return zone;
}

bool
zone_is_hosts(const char *zone)
{
	for (size_t len; *zone; zone += len + (zone[len] == '.')) {
		len = strcspn(zone, ".");
		if (!dname_label_ok(zone, len))
			return false;
	}
	return true;
}

bool
zone_is_reverse(const char *zone)
{
	static const char *const roots[] = { "in-addr.arpa", "ip6.arpa" };
	for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
		if (conf_name_under(zone, roots[i]))
			return true;
	return false;
}

/* A set of zones. The set is a json-c object, which is a hash table with a random seed. */
struct zone_set {
	struct json_object *zones;
};

struct zone_set *
zone_set_new(void)
{
	struct zone_set *set = xmalloc(sizeof *set);

	set->zones = json_object_new_object();
	return set;
}

void
zone_set_free(struct zone_set *set)
{
	if (set == NULL)
		return;
	json_object_put(set->zones);
	free(set);
}

void
zone_set_add(struct zone_set *set, const char *zone)
{
	json_object_object_add(set->zones, zone, NULL);
}

bool
zone_set_has(const struct zone_set *set, const char *zone)
{
	return json_object_object_get_ex(set->zones, zone, NULL);
}

void
zone_set_put(struct zone_set *set, const char *zone, size_t value)
{
	json_object_object_add(set->zones, zone, json_object_new_int64((int64_t)value));
}

bool
zone_set_find(const struct zone_set *set, const char *name, size_t *value)
{
	struct json_object *found = NULL;
	const char *rest = name;

	while (rest != NULL && !json_object_object_get_ex(set->zones, rest, &found)) {
		rest = strchr(rest, '.');
		rest = rest != NULL && rest[1] != '\0' ? rest + 1 : NULL;
	}
	if (rest == NULL && !json_object_object_get_ex(set->zones, ".", &found))
		return false;
	*value = (size_t)json_object_get_int64(found);
	return true;
}

bool
zone_set_covers(const struct zone_set *set, const char *name)
{
	if (zone_set_has(set, "."))
		return true;
	for (const char *rest = name; rest != NULL; rest = strchr(rest, '.')) {
		rest += *rest == '.';
		if (zone_set_has(set, rest))
			return true;
	}
	return false;
}

bool
scope_serves(const struct scope *scope, const char *name)
{
	return blocks_of_name(scope->blocks, name) == scope->block;
}

bool
scope_serves_all(const struct scope *scope, const char *name)
{
	return scope_serves(scope, name) && !blocks_has_below(scope->blocks, scope->block, name);
}

bool
scope_serves_root(const struct scope *scope)
{
	return scope_serves(scope, ".");
}

bool
scope_serves_cluster(const struct scope *scope)
{
	char *name = xasprintf("svc.%s", report_known_domain(scope->report));
	bool serves = scope_serves(scope, name);

	free(name);
	return serves;
}

struct zone_set *
scope_zones(const struct scope *scope, const struct corefile_line *line, size_t at)
{
	struct zone_set *set = zone_set_new();

	for (size_t i = at; i < line->count; i++) {
		char *zone = zone_parse(line->words[i]);

		if (zone != NULL)
			zone_set_add(set, zone);
		free(zone);
	}
	for (size_t i = 0; at >= line->count && i < scope->count; i++)
		zone_set_add(set, scope->zones[i]);
	return set;
}

bool
scope_file(struct scope *scope, const struct corefile_line *line, const char *path,
    struct corefile_text *text)
{
	struct plugin_files *files = scope->files;

	if (files->read == NULL || files->bytes > COREFILE_IMPORTED_MAX ||
	    !files->read(files->arg, path, line->file, text))
		return false;
	files->bytes += text->len;
	return true;
}

bool
scope_name(const struct scope *scope, const struct zone_set *zones, const char *word,
    char name[CONF_HOST_MAX], const char **why)
{
	if (conf_name_parse(word, name, why) < 0)
		return false;
	*why = "not below this server block's zones, so CoreDNS does not answer it";
	if (zone_set_covers(scope->set, name) && !scope_serves(scope, name))
		*why = "another server block has this name, so CoreDNS does not answer it here";
	return scope_serves(scope, name) && zone_set_covers(zones, name);
}
