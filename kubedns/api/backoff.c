#include "kubedns/api/backoff.h"

#include <stdlib.h>

int64_t
backoff_jitter(int64_t max_ms)
{
	return (int64_t)arc4random_uniform((uint32_t)max_ms + 1);
}

int64_t
backoff_failed(struct backoff *b, int64_t now_ms, int64_t max_ms)
{
	if (b->good_since_ms && now_ms - b->good_since_ms >= BACKOFF_GOOD_MS)
		b->failures = 0;
	b->good_since_ms = 0;
	int64_t limit = BACKOFF_FIRST_MS;
	for (unsigned i = 0; i < b->failures && limit < max_ms; i++)
		limit *= 2;
	b->failures++;
	return backoff_jitter(limit < max_ms ? limit : max_ms);
}

void
backoff_good(struct backoff *b, int64_t now_ms)
{
	if (!b->good_since_ms)
		b->good_since_ms = now_ms;
}

int64_t
backoff_retry_after(struct backoff *b, int64_t now_ms, int64_t asked_ms, bool grow)
{
	int64_t ms = asked_ms < 1000 ? 1000 : asked_ms;

	if (ms > BACKOFF_RETRY_AFTER_MAX_MS)
		ms = BACKOFF_RETRY_AFTER_MAX_MS;
	return ms + (grow ? backoff_failed(b, now_ms, BACKOFF_MAX_MS) : backoff_jitter(ms / 10));
}
