/* The resources that kubedns needs after startup, for its sandbox (lib/sandbox.h). */
#ifndef KUBEDNS_RUN_CONFINE_H
#define KUBEDNS_RUN_CONFINE_H

#include "kubedns/pages/status.h"
#include "lib/sandbox.h"

/* Enters the sandbox. It allows the files, directories and TCP ports of the options, the settings,
 * the API's credentials and the modules. */
void confine(const struct status *status, enum sandbox_mode mode);

/* Logs a warning for each upstream server whose TCP port was unknown when the sandbox was made. */
void confine_check_upstreams(const struct settings *settings);

#endif
