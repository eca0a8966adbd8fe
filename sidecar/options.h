/* The sidecar's command line, which is parsed and validated as a whole before any probe starts. */
#ifndef SIDECAR_OPTIONS_H
#define SIDECAR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/flags.h"
#include "sidecar/containers/fetch.h"
#include "sidecar/probes/probe_spec.h"

enum { PROBES_MAX = 100, UPSTREAM_PORTS_MAX = 16 };

struct sidecar_options {
	/* The values of the flags. */
	bool coredns_metrics;
	char *dnsmasq_addr, *prometheus_addr, *prometheus_path, *prometheus_namespace;
	char *kubedns_url, *nanny_url, *outside_name, *journal, *upstream_ca;
	long dnsmasq_port, poll_interval_ms, prometheus_port;
	struct flag_list probes, upstream_ports_text;
	int64_t drain_ms;
	bool dedup, debug_remote;

	/* Values parsed from the flags above. */
	struct server dnsmasq;
	struct probe_spec *specs;
	size_t spec_count;
	struct url kubedns, nanny;
	bool has_kubedns, has_nanny; /* false if the URL is empty */
	uint16_t upstream_ports[UPSTREAM_PORTS_MAX];
	struct dname outside;
	bool has_outside;
	struct flags_common common;
};

/* Parses argv. --help and --version exit. Returns 0, or -EINVAL after one line on stderr for each mistake. The caller then exits with 2. In
 * both cases, the caller frees `options` with sidecar_options_free. */
int sidecar_options_read(struct sidecar_options *options, int argc, char **argv);
void sidecar_options_free(struct sidecar_options *options);

#endif
