/*
 * The response to a request: the items of a list, the events of a watch, or the Status that says
 * why there are none. Objects go to the sink one by one as they arrive; the rest (malformed,
 * error_code, too_large, token, why) is left in the stream for resource_watch_finish().
 *
 * Private to resource_watch.c.
 */
#ifndef KUBEDNS_API_RESPONSE_OBJECTS_H
#define KUBEDNS_API_RESPONSE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

struct resource_watch;

void response_objects_init(struct resource_watch *s);

/* The status line was 200; the body of the stream's verb follows. */
void response_objects_begin(struct resource_watch *s);

/* The next bytes of the body. 0, or -errno to end the request; -ECANCELED: an ERROR event. */
int response_objects_take(struct resource_watch *s, const char *bytes, size_t len);

/* The body has ended; `whole`: the connection did not break. */
void response_objects_end(struct resource_watch *s, bool whole);

/* Frees what the last response left; before the next request. */
void response_objects_forget(struct resource_watch *s);

void response_objects_clear(struct resource_watch *s);

#endif
