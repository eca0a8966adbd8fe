/*
 * Where the sidecar runs, and with which commands an operator looks further there: kubectl in a pod,
 * systemctl and journalctl under systemd, none of them where somebody started it by hand.
 */
#ifndef SIDECAR_SURROUNDINGS_H
#define SIDECAR_SURROUNDINGS_H

enum surroundings {
	SURROUNDINGS_PLAIN,   /* started by hand, as by `make run` */
	SURROUNDINGS_POD,     /* of a Kubernetes cluster */
	SURROUNDINGS_SYSTEMD, /* a unit of the Debian packages */
	SURROUNDINGS_COUNT,
};

enum command {
	COMMAND_NONE,
	COMMAND_LOGS_KUBEDNS,
	COMMAND_LOGS_DNSMASQ, /* with the nanny's, which runs it */
	COMMAND_USAGE,        /* CPU and memory of each program */
	COMMAND_RUNNING,      /* whether each program runs, and how it ended last */
	COMMAND_CONFIG_SHOW,
	COMMAND_CONFIG_EDIT,
	COMMAND_SERVICES,  /* the cluster's Services */
	COMMAND_MANIFESTS, /* which manifest is broken, and why */
	COMMAND_COUNT,
};

/* The kubelet sets KUBERNETES_SERVICE_HOST in every container; systemd sets JOURNAL_STREAM to the
 * device and inode of the standard error that it gave to a unit. */
enum surroundings surroundings_find(void);

/* "" where there is no such command. */
const char *surroundings_command(enum surroundings where, enum command command);

#endif
