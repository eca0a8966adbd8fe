/* What other threads read of the workers. */
#include <stdlib.h>

#include "kubedns/serve/answer_observers.h"
#include "kubedns/serve/fair_share.h"
#include "kubedns/serve/udp.h"
#include "kubedns/serve/worker_internal.h"
#include "lib/clock.h"
#include "lib/xalloc.h"

int64_t
workers_stalled_ms(const struct workers *workers)
{
	int64_t now_ns = clock_mono_ns(), oldest_ns = now_ns;
	for (unsigned i = 0; i < workers->count; i++) {
		int64_t passed_ns =
		    atomic_load_explicit(&workers->workers[i]->passed_ns, memory_order_relaxed);
		oldest_ns = passed_ns < oldest_ns ? passed_ns : oldest_ns;
	}
	return (now_ns - oldest_ns) / 1000000;
}

uint64_t
workers_stats(const struct workers *workers, struct stats *sum)
{
	uint64_t drops = 0;
	for (unsigned i = 0; i < workers->count; i++) {
		stats_sum(sum, &workers->workers[i]->stats);
		drops += udp_queue_drops(workers->workers[i]->udp);
	}
	return drops > sum->client_shed ? drops - sum->client_shed : 0;
}

const struct talkers *
workers_talkers(const struct workers *workers, unsigned index)
{
	const struct answer_observers *observers = workers->workers[index]->context.observers;
	return observers != NULL ? &observers->talkers : NULL;
}

const struct recorder *
workers_recorder(const struct workers *workers, unsigned index)
{
	const struct answer_observers *observers = workers->workers[index]->context.observers;
	return observers != NULL ? &observers->recorder : NULL;
}

char *
workers_notes(const struct workers *workers, bool addresses)
{
	char *notes = xstrdup("");
	for (unsigned w = 0; w < workers->count; w++)
		if (workers->workers[w]->fair != NULL)
			notes = fair_share_notes(workers->workers[w]->fair, w, addresses, notes);
	return notes;
}
