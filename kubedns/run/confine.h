/* What kubedns still needs once it answers, for its sandbox (lib/sandbox.h). */
#ifndef KUBEDNS_RUN_CONFINE_H
#define KUBEDNS_RUN_CONFINE_H

#include "kubedns/pages/status.h"
#include "lib/sandbox.h"

/* The files, directories and TCP ports of the options, the settings and the API's credentials. */
struct sandbox *confine_needs(const struct status *status, enum sandbox_mode mode);

/* What of enum sandbox_keep it needs beside. */
unsigned confine_keeps(const struct status *status);

/* Warns of each upstream server whose TCP port was not known when the sandbox was made. */
void confine_check_upstreams(const struct settings *settings);

#endif
