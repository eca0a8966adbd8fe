#include "kubedns/serve/net/ended_transfers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/xalloc.h"

struct stream_end {
	struct stream_end *next;
	uint32_t slot, generation;
	bool whole;
};

void
ended_transfers_add(void *arg, uint32_t slot, uint32_t generation, bool whole)
{
	struct ended_transfers *ends = arg;
	struct stream_end *end = xmalloc(sizeof(*end));
	uint64_t one = 1;
	*end = (struct stream_end){ atomic_load(&ends->newest), slot, generation, whole };
	while (!atomic_compare_exchange_weak(&ends->newest, &end->next, end))
		;
	if (write(ends->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

void
ended_transfers_take(struct ended_transfers *ends, struct tcp *tcp)
{
	struct stream_end *end = atomic_exchange(&ends->newest, NULL), *next;
	for (; end != NULL; end = next) {
		next = end->next;
		if (tcp != NULL)
			tcp_streamed(tcp, end->slot, end->generation, end->whole);
		free(end);
	}
}
