/* The facts that the page draws, which programs read too (/status.json), and the first of them as
 * text (/status.txt). */
#ifndef SIDECAR_STATUS_H
#define SIDECAR_STATUS_H

#include <stddef.h>

#include "sidecar/view.h"

/* One JSON object, valid UTF-8; its length in `len`; caller frees. Times are Unix seconds, durations
 * seconds, unknown values null; a series "...OverTime" has BUCKETS counts of BUCKET_S seconds, the
 * oldest first. */
char *status_json(const struct view *view, size_t *len);

/* The sentence, and of each finding what it means and the command to run; caller frees. */
char *status_text(const struct view *view, size_t *len);

/* kube-dns's answer to /healthcheck/<label>:
 * {"IsOk":true,"LatencySeconds":0.000279437,"Err":""}; caller frees. */
char *status_healthcheck(const struct probe *probe, bool *ok);

#endif
