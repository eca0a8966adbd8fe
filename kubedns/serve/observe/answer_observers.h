/*
 * Notes each answer, over UDP or TCP, made here or by another server: one call when it leaves.
 * dnstap, which copies the message itself, is called beside it.
 *
 *	udp, tcp, inflight --> answer_observers -+-> recorder.h: each of the last ones
 *	                                         '-> talkers.h: who and what is most of them
 *
 * A worker without one (worker_context.observers is NULL) pays a comparison for a batch of answers.
 */
#ifndef KUBEDNS_SERVE_OBSERVE_ANSWER_OBSERVERS_H
#define KUBEDNS_SERVE_OBSERVE_ANSWER_OBSERVERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "kubedns/answer/answer.h"
#include "kubedns/serve/observe/recorder.h"
#include "kubedns/serve/observe/talkers.h"

struct answer_observers {
	struct recorder recorder;
	struct talkers talkers;
};

/* With a recorder of so many bytes; `key` is random. */
struct answer_observers *answer_observers_new(size_t recorder_bytes, uint64_t key);

/* A duration in 32 bits of nanoseconds, as records have it: at most 4.29 s. */
static inline uint32_t
answer_observers_took(int64_t ns)
{
	return (uint64_t)ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/*
 * Notes an answer of a UDP batch that began at `at_ns`; answer_observers_batch() must follow
 * at its end. For the worker alone, as the other functions.
 */
static inline void
answer_observers_add(struct answer_observers *observers, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns)
{
	recorder_add(&observers->recorder, client, info, at_ns);
	if (talkers_due(&observers->talkers))
		talkers_sample(&observers->talkers, client, info, at_ns);
}

/* Ends a batch of at least one answer, which took so long. */
static inline void
answer_observers_batch(struct answer_observers *observers, int64_t took_ns)
{
	recorder_publish(&observers->recorder, answer_observers_took(took_ns));
}

/* Notes an answer that came alone: over TCP, or made with another server. */
void answer_observers_one(struct answer_observers *observers, const struct sockaddr *client,
    const struct answer_info *info, int64_t at_ns, int64_t took_ns, enum answer_made made,
    bool tcp);

/* NULL is fine. */
void answer_observers_free(struct answer_observers *observers);

#endif
