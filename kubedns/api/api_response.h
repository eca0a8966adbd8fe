/*
 * What a request brings: the items of a list, the events of a watch, or the Status that says why
 * there are none. Objects go to the sink one by one as they come; what was found of the rest
 * (malformed, error_code, too_large, token, why) is in the stream, for api_stream_finish().
 *
 * Private to stream.c.
 */
#ifndef KUBEDNS_API_API_RESPONSE_H
#define KUBEDNS_API_API_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>

struct api_stream;

void api_response_init(struct api_stream *s);

/* A 200 has come, of the stream's verb. */
void api_response_begin(struct api_stream *s);

/* The next bytes of the body: 0, or -errno if no more shall come; -ECANCELED: by an ERROR event. */
int api_response_take(struct api_stream *s, const char *bytes, size_t len);

/* No more comes; `whole`: and nothing of it got lost. */
void api_response_end(struct api_stream *s, bool whole);

/* Before the next request. */
void api_response_forget(struct api_stream *s);

void api_response_clear(struct api_stream *s);

#endif
