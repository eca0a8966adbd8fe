/* fuzz_answer.c with search completion. */
#include "tests/modules/search/search_parts.h"

static inline const struct stage *const *
module_stages(bool inferred)
{
	if (search_options.extra_count == 0) {
		search_add_extra("corp.example.");
		search_add_extra("a.rather.long.domain.of.the.lab.example.");
	}
	return search_stages(inferred);
}

#define MODULE_STAGES(option) module_stages(option)
enum { CANDIDATES = 3 /* two domains, and the name itself */ };
#include "tests/fuzz/fuzz_answer.c"
