/*
 * The whole program's state: set up by main.c, changed by loop.c, shown by status.c.
 *
 *	ConfigMap --inotify--> confdir --> config ---+
 *	resolv.conf --inotify--> confdir --> resolv -+-> wanted_servers --> servers_file
 *	stub_hosts --c-ares--> addresses ------------+                           |
 *	                                                                         v
 *	                                                        servers_file_write, then SIGHUP
 *	                                                                         |
 *	                                                                         v
 *	dnsmasq_states <-- generation -- dnsmasq_probe <-- marker's address -- dnsmasq
 *
 * wanted_servers.c brings the three together. A change never starts another dnsmasq.
 *
 * dnsmasq/states.c decides when dnsmasq is started, reloaded and stopped; loop.c does
 * it, through dnsmasq/process.c, which sends the signals.
 */
#ifndef NANNY_NANNY_H
#define NANNY_NANNY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/confdir.h"
#include "lib/http.h"
#include "lib/metrics.h"
#include "lib/sandbox.h"
#include "nanny/dnsmasq/args.h"
#include "nanny/dnsmasq/port.h"
#include "nanny/dnsmasq/states.h"
#include "nanny/config.h"
#include "nanny/servers/stub_hosts.h"
#include "nanny/options.h"
#include "nanny/node/guard.h"
#include "nanny/dnsmasq/probe.h"
#include "nanny/dnsmasq/version.h"
#include "nanny/dnsmasq/process.h"
#include "lib/resolv.h"
#include "nanny/servers/servers_file_write.h"
#include "lib/forwarding_loop.h"
#include "nanny/servers/servers_file.h"
#include "nanny/dnsmasq/stale_forks.h"

enum {
	NANNY_PROBE_MS = 1000, /* between questions to a dnsmasq that is well */
	NANNY_OWN_MS = 2000,   /* a dnsmasq that cannot listen has exited by then */
	NANNY_READY_MS = 5000, /* without an answer for so long it is not ready */
	NANNY_ASK_MIN_MS =
	    2, /* between questions while something is awaited; doubled up to the next */
	NANNY_ASK_MAX_MS = 50,
	NANNY_REFRESH_GAP_MS = 30 * 1000, /* between SIGHUPs for names that were merely refreshed */
	NANNY_STATUS_MAX_MS = 1000,       /* the longest the loop sleeps */
};

struct nanny_stats {
	uint64_t changes;           /* of the wanted configuration, from whatever source */
	uint64_t reloads_confirmed; /* SIGHUPs after which dnsmasq was seen to have the new file */
	uint64_t reloads_lost;      /* dnsmasq died first */
	uint64_t reloads_names;     /* of the confirmed, for refreshed names only */
	uint64_t write_failures;
	uint64_t hups;
	uint64_t spawns;
	uint64_t silences;      /* killed for not answering */
	uint64_t dropped_lines; /* of domains long gone, see SERVERS_RETIRED_MAX */
	uint64_t not_applied;   /* changes seen while -restartDnsmasq is false */
};

struct nanny {
	const struct options *options;
	struct args args;
	struct forwarding_loop forwarding_loop;
	enum sandbox_mode sandbox;
	struct sandbox *confined; /* the present dnsmasq's */
	struct process process;
	char package[PACKAGE_VERSION_MAX]; /* of dnsmasq; "" unknown */
	struct child child;
	struct dnsmasq_probe *dnsmasq_probe;
	struct stub_hosts *names;
	struct servers_file_dir file;
	struct stale_forks stale_forks;
	struct dnsmasq_port port;
	struct node_guard node_guard;
	struct http *http;
	struct confdir *confdir, *resolvdir;
	struct config config;
	struct resolv resolv;
	struct nanny_stats stats;
	struct histogram confirm_s; /* from a change seen to its confirmation */

	bool started;                /* the first configuration is in */
	struct servers_file written; /* what the file holds */
	uint32_t generation;         /* of the file */
	uint64_t plans;
	bool write_failed;
	uint64_t hash; /* of the written file */
	uint64_t confirmed_hash;
	uint32_t confirmed_generation;
	int64_t confirmed_at; /* Unix time, seconds; 0: never */
	int64_t wanted_ms;    /* when the change that is not confirmed yet was seen; 0: none */
	bool names_waiting;   /* a refreshed name waits for its turn */
	bool names_only;      /* the reload in progress is for names only */
	bool reloading;       /* it has been told to read the file; else it had it from its start */
	int64_t names_reload_ms; /* when one last took place */

	int64_t spawned_ms;
	int64_t answered_ms; /* dnsmasq last answered, whichever it was; at first, our start */
	int64_t patient_ms;  /* since when the present one has been waited for */
	int64_t next_probe_ms, ask_gap_ms;
	bool asking;
	int64_t next_sync_ms, next_log_ms;
	bool ended;
	int exit_code;
	int signal_fd;
};

/* Reads the ConfigMap and resolv.conf once; the start of everything, and all of --check. */
void nanny_read_config(struct nanny *nanny, bool force);

/* The file as it should be now, for a new dnsmasq (`fresh`) or for the one that runs
 * (wanted_servers.c). Caller frees with servers_free. */
struct servers_file nanny_plan(struct nanny *nanny, bool fresh);

/* Feeds an event to the table of states and does the resulting actions (loop.c). */
void nanny_step(struct nanny *nanny, enum child_event event);

/* Does the actions of a table's step, a set of enum child_action. */
void nanny_act(struct nanny *nanny, unsigned actions);

/* How the last dnsmasq ended; where it could not listen, who has its port. Caller frees. */
char *nanny_last_words(const struct nanny *nanny);

/* Writes the last words to the container's termination log, where the kubelet looks for them. */
void nanny_write_termination_log(const struct nanny *nanny, const char *text);

/* Runs until told to stop; returns the exit code. */
int nanny_loop(struct nanny *nanny);

/* Whether dnsmasq answers and the nanny is not about to stop. With the node role the node's rules must
 * also be in force: an update ends the old pod as soon as this one is ready. */
bool nanny_is_ready(const struct nanny *nanny, const char **why);

/* Whether dnsmasq has the newest configuration. */
bool nanny_is_confirmed(const struct nanny *nanny);

/* The page /config (status.c). */
void config_page(const struct http_request *request, struct http_response *response, void *arg);

/* The pages of /metrics, /healthz, /readiness and /config. */
extern const struct http_route nanny_routes[];

#endif
