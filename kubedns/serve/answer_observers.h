/*
 * Notes each answer: one call when it leaves, over UDP or TCP, made here or by another server. All
 * that records answers is called from here.
 *
 *	udp, tcp, inflight --> answer_taps -+-> recorder.h: each of the last ones
 *	                                   '-> talkers.h: the clients and names that are most of them
 *
 * A worker without one (worker_context.taps is NULL) pays a comparison for a batch of answers.
 */
#ifndef KUBEDNS_SERVE_ANSWER_TAPS_H
#define KUBEDNS_SERVE_ANSWER_TAPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "kubedns/answer/answer.h"
#include "kubedns/serve/recorder.h"
#include "kubedns/serve/talkers.h"

struct answer_taps {
	struct recorder recorder;
	struct talkers talkers;
};

/* With a recorder of so many bytes; `key` is random. */
struct answer_taps *answer_taps_new(size_t recorder_bytes, uint64_t key);

/* A duration in 32 bits of nanoseconds, as records have it: at most 4.29 s. */
static inline uint32_t
answer_taps_took(int64_t ns)
{
	return (uint64_t)ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/*
 * Notes an answer of a UDP batch that began at `at_ns`; answer_log_batch() must follow at the
 * batch's end. For the worker alone, as the other functions.
 */
static inline void
answer_taps_add(struct answer_taps *taps, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns)
{
	recorder_add(&taps->recorder, client, info, at_ns);
	if (talkers_due(&taps->talkers))
		talkers_sample(&taps->talkers, client, info, at_ns);
}

/* Ends a batch of at least one answer, which took so long. */
static inline void
answer_taps_batch(struct answer_taps *taps, int64_t took_ns)
{
	recorder_publish(&taps->recorder, answer_taps_took(took_ns));
}

/* Notes an answer that came alone: over TCP, or made with another server. */
void answer_taps_one(struct answer_taps *taps, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns, int64_t took_ns, enum answer_made made,
    bool tcp);

/* NULL is fine. */
void answer_taps_free(struct answer_taps *taps);

#endif
