/* Notes what is asked of other servers, and what they reply, for dnstap; a comparison without it. */
#ifndef KUBEDNS_SERVE_UPSTREAM_UPSTREAM_DNSTAP_H
#define KUBEDNS_SERVE_UPSTREAM_UPSTREAM_DNSTAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/dnstap/dnstap_queue.h"
#include "kubedns/serve/worker_context.h"

static inline void
upstream_dnstap_asked(const struct worker_context *context, const struct server *server, bool tcp,
    const uint8_t *query, size_t len)
{
	if (context->dnstap != NULL)
		dnstap_asked(context->dnstap, tcp, server, query, len, context->now_ns);
}

/* `asked_ns` is worker time. */
static inline void
upstream_dnstap_replied(const struct worker_context *context, const struct server *server, bool tcp,
    const uint8_t *reply, size_t len, int64_t asked_ns)
{
	if (context->dnstap != NULL)
		dnstap_replied(context->dnstap, tcp, server, reply, len, asked_ns, context->now_ns);
}

#endif
