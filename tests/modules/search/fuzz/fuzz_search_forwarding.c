/* fuzz_forwarding.c with search completion. */
#include "tests/modules/search/search_parts.h"

static inline const struct stage *const *
module_stages(bool inferred)
{
	if (search_options.extra_count == 0) {
		search_add_extra("lan.example.");
	}
	return search_stages(inferred);
}

#define MODULE_STAGES(option) module_stages(option)
#define MODULE_NAME           "e.example.org.default.svc.cluster.local."

#include "tests/fuzz/fuzz_forwarding.c"
