#include "nanny/servers/operator_domains.h"

#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/dname.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a domain (wire format) unless it is in `zone`. */
static void
add(struct operator_domains *domains, const uint8_t *name, const char *zone)
{
	char text[DNAME_TEXT_MAX];

	dname_to_text(name, text);
	text[strlen(text) - 1] = '\0'; /* remove the final dot */
	if (!conf_name_under(text, zone))
		domains->items[domains->count++] = xstrdup(text);
}

/* Sorts the domains and removes duplicates. */
static void
sort(struct operator_domains *domains)
{
	size_t kept = 0;

	if (domains->count > 0)
		qsort(domains->items, domains->count, sizeof(char *), by_text);
	for (size_t i = 0; i < domains->count; i++) {
		if (kept > 0 && strcmp(domains->items[kept - 1], domains->items[i]) == 0)
			free(domains->items[i]);
		else
			domains->items[kept++] = domains->items[i];
	}
	domains->count = kept;
}

struct operator_domains
operator_domains_of_hosts(const struct conf_hosts *hosts, const char *zone)
{
	struct operator_domains domains = { .items = xcalloc(hosts->count + 1, sizeof(char *)) };

	for (size_t i = 0; i < hosts->count; i++)
		add(&domains, hosts->items[i].name.wire, zone);
	sort(&domains);
	return domains;
}

/* Whether any label after the first label is an asterisk. dnsmasq's configuration cannot express
 * such a name. */
static bool
has_inner_asterisk(const uint8_t *name)
{
	for (name += 1u + *name; *name != 0; name += 1u + *name)
		if (name[0] == 1 && name[1] == '*')
			return true;
	return false;
}

struct operator_domains
operator_domains_of_records(
    const struct conf_records *records, const char *zone, struct operator_domains *zones)
{
	struct operator_domains domains = { .items = xcalloc(records->count + 1, sizeof(char *)) };
	/* the last outermost zone seen; records are sorted, so a zone precedes its names */
	const uint8_t *last = NULL;

	*zones = (struct operator_domains){ .items = xcalloc(records->count + 1, sizeof(char *)) };
	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *record = &records->items[i];
		bool wildcard = memcmp(record->name, "\1*", 2) == 0;
		bool apex = record->type == TYPE_SOA;

		/* if the name is in a zone, dnsmasq forwards it to kubedns anyway */
		if (has_inner_asterisk(record->name))
			continue;
		if (apex)
			add(zones, record->name, zone);
		if (apex && (last == NULL || dname_in_zone(record->name, last) < 0))
			last = record->name;
		if (apex || wildcard || last == NULL || dname_in_zone(record->name, last) < 0)
			add(&domains, record->name, zone);
	}
	sort(&domains);
	sort(zones);
	return domains;
}

struct operator_domains
operator_domains_of_rewrites(const struct conf_rewrites *rewrites, const char *zone,
    struct operator_domains *suffixes, size_t *patterns)
{
	struct operator_domains domains = { .items = xcalloc(rewrites->count + 1, sizeof(char *)) };

	*suffixes =
	    (struct operator_domains){ .items = xcalloc(rewrites->count + 1, sizeof(char *)) };
	*patterns = 0;
	for (size_t i = 0; i < rewrites->count; i++) {
		const struct dname *from = &rewrites->items[i].from;

		if (rewrites->items[i].kind == REWRITE_PATTERN) {
			++*patterns;
			continue;
		}
		add(&domains, from->wire, zone);
		if (rewrites->items[i].kind == REWRITE_SUFFIX)
			add(suffixes, from->wire, zone);
	}
	sort(&domains);
	sort(suffixes);
	return domains;
}

struct operator_domains
operator_domains_of_both(const struct operator_domains *a, const struct operator_domains *b)
{
	struct operator_domains both = { .items =
					     xcalloc(a->count + b->count + 1, sizeof(char *)) };
	size_t i = 0, k = 0;

	while (i < a->count || k < b->count) {
		int order = i == a->count   ? 1
			    : k == b->count ? -1
					    : strcmp(a->items[i], b->items[k]);

		both.items[both.count++] = order <= 0 ? a->items[i] : b->items[k];
		i += order <= 0; /* take a domain that is in both lists only once */
		k += order >= 0;
	}
	return both;
}

bool
operator_domains_have(const struct operator_domains *domains, const char *domain)
{
	return domains->count > 0 &&
	       bsearch(&domain, domains->items, domains->count, sizeof(char *), by_text) != NULL;
}

bool
operator_domains_equal(const struct operator_domains *a, const struct operator_domains *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return true;
}

void
operator_domains_free(struct operator_domains *domains)
{
	for (size_t i = 0; i < domains->count; i++)
		free(domains->items[i]);
	free(domains->items);
	*domains = (struct operator_domains){ 0 };
}
