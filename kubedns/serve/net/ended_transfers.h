/*
 * Zone transfers that have ended, on their way from the transfer's threads to the worker whose
 * connections they were on.
 */
#ifndef KUBEDNS_SERVE_NET_ENDED_TRANSFERS_H
#define KUBEDNS_SERVE_NET_ENDED_TRANSFERS_H

#include <stdatomic.h>

#include "kubedns/serve/net/tcp.h"

struct stream_end;

struct ended_transfers {
	_Atomic(struct stream_end *) newest; /* NULL: none */
	int wake;                            /* the worker's eventfd, written to after each */
};

/* A transfer_end's function; `arg` is the ended_transfers. From any thread. */
void ended_transfers_add(void *arg, uint32_t slot, uint32_t generation, bool whole);

/* Lets the connections go on; `tcp` NULL: there are none any more. */
void ended_transfers_take(struct ended_transfers *ends, struct tcp *tcp);

#endif
