#include "kubedns/serve/answer_observers.h"

#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/log.h"

struct answer_taps *
answer_taps_new(size_t recorder_bytes, uint64_t key)
{
	struct answer_taps *taps = NULL;
	if (posix_memalign((void **)&taps, _Alignof(struct answer_taps), sizeof(*taps)) != 0)
		log_fatalx("out of memory");
	memset(taps, 0, sizeof(*taps));
	recorder_init(&taps->recorder, recorder_bytes);
	talkers_init(&taps->talkers, key, clock_mono_ns());
	return taps;
}

void
answer_taps_one(struct answer_taps *taps, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns, int64_t took_ns, enum answer_made made, bool tcp)
{
	answer_taps_add(taps, client, info, at_ns);
	recorder_made(&taps->recorder, made, tcp);
	recorder_publish(&taps->recorder, answer_taps_took(took_ns));
}

void
answer_taps_free(struct answer_taps *taps)
{
	if (taps == NULL)
		return;
	recorder_free(&taps->recorder);
	free(taps);
}
