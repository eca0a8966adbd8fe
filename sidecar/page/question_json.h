/* The question box's answers: /ask?name=NAME&type=TYPE&format=json. */
#ifndef SIDECAR_QUESTION_JSON_H
#define SIDECAR_QUESTION_JSON_H

#include <stddef.h>

#include "sidecar/view.h"

/*
 * {"state":"answered","name":...,"type":...,"server":...,"result":"NOERROR","cause":"ok",
 * "outcome":"in words","latencySeconds":...,"overTcp":...,"records":[...],"why":[...],
 * "whyError":""}; "state" is "asking" while there
 * is no answer yet, "refused" with "error" if the question was not asked. Length in `len`; caller
 * frees.
 */
char *question_json(const struct view *view, size_t *len);

/* The HTTP status: 200 answered, 202 asking, 400 not a question, 503 too many at a time. */
int question_status(const struct view *view, enum question_box_result result);

#endif
