#include "kubedns/serve/answer_taps.h"

#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/log.h"

struct answer_log *
answer_log_new(size_t recorder_bytes, uint64_t key)
{
	struct answer_log *log = NULL;
	if (posix_memalign((void **)&log, _Alignof(struct answer_log), sizeof(*log)) != 0)
		log_fatalx("out of memory");
	memset(log, 0, sizeof(*log));
	recorder_init(&log->recorder, recorder_bytes);
	talkers_init(&log->talkers, key, clock_mono_ns());
	return log;
}

void
answer_log_one(struct answer_log *log, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns, int64_t took_ns, enum answer_made made, bool tcp)
{
	answer_log_add(log, client, info, at_ns);
	recorder_made(&log->recorder, made, tcp);
	recorder_publish(&log->recorder, answer_log_took(took_ns));
}

void
answer_log_free(struct answer_log *log)
{
	if (log == NULL)
		return;
	recorder_free(&log->recorder);
	free(log);
}
