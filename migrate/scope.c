#include "migrate/scope.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/dname.h"
#include "lib/xalloc.h"

/* Parses `10.1.0.0/16`. Returns false if the word is not a network. */
static bool
network_parse(const char *word, struct addr *addr, unsigned *bits)
{
	char text[ADDR_TEXT_MAX];
	const char *slash = strchr(word, '/');
	char *end;

	if (slash == NULL || !isdigit((unsigned char)slash[1]) ||
	    (size_t)(slash - word) >= sizeof text)
		return false;
	memcpy(text, word, (size_t)(slash - word));
	text[slash - word] = '\0';
	long length = strtol(slash + 1, &end, 10);
	if (*end || addr_parse(text, addr) < 0 || length > (addr->family == AF_INET ? 32 : 128))
		return false;
	*bits = (unsigned)length;
	return true;
}

/* Returns the bits of one label in the reverse zone of the address. */
static unsigned
label_bits(const struct addr *addr)
{
	return addr->family == AF_INET ? 8 : 4;
}

/* Returns the reverse zone of the network, whose length is a multiple of label_bits(). */
static char *
reverse_zone(const struct addr *addr, unsigned bits)
{
	char *zone = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&zone, &len);

	for (unsigned i = bits / label_bits(addr); i-- > 0;) {
		if (addr->family == AF_INET)
			fprintf(f, "%u.", addr->bytes[i]);
		else
			fprintf(
			    f, "%x.", i % 2 ? addr->bytes[i / 2] & 15U : addr->bytes[i / 2] >> 4U);
	}
	fputs(addr->family == AF_INET ? "in-addr.arpa" : "ip6.arpa", f);
	fclose(f);
	return zone;
}

char *
zone_part(const char *word, size_t part)
{
	const char *scheme = strstr(word, "://");
	struct addr addr;
	unsigned bits;

	if (!network_parse(scheme != NULL ? scheme + 3 : word, &addr, &bits))
		return part == 0 ? zone_parse(word) : NULL;
	unsigned size = label_bits(&addr), spare = (size - bits % size) % size;
	if (part >= 1U << spare)
		return NULL;
	/* The label that the network divides has its `spare` low bits from `part`. */
	unsigned whole = bits + spare;
	if (spare > 0) {
		unsigned shift = addr.family == AF_INET6 && whole % 8 ? 4 : 0;
		unsigned char *byte = &addr.bytes[(whole - 1) / 8];
		unsigned mask = ((1U << spare) - 1) << shift;
		*byte = (unsigned char)((*byte & ~mask) | part << shift);
	}
	return reverse_zone(&addr, whole);
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
	if (strchr(word, '/') != NULL) {
		struct addr addr;
		unsigned bits;

		return network_parse(word, &addr, &bits) && bits % label_bits(&addr) == 0
			   ? reverse_zone(&addr, bits)
			   : NULL;
	}
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

const char *
zone_set_closest(const struct zone_set *set, const char *name)
{
	while (name != NULL && !zone_set_has(set, name)) {
		name = strchr(name, '.');
		name = name != NULL ? name + 1 : NULL;
	}
	return name;
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
		char *zone;

		for (size_t part = 0; (zone = zone_part(line->words[i], part)) != NULL; part++) {
			zone_set_add(set, zone);
			free(zone);
		}
	}
	for (size_t i = 0; at >= line->count && i < scope->count; i++)
		zone_set_add(set, scope->zones[i]);
	return set;
}

static bool
read_file(struct plugin_files *files, const struct corefile_line *line, const char *path,
    struct corefile_text *text)
{
	if (files->read == NULL || files->bytes > COREFILE_IMPORTED_MAX ||
	    !files->read(files->arg, path, line->file, text))
		return false;
	files->bytes += text->len;
	return true;
}

bool
plugin_files_have(struct plugin_files *files, const struct corefile_line *line, const char *path)
{
	struct corefile_text text = { 0 };
	bool found = read_file(files, line, path, &text);

	free(text.name);
	free(text.text);
	return found;
}

bool
scope_file(struct scope *scope, const struct corefile_line *line, const char *path,
    struct corefile_text *text)
{
	return read_file(scope->files, line, path, text);
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

void
scope_plan_zones(struct zone_set *set, const struct blocks *blocks,
    const struct corefile_block *block, const struct corefile_line *line, size_t at)
{
	const struct corefile_line *zones = at < line->count ? line : &block->keys;

	for (size_t i = at < line->count ? at : 0; i < zones->count; i++) {
		char *zone = zone_parse(zones->words[i]);

		if (zone != NULL && strcmp(zone, ".") != 0 && blocks_of_name(blocks, zone) == block)
			zone_set_put(set, zone, line->line);
		free(zone);
	}
}

char *
scope_uncovered(const struct scope *scope, const char *name, enum names_kind kind)
{
	const struct plugin_files *files = scope->files;
	const char *below = name;
	size_t line = 0;

	for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		const char *above = dot + 1;
		bool wildcard = zone_set_has(files->wildcards, above);

		if (!wildcard && !zone_set_has(files->zone_files, above)) {
			below = above;
			continue;
		}
		/* The block of `below` is not that of `above` if it is the zone of another block. */
		bool whole =
		    below == name && (kind == NAMES_ALL || (kind == NAMES_ITSELF && !wildcard));
		if (whole ||
		    blocks_of_name(scope->blocks, below) != blocks_of_name(scope->blocks, above))
			break;
		zone_set_find(wildcard ? files->wildcards : files->zone_files, above, &line);
		return wildcard
			   ? xasprintf("; the wildcard of the template in line %zu does not "
				       "cover other names in \"%.80s\"",
				 line, below)
			   : xasprintf("; \"%.80s\" then exists in the zone of the file in "
				       "line %zu, without records; CoreDNS returns NXDOMAIN or "
				       "a wildcard's record for it and for other names below it",
				 below, line);
	}
	return xstrdup("");
}
