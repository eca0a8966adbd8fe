/* One probe, which sends its query when the query is due, and keeps the results. A probe never
 * waits, because the loop polls the socket of `exchange`. */
#ifndef SIDECAR_PROBES_PROBE_H
#define SIDECAR_PROBES_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/metrics.h"
#include "sidecar/history.h"
#include "sidecar/probes/dns_exchange.h"
#include "sidecar/probes/probe_spec.h"

enum { PROBE_TIMEOUT_MS = 2000, PROBE_DETAIL_MAX = 96 };

struct probe {
	struct probe_spec spec;
	struct dns_exchange exchange; /* the query in flight */
	int64_t due_ns;               /* time of the next query */

	bool asked; /* at least one query has ended */
	enum cause cause;
	char error[PROBE_DETAIL_MAX]; /* error of the newest query; "" if it was answered */
	double latency_s;             /* latency of the newest query; 0 if it failed */
	/* times of the newest query and the newest success, wall clock; 0 if never */
	double last_s, last_success_s;
	int64_t since_ns; /* time when the server last became alive, or stopped being alive */

	uint64_t results[CAUSE_COUNT], over_tcp;
	struct histogram latency_ms; /* histogram with kube-dns's buckets */
	struct histogram duration_s;
	struct history history;
};

/* Initialises a probe. The first query is due `delay_ns` after `now_ns`. Caller frees with
 * probe_close. */
void probe_init(
    struct probe *probe, const struct probe_spec *spec, int64_t now_ns, int64_t delay_ns);
void probe_close(struct probe *probe);

/* Returns how long the probe waits for an answer. The wait is shorter than the interval, so that
 * queries never overlap. */
int probe_timeout_ms(const struct probe *probe);

/* Adds whole intervals to `due_ns` until it is after `now_ns`. The probe therefore does not drift,
 * and sends no burst after a pause. */
void probe_schedule(struct probe *probe, int64_t now_ns);

/* Sends the query if it is due. If a query is in flight, continues it after poll() reported
 * `revents`, and records its result. */
void probe_run(struct probe *probe, short revents, int64_t now_ns);

/* Returns when probe_run must be called at the latest. */
int64_t probe_deadline(const struct probe *probe);

/* Counts the result of an exchange; `wall_s` is Unix time. Logs when the probe starts to fail and
 * when it recovers. */
void probe_record(
    struct probe *probe, const struct dns_exchange *result, int64_t now_ns, double wall_s);

/* Returns the number of failed queries, which were neither answered nor "not ready". */
uint64_t probe_failures(const struct probe *probe);

#endif
