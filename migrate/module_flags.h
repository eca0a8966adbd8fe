/* The flags of kubedns that belong to modules (kubedns/module.h). A build may leave modules out, and kubedns then refuses their flags. */
#ifndef MIGRATE_MODULE_FLAGS_H
#define MIGRATE_MODULE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The flags of the modules of this build, without dashes; ends with NULL. kubedns/modules/table.sh generates the list. */
extern const char *const module_flags[];

/* The sentence about a plugin whose flag is not in this build. Its argument is the flag. */
#define NO_MODULE "kubedns of this build has no --%s: use a build with all modules"

static inline bool
module_has_flag(const char *name)
{
	size_t i = 0;

	while (module_flags[i] != NULL && strcmp(module_flags[i], name) != 0)
		i++;
	return module_flags[i] != NULL;
}

#endif
