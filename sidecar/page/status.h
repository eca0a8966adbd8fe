/* The same facts as the page for programs: /status.json. */
#ifndef SIDECAR_PAGE_STATUS_H
#define SIDECAR_PAGE_STATUS_H

#include <stddef.h>

#include "sidecar/view.h"

/* One JSON object; its length in `len`; caller frees. Times are Unix seconds, durations seconds,
 * unknown values null. */
char *status_json(const struct view *view, size_t *len);

/* kube-dns's answer to /healthcheck/<label>:
 * {"IsOk":true,"LatencySeconds":0.000279437,"Err":""}; caller frees. */
char *status_healthcheck(const struct probe *probe, bool *ok);

#endif
