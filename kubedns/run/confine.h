/* The resources that kubedns needs after startup, for its sandbox (lib/sandbox.h). */
#ifndef KUBEDNS_RUN_CONFINE_H
#define KUBEDNS_RUN_CONFINE_H

#include "kubedns/pages/status.h"
#include "lib/sandbox.h"

/* Collects the files, directories and TCP ports of the options, the settings and the API's
 * credentials. */
struct sandbox *confine_needs(const struct status *status, enum sandbox_mode mode);

/* Returns the permissions of enum sandbox_keep that kubedns needs in addition. */
unsigned confine_keeps(const struct status *status);

/* Logs a warning for each upstream server whose TCP port was unknown when the sandbox was made. */
void confine_check_upstreams(const struct settings *settings);

#endif
