/*
 * Questions for an incremental transfer, and what the journal gives for the serial in them: none of its changes is missing, none is of before,
 * wherever on the circle of serials (RFC 1982) both are.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/transfer/ixfr_query.h"
#include "kubedns/transfer/journal.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES = 8 };

static const struct answer_config config = { .zone = { 15, "\7cluster\5local" } };

static struct change *
empty_change(uint32_t to)
{
	struct change *change = xmalloc(sizeof *change);

	*change = (struct change){ .to = to };
	atomic_init(&change->uses, 1);
	return change;
}

/* A journal from `since` on, with a change each few seconds, of which the first may be forgotten. */
static void
ask_journal(uint32_t since, const uint8_t steps[CHANGES], uint32_t has)
{
	uint32_t to[CHANGES], at = since;
	struct change *made[CHANGES], **taken;
	struct journal journal;
	size_t count, want = 0;

	journal_init(&journal, sizeof(struct change) * (CHANGES - 2));
	journal_clear(&journal, since, 0, 0);
	for (unsigned i = 0; i < CHANGES; i++)
		made[i] = empty_change(to[i] = at += 1u + steps[i]);
	journal_add(&journal, &config, made, CHANGES);
	uint32_t oldest = to[1]; /* two did not fit */
	bool reaches = journal_take(&journal, &config, 0, has, &taken, &count);
	uint32_t ahead = has - oldest; /* as far as a 32-bit clock goes */
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
	journal_clear(&journal, 0, 0, 0);
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
