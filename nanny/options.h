/* The nanny's flags as values; the table in options.c is also their defaults and --help. */
#ifndef NANNY_OPTIONS_H
#define NANNY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/conf.h"
#include "lib/flags.h"
#include "nanny/node/rules.h"

struct options {
	char *dnsmasq_exec;
	bool restart_dnsmasq; /* apply changes of the ConfigMap: never by a restart */
	char *config_dir;
	int64_t sync_ms; /* fallback of inotify */
	int64_t log_interval_ms;
	char *domain_text;
	char *metrics_text;
	int64_t drain_ms;
	char *resolv_conf;
	char *run_dir;
	int64_t silence_ms; /* dnsmasq that has not answered for so long is killed */
	char *termination_log;
	bool debug_remote;
	bool ready;                 /* only ask the one that runs */
	struct flag_list local_ips; /* -localip */
	char *node_interface;

	/* made of the above by options_parse */
	size_t memory; /* -memory, bytes; 0: by the container's limit */
	struct server kubedns;
	char domain[CONF_HOST_MAX];
	char metrics_host[64]; /* "" : no HTTP */
	uint16_t metrics_port;
	struct addr node_addresses[NODE_ADDRESSES_MAX];
	size_t node_address_count; /* 0: not the node role */
	char **dnsmasq_args;       /* into argv */
	size_t dnsmasq_arg_count;
};

/* Reads argv; 0, or -EINVAL after a line on stderr (exit 2). Caller frees with options_free. */
int options_parse(struct options *options, struct flags_common *common, int argc, char **argv);
void options_free(struct options *options, struct flags_common *common);

#endif
