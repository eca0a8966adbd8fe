/* The page of metrics: kube-dns's names as they were,
 * and beside them the same facts in base units with labels. */
#ifndef SIDECAR_METRICS_H
#define SIDECAR_METRICS_H

#include <stddef.h>

#include "lib/metrics.h"
#include "sidecar/view.h"

/* The whole page in `format`; its length in `len`; caller frees. */
char *sidecar_metrics(const struct view *view, enum metrics_format format, size_t *len);

#endif
