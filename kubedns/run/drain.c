#include "kubedns/run/drain.h"

/* Starts waiting for --drain-quiet without a question. */
static void
expect_quiet(struct drain *drain, int64_t now_ms, uint64_t questions)
{
	drain->questions = questions;
	drain->quiet_at_ms = drain->quiet_ms == 0 ? INT64_MAX : now_ms + drain->quiet_ms;
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
	if (drain->until_ms == 0)
		return false;
	if (questions != drain->questions || in_flight)
		expect_quiet(drain, now_ms, questions);
	return now_ms >= drain->until_ms || now_ms >= drain->quiet_at_ms;
}

int64_t
drain_wait_ms(const struct drain *drain, int64_t now_ms)
{
	if (drain->until_ms == 0)
		return -1;
	int64_t ms = drain->until_ms - now_ms;
	if (drain->quiet_ms != 0 && ms > DRAIN_LOOK_MS)
		ms = DRAIN_LOOK_MS;
	return ms < 0 ? 0 : ms;
}
