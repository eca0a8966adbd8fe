/*
 * Where the sidecar runs, and the commands that the page therefore suggests to an operator. In a pod, the page suggests kubectl. Under
 * systemd, it suggests systemctl and journalctl. If the sidecar was started by hand, the page suggests no commands.
 */
#ifndef SIDECAR_SUGGESTED_COMMANDS_H
#define SIDECAR_SUGGESTED_COMMANDS_H

enum surroundings {
	SURROUNDINGS_PLAIN,   /* started by hand, such as by `make run` */
	SURROUNDINGS_POD,     /* a pod of a Kubernetes cluster */
	SURROUNDINGS_SYSTEMD, /* a unit of the Debian packages */
	SURROUNDINGS_COUNT,
};

enum command {
	COMMAND_NONE,
	COMMAND_LOGS_KUBEDNS,
	COMMAND_LOGS_DNSMASQ, /* also shows the log of the nanny, which runs dnsmasq */
	COMMAND_USAGE,        /* shows CPU and memory of each program */
	COMMAND_RUNNING, /* shows whether each program runs, and the program's last exit status */
	COMMAND_CONFIG_SHOW,
	COMMAND_CONFIG_EDIT,
	COMMAND_SERVICES,  /* lists the cluster's Services */
	COMMAND_MANIFESTS, /* shows which manifest has a mistake */
	COMMAND_COUNT,
};

/* Finds out where the sidecar runs. The kubelet sets KUBERNETES_SERVICE_HOST in every container. systemd sets JOURNAL_STREAM to the device
 * and inode of the unit's standard error. */
enum surroundings surroundings_find(void);

/* Returns the command, or "" if there is no such command. */
const char *surroundings_command(enum surroundings where, enum command command);

#endif
