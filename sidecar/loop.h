/*
 * The sidecar's state and its loop, the one place where it waits. Probes, statistics, the other
 * containers and HTTP each have named slots in one poll(); none of them waits by itself, so none
 * can delay another.
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
	struct dns_exchange *exchanges; /* one for each probe */
	size_t probe_count;
	struct dnsmasq_stats cache;
	struct dnsmasq_stats_poller poller;
	struct kubedns_view kubedns_view;
	struct nanny_view nanny_view;
	struct peer kubedns, nanny;
	struct server_checks checks;
	struct journal journal;
	int64_t journal_ns;  /* when to look for changes again */
	uint64_t configured; /* nanny_view.reads that the checks know */
	struct question_box question_box;
	struct http *http;
	int signal_fd;
	int64_t started_ns;
	double clock_offset_s; /* wall clock less monotonic, at the start */
	int64_t stop_ns;       /* CLOCK_NEVER until SIGTERM */
	enum surroundings surroundings;
	char host[256];
};

/* Makes the probes and pollers; nothing is sent yet. Freed with sidecar_free. */
void sidecar_init(struct sidecar *sidecar, const struct sidecar_options *options);
void sidecar_free(struct sidecar *sidecar);

/* From here on SIGTERM and SIGINT wait for sidecar_loop(). */
void sidecar_take_signals(struct sidecar *sidecar);

/* Runs until SIGTERM or SIGINT and the drain time after it, or a second one. */
void sidecar_loop(struct sidecar *sidecar);

/* Runs every probe once and prints a table; 0 if all were answered, else 1. */
int sidecar_once(struct sidecar *sidecar);

/* The present state, for whoever renders it. Pointers are into `sidecar`. */
void sidecar_view(struct sidecar *sidecar, struct view *view);

/* Starts HTTP (routes.c); 0 or -errno, logged. */
int sidecar_http_start(struct sidecar *sidecar);
void sidecar_http_stop(struct sidecar *sidecar);

#endif
