#include "kubedns/serve/observe/answer_observers.h"

#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/log.h"

struct answer_observers *
answer_observers_new(size_t recorder_bytes, uint64_t key)
{
	struct answer_observers *observers = NULL;
	if (posix_memalign(
		(void **)&observers, _Alignof(struct answer_observers), sizeof(*observers)) != 0)
		log_fatalx("out of memory");
	memset(observers, 0, sizeof(*observers));
	recorder_init(&observers->recorder, recorder_bytes);
	talkers_init(&observers->talkers, key, clock_mono_ns());
	return observers;
}

void
answer_observers_one(struct answer_observers *observers, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns, int64_t took_ns, enum answer_made made, bool tcp)
{
	answer_observers_add(observers, client, info, at_ns);
	recorder_made(&observers->recorder, made, tcp);
	recorder_publish(&observers->recorder, answer_observers_took(took_ns));
}

void
answer_observers_free(struct answer_observers *observers)
{
	if (observers == NULL)
		return;
	recorder_free(&observers->recorder);
	free(observers);
}
