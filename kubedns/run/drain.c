#include "kubedns/run/drain.h"

#include "lib/clock.h"

/* Starts the wait for a time of --drain-quiet without a query. */
static void
expect_quiet(struct drain *drain, int64_t now_ms, uint64_t questions)
{
	drain->questions = questions;
	drain->quiet_at_ms = drain->quiet_ms == 0 ? CLOCK_NEVER : now_ms + drain->quiet_ms;
}

void
drain_begin(
    struct drain *drain, int64_t now_ms, int64_t most_ms, int64_t quiet_ms, uint64_t questions)
{
	drain->until_ms = now_ms + most_ms;
	drain->quiet_ms = quiet_ms;
	expect_quiet(drain, now_ms, questions);
}

bool
drain_over(struct drain *drain, int64_t now_ms, uint64_t questions, bool in_flight)
{
	if (drain->until_ms == CLOCK_NEVER)
		return false;
	if (questions != drain->questions || in_flight)
		expect_quiet(drain, now_ms, questions);
	return now_ms >= drain->until_ms || now_ms >= drain->quiet_at_ms;
}

int64_t
drain_due_ms(const struct drain *drain, int64_t now_ms)
{
	if (drain->until_ms == CLOCK_NEVER || drain->quiet_ms == 0)
		return drain->until_ms;
	return clock_earlier(drain->until_ms, now_ms + DRAIN_LOOK_MS);
}
