#include "migrate/blocks.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/xalloc.h"
#include "migrate/scope.h"

/* --- where a block listens --- */

/* The transport and the port of a key. The pointers point into the key or are constants. */
struct listener {
	const char *port;
	size_t port_len, scheme_len;
	const char *scheme;
};

static struct listener
listener_of(const char *word)
{
	static const struct {
		const char *scheme, *port;
	} defaults[] = { { "dns", "53" }, { "tls", "853" }, { "quic", "853" }, { "https", "443" },
		{ "https3", "443" }, { "grpc", "443" } };
	const char *separator = strstr(word, "://");
	struct listener l = { .scheme = "dns", .scheme_len = 3, .port = "53", .port_len = 2 };

	if (separator != NULL) {
		l.scheme = word;
		l.scheme_len = (size_t)(separator - word);
		word = separator + 3;
	}
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
		if (strlen(defaults[i].scheme) == l.scheme_len &&
		    strncasecmp(defaults[i].scheme, l.scheme, l.scheme_len) == 0) {
			l.port = defaults[i].port;
			l.port_len = strlen(l.port);
		}
	/* In 2001:db8::/32, the colons are part of the address. */
	const char *slash = strrchr(word, '/');
	const char *port = strrchr(slash != NULL ? slash : word, ':');
	if (port != NULL && port[1] != '\0') {
		l.port = port + 1;
		l.port_len = strlen(l.port);
	}
	return l;
}

static bool
same_listener(struct listener a, struct listener b)
{
	return a.port_len == b.port_len && memcmp(a.port, b.port, a.port_len) == 0 &&
	       a.scheme_len == b.scheme_len && strncasecmp(a.scheme, b.scheme, a.scheme_len) == 0;
}

struct blocks {
	const struct corefile *corefile;
	enum block_fate *fates;
	struct zone_set *zones;   /* the value of a zone is the index of its block */
	struct zone_set *above;   /* the names above each zone; the value is the block of all zones
				     below the name, or corefile->count if they have several */
	size_t main;              /* corefile->count if there is no main block */
	struct listener listener; /* of the main block */
};

/* Returns the addresses of the block's `bind` lines, or "" if the block listens on all addresses.
 * Caller frees. */
static char *
addresses_of(const struct corefile_block *block)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_line *line = &block->directives[i].head;

		for (size_t k = 1; strcmp(line->words[0], "bind") == 0 && k < line->count; k++)
			if (strcmp(line->words[k], "0.0.0.0") != 0 &&
			    strcmp(line->words[k], "::") != 0)
				fprintf(f, "%s ", line->words[k]);
	}
	fclose(f);
	return text;
}

static bool
is_loopback(const char *addresses)
{
	return strncmp(addresses, "127.", 4) == 0 || strncmp(addresses, "::1 ", 4) == 0 ||
	       strncmp(addresses, "lo ", 3) == 0;
}

/* Whether the line contains the address of NodeLocal DNSCache, or a variable of its manifest. */
static bool
names_node_cache(const struct corefile_line *line)
{
	for (size_t i = 0; i < line->count; i++)
		if (strncmp(line->words[i], "169.254.", 8) == 0 ||
		    strncmp(line->words[i], "__PILLAR__", 10) == 0)
			return true;
	return false;
}

static bool
is_node_cache(const struct corefile_block *block)
{
	for (size_t i = 0; i < block->count; i++)
		if (strcmp(block->directives[i].head.words[0], "bind") == 0 &&
		    names_node_cache(&block->directives[i].head))
			return true;
	return false;
}

bool
block_forwards(const struct corefile_block *block)
{
	bool found = false;

	for (size_t i = 0; i < block->count && !found; i++) {
		const struct corefile_line *line = &block->directives[i].head;

		if ((strcmp(line->words[0], "forward") != 0 &&
			strcmp(line->words[0], "proxy") != 0) ||
		    line->count < 2)
			continue;
		char *zone = zone_parse(line->words[1]);
		found = zone == NULL || strcmp(zone, ".") == 0;
		free(zone);
	}
	return found;
}

/* --- choosing --- */

static bool
has_root(const struct corefile_block *block)
{
	bool found = false;

	for (size_t i = 0; i < block->keys.count && !found; i++) {
		char *zone = zone_parse(block->keys.words[i]);

		found = zone != NULL && strcmp(zone, ".") == 0;
		free(zone);
	}
	return found;
}

/* Returns how unlikely it is that this is the main block. */
static unsigned
distance(const struct corefile_block *block)
{
	struct listener usual = listener_of(".");
	unsigned sum = corefile_find(block, "kubernetes") != NULL ? 0 : has_root(block) ? 8 : 16;
	char *addresses = addresses_of(block);

	sum += is_loopback(addresses) ? 4 : 0;
	free(addresses);
	sum += corefile_find(block, "view") != NULL ? 2 : 0;
	for (size_t i = 0; i < block->keys.count; i++)
		if (same_listener(usual, listener_of(block->keys.words[i])))
			return sum;
	return sum + 1;
}

/* Returns where the block's clients send their queries: the usual port if a key has it. */
static struct listener
main_listener(const struct corefile_block *block)
{
	struct listener usual = listener_of(".");

	for (size_t i = 0; i < block->keys.count; i++)
		if (same_listener(usual, listener_of(block->keys.words[i])))
			return usual;
	return block->keys.count > 0 ? listener_of(block->keys.words[0]) : usual;
}

bool
blocks_key_is_here(const struct blocks *b, const char *word)
{
	return same_listener(b->listener, listener_of(word));
}

/* Adds the names above the zone of block `n` to b->above. */
static void
add_above(struct blocks *b, const char *zone, size_t n)
{
	for (const char *name = zone; strcmp(name, ".") != 0;) {
		size_t owner;

		name = strchr(name, '.') != NULL ? strchr(name, '.') + 1 : ".";
		bool other = zone_set_has(b->above, name) &&
			     zone_set_find(b->above, name, &owner) && owner != n;
		zone_set_put(b->above, name, other ? b->corefile->count : n);
	}
}

/* Gives the block each of its zones that no other block has. If `shared` is set, it also does not
 * get zones inside those of other blocks. Returns how many zones the block got. */
static size_t
claim_zones(struct blocks *b, size_t n, bool shared)
{
	const struct corefile_line *keys = &b->corefile->blocks[n].keys;
	size_t claimed = 0, other;

	for (size_t i = 0; i < keys->count; i++) {
		char *zone =
		    blocks_key_is_here(b, keys->words[i]) ? zone_parse(keys->words[i]) : NULL;

		if (zone != NULL && !(shared ? zone_set_find(b->zones, zone, &other)
					     : zone_set_has(b->zones, zone))) {
			zone_set_put(b->zones, zone, n);
			add_above(b, zone, n);
			claimed++;
		}
		free(zone);
	}
	return claimed;
}

/* Whether the block has a key with the main block's port, even if it is no valid zone. */
static bool
is_here(const struct blocks *b, const struct corefile_block *block)
{
	for (size_t i = 0; i < block->keys.count; i++)
		if (blocks_key_is_here(b, block->keys.words[i]))
			return true;
	return block->keys.count == 0;
}

/* Whether a key is not a zone, so that the reader of the block must report it. */
static bool
has_wrong_key(const struct corefile_block *block)
{
	for (size_t i = 0; i < block->keys.count; i++) {
		char *zone = zone_parse(block->keys.words[i]);

		free(zone);
		if (zone == NULL)
			return true;
	}
	return false;
}

/* Decides about the blocks with or without `view`. Blocks without it come first, because they serve
 * all clients. */
static void
decide(struct blocks *b, bool view)
{
	char *main = addresses_of(&b->corefile->blocks[b->main]);

	for (size_t i = 0; i < b->corefile->count; i++) {
		const struct corefile_block *block = &b->corefile->blocks[i];
		bool has_view = corefile_find(block, "view") != NULL;

		if (is_node_cache(block) || has_view != view)
			continue;
		char *own = addresses_of(block);
		if (!is_here(b, block))
			b->fates[i] = BLOCK_PORT;
		else if (strcmp(own, main) != 0)
			b->fates[i] = BLOCK_BIND;
		else if (claim_zones(b, i, view) == 0 && !has_wrong_key(block))
			b->fates[i] = view ? BLOCK_VIEW : BLOCK_TWICE;
		free(own);
	}
	free(main);
}

struct blocks *
blocks_new(const struct corefile *corefile)
{
	struct blocks *b = xcalloc(1, sizeof *b);
	unsigned least = ~0U;

	b->corefile = corefile;
	b->main = corefile->count;
	b->zones = zone_set_new();
	b->above = zone_set_new();
	b->fates = xcalloc(corefile->count + 1, sizeof *b->fates);
	for (size_t i = 0; i < corefile->count; i++) {
		unsigned sum = distance(&corefile->blocks[i]);

		b->fates[i] = is_node_cache(&corefile->blocks[i]) ? BLOCK_NODE_CACHE : BLOCK_SERVES;
		if (b->fates[i] == BLOCK_SERVES && sum < least) {
			least = sum;
			b->main = i;
		}
	}
	if (b->main < corefile->count) {
		b->listener = main_listener(&corefile->blocks[b->main]);
		decide(b, false);
		decide(b, true);
	}
	return b;
}

void
blocks_free(struct blocks *b)
{
	zone_set_free(b->zones);
	zone_set_free(b->above);
	free(b->fates);
	free(b);
}

enum block_fate
blocks_fate(const struct blocks *b, size_t block)
{
	return b->fates[block];
}

const struct corefile_block *
blocks_main(const struct blocks *b)
{
	return b->main < b->corefile->count ? &b->corefile->blocks[b->main] : NULL;
}

bool
blocks_has_zone(const struct blocks *b, size_t block, const char *zone)
{
	size_t owner;

	return zone_set_has(b->zones, zone) && zone_set_find(b->zones, zone, &owner) &&
	       owner == block;
}

const struct corefile_block *
blocks_of_name(const struct blocks *b, const char *name)
{
	size_t owner;

	return zone_set_find(b->zones, name, &owner) ? &b->corefile->blocks[owner] : NULL;
}

bool
blocks_has_below(const struct blocks *b, const struct corefile_block *block, const char *name)
{
	size_t owner;

	return zone_set_has(b->above, name) && zone_set_find(b->above, name, &owner) &&
	       &b->corefile->blocks[owner] != block;
}

char *
blocks_zones_inside(const struct blocks *b, const struct corefile_block *block)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; i < b->corefile->count; i++) {
		const struct corefile_line *keys = &b->corefile->blocks[i].keys;

		for (size_t k = 0; k < keys->count && &b->corefile->blocks[i] != block; k++) {
			char *zone = zone_parse(keys->words[k]);

			if (zone != NULL && strcmp(zone, ".") != 0 && !zone_is_reverse(zone) &&
			    blocks_has_zone(b, i, zone))
				fprintf(f, "%s%s", ftell(f) > 0 ? "," : "", zone);
			free(zone);
		}
	}
	fclose(f);
	return text;
}
