/* The values of the nanny's flags. The table in options.c also contains the defaults and the --help
 * texts. */
#ifndef NANNY_OPTIONS_H
#define NANNY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/conf.h"
#include "lib/dns64.h"
#include "lib/flags.h"
#include "nanny/node/rules.h"

/* The values of -engine, in the order of its words. */
enum engine_kind { ENGINE_DNSMASQ, ENGINE_UNBOUND, ENGINE_COUNT };

/* The values of -dnssec, in the order of its words. */
enum dnssec_mode { DNSSEC_OFF, DNSSEC_VALIDATE };

struct options {
	int engine; /* enum engine_kind */
	char *dnsmasq_exec;
	char *unbound_exec;
	char *upstream_ca; /* "" for the system's */
	int dnssec;        /* enum dnssec_mode */
	char *dns64_text;
	bool restart_dnsmasq; /* apply ConfigMap changes, without restarting dnsmasq */
	char *config_dir;
	int64_t sync_ms; /* interval for checking files even without an inotify event */
	int64_t log_interval_ms;
	char *domain_text;
	char *metrics_text;
	int64_t drain_ms;
	char *resolv_conf;
	char *run_dir;
	int64_t silence_ms; /* a dnsmasq that has not answered for this long is killed */
	char *termination_log;
	bool debug_remote;
	bool ready;                 /* ask the running nanny for its readiness and exit */
	struct flag_list local_ips; /* -localip */
	char *node_interface;

	/* Derived from the fields above by options_parse. */
	size_t memory; /* -memory in bytes; 0 means the container's limit */
	struct server kubedns;
	char domain[CONF_HOST_MAX];
	char metrics_host[64]; /* "" disables HTTP */
	uint16_t metrics_port;
	char dns64[DNS64_TEXT_MAX]; /* the prefix of --dns64; "" if off */
	struct addr node_addresses[NODE_ADDRESSES_MAX];
	size_t node_address_count; /* 0 if the node role is off */
	char **dnsmasq_args;       /* points into argv */
	size_t dnsmasq_arg_count;
};

/* Parses argv. Returns 0, or -EINVAL after one line on stderr (exit code 2). Caller frees with
 * options_free. */
int options_parse(struct options *options, struct flags_common *common, int argc, char **argv);
void options_free(struct options *options, struct flags_common *common);

#endif
