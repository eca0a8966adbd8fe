/*
 * The sidecar's state and its loop. The sidecar waits only in this loop. The sockets of probes, statistics, the other containers and HTTP
 * have named slots in one poll(). No other function waits, so no task can delay another task.
 */
#ifndef SIDECAR_LOOP_H
#define SIDECAR_LOOP_H

#include "sidecar/page/question_box.h"
#include "sidecar/probes/server_checks.h"
#include "sidecar/containers/dnsmasq_stats.h"
#include "sidecar/page/journal.h"
#include "sidecar/options.h"
#include "sidecar/containers/container_status.h"
#include "sidecar/probes/probe.h"
#include "sidecar/view.h"

struct sidecar {
	const struct sidecar_options *options;
	struct probe *probes;
	size_t probe_count;
	struct dnsmasq_stats cache;
	struct dnsmasq_stats_poller poller;
	struct kubedns_view kubedns_view;
	struct nanny_view nanny_view;
	struct peer kubedns, nanny;
	struct server_checks checks;
	struct journal journal;
	int64_t journal_ns;  /* time when the journal looks for changes again */
	uint64_t configured; /* nanny_view.reads at the last server_checks_configure() */
	struct question_box question_box;
	struct http *http;
	int signal_fd;
	int64_t started_ns;
	double clock_offset_s; /* wall clock minus monotonic clock at the start */
	int64_t stop_ns;       /* end of the drain; CLOCK_NEVER until SIGTERM */
	enum surroundings surroundings;
	char host[256];
};

/* Initialises the probes and pollers. Sends no query yet. Caller frees with sidecar_free. */
void sidecar_init(struct sidecar *sidecar, const struct sidecar_options *options);
void sidecar_free(struct sidecar *sidecar);

/* Blocks SIGTERM and SIGINT, which sidecar_loop() handles. */
void sidecar_take_signals(struct sidecar *sidecar);

/* Runs until the drain time after SIGTERM or SIGINT is over, or until a second signal. */
void sidecar_loop(struct sidecar *sidecar);

/* Runs every probe once and prints a table. Returns 0 if all probes were answered, else 1. */
int sidecar_once(struct sidecar *sidecar);

/* Fills in a snapshot of the state. The pointers in the snapshot point into `sidecar`. */
void sidecar_view(struct sidecar *sidecar, struct view *view);

/* Starts HTTP (routes.c). Returns 0, or -errno after a log line. */
int sidecar_http_start(struct sidecar *sidecar);
void sidecar_http_stop(struct sidecar *sidecar);

#endif
