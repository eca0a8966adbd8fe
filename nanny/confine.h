/* What the nanny, and dnsmasq as its child, go on needing: see lib/sandbox.h. The nanny's own
 * sandbox holds for dnsmasq too, which is confined further. */
#ifndef NANNY_CONFINE_H
#define NANNY_CONFINE_H

#include "lib/sandbox.h"
#include "nanny/nanny.h"

/*
 * What the nanny and dnsmasq keep (enum sandbox_keep): what a child takes, files that are written,
 * port 53; and where they stay root, the change of groups that dnsmasq insists on.
 */
unsigned confine_keep(void);

/* The nanny's: configuration, run directory, dnsmasq's program, and all that dnsmasq needs. */
struct sandbox *confine_nanny(const struct nanny *nanny);

/*
 * dnsmasq's, for one that starts now: the servers file, the files that its arguments name, and TCP
 * to the ports of the servers that it is given. Caller frees with sandbox_free.
 */
struct sandbox *confine_dnsmasq(const struct nanny *nanny);

/* Says, once for each, which ports of the servers file came too late for the dnsmasq that runs. */
void confine_check_ports(struct nanny *nanny);

#endif
