/* fuzz_view.c with search completion. */
#include "tests/modules/search/search_parts.h"

#define MODULE_STAGES(option) search_stages(option)

#include "tests/fuzz/fuzz_view.c"
