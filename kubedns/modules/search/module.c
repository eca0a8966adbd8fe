/* The module search, as the core sees it. search.h describes what it does. */
#include <errno.h>

#include "kubedns/module.h"

#include "kubedns/modules/search/search.h"

static const struct flag flags[] = {
	{ "search-completion", FLAG_CHOICE, offsetof(struct search_options, completion), "declared",
	    "declared|inferred", .help = "which search lists kubedns completes" },
	{ "search-extra", FLAG_LIST, offsetof(struct search_options, extra_texts), NULL,
	    "DOMAIN,...", .help = "search domains after those of the cluster, at most 8" },
	{ .name = NULL },
};

static int
read_extra(const struct dname *zone, const char *text, struct dname *domain)
{
	struct dname arpa;

	if (dname_from_text(domain, text) < 0 || domain->len == 1)
		return flags_refuse("search-extra", text, "not a domain, such as corp.example");
	dname_lower(domain->wire, domain->len);
	dname_from_text(&arpa, "arpa.");
	if (dname_in_zone(domain->wire, zone->wire) >= 0 ||
	    dname_in_zone(domain->wire, arpa.wire) >= 0)
		return flags_refuse("search-extra", text,
		    "must be outside --domain and arpa: kubedns always completes names with the "
		    "pods' own search domains");
	return 0;
}

static int
check(void *options, const struct module_given *given, struct module_wants *wants)
{
	struct search_options *o = options;
	int rc = 0;

	wants->enabled = true;
	o->inferred = o->completion == SEARCH_COMPLETION_INFERRED;
	if (o->inferred)
		wants->namespace_label = (struct namespace_label){ SEARCH_LABEL, "off" };
	if (o->extra_texts.count > SEARCH_EXTRA_MAX)
		return flags_refuse("search-extra", o->extra_texts.items[SEARCH_EXTRA_MAX],
		    "at most 8 domains, because each may cause another query");
	for (size_t i = 0; i < o->extra_texts.count; i++)
		if (read_extra(given->zone, o->extra_texts.items[i], &o->extra[o->extra_count++]) <
		    0)
			rc = -EINVAL;
	return rc;
}

static void
metrics(void *state, const uint64_t *counters, struct metrics *m)
{
	(void)state;
	search_metrics(counters, m);
}

const struct module module_search = { .name = "search",
	.flags = flags,
	.options_size = sizeof(struct search_options),
	.check = check,
	.stages = &search_stage,
	.stage_count = 1,
	.counters = SEARCH_COUNTERS,
	.metrics = metrics };
