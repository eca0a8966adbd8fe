/*
 * The command line of kubedns: a table of the flags with their defaults and --help texts, and the
 * parsed values.
 */
#ifndef KUBEDNS_CONFIG_OPTIONS_H
#define KUBEDNS_CONFIG_OPTIONS_H

#include "kubedns/answer/nearest.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"
#include "kubedns/config/module_set.h"
#include "kubedns/pages/query_log.h"
#include "kubedns/serve/net/sockets.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/conf.h"
#include "lib/flags.h"
#include "lib/forwarding_loop.h"

enum filter_mode {
	FILTER_OFF,
	FILTER_ON,
	FILTER_AUTO /* enabled while no object of the cluster has an address of the family */
};

enum client_pods_mode { CLIENT_PODS_OFF, CLIENT_PODS_NODE, CLIENT_PODS_ALL };
enum ptr_mode { PTR_ALL, PTR_CIDRS };
enum visibility_mode { VISIBILITY_OFF, VISIBILITY_LABELS, VISIBILITY_VISIBLE_TO };
enum visibility_unknown { VISIBILITY_UNKNOWN_NONE, VISIBILITY_UNKNOWN_ALL };
enum { EXTERNAL_ZONES_MAX = 16 };

/* Where DNS is served: --dns-bind-address, --dns-port, --share-port. */
struct listen_options {
	char *text;
	long port;
	bool share_port;
	struct addr addrs[SOCKETS_MAX];
	size_t count;
	struct forwarding_loop loop; /* finds servers that are this kubedns itself */
};

/* Where objects come from, and which of them are read. */
struct source_options {
	char *kubecfg_file, *master_url, *objects_dir, *endpointslice_selector, *namespace_labels;
	struct flag_list namespaces;
	char **wanted_namespaces;                  /* NULL-terminated, or NULL: all */
	struct label_selector *namespace_selector; /* NULL: no selector */
	int64_t initial_sync_timeout_ms;
	bool node_role;
	bool audit; /* --audit */
	char *node_name;
};

/* Where the ConfigMap kube-dns comes from. */
struct configmap_options {
	char *dir, *name, *namespace;
	int64_t period_ms;
};

/* The cluster's zone: --domain, TTLs, kinds of names. */
struct zone_options {
	char *domain, *server_id, *federations_text;
	long ttl_s, negative_ttl_s;
	enum pods_mode pods;
	bool endpoint_pod_names, ignore_empty_service, wildcards;
	struct flag_list ns_addresses;
	struct addr *ns_addrs;
	size_t ns_addr_count;
	struct conf_federations federations;
	struct zone_config stage;
};

/* --reverse-cidrs, --ptr, --reverse-all-endpoints */
struct reverse_options {
	struct flag_list cidrs;
	enum ptr_mode ptr;
	bool all_endpoints;
	struct reverse_config stage;
};

/* Names that teams define: --hosts-namespaces. */
struct hosts_options {
	struct flag_list namespaces;
	char **in_force; /* NULL-terminated, or NULL: none */
	/* The same namespaces, with the domains of each. */
	struct hosts_namespace *scopes;
};

/* Answers that depend on the client's place: --nearest, --nearest-only, --zonal, --zone. */
struct place_options {
	bool nearest, nearest_only, zonal;
	char *zone;
	struct client_place place; /* place of this node, from --node-name and --zone */
	struct endpoint_choice choice;
};

/* --external-zones and the flags that need it. */
struct external_options {
	struct flag_list zones_text, refuse_text, ns_text;
	bool headless;
	char *address_text;
	/* --external-zones, lower case, followed by --clusterset-domain */
	struct dname zones[EXTERNAL_ZONES_MAX + 1];
	size_t zone_count;                                       /* number of zones in
								  * --external-zones */
	bool refuse_wildcards, refuse_apex, refuse_external_ips; /* --external-refuse */
	struct dname *ns;      /* the names of --external-ns, lower case */
	struct addr *ns_addrs; /* the addresses of --external-ns */
	size_t ns_count, ns_addr_count;
	struct server address;            /* --external-address */
	char address_only[ADDR_TEXT_MAX]; /* address without the port; "": none */
	struct answer_config answers;     /* the answers at --external-address */
};

/* --clusterset-domain */
struct clusterset_options {
	char *text;
	bool wanted;
	struct dname zone;
};

struct server_list {
	struct server servers[CONF_UPSTREAMS_MAX];
	size_t count;
};

/* Other servers, for names that the cluster does not have. */
struct upstream_options {
	char *nameservers_text, *fallthrough_text, *until_synced_text;
	struct server_list nameservers; /* --nameservers; if it is empty, the servers of
					    * resolv.conf are used */
	bool has_resolver;
	struct server resolver;
	bool has_search_resolver;
	struct server search_resolver;
	bool servfail_retry;
	size_t answer_cache_bytes; /* 0: --answer-cache=off */
	/* --until-synced. If it has no servers, kubedns answers SERVFAIL until the first sync. */
	struct server_list until_synced;
	enum filter_mode filter_a, filter_aaaa;
	struct flag_list filter_except;
	struct upstream_config stage;
};

/* Which pod a client is, and what it sees. */
struct client_options {
	enum client_pods_mode pods;
	enum visibility_mode visibility;
	enum visibility_unknown visibility_unknown;
	bool fair_share;
	struct view_config view;
};

struct limit_options {
	long threads, tcp_connections;
	int64_t drain_ms, drain_quiet_ms;
	size_t memory_bytes; /* --memory; 0: no limit */
	size_t tcp_bytes;    /* --memory: buffers of TCP clients; 0: the default */
	unsigned in_flight;  /* --memory: queries to other servers; 0: the default */
};

/* HTTP, metrics, and observers of answers. */
struct observe_options {
	char *healthz_address, *log_queries;
	long healthz_port;
	bool debug_remote, coredns_metrics, explain_by_dns;
	size_t recorder_bytes; /* for all workers; 0: --recorder=off */
	bool wants_query_log;  /* --log-queries */
	struct query_log_wish query_log;
	uint16_t metrics_port; /* PROMETHEUS_PORT, or 0 */
	const char *metrics_path, *metrics_namespace, *metrics_subsystem;
};

/* Flags that ask a running kubedns, or print something, and exit. */
struct command_options {
	char *explain, *print_zone, *migrate;
	bool wants_zone; /* --print-zone */
	bool ready;
};

/* The flags as typed, and the values that were made from them. Each feature has a struct. */
struct options {
	struct listen_options listen;
	struct source_options source;
	struct configmap_options configmap;
	struct zone_options zone;
	struct reverse_options reverse;
	struct hosts_options hosts;
	struct place_options place;
	struct external_options external;
	struct clusterset_options clusterset;
	struct upstream_options upstream;
	struct client_options clients;
	struct limit_options limits;
	struct observe_options observe;
	struct command_options commands;
	struct module_set modules;
	/* Points at the configurations of the stages above. */
	struct answer_config answers;
};

/*
 * Parses argv and the environment, and checks the combinations of flags. Returns 0, or -EINVAL
 * after a line for each mistake.
 */
int kubedns_options_read(
    struct options *options, struct flags_common *common, int argc, char **argv);

void kubedns_options_free(struct options *options, struct flags_common *common);

#endif
