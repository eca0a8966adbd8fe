/* The sandboxes (lib/sandbox.h) of the nanny and of dnsmasq. dnsmasq inherits the nanny's, and is
 * confined further. */
#ifndef NANNY_CONFINE_H
#define NANNY_CONFINE_H

#include "lib/sandbox.h"
#include "nanny/nanny.h"

/*
 * What the nanny and dnsmasq keep (enum sandbox_keep): starting a child, writing files, port 53;
 * and as root, setting the groups, without which dnsmasq does not start.
 */
unsigned confine_keep(void);

/* The nanny's: configuration, run directory, dnsmasq's program, and all that dnsmasq needs. */
struct sandbox *confine_nanny(const struct nanny *nanny);

/*
 * dnsmasq's, for one that starts now: the servers file, the files that its arguments name, and TCP
 * to the ports of the servers that it is given. Caller frees with sandbox_free.
 */
struct sandbox *confine_dnsmasq(const struct nanny *nanny);

/* Warns, once for each, of TCP ports in the servers file that the running dnsmasq's sandbox
 * lacks. */
void confine_check_ports(struct nanny *nanny);

#endif
