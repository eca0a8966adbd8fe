/*
 * Shares a few places, such as connections to another server, among clients. A query takes a place or
 * waits for one.
 *
 *	turns_ask -> place -> turns_leave
 *	    '-> waiting -> turns_next -> place
 *
 * A client may have half of the places that other clients do not have. If a place is free, it may have at
 * least one. Clients whose queries wait get their places in turn, one query each. The number of queries
 * that a client may have waiting is not limited here, but in inflight.h.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_TURNS_H
#define KUBEDNS_SERVE_UPSTREAM_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct turn_client;

/* A query's part. All zeros: it neither waits nor has a place. It must stay at its address. */
struct turn {
	struct turn_client *client; /* NULL if the query neither waits nor has a place */
	bool waiting;
	TAILQ_ENTRY(turn) next;
};

/* Creates `places` places, at least one. */
struct turns *turns_new(unsigned places);

/* No query may wait or have a place. NULL is fine. */
void turns_free(struct turns *turns);

/* Asks for a place for a query of the client with this hash (client.h). Returns true if the query has
 * a place now. Otherwise it waits until turns_next() returns it. O(1). */
bool turns_ask(struct turns *turns, struct turn *turn, uint32_t client);

/* Gives back the query's place, or removes the query from those that wait. Then places may be free:
 * call turns_next(). Does nothing if the query neither waits nor has a place. O(1). */
void turns_leave(struct turns *turns, struct turn *turn);

/* Returns a query that waited and has a place now. Returns NULL if no query that waits may have a
 * place. O(places). */
struct turn *turns_next(struct turns *turns);

#endif
