/* The plugins hosts and file, which define names. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/dname.h"
#include "lib/master_file.h"
#include "lib/xalloc.h"
#include "migrate/plugins.h"

/* TTL of the names of hosts in CoreDNS if there is no option ttl, in seconds. */
enum { COREDNS_HOSTS_TTL = 3600 };

static const struct report_option hosts_options[] = {
	{ "no_reverse", VERDICT_CHANGES, "kubedns answers the reverse names too" },
	{ "reload", VERDICT_CARRIED, "changes of the ConfigMap take effect immediately" },
	{ "fallthrough", VERDICT_CARRIED, "other names are looked up like any other name" },
	{ "fallthrough_unsupported", VERDICT_CHANGES,
	    "these names then have no records of types other than A and AAAA; CoreDNS looks them "
	    "up" },
};

/* Reads the option `ttl SECONDS`. */
static void
read_ttl(struct scope *scope, const struct corefile_line *line)
{
	long ttl = line->count > 1 ? strtol(line->words[1], NULL, 10) : -1;
	bool same =
	    plugin_cache_ttl(scope->block, ttl) == plugin_kubernetes_ttl(scope->files->kubernetes);

	report_line(scope->report, line, same ? VERDICT_CARRIED : VERDICT_CHANGES,
	    "kubedns's --ttl applies to these names too%s", same ? ", and is the same" : "");
}

/* The names of one line of a hosts file. */
struct host_names {
	char *texts; /* names for the ConfigMap key hosts, each with a blank before it */
	unsigned wildcards;
	unsigned outside; /* names that CoreDNS does not answer here */
	bool reversed;    /* some of them have PTR records: they are in the directive's zones */
	char *wrong;      /* the names that are not carried over, in quotes */
	const char *why;  /* the reason for the first of them */
	char *hidden;     /* the names that a template of the block answers in CoreDNS, in quotes */
	char *uncovered;  /* scope_uncovered() of the first of them that has such names */
};

/* Handles `*.NAME`. Adds the name to the ConfigMap key records, because that key supports
 * wildcards. */
static bool
take_wildcard(struct scope *scope, const struct zone_set *zones, const char *word,
    const struct addr *addr, const char **why)
{
	char name[CONF_HOST_MAX], text[ADDR_TEXT_MAX];

	if (strncmp(word, "*.", 2) != 0 || !scope_name(scope, zones, word + 2, name, why))
		return false;
	addr_format(addr, text);
	report_text(scope->report, TEXT_RECORDS, "*.%s %s %s", name,
	    addr->family == AF_INET ? "A" : "AAAA", text);
	return true;
}

static struct host_names
read_names(struct scope *scope, const struct zone_set *zones, const struct corefile_line *line,
    const struct addr *addr)
{
	struct host_names names = { .uncovered = xstrdup("") };
	size_t len = 0, hidden_len = 0, wrong_len = 0;
	FILE *f = open_memstream(&names.texts, &len),
	     *hidden = open_memstream(&names.hidden, &hidden_len),
	     *wrong = open_memstream(&names.wrong, &wrong_len);

	for (size_t i = 1; i < line->count; i++) {
		char name[CONF_HOST_MAX];
		const char *why = NULL;

		if (scope_name(scope, zones, line->words[i], name, &why)) {
			fprintf(f, " %s", name);
			if (ftell(hidden) < 500 && zone_set_covers(scope->templates, name))
				fprintf(hidden, "%s\"%.80s\"", ftell(hidden) > 0 ? ", " : "",
				    line->words[i]);
			if (*names.uncovered == '\0') {
				free(names.uncovered);
				names.uncovered = scope_uncovered(scope, name, NAMES_ALL);
			}
		} else if (take_wildcard(scope, zones, line->words[i], addr, &why)) {
			names.wildcards++;
		} else {
			const char *bad;

			bool good = conf_name_parse(line->words[i], name, &bad) == 0;
			names.outside += good;
			names.reversed |= good && zone_set_covers(zones, name);
			if (ftell(wrong) < 500)
				fprintf(wrong, "%s\"%.80s\"", ftell(wrong) > 0 ? ", " : "",
				    line->words[i]);
			names.why = names.why != NULL ? names.why : why;
		}
	}
	fclose(f);
	fclose(hidden);
	fclose(wrong);
	return names;
}

enum { REVERSE_NAME_SIZE = 2 * 32 + 16 };

static void
reverse_name(const struct addr *addr, char name[REVERSE_NAME_SIZE])
{
	size_t len = 0;

	for (int i = addr->family == AF_INET ? 3 : 15; i >= 0; i--)
		len += (size_t)snprintf(name + len, REVERSE_NAME_SIZE - len,
		    addr->family == AF_INET ? "%u." : "%x.%x.",
		    addr->family == AF_INET ? addr->bytes[i] : addr->bytes[i] & 15U,
		    (unsigned)addr->bytes[i] >> 4);
	snprintf(name + len, REVERSE_NAME_SIZE - len, "%s",
	    addr->family == AF_INET ? "in-addr.arpa" : "ip6.arpa");
}

/* Whether CoreDNS passes the reverse name of the address to this block. */
static bool
has_address(const struct scope *scope, const struct addr *addr)
{
	char name[REVERSE_NAME_SIZE];

	reverse_name(addr, name);
	return scope_serves(scope, name);
}

/* Whether the reverse name of the address gets the same answer as in CoreDNS: CoreDNS passes it to this block, or
 * in the classic topology, dnsmasq sends it to the servers of the same stub domain. */
static bool
serves_address(const struct scope *scope, const struct addr *addr)
{
	char name[REVERSE_NAME_SIZE];

	reverse_name(addr, name);
	const struct corefile_block *block = blocks_of_name(scope->blocks, name);
	return block == scope->block ||
	       (report_topology(scope->report) == TOPOLOGY_CLASSIC && block != NULL &&
		   block != blocks_of_name(scope->blocks, ".") &&
		   plugin_forward_has_servers(block, name));
}

/* Reads `ADDRESS NAME...`. If `quiet` is set, a line that is carried over completely is not
 * reported separately. */
static void
read_host(
    struct scope *scope, const struct zone_set *zones, const struct corefile_line *line, bool quiet)
{
	struct report *r = scope->report;
	struct addr addr;

	if (line->count < 2 || addr_parse(line->words[0], &addr) < 0) {
		report_line(r, line, VERDICT_NONE, "needs an address and names");
		return;
	}
	if (report_text_count(r, TEXT_HOSTS) >= CONF_HOSTS_MAX) {
		report_line(r, line, VERDICT_NONE, "left out: the key hosts accepts %d names",
		    CONF_HOSTS_MAX);
		return;
	}
	struct host_names names = read_names(scope, zones, line, &addr);
	if (*names.texts != '\0')
		report_text(r, TEXT_HOSTS, "%s%s", line->words[0], names.texts);
	const char *reverse = serves_address(scope, &addr)
				  ? ""
				  : ". kubedns also answers the reverse name of this address; "
				    "CoreDNS passes it to another server block, or to none";

	char *hidden = *names.hidden != '\0'
			   ? xasprintf(". In CoreDNS, a template of this server block answers %s "
				       "before hosts does. The wildcard of the template does not "
				       "cover names below%s",
				 names.hidden, names.uncovered)
			   : xstrdup(names.uncovered);

	names.reversed &= has_address(scope, &addr);
	if (names.outside == line->count - 1 && !names.reversed)
		report_line(r, line, VERDICT_CARRIED, "left out: %s", names.why);
	else if (*names.wrong != '\0')
		report_line(r, line, VERDICT_CHANGES,
		    "the ConfigMap's key hosts, without %s: %s%s%s", names.wrong, names.why,
		    names.reversed
			? "; CoreDNS returns such names only for the reverse name of the address"
		    : *names.texts != '\0' ? reverse
					   : "",
		    hidden);
	else if (*hidden != '\0')
		report_line(
		    r, line, VERDICT_CHANGES, "the ConfigMap's key hosts%s%s", hidden, reverse);
	else if (names.wildcards > 0)
		report_line(r, line, VERDICT_CHANGES,
		    "wildcards go into the ConfigMap's key records, and match any number of "
		    "labels%s",
		    *names.texts != '\0' ? reverse : "");
	else if (*reverse != '\0')
		report_line(r, line, VERDICT_CHANGES, "the ConfigMap's key hosts%s", reverse);
	else if (!quiet)
		report_line(r, line, VERDICT_CARRIED, "a line of the ConfigMap's key hosts");
	free(hidden);
	free(names.texts);
	free(names.hidden);
	free(names.uncovered);
	free(names.wrong);
}

/* Splits a line of a hosts file into words, up to the comment. The words point into `text`. */
static struct corefile_line
host_line(const char *file, unsigned number, char *text, char **words)
{
	struct corefile_line line = { .file = file, .line = number, .words = words };

	text[strcspn(text, "#")] = '\0';
	for (char *save = NULL, *word = strtok_r(text, " \t\r\v\f", &save); word != NULL;
	     word = strtok_r(NULL, " \t\r\v\f", &save))
		words[line.count++] = word;
	return line;
}

/* Reads all lines of a hosts file. */
static void
read_hosts_file(struct scope *scope, const struct zone_set *zones, struct corefile_text *file)
{
	char **words = xcalloc(file->len / 2 + 1, sizeof *words);
	char *stop = file->text + file->len;
	unsigned number = 0;

	for (char *at = file->text, *end; at < stop; at = end + 1) {
		end = memchr(at, '\n', (size_t)(stop - at));
		if (end == NULL)
			end = stop;
		*end = '\0';
		struct corefile_line line = host_line(file->name, ++number, at, words);
		if (line.count > 0)
			read_host(scope, zones, &line, true);
	}
	free(words);
}

/* serves_address() for all addresses in the directive. */
static bool
serves_addresses(const struct scope *scope, const struct corefile_directive *d)
{
	struct addr addr;

	for (size_t i = 0; i < d->body_count; i++)
		if (addr_parse(d->body[i].words[0], &addr) == 0 && !serves_address(scope, &addr))
			return false;
	return true;
}

/* Whether CoreDNS answers no name and no reverse name of the addresses in the directive's block. */
static bool
has_no_names(
    const struct scope *scope, const struct corefile_directive *d, const struct zone_set *zones)
{
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];
		char name[CONF_HOST_MAX];
		struct addr addr;
		const char *why;

		if (addr_parse(line->words[0], &addr) != 0)
			continue;
		bool reversed = has_address(scope, &addr);
		for (size_t k = 1; k < line->count; k++)
			if (conf_name_parse(line->words[k], name, &why) != 0 ||
			    (reversed && zone_set_covers(zones, name)) ||
			    scope_name(scope, zones, line->words[k], name, &why))
				return false;
	}
	return true;
}

/* Returns false if the names are in a file that is not here. */
static bool
read_hosts_head(struct scope *scope, const struct corefile_directive *d,
    const struct zone_set *zones, bool falls, bool none)
{
	const struct corefile_line *head = &d->head;
	bool same_ttl = plugin_kubernetes_ttl(scope->files->kubernetes) ==
			plugin_cache_ttl(scope->block, COREDNS_HOSTS_TTL);

	for (size_t i = 0; i < d->body_count; i++) /* the option has a verdict of its own */
		same_ttl = same_ttl || strcmp(d->body[i].words[0], "ttl") == 0;
	const char *ttl =
	    same_ttl ? ""
		     : "; the TTL of these names is kubedns's --ttl; CoreDNS's default is 3600";
	/* CoreDNS has PTR records only in reverse zones that both the block and the plugin contain. */
	bool reverse = (!zone_set_covers(zones, "in-addr.arpa") ||
			   !zone_set_covers(scope->set, "in-addr.arpa")) &&
		       !(d->head.count < 2 && serves_addresses(scope, d));
	const char *denied = falls ? ""
				   : "; other names are looked up like any other name; CoreDNS "
				     "returns SERVFAIL for them";
	struct corefile_text file;

	if (none) {
		report_line(scope->report, head, falls ? VERDICT_CARRIED : VERDICT_CHANGES,
		    "left out: it has no names of this server block%s", denied);
	} else if (head->count < 2) {
		report_line(scope->report, head,
		    falls && !reverse && same_ttl ? VERDICT_CARRIED : VERDICT_CHANGES,
		    "the ConfigMap's key hosts%s%s%s",
		    reverse
			? ", with which kubedns also answers the reverse names of these addresses"
			: "",
		    denied, ttl);
	} else if (strcmp(head->words[1], "/etc/hosts") != 0 &&
		   scope_file(scope, head, head->words[1], &file)) {
		size_t before = report_text_count(scope->report, TEXT_HOSTS);

		read_hosts_file(scope, zones, &file);
		report_line(scope->report, head, VERDICT_CHANGES,
		    "the ConfigMap's key hosts, with the current %zu lines of %s: when the file "
		    "changes, change the key too (k3s: NodeHosts changes with the nodes)%s%s%s",
		    report_text_count(scope->report, TEXT_HOSTS) - before, file.name,
		    reverse ? "; kubedns also answers the reverse names of these addresses" : "",
		    denied, ttl);
		free(file.name);
		free(file.text);
	} else {
		report_line(scope->report, head, VERDICT_NONE,
		    "the file is not here: put its lines into the ConfigMap's key hosts. Until "
		    "then "
		    "these names are looked up like any other name%s%s",
		    denied, ttl);
		return false;
	}
	return true;
}

/* Whether the block has a further plugin to which `fallthrough` passes the query. */
static bool
leads_on(const struct corefile_block *block)
{
	static const char *const names[] = { "forward", "proxy", "grpc", "kubernetes", "file",
		"auto", "secondary", "etcd", "template", "k8s_external" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (corefile_find(block, names[i]) != NULL)
			return true;
	return false;
}

bool
plugin_falls_through(const struct scope *scope, const struct corefile_directive *d, size_t at)
{
	struct zone_set *through = zone_set_new();
	bool all = true;

	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (strcmp(line->words[0], "fallthrough") != 0)
			continue;
		if (line->count == 1)
			zone_set_add(through, ".");
		for (size_t k = 1; k < line->count; k++) {
			char *zone = zone_parse(line->words[k]);

			if (zone != NULL)
				zone_set_add(through, zone);
			free(zone);
		}
	}
	for (size_t i = at; i < d->head.count; i++) {
		char *zone = zone_parse(d->head.words[i]);

		all = all && (zone == NULL || zone_set_covers(through, zone));
		free(zone);
	}
	for (size_t i = 0; d->head.count <= at && i < scope->count; i++)
		all = all && zone_set_covers(through, scope->zones[i]);
	zone_set_free(through);
	return all;
}

/* hosts [FILE [ZONE...]] { ... } */
void
plugin_hosts(struct scope *scope, const struct corefile_directive *d)
{
	struct zone_set *zones = scope_zones(scope, &d->head, 2);
	bool falls = plugin_falls_through(scope, d, 2) && leads_on(scope->block);

	bool none = d->head.count < 2 && has_no_names(scope, d, zones);
	bool here = read_hosts_head(scope, d, zones, falls, none);
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];
		struct addr addr;

		if (addr_parse(line->words[0], &addr) == 0)
			read_host(scope, zones, line, false);
		else if (none && (strcmp(line->words[0], "ttl") == 0 ||
				     strcmp(line->words[0], "no_reverse") == 0))
			report_line(
			    scope->report, line, VERDICT_CARRIED, "left out with its hosts");
		else if (strcmp(line->words[0], "ttl") == 0)
			read_ttl(scope, line);
		else if (!here && strcmp(line->words[0], "no_reverse") != 0)
			report_line(scope->report, line, VERDICT_NONE,
			    "part of hosts above, whose file is not here");
		else if (!report_option(scope->report, line, hosts_options,
			     sizeof hosts_options / sizeof *hosts_options))
			report_line(scope->report, line, VERDICT_NONE,
			    "not an option of hosts, nor an address with names");
	}
	zone_set_free(zones);
}

/* --- file --- */

/* The number of the block's zones that are compared with each zone of a directive. */
enum { BLOCK_ZONES_MAX = 100 };

/* A zone file that is being copied for one zone. */
struct zone_copy {
	const char *zone;   /* the names to which the copy is limited */
	const char *origin; /* the zone of the directive, to which the file's names are relative */
	struct dname apex;  /* `zone` on the wire */
	long ttl_min, ttl_max; /* the TTLs of its records, in seconds */
	const struct scope *scope;
	bool hidden; /* a template of the block answers some of its names in CoreDNS */
};

/* The entries of a master file. */
struct entries {
	struct master_entry entry;
	struct dname origin, owner;
};

/* Whether the entry is a SOA record. */
static bool
is_soa(const struct master_entry *entry)
{
	for (size_t i = 0; i < entry->count && i < 4; i++)
		if (strcasecmp(entry->words[i], "SOA") == 0)
			return true;
	return false;
}

/* Follows $ORIGIN and the owner's name. Returns whether the owner is in the zone. */
static bool
belongs(struct zone_copy *copy, struct entries *e)
{
	const struct master_entry *entry = &e->entry;
	struct dname name;
	const char *why;

	if (entry->count == 0)
		return true;
	if (entry->words[0][0] == '$') {
		if (strcasecmp(entry->words[0], "$ORIGIN") == 0 && entry->count > 1 &&
		    master_name(entry->words[1], &e->origin, &name, &why) == 0)
			e->origin = name;
		return true;
	}
	if (!entry->blank && master_name(entry->words[0], &e->origin, &name, &why) == 0)
		e->owner = name;
	return dname_in_zone(e->owner.wire, copy->apex.wire) >= 0;
}

/* Whether a template of the block answers the name, or names that the wildcard covers. */
static bool
is_hidden(const struct scope *scope, const struct dname *owner)
{
	char text[DNAME_TEXT_MAX];
	const char *name = dname_to_text(owner->wire, text);
	size_t len = strlen(name);

	if (len > 1 && text[len - 1] == '.')
		text[len - 1] = '\0';
	for (char *c = text; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return zone_set_covers(scope->templates, name) ||
	       (strncmp(name, "*.", 2) == 0 && zone_set_has(scope->above_templates, name + 2));
}

/* Writes the complete entry, whose lines are `lines`. A record outside of the zone is left
 * out, because CoreDNS does not serve it either. CoreDNS takes any SOA record of the file as that of the zone, so it gets the zone's name. */
static void
write_entry(struct zone_copy *copy, struct entries *e, char **lines, size_t count, FILE *out)
{
	const struct master_entry *entry = &e->entry;
	bool inside = belongs(copy, e);

	if (inside && entry->count > 0)
		copy->hidden |= is_hidden(copy->scope, &e->owner);
	if (is_soa(entry) && !dname_equal(e->owner.wire, copy->apex.wire)) {
		fprintf(out, "%s.", copy->zone);
		for (size_t i = entry->blank ? 0 : 1; i < entry->count; i++)
			fprintf(out, " %s", entry->words[i]);
		fputc('\n', out);
	} else if (inside) {
		for (size_t i = 0; i < count; i++)
			fprintf(out, "%s\n", lines[i]);
	}
}

/* Returns the entries of the text that belong to the zone. An entry without an owner has the owner of
 * the entry before it, so both stay or go. Caller frees. */
static char *
entries_of_zone(struct zone_copy *copy, char *text)
{
	struct entries e = { 0 };
	char **lines = NULL, **words = NULL, *kept = NULL;
	size_t count = 0, len = 0;
	const char *why;
	FILE *out = open_memstream(&kept, &len);

	for (char *line = text, *next; line != NULL; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if ((count & (count - 1)) == 0) {
			lines = xreallocarray(lines, count ? 2 * count : 1, sizeof *lines);
			words = xreallocarray(words, count ? 2 * count : 1, sizeof *words);
		}
		lines[count] = line;
		words[count] = xstrdup(line);
		bool good = master_entry_add(&e.entry, 1, words[count++], &why) == 0;
		if (good && e.entry.open && next != NULL)
			continue;
		if (good)
			write_entry(copy, &e, lines, count, out);
		else /* the parser reports the mistake */
			for (size_t i = 0; i < count; i++)
				fprintf(out, "%s\n", lines[i]);
		for (size_t i = 0; i < count; i++)
			free(words[i]);
		count = 0;
		master_entry_next(&e.entry);
	}
	free(lines);
	free(words);
	fclose(out);
	return kept;
}

/* Adds the zone to the ConfigMap key records. The lines are relative to their zone and have CoreDNS's
 * default TTL. Returns NULL, or the reason why the zone is refused. Caller frees the reason. */
static char *
take_zone_file(struct scope *scope, const struct corefile_text *file, struct zone_copy *copy)
{
	struct conf_records records;
	char *why = NULL;

	if (strlen(file->text) != file->len)
		return xstrdup("it contains NUL bytes");
	for (const char *c = file->text; *c; c++)
		if ((unsigned char)*c >= 0x7f)
			return xstrdup("it contains bytes that are not ASCII: write them as \\DDD");
	if (dname_from_text(&copy->apex, copy->zone) < 0)
		return xstrdup("its zone is not a name");
	dname_lower(copy->apex.wire, copy->apex.len);
	char *text = xasprintf("$ORIGIN %s.\n$TTL 3600\n%s\n$ORIGIN .", copy->origin, file->text);
	char *kept = entries_of_zone(copy, text);
	if (conf_records_parse(
		kept, strlen(kept), report_known_domain(scope->report), &records, &why) == 0) {
		for (size_t i = 0; i < records.count; i++) {
			long ttl = (long)records.items[i].ttl_s;

			copy->ttl_min = ttl < copy->ttl_min ? ttl : copy->ttl_min;
			copy->ttl_max = ttl > copy->ttl_max ? ttl : copy->ttl_max;
		}
		conf_records_free(&records);
		for (char *save = NULL, *line = strtok_r(kept, "\n", &save); line != NULL;
		     line = strtok_r(NULL, "\n", &save))
			if (line[strspn(line, " \t\r")] != '\0')
				report_text(scope->report, TEXT_ZONES, "%s", line);
	}
	free(kept);
	free(text);
	return why;
}

/* What became of a directive `file`. */
struct zone_files {
	bool here;             /* the file is in the input */
	size_t taken;          /* zones whose records were copied */
	char *why;             /* why a zone was refused */
	bool shared;           /* another server block has a zone below one of the zones */
	long ttl_min, ttl_max; /* the TTLs of the records, in seconds */
	bool hidden; /* a template of the block answers some of the files' names in CoreDNS */
};

static void
read_zone(struct scope *scope, const struct corefile_text *file, const char *origin,
    const char *zone, struct zone_files *files)
{
	char name[CONF_HOST_MAX], base[CONF_HOST_MAX];
	const char *reason = "no zone";

	if (files->why != NULL)
		return;
	scope->files->bytes += file->len;
	if (report_text_count(scope->report, TEXT_ZONES) >= CONF_RECORDS_MAX ||
	    scope->files->bytes > COREFILE_IMPORTED_MAX) {
		files->why = xasprintf("the key records accepts %d records", CONF_RECORDS_MAX);
	} else if (conf_name_parse(zone, name, &reason) < 0 ||
		   conf_name_parse(origin, base, &reason) < 0) {
		files->why = xasprintf("zone %.80s: %s", zone, reason);
	} else {
		struct zone_copy copy = { .zone = name,
			.origin = base,
			.ttl_min = files->ttl_min,
			.ttl_max = files->ttl_max,
			.scope = scope };

		files->why = take_zone_file(scope, file, &copy);
		files->taken += files->why == NULL;
		files->ttl_min = copy.ttl_min;
		files->ttl_max = copy.ttl_max;
		files->hidden |= copy.hidden;
		files->shared |= blocks_has_below(scope->blocks, scope->block, name);
	}
}

/* Reads the file for each zone of the directive that this block answers. If the block answers only a
 * part of a zone, only this part is copied. */
static void
read_zones(struct scope *scope, const struct corefile_line *line, const struct corefile_text *file,
    struct zone_files *files)
{
	if (line->count == 2) {
		for (size_t i = 0; i < scope->count; i++)
			read_zone(scope, file, scope->zones[i], scope->zones[i], files);
		return;
	}
	for (size_t i = 2; i < line->count; i++) {
		char *zone = zone_parse(line->words[i]);

		if (zone == NULL && files->why == NULL)
			files->why = xasprintf("zone %.80s: no zone", line->words[i]);
		else if (zone != NULL && scope_serves(scope, zone))
			read_zone(scope, file, zone, zone, files);
		for (size_t k = 0; zone != NULL && k < scope->count && k < BLOCK_ZONES_MAX; k++)
			if (!scope_serves(scope, zone) && conf_name_under(scope->zones[k], zone))
				read_zone(scope, file, zone, scope->zones[k], files);
		free(zone);
	}
}

/* Whether the block transfers or signs its zones. */
static bool
serves_more(const struct corefile_block *block)
{
	static const char *const names[] = { "transfer", "dnssec", "sign" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (corefile_find(block, names[i]) != NULL)
			return true;
	return false;
}

/* Returns the end of a sentence if a template of the block answers the zones of the directive or names below them, or if
 * the zones take names beside them from a wildcard or another zone. Caller frees. */
static char *
answered_by_template(
    const struct scope *scope, const struct corefile_line *line, const struct zone_files *files)
{
	size_t from = line->count > 2 ? 2 : 0, count = from ? line->count : scope->count, at = 0;
	bool all = false, some = false;
	char *uncovered = xstrdup("");

	for (size_t i = from; i < count && !all && !some; i++) {
		char *zone = from ? zone_parse(line->words[i]) : xstrdup(scope->zones[i]);

		all = zone != NULL && zone_set_find(scope->templates, zone, &at);
		some = files->hidden && zone != NULL && !all &&
		       zone_set_has(scope->above_templates, zone) &&
		       zone_set_find(scope->above_templates, zone, &at);
		if (zone != NULL && *uncovered == '\0') {
			free(uncovered);
			uncovered = scope_uncovered(scope, zone, NAMES_ALL);
		}
		free(zone);
	}
	char *text = all || some
			 ? xasprintf("; in CoreDNS, the template in line %zu answers %sthese "
				     "names before file does%s",
			       at, all ? "" : "some of ", uncovered)
			 : xstrdup(uncovered);
	free(uncovered);
	return text;
}

/* Reports a zone whose records are copied. */
static void
report_copied(struct scope *scope, const struct corefile_line *line, const char *name,
    const struct zone_files *files)
{
	char *hidden = answered_by_template(scope, line, files);
	long most = plugin_cache_ttl(scope->block, files->ttl_max),
	     least = plugin_cache_ttl(scope->block, files->ttl_min);
	char *ttl = most < files->ttl_max
			? xasprintf("; the TTLs are those of the file; CoreDNS's cache limits "
				    "them to %ld s",
			      most)
		    : least > files->ttl_min
			? xasprintf("; the TTLs are those of the file; CoreDNS's cache raises "
				    "them to %ld s",
			      least)
			: xstrdup("");
	bool changes =
	    files->shared || serves_more(scope->block) || *hidden != '\0' || *ttl != '\0';

	report_line(scope->report, line, changes ? VERDICT_CHANGES : VERDICT_CARRIED,
	    "the ConfigMap's key records, with the current lines of %s; they are not transferred "
	    "and not signed%s%s%s",
	    name,
	    files->shared
		? "; names in zones of other server blocks below this zone get the answers of "
		  "this zone, such as NXDOMAIN"
		: "",
	    hidden, ttl);
	free(hidden);
	free(ttl);
}

/* file FILE [ZONE...] { ... } */
void
plugin_file(struct scope *scope, const struct corefile_directive *d)
{
	static const struct report_option options[] = {
		{ "reload", VERDICT_CARRIED, "changes of the ConfigMap take effect immediately" },
		{ "reload_by_mtime", VERDICT_CARRIED,
		    "changes of the ConfigMap take effect immediately" },
		{ "upstream", VERDICT_CARRIED, "targets are looked up like any other name" },
		{ "fallthrough", VERDICT_CHANGES,
		    "with a SOA record in the key records, other names below it get NXDOMAIN: "
		    "without the SOA record, they are forwarded" },
	};
	const struct corefile_line *line = &d->head;
	struct corefile_text file = { 0 };
	struct zone_files files = { .here = line->count > 1 &&
					    scope_file(scope, line, line->words[1], &file),
		.ttl_min = LONG_MAX };

	if (files.here)
		read_zones(scope, line, &file, &files);
	if (!files.here)
		report_line(scope->report, line, VERDICT_NONE,
		    "the file is not here: put its lines into the ConfigMap's key records, after "
		    "$ORIGIN ZONE. (docs/names.md). Until then these names are looked up like any "
		    "other name");
	else if (files.why != NULL)
		report_line(scope->report, line, VERDICT_NONE,
		    "left out: %s. Run a name server for the zone, and add a stub domain with its "
		    "address. Until then these names are looked up like any other name",
		    files.why);
	else if (files.taken == 0)
		report_line(scope->report, line, VERDICT_CARRIED,
		    "left out: this server block does not answer the zone, so CoreDNS never uses "
		    "the file");
	else
		report_copied(scope, line, file.name, &files);
	free(files.why);
	free(file.name);
	free(file.text);
	for (size_t i = 0; i < d->body_count; i++)
		if (!report_option(
			scope->report, &d->body[i], options, sizeof options / sizeof *options))
			report_line(scope->report, &d->body[i], VERDICT_NONE,
			    "unknown option; see file's manual");
}
