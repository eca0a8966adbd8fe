/* What kubedns goes on needing once it answers: see lib/sandbox.h. */
#ifndef KUBEDNS_CONFINE_H
#define KUBEDNS_CONFINE_H

#include "kubedns/status.h"
#include "lib/sandbox.h"

/* The files, directories and TCP ports of the options, the settings and the API's credentials. */
struct sandbox *confine_needs(const struct status *status, enum sandbox_mode mode);

/* Says of each upstream server that its port came too late for the sandbox. */
void confine_check_upstreams(const struct settings *settings);

#endif
