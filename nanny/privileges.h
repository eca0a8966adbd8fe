/*
 * The user that the nanny and dnsmasq run as. Started as another user than root: nothing to do.
 * Started as root with SETUID and SETGID: it gives up root and keeps NET_BIND_SERVICE, if it has it,
 * as an ambient capability, so that dnsmasq inherits it. Started as root without them (kube-dns's
 * manifest): it stays root, and dnsmasq is told not to change its user.
 */
#ifndef NANNY_PRIVILEGES_H
#define NANNY_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

enum {
	PRIVILEGES_NOBODY = 65534,
	/*
	 * In the host's network, where other containers run as nobody: a port shared by SO_REUSEPORT is
	 * open to every process of the same user. systemd assigns 60706 to 61183 to nobody (its
	 * "Users, Groups, UIDs and GIDs"). conf/kubernetes/node-local gives it to the sidecar too.
	 */
	PRIVILEGES_NODE = 61053,
};

/* Whether this process is root and will be so after privileges_drop(): dnsmasq has to be told. */
bool privileges_stay_root(void);

/* Gives up root for `user` where that is possible; 0, or -errno after one log line. */
int privileges_drop(uid_t user);

/* The same for the process that sees to the node's rules (node/guard.h), which becomes
 * PRIVILEGES_NODE and keeps NET_ADMIN alone. */
int privileges_keep_net_admin(void);

#endif
