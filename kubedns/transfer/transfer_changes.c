/*
 * The change thread: makes the next version the version, and tells the secondaries. A version is made
 * at most once a second, and so is a zone's NOTIFY to a server that answers.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "kubedns/answer/external_zones.h"
#include "kubedns/transfer/transfer_internal.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/sandbox.h"

enum { FD_WAKE, FD_NOTIFY, FD_COUNT = FD_NOTIFY + NOTIFY_FDS };

static void
wait_for_change(struct transfer *t, int wait_ms)
{
	struct pollfd fds[FD_COUNT] = { [FD_WAKE] = { .fd = t->wake_changes, .events = POLLIN } };
	uint64_t count;
	nfds_t used = FD_NOTIFY;

	if (t->notify != NULL) {
		notify_fds(t->notify, fds + FD_NOTIFY);
		used = FD_COUNT;
	}
	if (poll(fds, used, wait_ms) < 0 && errno != EINTR)
		log_fatal("poll");
	if (read(t->wake_changes, &count, sizeof count) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

/* Takes what the main thread has given; false: nothing. */
static bool
take_next(struct transfer *t, struct version *next)
{
	pthread_mutex_lock(&t->lock);
	*next = t->next;
	t->next = (struct version){ NULL, NULL };
	pthread_mutex_unlock(&t->lock);
	return next->tree != NULL;
}

static const struct tree *
held_tree(const struct tree_hold *hold)
{
	return hold == NULL ? NULL : tree_held(hold);
}

static bool
is_synced(const struct tree *tree)
{
	return tree == NULL || tree->synced;
}

static bool
has_changed(struct change *const *changes, size_t count, size_t zone)
{
	for (size_t i = 0; i < count; i++)
		if (changes[i]->zone == zone)
			return true;
	return false;
}

/* What the next version changes goes into the journal; or the journal begins with it. */
static void
put_in_force(struct transfer *t, const struct version *next)
{
	const struct zone_moments moments = { .before = held_tree(t->version.tree),
		.after = held_tree(next->tree),
		.external_before = held_tree(t->version.external),
		.external_after = held_tree(next->external) };
	struct change **changes = NULL;
	size_t count = 0;
	bool known = moments.before != NULL && t->journal.max > 0 &&
		     is_synced(moments.external_before) == is_synced(moments.external_after) &&
		     changes_of(t->answers, &moments, t->journal.max, &changes, &count);

	pthread_mutex_lock(&t->lock);
	if (known)
		journal_add(&t->journal, t->answers, changes, count);
	else
		journal_clear(&t->journal, moments.after->serial,
		    reverse_serial(t->answers->external, moments.after, moments.external_after),
		    moments.external_after == NULL ? 0
						   : external_serial(t->answers->external,
							 moments.after, moments.external_after));
	struct version before = t->version;
	t->version = *next;
	t->number++;
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	for (size_t zone = 0; t->notify != NULL && zone < zone_count(t->answers); zone++) {
		if (version_has_zone(next, t->answers, zone) &&
		    (!known || has_changed(changes, count, zone)))
			notify_changed(t->notify, zone, version_serial(next, t->answers, zone));
	}
	free(changes);
	version_drop(&before);
}

void *
transfer_changes(void *arg)
{
	struct transfer *t = arg;
	struct version next;
	int wait_ms = -1;

	pthread_setname_np(pthread_self(), "zone-changes");
	sandbox_low_ports_done();
	while (!atomic_load(&t->stop)) {
		wait_for_change(t, wait_ms);
		if (take_next(t, &next))
			put_in_force(t, &next);
		wait_ms = t->notify == NULL ? -1 : notify_turn(t->notify, clock_mono_ms());
	}
	return NULL;
}
