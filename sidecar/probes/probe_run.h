/* Joins a probe, which knows when and what (probe.h), to the exchange that asks (dns_exchange.h). */
#ifndef SIDECAR_PROBES_PROBE_RUN_H
#define SIDECAR_PROBES_PROBE_RUN_H

#include <stdint.h>

#include "sidecar/probes/dns_exchange.h"
#include "sidecar/probes/probe.h"

/* Sends the probe's question if it is due, or goes on with the one in flight, whose socket has
 * `revents` (poll(2)), and records its result. */
void probe_run(struct probe *probe, struct dns_exchange *exchange, short revents, int64_t now_ns);

#endif
