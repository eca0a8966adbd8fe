#include <stddef.h>

#include "nanny/child_states.h"

#include "lib/clock.h"

void
child_init(struct child *child, int64_t drain_ms)
{
	*child = (struct child){ .state = CHILD_STARTING,
		.deadline_ms = CLOCK_NEVER,
		.reloaded_ms = -CHILD_GAP_MS,
		.drain_ms = drain_ms };
}

static void
enter(struct child *child, enum child_state state, int64_t deadline_ms)
{
	child->state = state;
	child->deadline_ms = deadline_ms;
}

/* Writes the wanted file, sends SIGHUP and waits for the confirmation. */
static unsigned
reload(struct child *child, int64_t now_ms)
{
	child->changed = false;
	child->confirm_ms = CHILD_CONFIRM_MS;
	child->reloaded_ms = now_ms;
	enter(child, CHILD_RELOADING, now_ms + child->confirm_ms);
	return CHILD_DO_WRITE | CHILD_DO_APPLY | CHILD_DO_ASK;
}

/* Handles the first answer of a dnsmasq. This dnsmasq read the file when it started, so it needs a
 * confirmation but no SIGHUP. */
static unsigned
answered_first(struct child *child, int64_t now_ms)
{
	child->was_ready = true;
	if (child->changed)
		return reload(child, now_ms);
	child->confirm_ms = CHILD_CONFIRM_MS;
	enter(child, CHILD_RELOADING, now_ms + child->confirm_ms);
	return CHILD_DO_ASK;
}

/* Applies a single change at once. A change shortly after a reload waits until the queries in
 * flight have been answered. */
static unsigned
changed(struct child *child, int64_t now_ms)
{
	child->changed = true;
	if (now_ms - child->reloaded_ms >= CHILD_GAP_MS)
		return reload(child, now_ms);
	child->deadline_ms = child->reloaded_ms + CHILD_GAP_MS;
	return 0;
}

static unsigned
confirmed(struct child *child, int64_t now_ms)
{
	enter(child, CHILD_READY, CLOCK_NEVER);
	return child->changed ? changed(child, now_ms) : 0;
}

/* Handles the end of the minimum time between reloads. The pending change may have been reverted in
 * the meantime. */
static unsigned
settled(struct child *child, int64_t now_ms)
{
	child->deadline_ms = CLOCK_NEVER;
	return child->changed ? reload(child, now_ms) : 0;
}

static unsigned
remember_change(struct child *child, int64_t now_ms)
{
	(void)now_ms;
	child->changed = true;
	return 0;
}

/* Handles a confirmation timeout. Writes the file again if the wanted contents have changed.
 * Otherwise sends SIGHUP again and doubles the time until the next SIGHUP. */
static unsigned
not_confirmed(struct child *child, int64_t now_ms)
{
	child->unconfirmed++;
	if (child->changed)
		return reload(child, now_ms);
	child->confirm_ms = child->confirm_ms * 2 < CHILD_CONFIRM_MAX_MS ? child->confirm_ms * 2
									 : CHILD_CONFIRM_MAX_MS;
	child->deadline_ms = now_ms + child->confirm_ms;
	return CHILD_DO_APPLY | CHILD_DO_ASK;
}

/* Notes a death. Returns the number of deaths within the last CHILD_DEATHS_MS, including this
 * one. */
static unsigned
count_death(struct child *child, int64_t now_ms)
{
	unsigned recent = 0,
		 known = child->deaths < CHILD_DEATHS_MAX ? child->deaths + 1 : CHILD_DEATHS_MAX;

	child->deaths_ms[child->deaths++ % CHILD_DEATHS_MAX] = now_ms;
	for (unsigned i = 0; i < known; i++)
		recent += now_ms - child->deaths_ms[i] < CHILD_DEATHS_MS;
	return recent;
}

static unsigned
spawn(struct child *child, int64_t now_ms)
{
	child->changed = false;
	child->reloaded_ms = now_ms - CHILD_GAP_MS;
	enter(child, CHILD_STARTING, CLOCK_NEVER);
	return CHILD_DO_SPAWN;
}

static unsigned
fail(struct child *child)
{
	enter(child, CHILD_STOPPED, CLOCK_NEVER);
	return CHILD_DO_FAIL;
}

static unsigned
died(struct child *child, int64_t now_ms)
{
	unsigned recent = count_death(child, now_ms);

	if (recent >= CHILD_DEATHS_MAX)
		return fail(child);
	if (recent == 1)
		return spawn(child, now_ms);
	enter(child, CHILD_BACKOFF, now_ms + ((int64_t)CHILD_BACKOFF_MS << (recent - 2)));
	return 0;
}

/* Handles a death during the drain. Clients still send queries, so the nanny starts a new dnsmasq
 * at once. */
static unsigned
died_draining(struct child *child, int64_t now_ms)
{
	return count_death(child, now_ms) >= CHILD_DEATHS_MAX ? fail(child) : CHILD_DO_SPAWN;
}

static unsigned
end(struct child *child, int64_t now_ms)
{
	(void)now_ms;
	enter(child, CHILD_STOPPED, CLOCK_NEVER);
	return CHILD_DO_END;
}

static unsigned
drain(struct child *child, int64_t now_ms)
{
	enter(child, CHILD_DRAINING, now_ms + child->drain_ms);
	return 0;
}

static unsigned
stop(struct child *child, int64_t now_ms)
{
	enter(child, CHILD_STOPPING, now_ms + CHILD_STOP_MS);
	return CHILD_DO_TERM;
}

static unsigned
kill_it(struct child *child, int64_t now_ms)
{
	(void)child;
	(void)now_ms;
	return CHILD_DO_KILL;
}

static unsigned
kill_stopping(struct child *child, int64_t now_ms)
{
	child->deadline_ms = now_ms + CHILD_STOP_MS;
	return CHILD_DO_KILL;
}

typedef unsigned transition(struct child *child, int64_t now_ms);

/* The state machine. An event without an entry is ignored in that state. */
static transition *const table[CHILD_STATE_COUNT][CHILD_EVENT_COUNT] = {
	[CHILD_STARTING] = {
		[CHILD_ANSWERED] = answered_first,
		[CHILD_CHANGED] = remember_change,
		[CHILD_DIED] = died,
		[CHILD_SILENT] = kill_it,
		[CHILD_TERM] = drain,
	},
	[CHILD_RELOADING] = {
		[CHILD_CONFIRMED] = confirmed,
		[CHILD_CHANGED] = remember_change,
		[CHILD_DIED] = died,
		[CHILD_SILENT] = kill_it,
		[CHILD_TIMEOUT] = not_confirmed,
		[CHILD_TERM] = drain,
	},
	[CHILD_READY] = {
		[CHILD_CHANGED] = changed,
		[CHILD_TIMEOUT] = settled,
		[CHILD_DIED] = died,
		[CHILD_SILENT] = kill_it,
		[CHILD_TERM] = drain,
	},
	[CHILD_BACKOFF] = {
		[CHILD_TIMEOUT] = spawn,
		[CHILD_TERM] = end,
	},
	[CHILD_DRAINING] = {
		[CHILD_DIED] = died_draining,
		[CHILD_SILENT] = kill_it,
		[CHILD_TIMEOUT] = stop,
		[CHILD_TERM] = stop,
	},
	[CHILD_STOPPING] = {
		[CHILD_DIED] = end,
		[CHILD_TIMEOUT] = kill_stopping,
		[CHILD_TERM] = kill_stopping,
	},
};

unsigned
child_step(struct child *child, enum child_event event, int64_t now_ms)
{
	transition *f = table[child->state][event];

	return f != NULL ? f(child, now_ms) : 0;
}

bool
child_is_serving(const struct child *child)
{
	return child->state == CHILD_READY || child->state == CHILD_RELOADING;
}
