/*
 * One probe: when it is due, and the results of its questions so far. No socket and no clock here;
 * the loop (loop.c) asks.
 */
#ifndef SIDECAR_PROBES_PROBE_H
#define SIDECAR_PROBES_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/metrics.h"
#include "sidecar/history.h"
#include "sidecar/probes/dns_reply.h"
#include "sidecar/probes/probe_spec.h"

enum { PROBE_TIMEOUT_MS = 2000, PROBE_DETAIL_MAX = 96 };

struct probe {
	struct probe_spec spec;
	int64_t due_ns; /* of the next question */

	bool asked; /* there is a result */
	enum cause cause;
	char error[PROBE_DETAIL_MAX];  /* "" when answered */
	double latency_s;              /* of the last answer, 0 when it failed */
	double last_s, last_success_s; /* wall clock; 0 for never */
	int64_t since_ns;              /* when the present state (alive or not) began */

	uint64_t results[CAUSE_COUNT], over_tcp;
	struct histogram latency_ms; /* kube-dns's */
	struct histogram duration_s;
	struct history history;
};

/* What one question came to. */
struct probe_result {
	enum cause cause;
	unsigned rcode;
	int error; /* errno, for CAUSE_UNREACHABLE */
	bool over_tcp;
	int64_t sent_ns, latency_ns;
};

/* Takes a specification; the first question is due `delay_ns` after `now_ns`. */
void probe_init(
    struct probe *probe, const struct probe_spec *spec, int64_t now_ns, int64_t delay_ns);
void probe_close(struct probe *probe);

/* Milliseconds that an answer may take: less than the interval, so that questions of one probe
 * never overlap. */
int probe_timeout_ms(const struct probe *probe);

/* Moves `due_ns` on by whole intervals until it is after `now_ns`: no drift, and no burst after a
 * pause. */
void probe_schedule(struct probe *probe, int64_t now_ns);

/* Counts a result; `wall_s` is Unix time. Logs when a probe begins to fail and when it recovers. */
void probe_record(
    struct probe *probe, const struct probe_result *result, int64_t now_ns, double wall_s);

/* Questions that failed: neither answered nor "not ready". */
uint64_t probe_failures(const struct probe *probe);

#endif
