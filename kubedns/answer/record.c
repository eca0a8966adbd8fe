#include "kubedns/answer/record.h"

#include "lib/hash.h"

/* Returns the position in the table for these bytes. If the value there is 0, the message does not have these bytes. */
static uint16_t *
table_find(struct reply *reply, const uint8_t *bytes, size_t len)
{
	struct record_table *table = reply->table;
	const struct writer *w = &reply->w;

	if (table->mask == 0) {
		uint32_t size = 64;

		while (size < 2 * (w->max - w->len) / 16)
			size *= 2;
		memset(table->offsets, 0, size * sizeof table->offsets[0]);
		table->mask = size - 1;
	}
	uint32_t i = hash_fold(hash64(reply->tree->seed, bytes, len)) & table->mask;
	for (; table->offsets[i] != 0; i = (i + 1) & table->mask) {
		size_t at = table->offsets[i];

		if (len <= w->len - at && memcmp(w->buf + at, bytes, len) == 0)
			break;
	}
	return &table->offsets[i];
}

void
record_dedup(struct reply *reply, const uint8_t *record, size_t len)
{
	uint16_t *offset = table_find(reply, record, len);
	uint8_t *p = *offset != 0 ? NULL : record_reserve(reply, len);

	if (p == NULL)
		return;
	memcpy(p, record, len);
	*offset = (uint16_t)(p - reply->w.buf);
}

bool
record_known(struct reply *reply, const uint8_t *bytes, size_t len)
{
	return *table_find(reply, bytes, len) != 0;
}

bool
record_name_is_new(struct reply *reply, size_t at, size_t len)
{
	uint16_t *offset = table_find(reply, reply->w.buf + at, len);

	if (*offset != 0)
		return false;
	*offset = (uint16_t)at;
	return true;
}
