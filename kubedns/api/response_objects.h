/*
 * The response to a request: the items of a list, the events of a watch, or the Status that says
 * why there are none. Objects go to the sink one by one as they arrive; the rest (malformed,
 * error_code, too_large, token, why) is left in the stream for api_stream_finish().
 *
 * Private to api_stream.c.
 */
#ifndef KUBEDNS_API_RESPONSE_OBJECTS_H
#define KUBEDNS_API_RESPONSE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

struct api_stream;

void api_response_init(struct api_stream *s);

/* The status line was 200; the body of the stream's verb follows. */
void api_response_begin(struct api_stream *s);

/* The next bytes of the body. 0, or -errno to end the request; -ECANCELED: an ERROR event. */
int api_response_take(struct api_stream *s, const char *bytes, size_t len);

/* The body has ended; `whole`: the connection did not break. */
void api_response_end(struct api_stream *s, bool whole);

/* Frees what the last response left; before the next request. */
void api_response_forget(struct api_stream *s);

void api_response_clear(struct api_stream *s);

#endif
