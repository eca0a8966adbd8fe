#include "nanny/own_domains.h"

#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/conf_hosts.h"
#include "lib/conf_rewrites.h"
#include "lib/xalloc.h"

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a domain that is not in `zone`. */
static void
add(struct own_domains *domains, const struct dname *name, const char *zone)
{
	char text[DNAME_TEXT_MAX];

	dname_to_text(name->wire, text);
	text[strlen(text) - 1] = '\0'; /* the root's dot */
	if (!conf_name_under(text, zone))
		domains->items[domains->count++] = xstrdup(text);
}

/* In order, each once. */
static void
sort(struct own_domains *domains)
{
	size_t kept = 0;

	qsort(domains->items, domains->count, sizeof(char *), by_text);
	for (size_t i = 0; i < domains->count; i++) {
		if (kept > 0 && strcmp(domains->items[kept - 1], domains->items[i]) == 0)
			free(domains->items[i]);
		else
			domains->items[kept++] = domains->items[i];
	}
	domains->count = kept;
}

struct own_domains
own_domains_of_hosts(const struct conf_hosts *hosts, const char *zone)
{
	struct own_domains domains = { .items = xcalloc(hosts->count + 1, sizeof(char *)) };

	for (size_t i = 0; i < hosts->count; i++)
		add(&domains, &hosts->items[i].name, zone);
	sort(&domains);
	return domains;
}

struct own_domains
own_domains_of_rewrites(const struct conf_rewrites *rewrites, const char *zone,
    struct own_domains *suffixes, size_t *patterns)
{
	struct own_domains domains = { .items = xcalloc(rewrites->count + 1, sizeof(char *)) };

	*suffixes = (struct own_domains){ .items = xcalloc(rewrites->count + 1, sizeof(char *)) };
	*patterns = 0;
	for (size_t i = 0; i < rewrites->count; i++) {
		const struct dname *from = &rewrites->items[i].from;
		if (rewrites->items[i].kind == REWRITE_PATTERN) {
			++*patterns;
			continue;
		}
		add(&domains, from, zone);
		if (rewrites->items[i].kind == REWRITE_SUFFIX)
			add(suffixes, from, zone);
	}
	sort(&domains);
	sort(suffixes);
	return domains;
}

struct own_domains
own_domains_of_both(const struct own_domains *a, const struct own_domains *b)
{
	struct own_domains both = { .items = xcalloc(a->count + b->count + 1, sizeof(char *)) };
	size_t i = 0, k = 0;

	while (i < a->count || k < b->count) {
		int order = i == a->count   ? 1
			    : k == b->count ? -1
					    : strcmp(a->items[i], b->items[k]);
		both.items[both.count++] = order <= 0 ? a->items[i] : b->items[k];
		i += order <= 0;
		k += order >= 0;
	}
	return both;
}

bool
own_domains_have(const struct own_domains *domains, const char *domain)
{
	return bsearch(&domain, domains->items, domains->count, sizeof(char *), by_text) != NULL;
}

bool
own_domains_equal(const struct own_domains *a, const struct own_domains *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return true;
}

void
own_domains_free(struct own_domains *domains)
{
	for (size_t i = 0; i < domains->count; i++)
		free(domains->items[i]);
	free(domains->items);
	*domains = (struct own_domains){ 0 };
}
