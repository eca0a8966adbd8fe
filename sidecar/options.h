/* The sidecar's command line, parsed and checked as a whole before anything starts. */
#ifndef SIDECAR_OPTIONS_H
#define SIDECAR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/flags.h"
#include "sidecar/containers/fetch.h"
#include "sidecar/probes/probe_spec.h"

enum { PROBES_MAX = 100 };

struct sidecar_options {
	/* As given. */
	bool coredns_metrics;
	char *dnsmasq_addr, *prometheus_addr, *prometheus_path, *prometheus_namespace;
	char *kubedns_url, *nanny_url, *outside_name, *journal;
	long dnsmasq_port, poll_interval_ms, prometheus_port;
	struct flag_list probes;
	int64_t drain_ms;
	bool once, debug_remote;

	/* What they mean. */
	struct server dnsmasq;
	struct probe_spec *specs;
	size_t spec_count;
	struct url kubedns, nanny;
	bool has_kubedns, has_nanny; /* an empty URL: do not ask */
	struct dname outside;
	bool has_outside;
	struct flags_common common;
};

/*
 * Reads argv; --help and --version exit. 0, or -EINVAL after one line on stderr for each mistake
 * (the caller exits 2). Freed with sidecar_options_free either way.
 */
int sidecar_options_read(struct sidecar_options *options, int argc, char **argv);
void sidecar_options_free(struct sidecar_options *options);

#endif
