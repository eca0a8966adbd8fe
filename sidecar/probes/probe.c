#include <stdio.h>
#include <string.h>

#include "lib/log.h"
#include "lib/clock.h"
#include "sidecar/probes/probe.h"

/* kube-dns's own: 0.25 ms doubled fifteen times. */
static const double bounds_ms[] = { 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
	4096, 8192 };

/* From what a cache hit on loopback costs to the timeout. */
static const double bounds_s[] = { 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
	0.05, 0.1, 0.2, 0.5, 1, 2 };

void
probe_init(struct probe *probe, const struct probe_spec *spec, int64_t now_ns, int64_t delay_ns)
{
	*probe = (struct probe){
		.spec = *spec,
		.due_ns = now_ns + delay_ns,
		.since_ns = now_ns,
		.latency_ms = { .bounds = bounds_ms,
		    .count = sizeof bounds_ms / sizeof bounds_ms[0] },
		.duration_s = { .bounds = bounds_s, .count = sizeof bounds_s / sizeof bounds_s[0] },
	};
	history_init(&probe->history, spec->interval_s);
}

void
probe_close(struct probe *probe)
{
	history_free(&probe->history);
}

int
probe_timeout_ms(const struct probe *probe)
{
	enum { MARGIN_MS = 100 };
	int64_t interval_ms = (int64_t)probe->spec.interval_s * 1000;

	return interval_ms - MARGIN_MS < PROBE_TIMEOUT_MS ? (int)interval_ms - MARGIN_MS
							  : PROBE_TIMEOUT_MS;
}

void
probe_schedule(struct probe *probe, int64_t now_ns)
{
	int64_t interval_ns = probe->spec.interval_s * NS_PER_S;

	if (probe->due_ns > now_ns)
		return;
	probe->due_ns += ((now_ns - probe->due_ns) / interval_ns + 1) * interval_ns;
}

static void
describe(struct probe *probe, const struct probe_result *result)
{
	char text[CAUSE_TEXT_MAX];

	cause_text(result->cause, result->rcode, text);
	if (result->cause == CAUSE_UNREACHABLE)
		snprintf(probe->error, sizeof probe->error, "%s", strerror(result->error));
	else
		snprintf(probe->error, sizeof probe->error, "%s%s", text,
		    result->over_tcp && text[0] != '\0' ? " over TCP" : "");
}

static void
log_change(const struct probe *probe, bool first, enum cause before)
{
	char server[SERVER_TEXT_MAX];

	if (!first && before == probe->cause)
		return;
	server_format(&probe->spec.server, server);
	if (probe->cause != CAUSE_OK)
		log_warnx("probe %s: %s: %s", probe->spec.label, server, probe->error);
	else
		log_info("probe %s: %s: answered in %.3f ms", probe->spec.label, server,
		    probe->latency_s * 1e3);
}

void
probe_record(struct probe *probe, const struct probe_result *result, int64_t now_ns, double wall_s)
{
	bool first = !probe->asked, alive = cause_is_alive(result->cause);
	enum cause before = probe->cause;
	struct history_point point = { .at_ns = result->sent_ns,
		.latency_ms = (float)((double)result->latency_ns / 1e6),
		.cause = (uint8_t)result->cause };

	if (first || alive != cause_is_alive(before))
		probe->since_ns = now_ns;
	probe->asked = true;
	probe->cause = result->cause;
	probe->results[result->cause]++;
	probe->over_tcp += result->over_tcp;
	probe->last_s = wall_s;
	probe->latency_s = 0;
	describe(probe, result);
	if (result->cause == CAUSE_OK) {
		probe->last_success_s = wall_s;
		probe->latency_s = (double)result->latency_ns / 1e9;
		histogram_observe(&probe->latency_ms, (double)result->latency_ns / 1e6);
		histogram_observe(&probe->duration_s, probe->latency_s);
	}
	history_add(&probe->history, &point);
	log_change(probe, first, before);
}

uint64_t
probe_failures(const struct probe *probe)
{
	uint64_t failures = 0;

	for (int cause = 0; cause < CAUSE_COUNT; cause++)
		if (!cause_is_alive((enum cause)cause))
			failures += probe->results[cause];
	return failures;
}
