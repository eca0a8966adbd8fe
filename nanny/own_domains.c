#include "nanny/own_domains.h"

#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/conf_hosts.h"
#include "lib/xalloc.h"

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct own_domains
own_domains_of_hosts(const struct conf_hosts *hosts, const char *zone)
{
	struct own_domains domains = { .items = xcalloc(hosts->count + 1, sizeof(char *)) };
	char text[DNAME_TEXT_MAX];
	size_t kept = 0;

	for (size_t i = 0; i < hosts->count; i++) { /* equal names are neighbours */
		const struct dname *name = &hosts->items[i].name;
		if (i > 0 && dname_equal(name->wire, hosts->items[i - 1].name.wire))
			continue;
		dname_to_text(name->wire, text);
		text[strlen(text) - 1] = '\0'; /* the root's dot */
		if (!conf_name_under(text, zone))
			domains.items[kept++] = xstrdup(text);
	}
	domains.count = kept;
	qsort(domains.items, kept, sizeof(char *), by_text);
	return domains;
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
