#include "lib/clock.h"
#include "lib/wire.h"
#include "sidecar/probes/probe_run.h"

void
probe_run(struct probe *probe, struct dns_exchange *exchange, short revents, int64_t now_ns)
{
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
	struct probe_result result = { .cause = exchange->reply.cause,
		.rcode = exchange->reply.rcode,
		.error = exchange->error,
		.over_tcp = exchange->over_tcp,
		.sent_ns = exchange->sent_ns,
		.latency_ns = exchange->latency_ns };
	probe_record(probe, &result, now_ns, clock_wall_s());
	dns_exchange_close(exchange);
}
