/*
 * The command line of kubedns: one table of the flags, their defaults and --help, and the values as
 * parsed.
 */
#ifndef KUBEDNS_CONFIG_OPTIONS_H
#define KUBEDNS_CONFIG_OPTIONS_H

#include "kubedns/answer/answer.h"
#include "kubedns/dnstap/dnstap.h"
#include "kubedns/pages/query_log.h"
#include "kubedns/serve/net/sockets.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/tree_content.h"
#include "kubedns/transfer/transfer.h"
#include "lib/conf.h"
#include "lib/flags.h"
#include "lib/forwarding_loop.h"

enum filter_mode {
	FILTER_OFF,
	FILTER_ON,
	FILTER_AUTO /* while nothing in the cluster has an address of the family */
};

enum client_pods_mode { CLIENT_PODS_OFF, CLIENT_PODS_NODE, CLIENT_PODS_ALL };
enum ptr_mode { PTR_ALL, PTR_CIDRS };
enum search_completion { SEARCH_COMPLETION_DECLARED, SEARCH_COMPLETION_INFERRED };
enum visibility_mode { VISIBILITY_OFF, VISIBILITY_LABELS, VISIBILITY_VISIBLE_TO };
enum visibility_unknown { VISIBILITY_UNKNOWN_NONE, VISIBILITY_UNKNOWN_ALL };
enum { EXTERNAL_ZONES_MAX = 16 };

struct options {
	/* as typed */
	char *server_id, *domain, *address, *healthz_address, *kubecfg_file, *master_url,
	    *config_dir, *config_map, *config_map_namespace, *nameservers_text, *federations_text,
	    *objects_dir, *endpointslice_selector, *explain, *print_zone, *migrate, *log_queries,
	    *dnstap_text, *namespace_labels, *fallthrough_text, *until_synced_text,
	    *clusterset_text, *node_name, *external_address_text, *transfer_key, *zone;
	struct flag_list namespaces, hosts_namespaces, reverse_cidrs, ns_addresses, filter_except,
	    search_extra, external_zones_text, external_refuse_text, external_ns_text, transfer_to,
	    transfer_notify;
	long port, healthz_port, threads, tcp_connections, ttl_s, negative_ttl_s, hold_ms;
	int64_t config_period_ms, initial_sync_timeout_ms, drain_ms, drain_quiet_ms;
	bool reverse_all_endpoints, endpoint_pod_names, ignore_empty_service, wildcards, udp_subset,
	    debug_remote, external_headless, coredns_metrics, node_role, share_port, ready, nearest,
	    nearest_only, zonal;

	enum pods_mode pods;
	enum ptr_mode ptr;
	enum search_completion search;
	enum visibility_mode visibility;
	enum visibility_unknown visibility_unknown;
	size_t memory_bytes; /* --memory; 0: no bound */

	/* as understood */
	struct conf_upstreams nameservers;   /* --nameservers; none: resolv.conf's */
	struct conf_federations federations; /* --federations */
	struct addr *ns_addrs;
	size_t ns_addr_count;
	bool wants_zone;                 /* --print-zone */
	struct addr listen[SOCKETS_MAX]; /* --dns-bind-address */
	size_t listen_count;
	struct forwarding_loop forwarding_loop; /* which servers are this kubedns itself */
	enum client_pods_mode client_pods;
	struct client_place place; /* this node's: --node-name and --zone */
	bool fair_share;
	bool servfail_retry;
	size_t tcp_bytes;          /* --memory: of TCP clients' buffers; 0: as many as ever */
	unsigned in_flight;        /* --memory: queries to other servers; 0: as many as ever */
	size_t recorder_bytes;     /* of all workers; 0: --recorder=off */
	size_t answer_cache_bytes; /* 0: --answer-cache=off */
	bool wants_query_log;      /* --log-queries */
	struct query_log_wish query_log;
	struct dnstap_target dnstap; /* --dnstap, if that has a text */
	bool explain_by_dns;
	enum filter_mode filter_a, filter_aaaa;
	bool has_resolver;
	struct server resolver;
	bool has_search_resolver;
	struct server search_resolver;
	struct conf_upstreams until_synced; /* --until-synced; none: SERVFAIL until then */
	uint16_t metrics_port;              /* PROMETHEUS_PORT, or 0 */
	const char *metrics_path, *metrics_namespace, *metrics_subsystem;
	char **hosts_namespaces_in_force;          /* NULL-terminated, or NULL: none */
	struct hosts_namespace *hosts_scopes;      /* the same, with the domains of each */
	char **wanted_namespaces;                  /* NULL-terminated, or NULL: all */
	struct label_selector *namespace_selector; /* NULL: none */
	/* --external-zones, lower case, and behind them --clusterset-domain */
	struct dname external_zones[EXTERNAL_ZONES_MAX + 1];
	size_t external_zone_count; /* of the former */
	bool has_clusterset;
	bool refuse_wildcards, refuse_apex, refuse_external_ips; /* --external-refuse */
	struct dname clusterset;                                 /* the same zone */
	struct dname *external_ns;      /* names in --external-ns, lower case */
	struct addr *external_ns_addrs; /* addresses there */
	size_t external_ns_count, external_ns_addr_count;
	struct server external_address;            /* --external-address */
	char external_address_only[ADDR_TEXT_MAX]; /* without the port; "": none */
	struct answer_config external_answers;     /* what is answered there */
	struct transfer_rules transfer;
	struct answer_config answers;
};

extern const struct flag kubedns_flags[];

/*
 * Parses argv and the environment and checks what belongs together. 0, or -EINVAL after a line for
 * each mistake.
 */
int kubedns_options_read(
    struct options *options, struct flags_common *common, int argc, char **argv);

void kubedns_options_free(struct options *options, struct flags_common *common);

#endif
