#include "kubedns/serve/upstream/turns.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/table.h"
#include "lib/xalloc.h"

struct turn_client {
	uint32_t hash; /* must be first (table.h) */
	unsigned has;  /* places */
	TAILQ_HEAD(, turn) waiting;
	TAILQ_ENTRY(turn_client) in_turn; /* if a query waits */
};

struct turns {
	unsigned places, taken;
	struct table clients; /* with a place or a query that waits */
	TAILQ_HEAD(, turn_client) in_turn;
};

struct turns *
turns_new(unsigned places)
{
	struct turns *turns = xcalloc(1, sizeof *turns);

	assert(places > 0);
	turns->places = places;
	TAILQ_INIT(&turns->in_turn);
	return turns;
}

void
turns_free(struct turns *turns)
{
	if (turns == NULL)
		return;
	assert(turns->clients.count == 0);
	table_free(&turns->clients);
	free(turns);
}

static bool
same_client(const void *entry, const void *key)
{
	(void)entry, (void)key;
	return true; /* a client is its hash */
}

static struct turn_client *
client_get(struct turns *turns, uint32_t hash)
{
	struct turn_client *client = table_find(&turns->clients, hash, same_client, NULL);

	if (client != NULL)
		return client;
	client = xcalloc(1, sizeof *client);
	client->hash = hash;
	TAILQ_INIT(&client->waiting);
	table_add(&turns->clients, client);
	return client;
}

static void
client_release(struct turns *turns, struct turn_client *client)
{
	if (client->has > 0 || !TAILQ_EMPTY(&client->waiting))
		return;
	table_remove(&turns->clients, client);
	free(client);
}

static bool
may_take(const struct turns *turns, const struct turn_client *client)
{
	unsigned others = turns->taken - client->has, left = turns->places - others;

	return turns->taken < turns->places && (client->has == 0 || client->has < left / 2);
}

static void
occupy_place(struct turns *turns, struct turn *turn)
{
	turn->client->has++;
	turns->taken++;
}

bool
turns_ask(struct turns *turns, struct turn *turn, uint32_t hash)
{
	assert(turn->client == NULL);
	struct turn_client *client = client_get(turns, hash);

	turn->client = client;
	/* queries of this client that wait go first */
	if (TAILQ_EMPTY(&client->waiting) && may_take(turns, client)) {
		occupy_place(turns, turn);
		return true;
	}
	turn->waiting = true;
	if (TAILQ_EMPTY(&client->waiting))
		TAILQ_INSERT_TAIL(&turns->in_turn, client, in_turn);
	TAILQ_INSERT_TAIL(&client->waiting, turn, next);
	return false;
}

static void
stop_waiting(struct turns *turns, struct turn *turn)
{
	struct turn_client *client = turn->client;

	TAILQ_REMOVE(&client->waiting, turn, next);
	turn->waiting = false;
	if (TAILQ_EMPTY(&client->waiting))
		TAILQ_REMOVE(&turns->in_turn, client, in_turn);
}

void
turns_leave(struct turns *turns, struct turn *turn)
{
	struct turn_client *client = turn->client;

	if (client == NULL)
		return;
	if (turn->waiting) {
		stop_waiting(turns, turn);
	} else {
		assert(client->has > 0 && turns->taken > 0);
		client->has--;
		turns->taken--;
	}
	turn->client = NULL;
	client_release(turns, client);
}

struct turn *
turns_next(struct turns *turns)
{
	struct turn_client *client;

	/* A client that may not take a place has one, so the loop ends after `places` clients. */
	TAILQ_FOREACH(client, &turns->in_turn, in_turn)
	{
		if (turns->taken == turns->places)
			return NULL;
		if (!may_take(turns, client))
			continue;
		struct turn *turn = TAILQ_FIRST(&client->waiting);
		stop_waiting(turns, turn);
		if (!TAILQ_EMPTY(&client->waiting)) {
			TAILQ_REMOVE(&turns->in_turn, client, in_turn);
			TAILQ_INSERT_TAIL(&turns->in_turn, client, in_turn);
		}
		occupy_place(turns, turn);
		return turn;
	}
	return NULL;
}
