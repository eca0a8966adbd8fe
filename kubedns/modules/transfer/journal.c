#include "kubedns/modules/transfer/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"

enum { FIXED = 8 /* bytes of type, TTL and length of RDATA, which are between owner and RDATA */ };

static size_t
size_of(const struct change *change)
{
	return sizeof *change + change->len[CHANGE_WENT] + change->len[CHANGE_CAME];
}

void
journal_init(struct journal *journal, size_t max, size_t zone_count)
{
	*journal = (struct journal){ .max = max,
		.zone_count = zone_count,
		.since = xcalloc(zone_count, sizeof *journal->since) };
	TAILQ_INIT(&journal->changes);
}

void
change_drop(struct change *change)
{
	if (atomic_fetch_sub(&change->uses, 1) == 1)
		free(change);
}

static void
forget_oldest(struct journal *journal)
{
	struct change *change = TAILQ_FIRST(&journal->changes);

	TAILQ_REMOVE(&journal->changes, change, by_age);
	journal->bytes -= size_of(change);
	change_drop(change);
}

void
journal_clear(struct journal *journal)
{
	while (!TAILQ_EMPTY(&journal->changes))
		forget_oldest(journal);
}

void
journal_begin(struct journal *journal, size_t zone, uint32_t serial)
{
	assert(zone < journal->zone_count);
	journal->since[zone] = serial;
}

void
journal_free(struct journal *journal)
{
	journal_clear(journal);
	free(journal->since);
}

void
journal_add(struct journal *journal, struct change **changes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		TAILQ_INSERT_TAIL(&journal->changes, changes[i], by_age);
		journal->bytes += size_of(changes[i]);
	}
	while (journal->bytes > journal->max) {
		const struct change *oldest = TAILQ_FIRST(&journal->changes);

		/* The analyser does not understand that the list loses its first item. */
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		journal->since[oldest->zone] = oldest->to;
		forget_oldest(journal);
	}
}

bool
journal_take(const struct journal *journal, size_t zone, uint32_t since, struct change ***changes,
    size_t *count)
{
	struct change *change;
	size_t capacity = 0;

	*changes = NULL;
	*count = 0;
	if (serial_before(since, journal->since[zone]))
		return false;
	TAILQ_FOREACH(change, &journal->changes, by_age)
	{
		if (change->zone != zone || !serial_before(since, change->to))
			continue;
		if (*count == capacity) {
			capacity = capacity == 0 ? 16 : capacity * 2;
			*changes = xreallocarray(*changes, capacity, sizeof **changes);
		}
		atomic_fetch_add(&change->uses, 1);
		(*changes)[(*count)++] = change;
	}
	return true;
}

bool
change_records(const struct change *change, unsigned which,
    bool (*take)(void *arg, const struct zone_record *record), void *arg)
{
	const uint8_t *p = change->bytes + (which == CHANGE_CAME ? change->len[CHANGE_WENT] : 0);
	const uint8_t *end = p + change->len[which];

	while (p < end) {
		struct dname owner = { .len = (uint8_t)dname_length(p, DNAME_MAX) };

		memcpy(owner.wire, p, owner.len);
		p += owner.len;
		const struct zone_record record = { &owner, wire_get32(p + 2), wire_get16(p),
			wire_get16(p + 6), p + FIXED };
		if (!take(arg, &record))
			return false;
		p += FIXED + record.len;
	}
	return true;
}

/* --- computing changes --- */

struct maker {
	size_t left; /* number of bytes that may still be used */
	struct {
		uint8_t *bytes;
		size_t len, capacity;
	} (*zones)[2]; /* for each zone, the removed and the added records */
};

static bool
take_record(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	struct maker *maker = arg;
	size_t size = (size_t)record->owner->len + FIXED + record->len;

	if (size > maker->left)
		return false;
	maker->left -= size;
	size_t len = maker->zones[zone][added].len;
	if (len + size > maker->zones[zone][added].capacity) {
		maker->zones[zone][added].capacity = (len + size) * 2;
		maker->zones[zone][added].bytes = xreallocarray(
		    maker->zones[zone][added].bytes, maker->zones[zone][added].capacity, 1);
	}
	uint8_t *p = maker->zones[zone][added].bytes + len;
	memcpy(p, record->owner->wire, record->owner->len);
	p += record->owner->len;
	wire_put16(p, record->type);
	wire_put32(p + 2, record->ttl_s);
	wire_put16(p + 6, record->len);
	memcpy(p + FIXED, record->rdata, record->len);
	maker->zones[zone][added].len = len + size;
	return true;
}

static struct change *
make_change(const struct maker *maker, size_t zone, uint32_t to)
{
	size_t went = maker->zones[zone][CHANGE_WENT].len,
	       came = maker->zones[zone][CHANGE_CAME].len;
	struct change *change = xmalloc(sizeof *change + went + came);

	*change = (struct change){ .zone = zone, .to = to, .len = { went, came } };
	atomic_init(&change->uses, 1);
	if (went > 0)
		memcpy(change->bytes, maker->zones[zone][CHANGE_WENT].bytes, went);
	if (came > 0)
		memcpy(change->bytes + went, maker->zones[zone][CHANGE_CAME].bytes, came);
	return change;
}

bool
changes_of(const struct answer_config *config, const struct zone_snapshots *snapshots, size_t max,
    struct change ***changes, size_t *count)
{
	size_t zones = zone_count(config);
	struct maker maker = { .left = max };

	maker.zones = xcalloc(zones, sizeof *maker.zones);
	bool whole = zone_diff(config, snapshots, take_record, &maker);
	*changes = xcalloc(zones, sizeof **changes);
	*count = 0;
	for (size_t zone = 0; zone < zones; zone++) {
		uint32_t to = zone_serial(config, zone_at(config, zone), &snapshots->after);

		if (whole && maker.zones[zone][0].len + maker.zones[zone][1].len > 0)
			(*changes)[(*count)++] = make_change(&maker, zone, to);
		free(maker.zones[zone][0].bytes);
		free(maker.zones[zone][1].bytes);
	}
	free(maker.zones);
	return whole;
}

int
ixfr_serial(const uint8_t *query, size_t len, size_t question_len, uint32_t *serial)
{
	size_t at = DNS_HEADER + question_len;
	struct record record;
	struct dname name;

	if (len < at || wire_get16(query + 6) != 0 || wire_get16(query + 8) != 1 ||
	    wire_read_record(query, len, &at, &record) < 0 || record.type != TYPE_SOA)
		return -EBADMSG;
	at = (size_t)(record.rdata - query);
	for (int i = 0; i < 2; i++) /* skips MNAME and RNAME */
		if (wire_read_name(query, record.end, &at, &name) < 0)
			return -EBADMSG;
	if (record.end - at != 20)
		return -EBADMSG;
	*serial = wire_get32(query + at);
	return 0;
}
