/*
 * Queries for an incremental transfer, and the journal's result for the serial of the query. No
 * change after that serial may be missing from the result, and no older change may be in it. Both
 * rules must hold for any two serials on the circle of RFC 1982.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/modules/transfer/journal.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 8 };

static struct change *
empty_change(uint32_t to)
{
	struct change *change = xmalloc(sizeof *change);

	*change = (struct change){ .to = to };
	atomic_init(&change->uses, 1);
	return change;
}

/* Queries a journal that starts at `since`, with a change every few seconds. The journal may have
 * removed the first changes. */
static void
ask_journal(uint32_t since, const uint8_t steps[CHANGES], uint32_t has)
{
	uint32_t to[CHANGES], at = since;
	struct change *made[CHANGES], **taken;
	struct journal journal;
	size_t count, want = 0;

	journal_init(&journal, sizeof(struct change) * (CHANGES - 2), 1);
	journal_begin(&journal, 0, since);
	for (unsigned i = 0; i < CHANGES; i++)
		made[i] = empty_change(to[i] = at += 1u + steps[i]);
	journal_add(&journal, made, CHANGES);
	uint32_t oldest = to[1]; /* two changes did not fit */
	bool reaches = journal_take(&journal, 0, has, &taken, &count);
	/* distance from `oldest` to `has`; `has` is newer if this is less than half of the 32-bit
	 * range */
	uint32_t ahead = has - oldest;
	if (reaches != (ahead < UINT32_C(0x80000000)))
		abort();
	for (unsigned i = 2; reaches && i < CHANGES; i++)
		want += to[i] - oldest > ahead;
	if (ahead < UINT32_C(0x7fff0000) && count != want)
		abort();
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && taken[i]->to - taken[i - 1]->to - 1 > 255)
			abort();
		change_drop(taken[i]);
	}
	free(taken);
	journal_free(&journal);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct query query;
	uint32_t serial = 0;

	if (size < 4 + CHANGES)
		return 0;
	uint32_t since = wire_get32(data);
	const uint8_t *steps = data + 4, *wire = steps + CHANGES;
	size -= 4 + CHANGES;
	enum query_result read = query_read(&query, wire, size);
	if ((read != QUERY_OK && read != QUERY_SIGNED) || !query.has_question)
		return 0;
	if (ixfr_serial(wire, size, query.question_len, &serial) == 0)
		ask_journal(since, steps, serial);
	return 0;
}
