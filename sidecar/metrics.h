/* The page of metrics. The page has metrics with the names of kube-dns, and the same values in base
 * units with labels. */
#ifndef SIDECAR_METRICS_H
#define SIDECAR_METRICS_H

#include <stddef.h>

#include "lib/metrics.h"
#include "sidecar/view.h"

/* Returns the page in `format`, and sets `len` to its length. Caller frees. */
char *sidecar_metrics(const struct view *view, enum metrics_format format, size_t *len);

#endif
