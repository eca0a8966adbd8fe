/*
 * The state of the whole program. main.c initialises the state, loop.c changes it, and status.c
 * shows it.
 *
 *	ConfigMap --inotify--> confdir --> config ---+
 *	resolv.conf --inotify--> confdir --> resolv -+-> choose_servers --> servers_file
 *	stub_hosts --c-ares--> addresses ------------+                           |
 *	                                                                         v
 *	                                                        servers_file_write, then SIGHUP
 *	                                                                         |
 *	                                                                         v
 *	child states   <-- generation -- child_probe <-- marker's address -- dnsmasq
 *
 * choose_servers.c merges the three inputs. A configuration change never restarts dnsmasq.
 *
 * dnsmasq is one of the engines of engine.h, and this drawing holds for each of them. child_states.c decides
 * when to start, reload and stop the child. loop.c performs these actions with process.c, which starts
 * the process and sends signals.
 */
#ifndef NANNY_NANNY_H
#define NANNY_NANNY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/confdir.h"
#include "lib/http.h"
#include "lib/metrics.h"
#include "lib/sandbox.h"
#include "nanny/args.h"
#include "nanny/child_port.h"
#include "nanny/child_states.h"
#include "nanny/config.h"
#include "nanny/servers/stub_hosts.h"
#include "nanny/engine.h"
#include "nanny/options.h"
#include "nanny/node/guard.h"
#include "nanny/child_probe.h"
#include "nanny/process.h"
#include "lib/resolv.h"
#include "nanny/servers/servers_file_write.h"
#include "lib/forwarding_loop.h"
#include "nanny/servers/servers_file.h"

enum {
	NANNY_PROBE_MS = 1000, /* interval between probes of a healthy dnsmasq */
	NANNY_OWN_MS = 2000,   /* a dnsmasq that cannot bind its port exits within this time */
	/* if dnsmasq does not answer for this long, the nanny is not ready */
	NANNY_READY_MS = 5000,
	/* first interval between probes while the nanny waits for an answer or a confirmation;
	 * doubles up to the maximum */
	NANNY_ASK_MIN_MS = 2,
	NANNY_ASK_MAX_MS = 50,
	/* minimum time between reloads that only refresh the addresses of stub servers */
	NANNY_REFRESH_GAP_MS = 30 * 1000,
	NANNY_STATUS_MAX_MS = 1000, /* longest time that the loop waits in poll() */
};

struct nanny_stats {
	uint64_t changes; /* changes of the wanted configuration, from any source */
	/* reloads after which a probe proved that dnsmasq uses the new file */
	uint64_t reloads_confirmed;
	uint64_t reloads_lost; /* reloads during which dnsmasq died */
	/* confirmed reloads that only refreshed addresses of stub servers */
	uint64_t reloads_names;
	uint64_t write_failures;
	uint64_t dropped_lines; /* lines of deleted domains that a written file left out */
	uint64_t hups;
	uint64_t spawns;
	uint64_t silences;    /* times dnsmasq was killed because it did not answer */
	uint64_t not_applied; /* changes seen but not applied because -restartDnsmasq is false */
};

struct nanny {
	const struct options *options;
	const struct engine *engine;
	void *engine_state; /* belongs to the engine; prepare() makes it */
	struct args args;
	struct forwarding_loop forwarding_loop;
	enum sandbox_mode sandbox;
	struct sandbox *confined; /* sandbox of the running child */
	struct process process;
	struct child child;
	struct child_probe *child_probe;
	struct stub_hosts *names;
	struct servers_file_dir file;
	struct child_port port;
	struct node_guard node_guard;
	struct http *http;
	struct confdir *confdir, *resolvdir;
	struct config config;
	struct resolv resolv;
	struct nanny_stats stats;
	struct histogram confirm_s; /* seconds from seeing a change to its confirmation */

	bool started;                /* the first configuration has been applied */
	struct servers_file written; /* contents of the servers file on disk */
	uint32_t generation;         /* generation of the servers file on disk */
	bool write_failed;
	uint64_t hash; /* hash of the servers file on disk */
	uint64_t confirmed_hash;
	uint32_t confirmed_generation;
	int64_t confirmed_at; /* Unix time in seconds; 0 if never */
	/* when the oldest unconfirmed change was seen; 0 if every change is confirmed */
	int64_t wanted_ms;
	bool names_waiting; /* refreshed addresses wait for the next permitted reload */
	bool names_only;    /* the reload in progress only refreshes addresses */
	/* the child was told to use the file; false if it read the file at its start */
	bool reloading;
	int64_t names_reload_ms; /* when addresses were last refreshed by a reload */

	int64_t spawned_ms;
	/* time of the last answer from any dnsmasq process; initially the nanny's start */
	int64_t answered_ms;
	/* start of the current wait for an answer; the silence timeout begins at this time */
	int64_t patient_ms;
	int64_t next_probe_ms, ask_gap_ms;
	bool asking;
	int64_t next_sync_ms, next_log_ms;
	bool ended;
	int exit_code;
	int signal_fd;
};

/* Reads the ConfigMap and resolv.conf once. Startup and --check both call it. */
void nanny_read_config(struct nanny *nanny, bool force);

/* Plans the current contents of the servers file, for a new dnsmasq (`fresh`) or for the running
 * one (choose_servers.c). Caller frees with servers_free. */
struct servers_file nanny_plan(struct nanny *nanny, bool fresh);

/* Feeds an event to the state machine and carries out the resulting actions (loop.c). */
void nanny_step(struct nanny *nanny, enum child_event event);

/* Carries out a set of actions (enum child_action, combined with OR). */
void nanny_act(struct nanny *nanny, unsigned actions);

/* Describes how the last dnsmasq ended. If dnsmasq could not bind its port, also names the process
 * that occupies the port. Caller frees. */
char *nanny_last_words(const struct nanny *nanny);

/* Writes `text` to the container's termination log, where the kubelet looks for it. */
void nanny_write_termination_log(const struct nanny *nanny, const char *text);

/* Runs until a signal or a failure ends the nanny. Returns the exit code. */
int nanny_loop(struct nanny *nanny);

/* Whether dnsmasq answers and the nanny is not stopping. With the node role, the node's rules must
 * also be in force, because a rolling update ends the old pod as soon as this pod is ready. */
bool nanny_is_ready(const struct nanny *nanny, const char **why);

/* Whether dnsmasq is confirmed to use the newest configuration. */
bool nanny_is_confirmed(const struct nanny *nanny);

/* Serves /config (status.c). */
void config_page(const struct http_request *request, struct http_response *response, void *arg);

/* Routes for /metrics, /healthz, /readiness and /config. */
extern const struct http_route nanny_routes[];
/* The sidecar sends PUT /recovered when a server answers again. */
extern const struct http_route nanny_changes[];

#endif
