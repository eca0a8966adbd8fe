/*
 * When this kubedns joins and leaves the port that it shares with another one in an update
 * (--share-port; serve/shared_port.h says how). A kubedns that found another one at the port joins
 * once it is synced and its --resolver, where there is one, has answered a question; or when the
 * other has gone. From SIGTERM on it leaves the port to another that has joined, and takes it back
 * when that has gone.
 *
 * The question is "version.bind" (CH, TXT), which a dnsmasq answers itself. Whatever it answers
 * counts, since it is the other servers' part to be right.
 */
#ifndef KUBEDNS_RUN_HANDOVER_H
#define KUBEDNS_RUN_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

struct handover;
struct server;
struct workers;

/* `workers` outlive it; `resolver` NULL: none is waited for. Caller frees. */
struct handover *handover_new(struct workers *workers, const struct server *resolver);
void handover_free(struct handover *h);

/*
 * Once a turn of the loop. 0, or -errno after one log line: the port could not be joined, and
 * nothing is left but to end. After the first join the right to bind low ports is given up.
 */
int handover_turn(struct handover *h, bool synced, bool draining, int64_t now_ms);

/* Milliseconds until handover_turn() has something to look at; -1: nothing by itself. */
int64_t handover_wait_ms(const struct handover *h, int64_t now_ms);

#endif
