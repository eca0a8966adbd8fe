#include "kubedns/serve/observe/observers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"

enum { RINGS_MAX = 64, OBSERVERS_MAX = 4 };

/* State of an observer's reader of one ring. The observer decides which member is used. */
union reader {
	struct ring_sampler samples;
	struct ring_follower answers;
};

struct observer_state {
	void *arg;        /* NULL if the observer is disabled */
	uint64_t skipped; /* answers skipped before the observer was last enabled */
	union reader readers[RINGS_MAX];
};

struct observers {
	int wake;
	unsigned ring_count;
	const struct ring *rings[RINGS_MAX];
	const struct observer *const *table;
	struct observer_state states[OBSERVERS_MAX];
};

struct observers *
observers_new(const struct observer *const *table)
{
	struct observers *observers = xcalloc(1, sizeof *observers);

	observers->table = table;
	observers->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (observers->wake < 0)
		log_fatal("eventfd");
	return observers;
}

int
observers_fd(const struct observers *observers)
{
	return observers->wake;
}

void
observers_add_ring(struct observers *observers, const struct ring *ring)
{
	assert(observers->ring_count < RINGS_MAX);
	observers->rings[observers->ring_count++] = ring;
}

static size_t
index_of(const struct observers *observers, const struct observer *row)
{
	size_t i = 0;

	while (observers->table[i] != row)
		i++;
	assert(i < OBSERVERS_MAX);
	return i;
}

uint64_t
observers_skipped(const struct observers *observers, const struct observer *row)
{
	const struct observer_state *state = &observers->states[index_of(observers, row)];
	uint64_t skipped = state->skipped;

	for (unsigned r = 0; state->arg != NULL && r < observers->ring_count; r++)
		skipped += row->wants == OBSERVE_SAMPLES
			       ? state->readers[r].samples.skipped
			       : state->readers[r].answers.skipped.answers;
	return skipped;
}

void
observers_set(struct observers *observers, const struct observer *row, void *arg)
{
	struct observer_state *state = &observers->states[index_of(observers, row)];

	state->skipped = observers_skipped(observers, row);
	state->arg = arg;
	for (unsigned r = 0; arg != NULL && r < observers->ring_count; r++)
		if (row->wants == OBSERVE_SAMPLES)
			ring_sample_follow(&state->readers[r].samples, observers->rings[r]);
		else
			ring_follow(&state->readers[r].answers, observers->rings[r]);
}

static void
drain_one(const struct observer *row, void *arg, union reader *reader)
{
	struct ring_record record;

	if (row->wants == OBSERVE_SAMPLES) {
		while (ring_sample_next(&reader->samples, &record))
			row->consume(arg, &record);
		return;
	}
	ring_follow_iteration(&reader->answers);
	while (ring_follow_next(&reader->answers, &record, NULL))
		if (record.kind == RECORD_ANSWER)
			row->consume(arg, &record);
}

void
observers_drain(struct observers *observers)
{
	uint64_t events;

	if (read(observers->wake, &events, sizeof events) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
	for (size_t i = 0; observers->table[i] != NULL; i++) {
		struct observer_state *state = &observers->states[i];

		for (unsigned r = 0; state->arg != NULL && r < observers->ring_count; r++)
			drain_one(observers->table[i], state->arg, &state->readers[r]);
	}
}

void
observers_metrics(const struct observers *observers, struct metrics *m)
{
	metrics_family(m, "kubedns_observer_skipped_total", METRIC_COUNTER,
	    "Answers that were overwritten before an observer had read them.");
	for (const struct observer *const *row = observers->table; *row != NULL; row++)
		metrics_value(
		    m, (double)observers_skipped(observers, *row), "observer", (*row)->name, NULL);
}

void
observers_free(struct observers *observers)
{
	if (observers == NULL)
		return;
	close(observers->wake);
	free(observers);
}
