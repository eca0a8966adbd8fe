#include "kubedns/modules/transfer/xfr_writer.h"

#include <assert.h>
#include <string.h>

#include "lib/conf_records.h"

enum {
	RECORD_FIXED = 10, /* type, class, TTL, length of RDATA */
	/* Maximum length of the records in a message. */
	RECORDS_MAX = XFR_MESSAGE_MAX - XFR_TAIL_MAX - WIRE_OPT_LEN,
};

/* The longest possible record must fit after the longest question. */
static_assert(
    DNS_HEADER + DNAME_MAX + 4 + DNAME_MAX + RECORD_FIXED + CONF_RECORDS_RDATA_MAX <= RECORDS_MAX,
    "a message holds any record");

/* Sets the start of each label of a name, including the root label. Returns the number of labels. */
static unsigned
cut(const struct dname *name, uint8_t starts[DNAME_LABELS_MAX + 1])
{
	unsigned count = 0;

	for (unsigned at = 0;; at += 1u + name->wire[at]) {
		starts[count++] = (uint8_t)at;
		if (name->wire[at] == 0)
			return count;
	}
}

static void
begin_message(struct xfr_writer *w)
{
	uint8_t starts[DNAME_LABELS_MAX + 1];
	bool first = w->messages == 0;

	memset(w->buf, 0, DNS_HEADER);
	memcpy(w->buf, w->query, 2);
	wire_put16(w->buf + 2, FLAG_QR | FLAG_AA);
	w->answers = 0;
	w->len = DNS_HEADER;
	w->last = (struct dname){ .len = 1 };
	if (!first)
		return;
	wire_put16(w->buf + 4, 1);
	memcpy(w->buf + DNS_HEADER, w->query + DNS_HEADER, w->question_len);
	w->len = DNS_HEADER + w->question_len;
	/* The question's name serves as the owner before the first record. */
	w->last.len = (uint8_t)(w->question_len - 4);
	memcpy(w->last.wire, w->query + DNS_HEADER, w->last.len);
	dname_lower(w->last.wire, w->last.len);
	for (unsigned i = cut(&w->last, starts); i-- > 0;)
		w->offsets[i] = (uint16_t)(DNS_HEADER + starts[i]);
}

void
xfr_begin(struct xfr_writer *w, uint8_t *buf)
{
	w->buf = buf;
	w->records = w->messages = 0;
	w->stopped = false;
	begin_message(w);
}

static bool
send_message(struct xfr_writer *w)
{
	wire_put16(w->buf + 6, w->answers);
	if (w->messages == 0 && w->has_edns) {
		struct writer opt = { w->buf, w->len, XFR_MESSAGE_MAX - XFR_TAIL_MAX, false };

		writer_put_opt(&opt, DNS_UDP_PAYLOAD, w->edns_do);
		w->len = opt.len;
		wire_put16(w->buf + 10, 1);
	}
	w->messages++;
	w->stopped = w->stopped || !w->send(w->arg, w->buf, w->len);
	return !w->stopped;
}

/* Writes the owner. For labels at its end that the previous owner has too, writes a compression pointer. */
static void
put_owner(struct xfr_writer *w, const struct dname *owner)
{
	uint8_t starts[DNAME_LABELS_MAX + 1], before[DNAME_LABELS_MAX + 1];
	unsigned count = cut(owner, starts), others = cut(&w->last, before);
	unsigned same = 1; /* starts with the root, which all names share */
	uint16_t offsets[DNAME_LABELS_MAX + 1];

	while (same < count && same < others) {
		const uint8_t *a = owner->wire + starts[count - 1 - same],
			      *b = w->last.wire + before[others - 1 - same];

		if (*a != *b || memcmp(a, b, 1u + *a) != 0)
			break;
		same++;
	}
	unsigned own = count - same; /* number of labels to write */
	for (unsigned i = 0; i < own; i++)
		offsets[i] = (uint16_t)(w->len + starts[i]);
	memcpy(offsets + own, w->offsets + (others - same), same * sizeof *offsets);
	memcpy(w->buf + w->len, owner->wire, starts[own]);
	w->len += starts[own];
	if (same > 1) {
		wire_put16(w->buf + w->len, 0xc000u | offsets[own]);
		w->len += 2;
	} else {
		w->buf[w->len++] = 0;
	}
	memcpy(w->offsets, offsets, count * sizeof *offsets);
	w->last = *owner;
}

bool
xfr_put(struct xfr_writer *w, const struct zone_record *record)
{
	size_t most = (size_t)record->owner->len + RECORD_FIXED + record->len;

	if (w->stopped)
		return false;
	assert(DNS_HEADER + w->question_len + most <= RECORDS_MAX);
	if (w->len + most > RECORDS_MAX) {
		if (!send_message(w))
			return false;
		begin_message(w);
	}
	put_owner(w, record->owner);
	uint8_t *p = w->buf + w->len;
	wire_put16(p, record->type);
	wire_put16(p + 2, CLASS_IN);
	wire_put32(p + 4, record->ttl_s);
	wire_put16(p + 8, record->len);
	memcpy(p + RECORD_FIXED, record->rdata, record->len);
	w->len += RECORD_FIXED + record->len;
	w->answers++;
	w->records++;
	return true;
}

bool
xfr_end(struct xfr_writer *w)
{
	return !w->stopped && send_message(w);
}
