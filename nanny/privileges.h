/*
 * The user that the nanny and dnsmasq run as.
 * * Started as a user other than root: nothing changes.
 * * Started as root with CAP_SETUID and CAP_SETGID: the nanny gives up root. If it has
 *   CAP_NET_BIND_SERVICE, it keeps this as an ambient capability, which dnsmasq inherits.
 * * Started as root without CAP_SETUID and CAP_SETGID (kube-dns's manifest): the nanny stays root,
 *   and tells dnsmasq not to change its user.
 */
#ifndef NANNY_PRIVILEGES_H
#define NANNY_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

enum {
	PRIVILEGES_NOBODY = 65534,
	/*
	 * User for pods in the host's network, where other containers run as nobody. Every process
	 * of the same user can share a port by SO_REUSEPORT, so no other container may use this
	 * user. In systemd's document "Users, Groups, UIDs and GIDs", the range 60706 to 61183 is
	 * unused. conf/kubernetes/node-local gives this user to the sidecar too.
	 */
	PRIVILEGES_NODE = 61053,
};

/* Whether this process is root and stays root after privileges_drop(). If the process stays root,
 * dnsmasq needs --user=root. */
bool privileges_stay_root(void);

/* Changes to `user` if the process may. Returns 0, or -errno after one log line. */
int privileges_drop(uid_t user);

/* Like privileges_drop, for the process that maintains the node's rules (node/guard.h). The process
 * becomes the user PRIVILEGES_NODE and keeps only CAP_NET_ADMIN. */
int privileges_keep_net_admin(void);

#endif
