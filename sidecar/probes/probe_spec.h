/*
 * Parses one --probe, in the format of kube-dns's sidecar:
 *
 *	label,server[:port],name[,interval_s[,ANY|A|AAAA|SRV]]
 *
 * The label becomes part of a path and of metric names, so only some characters are allowed.
 */
#ifndef SIDECAR_PROBES_PROBE_SPEC_H
#define SIDECAR_PROBES_PROBE_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/dname.h"

enum {
	SPEC_LABEL_MAX = 63,
	SPEC_INTERVAL_S = 5, /* default interval */
	SPEC_INTERVAL_S_MAX = 86400,
	SPEC_WHY_MAX = 160,
};

struct probe_spec {
	char label[SPEC_LABEL_MAX + 1];
	struct server server;
	struct dname name;
	uint16_t type;
	uint32_t interval_s;
};

/* Parses the value of one --probe. Returns 0, or -EINVAL with a reason in `why` of SPEC_WHY_MAX bytes. */
int spec_parse(struct probe_spec *spec, const char *text, char *why);

/* Writes `label` to `name` of SPEC_LABEL_MAX + 1 bytes, with '_' in place of every byte that a metric name may not contain. */
const char *spec_metric_name(const char *label, char *name);

#endif
