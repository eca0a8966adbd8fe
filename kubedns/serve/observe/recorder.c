#include "kubedns/serve/observe/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"

/* record_header.info, as recorder_add() has left it. */
struct copied_info {
	enum answer_system made; /* or an enum answer_made, in its first byte */
	uint8_t rcode;
	bool truncated, filtered, fell_through;
	uint16_t size, question_len, qtype, qclass;
};
#define SAME_PLACE(member, theirs)                                                                 \
	_Static_assert(                                                                            \
	    offsetof(struct copied_info, member) ==                                                \
		offsetof(struct answer_info, theirs) - offsetof(struct answer_info, system),       \
	    "recorder_add() copies them together")
SAME_PLACE(rcode, rcode);
SAME_PLACE(truncated, truncated);
SAME_PLACE(filtered, filtered);
SAME_PLACE(size, query.id);
SAME_PLACE(question_len, query.flags);
SAME_PLACE(qtype, query.qtype);
_Static_assert(sizeof(struct copied_info) == RECORD_INFO &&
		   offsetof(struct copied_info, size) == RECORD_SIZE * sizeof(uint16_t) &&
		   offsetof(struct copied_info, question_len) == RECORD_QUESTION * sizeof(uint16_t),
    "nobody asks for ID and flags");

void
recorder_init(struct recorder *recorder, size_t bytes)
{
	memset(recorder, 0, sizeof(*recorder));
	recorder->size = (bytes > RECORDER_MIN ? bytes : RECORDER_MIN) / RECORD_WORD * RECORD_WORD;
	recorder->bytes = xmalloc(recorder->size + RECORD_MAX + RECORD_AHEAD);
	recorder->at = recorder->bytes;
	recorder->end = recorder->bytes + recorder->size;
	recorder->newest = RECORDER_END;
}

/* --- reading --- */

void
recorder_reader_init(struct recorder_reader *reader, const struct recorder *recorder)
{
	uint64_t newest = RECORD_GET(recorder->newest);
	*reader = (struct recorder_reader){ .recorder = recorder, .position = newest };
}

size_t
recorder_size(const struct recorder *recorder)
{
	return recorder->size;
}

void
recorder_copy_out(void *to, const void *from, size_t len)
{
	for (size_t i = 0; i < len / RECORD_WORD; i++)
		((record_word *)to)[i] = RECORD_GET(((const record_word *)from)[i]);
}

/* Fills `record` from a copy that is known to be whole. */
static void
fill_record(struct answer_record *record, const struct record_header *header, const uint8_t *rest)
{
	struct sockaddr_in6 peer = { 0 };
	struct copied_info info;
	memcpy(&info, &header->info, sizeof(info));
	*record = (struct answer_record){ .at_ns = header->at_ns,
		.took_ns = header->took_ns,
		.type = info.qtype,
		.size = info.size,
		.rcode = info.rcode,
		.truncated = info.truncated,
		.filtered = info.filtered,
		.tcp = (header->info.bytes[0] & RECORD_TCP) != 0,
		.made = (enum answer_made)(header->info.bytes[0] & ~RECORD_TCP) };
	if (info.question_len > 0)
		record->name.len = (uint8_t)dname_length(rest, DNAME_MAX);
	memcpy(record->name.wire, rest, record->name.len);
	rest += (record->name.len + RECORD_WORD - 1u) / RECORD_WORD * RECORD_WORD;
	memcpy(&peer, &header->peer, sizeof(header->peer));
	memcpy(&peer.sin6_addr, rest, sizeof(peer.sin6_addr)); /* if it is one */
	server_from_sockaddr((const struct sockaddr *)&peer, &record->client);
}

/* Moves to the predecessor, whose position has the same high half or one less. */
static void
step_back(struct recorder_reader *reader, uint32_t predecessor)
{
	uint64_t from = reader->position;
	reader->position = (from & ~(uint64_t)UINT32_MAX) | predecessor;
	if (predecessor == (uint32_t)from)
		reader->position = RECORDER_END;
	else if (reader->position > from)
		reader->position -= UINT64_C(1) << 32;
}

bool
recorder_read(struct recorder_reader *reader, struct answer_record *record)
{
	const struct recorder *recorder = reader->recorder;
	struct record_header header;
	uint64_t rest[(RECORD_MAX - sizeof(header)) / RECORD_WORD];
	if (reader->position == RECORDER_END)
		return false;
	const uint8_t *at = recorder->bytes + reader->position % recorder->size;
	recorder_copy_out(&header, at, sizeof(header));
	recorder_copy_out(rest, at + sizeof(header), sizeof(rest));
	if (reader->position + recorder->size < RECORD_GET(recorder->newest) + RECORDER_MARGIN) {
		reader->position = RECORDER_END;
		return false;
	}
	fill_record(record, &header, (const uint8_t *)rest);
	if (!record->tcp && record->made <= MADE_OUTSIDE) {
		if (record->at_ns == reader->batch_ns)
			record->took_ns = reader->took_ns;
		reader->batch_ns = record->at_ns;
		reader->took_ns = record->took_ns;
	}
	step_back(reader, header.predecessor);
	return true;
}

void
recorder_free(struct recorder *recorder)
{
	free(recorder->bytes);
}
