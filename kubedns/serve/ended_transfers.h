/*
 * Zone transfers that have ended, on their way from the transfer's threads to the worker whose
 * connections they were on.
 */
#ifndef KUBEDNS_SERVE_STREAM_ENDS_H
#define KUBEDNS_SERVE_STREAM_ENDS_H

#include <stdatomic.h>

#include "kubedns/serve/tcp.h"

struct stream_end;

struct stream_ends {
	_Atomic(struct stream_end *) newest; /* NULL: none */
	int wake;                            /* the worker's eventfd, written to after each */
};

/* A transfer_end's function; `arg` is the stream_ends. From any thread. */
void stream_ends_add(void *arg, uint32_t slot, uint32_t generation, bool whole);

/* Lets the connections go on; `tcp` NULL: there are none any more. */
void stream_ends_take(struct stream_ends *ends, struct tcp *tcp);

#endif
