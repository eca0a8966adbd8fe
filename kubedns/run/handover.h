/*
 * Decides when this kubedns joins and leaves the port that it shares with another kubedns during an
 * update (--share-port). serve/net/shared_port.h describes how. If another kubedns was at the port
 * first, this kubedns joins when it is synced. If it has a --resolver, that must also have
 * responded to a query. It also joins when the other kubedns has ended. After SIGTERM, it leaves
 * the port to another kubedns that has joined, and returns if that kubedns ends.
 *
 * The query to the resolver is "version.bind" (CH, TXT), which dnsmasq answers itself. Any response
 * counts. The correctness of answers depends on other servers, not on dnsmasq.
 */
#ifndef KUBEDNS_RUN_HANDOVER_H
#define KUBEDNS_RUN_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

struct handover;
struct server;
struct workers;

/* `workers` must outlive the result. `resolver` is NULL if there is no resolver to wait for. The
 * caller frees the result. */
struct handover *handover_new(struct workers *workers, const struct server *resolver);
void handover_free(struct handover *h);

/*
 * Call it once per iteration of the loop. Returns 0. Returns -errno after one log line if the port
 * could not be joined. The program must then end. After the first join, drops the permission to
 * bind low ports.
 */
int handover_iteration(struct handover *h, bool synced, bool draining, int64_t now_ms);

/* Returns when handover_iteration() has something to check, or CLOCK_NEVER. */
int64_t handover_due_ms(const struct handover *h);

#endif
