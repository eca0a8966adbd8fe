/* The data of the page as JSON, for the page's script and other programs (/status.json). This header also declares the verdict as text
 * (/status.txt). */
#ifndef SIDECAR_STATUS_H
#define SIDECAR_STATUS_H

#include <stddef.h>

#include "sidecar/page/question_box.h"
#include "sidecar/view.h"

/* Returns one JSON object in valid UTF-8, and sets `len` to its length. Times are Unix seconds, durations are seconds, unknown values are
 * null. A series "...OverTime" has BUCKETS counts, each of BUCKET_S seconds, oldest first. Caller frees. */
char *status_json(const struct view *view, size_t *len);

/* Returns the verdict's sentence, and for each finding its meaning and the command to run. Caller frees. */
char *status_text(const struct view *view, size_t *len);

/*
 * Returns the question box's answer to /ask?name=NAME&type=TYPE&format=json:
 * {"state":"answered","name":...,"type":...,"server":...,"result":"NOERROR","cause":"ok", "outcome":"in
 * words","latencySeconds":...,"overTcp":...,"records":[...],"why":[...], "whyError":""}. "state" is "asking" until there is an answer. If
 * `asked` is NULL, the query was not sent: "state" is "refused", and "error" says why. Sets `len` to the length. Caller frees.
 */
char *question_json(const struct boxed_question *asked, const char *error, size_t *len);

/* Returns the answer to /healthcheck/<label> in kube-dns's format: {"IsOk":true,"LatencySeconds":0.000279437,"Err":""}; caller frees. */
char *status_healthcheck(const struct probe *probe, bool *ok);

#endif
