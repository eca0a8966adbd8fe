/*
 * What a request brings: the items of a list, the events of a watch, or the Status that says why
 * there are none. Objects go to the sink one by one as they come; what was found of the rest
 * (malformed, error_code, too_large, token, why) is in the stream, for stream_finish().
 *
 * Private to stream.c.
 */
#ifndef KUBEDNS_BODY_H
#define KUBEDNS_BODY_H

#include <stdbool.h>
#include <stddef.h>

struct stream;

void body_init(struct stream *s);

/* A 200 has come, of the stream's verb. */
void body_begin(struct stream *s);

/* The next bytes of the body: 0, or -errno if no more shall come; -ECANCELED: by an ERROR event. */
int body_take(struct stream *s, const char *bytes, size_t len);

/* No more comes; `whole`: and nothing of it got lost. */
void body_end(struct stream *s, bool whole);

/* Before the next request. */
void body_forget(struct stream *s);

void body_clear(struct stream *s);

#endif
