/* The stage of the module, with options that a test may change. The program makes it from the flags. */
#ifndef TESTS_MODULES_SEARCH_SEARCH_PARTS_H
#define TESTS_MODULES_SEARCH_SEARCH_PARTS_H

#include <assert.h>

#include "kubedns/modules/search/search.h"
#include "kubedns/cluster/tree_content.h"

static struct search_options search_options;
static struct stage search_copy;

/* Returns the stage for a configuration of answers. Call stages_build() afterwards, and after a change of
 * `search_options.inferred`. */
static inline const struct stage *const *
search_stages(bool inferred)
{
	static const struct stage *const stages[] = { &search_copy, NULL };

	search_copy = search_stage;
	search_copy.options = &search_options;
	search_copy.namespace_flag = NODE_LABELLED;
	search_options.inferred = inferred;
	return stages;
}

static inline void
search_add_extra(const char *domain)
{
	int rc = dname_from_text(&search_options.extra[search_options.extra_count++], domain);

	assert(rc == 0);
}

#endif
