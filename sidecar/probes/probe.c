#include <stdio.h>
#include <string.h>

#include "lib/log.h"
#include "lib/clock.h"
#include "lib/wire.h"
#include "sidecar/probes/probe.h"

/* The histogram buckets of kube-dns: 0.25 ms, doubled fifteen times. */
static const double bounds_ms[] = { 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
	4096, 8192 };

/* Histogram buckets from the latency of a cache hit on loopback up to the timeout. */
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
	dns_exchange_init(&probe->exchange);
	history_init(&probe->history, spec->interval_s);
}

void
probe_close(struct probe *probe)
{
	dns_exchange_close(&probe->exchange);
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
describe(struct probe *probe, const struct dns_exchange *result)
{
	char text[CAUSE_TEXT_MAX];

	cause_text(probe->cause, result->reply.rcode, text);
	if (probe->cause == CAUSE_UNREACHABLE)
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
probe_record(struct probe *probe, const struct dns_exchange *result, int64_t now_ns, double wall_s)
{
	enum cause before = probe->cause, cause = result->reply.cause;
	bool first = !probe->asked, alive = cause_is_alive(cause);
	struct history_point point = { .at_ns = result->sent_ns,
		.latency_ms = (float)((double)result->latency_ns / 1e6),
		.cause = (uint8_t)cause };

	if (first || alive != cause_is_alive(before))
		probe->since_ns = now_ns;
	probe->asked = true;
	probe->cause = cause;
	probe->results[cause]++;
	probe->over_tcp += result->over_tcp;
	probe->last_s = wall_s;
	probe->latency_s = 0;
	describe(probe, result);
	if (cause == CAUSE_OK) {
		probe->last_success_s = wall_s;
		probe->latency_s = (double)result->latency_ns / 1e9;
		histogram_observe(&probe->latency_ms, (double)result->latency_ns / 1e6);
		histogram_observe(&probe->duration_s, probe->latency_s);
	}
	history_add(&probe->history, &point);
	log_change(probe, first, before);
}

void
probe_run(struct probe *probe, short revents, int64_t now_ns)
{
	struct dns_exchange *exchange = &probe->exchange;
	bool ended;

	if (dns_exchange_busy(exchange)) {
		ended = dns_exchange_run(exchange, revents);
	} else {
		if (now_ns < probe->due_ns)
			return;
		probe_schedule(probe, now_ns);
		ended = dns_exchange_ask(exchange, &probe->spec.server, &probe->spec.name,
		    probe->spec.type, CLASS_IN, probe_timeout_ms(probe));
	}
	if (!ended)
		return;
	probe_record(probe, exchange, now_ns, clock_wall_s());
	dns_exchange_close(exchange);
}

int64_t
probe_deadline(const struct probe *probe)
{
	return dns_exchange_busy(&probe->exchange) ? probe->exchange.deadline_ns : probe->due_ns;
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
