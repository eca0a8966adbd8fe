/* The sandboxes (lib/sandbox.h) of the nanny and of its child. The child inherits the nanny's sandbox
 * and enters a stricter one. */
#ifndef NANNY_CONFINE_H
#define NANNY_CONFINE_H

#include "lib/sandbox.h"
#include "nanny/nanny.h"

/*
 * The rights (enum sandbox_keep) that the nanny and dnsmasq keep: starting a child, writing files,
 * and binding port 53. As root they also keep the right to set groups, because dnsmasq does not
 * start without it. The engine adds its own.
 */
unsigned confine_keep(const struct engine *engine);

/* The nanny's sandbox. This sandbox permits the configuration, the run directory, dnsmasq's
 * program, and everything that dnsmasq needs. */
struct sandbox *confine_nanny(const struct nanny *nanny);

/*
 * The sandbox of a dnsmasq that is about to start. This sandbox permits the servers file, the files
 * that dnsmasq's arguments name, and TCP to the ports of dnsmasq's servers. Caller frees with
 * sandbox_free.
 */
struct sandbox *confine_child(const struct nanny *nanny);

/* Checks the TCP ports in the servers file. Warns once for each port that the sandbox of the
 * running dnsmasq does not permit. */
void confine_check_ports(struct nanny *nanny);

#endif
