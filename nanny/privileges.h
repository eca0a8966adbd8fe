/*
 * The user that the nanny and dnsmasq run as. Started as nobody: nothing to do. Started as root
 * with SETUID and SETGID: it becomes nobody and keeps NET_BIND_SERVICE, if it has it, as an ambient
 * capability, so that dnsmasq inherits it. Started as root without them (kube-dns's manifest): it
 * stays root, and dnsmasq is told not to change its user.
 */
#ifndef NANNY_PRIVILEGES_H
#define NANNY_PRIVILEGES_H

#include <stdbool.h>

enum { PRIVILEGES_NOBODY = 65534 };

/* Whether this process is root and will be so after privileges_drop(): dnsmasq has to be told. */
bool privileges_stay_root(void);

/* Gives up root where that is possible; 0, or -errno after one log line. */
int privileges_drop(void);

/* The same for the process that sees to the node's rules (node_guard.h), which keeps NET_ADMIN
 * alone. */
int privileges_keep_net_admin(void);

#endif
