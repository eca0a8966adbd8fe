#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/addr.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/probes/dns_reply.h"

static const char *const labels[] = {
	[CAUSE_OK] = "ok",
	[CAUSE_NOT_READY] = "not_ready",
	[CAUSE_TIMEOUT] = "timeout",
	[CAUSE_CONNECTION_REFUSED] = "connection_refused",
	[CAUSE_UNREACHABLE] = "unreachable",
	[CAUSE_MALFORMED] = "malformed",
	[CAUSE_WRONG_ID] = "wrong_id",
	[CAUSE_NXDOMAIN] = "nxdomain",
	[CAUSE_SERVFAIL] = "servfail",
	[CAUSE_REFUSED] = "refused",
	[CAUSE_RCODE] = "rcode",
	[CAUSE_NO_RECORDS] = "no_records",
};

static const char *const texts[] = {
	[CAUSE_OK] = "",
	[CAUSE_NOT_READY] = "not ready",
	[CAUSE_TIMEOUT] = "timeout",
	[CAUSE_CONNECTION_REFUSED] = "connection refused",
	[CAUSE_UNREACHABLE] = "unreachable",
	[CAUSE_MALFORMED] = "malformed",
	[CAUSE_WRONG_ID] = "wrong ID",
	[CAUSE_NXDOMAIN] = "NXDOMAIN",
	[CAUSE_SERVFAIL] = "SERVFAIL",
	[CAUSE_REFUSED] = "REFUSED",
	[CAUSE_NO_RECORDS] = "no records",
};

const char *
cause_label(enum cause cause)
{
	return labels[cause];
}

const char *
cause_text(enum cause cause, unsigned rcode, char *text)
{
	char name[12];

	snprintf(text, CAUSE_TEXT_MAX, "%s",
	    cause == CAUSE_RCODE ? rcode_name(rcode, name) : texts[cause]);
	return text;
}

/* Whether the question section is ours. Errors may come without one: some servers drop it. */
static bool
same_question(const struct question *question, const uint8_t *wire, size_t len)
{
	unsigned count = wire_get16(wire + 4);
	size_t at = DNS_HEADER;
	struct dname name;

	if (count == 0)
		return (wire[3] & 15) != RCODE_NOERROR;
	return count == 1 && wire_read_name(wire, len, &at, &name) == 0 && len - at >= 4 &&
	       dname_equal(name.wire, question->name.wire) &&
	       wire_get16(wire + at) == question->type &&
	       wire_get16(wire + at + 2) == question->class;
}

/* Finds an Extended DNS Error among the OPT record's options; false if they do not fit. */
static bool
read_options(struct dns_reply *reply, const struct record *opt)
{
	const uint8_t *p = opt->rdata;
	size_t left = opt->rdata_len;

	reply->rcode |= opt->ttl_s >> 24 << 4;
	while (left > 0) {
		if (left < 4 || wire_get16(p + 2) > left - 4)
			return false;
		size_t len = wire_get16(p + 2);
		if (wire_get16(p) == OPTION_EDE && len >= 2 && reply->ede < 0)
			reply->ede = wire_get16(p + 4);
		p += 4 + len;
		left -= 4 + len;
	}
	return true;
}

static bool
read_sections(struct dns_reply *reply, const uint8_t *wire, size_t len)
{
	struct reply_walk walk;
	int more;

	if (!reply_walk_begin(&walk, wire, len))
		return false;
	reply->answers = walk.left[WALK_ANSWER];
	while ((more = reply_walk_next(&walk)) > 0)
		if (walk.record.type == TYPE_OPT &&
		    (walk.section != WALK_ADDITIONAL || walk.record.owner.len != 1 ||
			!read_options(reply, &walk.record)))
			return false;
	return more == 0 && reply_walk_ended(&walk);
}

static enum cause
judge(const struct dns_reply *reply)
{
	switch (reply->rcode) {
	case RCODE_NOERROR:
		return reply->answers > 0 ? CAUSE_OK : CAUSE_NO_RECORDS;
	case RCODE_NXDOMAIN:
		return CAUSE_NXDOMAIN;
	case RCODE_SERVFAIL:
		return reply->ede == EDE_NOT_READY ? CAUSE_NOT_READY : CAUSE_SERVFAIL;
	case RCODE_REFUSED:
		return CAUSE_REFUSED;
	default:
		return CAUSE_RCODE;
	}
}

enum dns_reply_kind
dns_reply_read(
    struct dns_reply *reply, const struct question *question, const uint8_t *wire, size_t len)
{
	*reply = (struct dns_reply){ .cause = CAUSE_MALFORMED, .ede = -1 };
	if (len < DNS_HEADER)
		return DNS_REPLY_STRAY;
	if (wire_get16(wire) != question->id) {
		reply->cause = CAUSE_WRONG_ID;
		return DNS_REPLY_STRAY;
	}
	unsigned flags = wire_get16(wire + 2);
	reply->rcode = flags & 15;
	if (!(flags & FLAG_QR) || (flags >> 11 & 15) != 0 || !same_question(question, wire, len))
		return DNS_REPLY_STRAY;
	if (flags & FLAG_TC)
		return DNS_REPLY_TRUNCATED;
	if (read_sections(reply, wire, len))
		reply->cause = judge(reply);
	return DNS_REPLY_DONE;
}

int
dns_reply_strings(const uint8_t *wire, size_t len, const struct question *question,
    void (*each)(void *arg, const uint8_t *string, size_t len), void *arg)
{
	struct reply_walk walk;
	int strings = 0, more;

	if (!reply_walk_begin(&walk, wire, len))
		return -EBADMSG;
	while ((more = reply_walk_next(&walk)) > 0 && walk.section == WALK_ANSWER) {
		if (walk.record.type != TYPE_TXT || walk.record.class != question->class)
			continue;
		const uint8_t *p = walk.record.rdata, *end = p + walk.record.rdata_len;
		while (p < end) {
			size_t string_len = *p++;

			if (string_len > (size_t)(end - p))
				return -EBADMSG;
			each(arg, p, string_len);
			strings++;
			p += string_len;
		}
	}
	return more < 0 ? more : strings;
}

/* A character-string in quotes, everything except plain printable ASCII as \DDD (RFC 1035 section
 * 5.1). */
static void
print_string(FILE *out, const uint8_t *p, size_t len)
{
	fputc('"', out);
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '"' || p[i] == '\\')
			fprintf(out, "\\%c", p[i]);
		else if (p[i] < ' ' || p[i] > '~')
			fprintf(out, "\\%03u", p[i]);
		else
			fputc(p[i], out);
	}
	fputc('"', out);
}

static bool
print_strings(FILE *out, const struct record *record)
{
	const uint8_t *p = record->rdata, *end = p + record->rdata_len;

	while (p < end) {
		size_t len = *p++;

		if (len > (size_t)(end - p))
			return false;
		fputc(' ', out);
		print_string(out, p, len);
		p += len;
	}
	return true;
}

/* 16-bit numbers, so many, then a name: CNAME, PTR, NS (0), MX (1), SRV (3). */
static bool
print_name(FILE *out, const struct reply_walk *walk, unsigned numbers)
{
	struct dname name;
	char text[DNAME_TEXT_MAX];

	if (reply_walk_target(walk, 2 * numbers, &name) < 0)
		return false;
	for (unsigned i = 0; i < numbers; i++)
		fprintf(out, " %u", wire_get16(walk->record.rdata + 2 * i));
	fprintf(out, " %s", dname_to_text(name.wire, text));
	return true;
}

static bool
print_address(FILE *out, const struct record *record)
{
	struct addr addr = { .family = record->type == TYPE_A ? AF_INET : AF_INET6 };
	char text[ADDR_TEXT_MAX];

	if (record->rdata_len != addr_len(&addr))
		return false;
	memcpy(addr.bytes, record->rdata, record->rdata_len);
	fprintf(out, " %s", addr_format(&addr, text));
	return true;
}

static bool
print_known(FILE *out, const struct reply_walk *walk)
{
	const struct record *record = &walk->record;

	switch (record->type) {
	case TYPE_A:
	case TYPE_AAAA:
		return print_address(out, record);
	case TYPE_CNAME:
	case TYPE_NS:
	case TYPE_PTR:
		return print_name(out, walk, 0);
	case 15: /* MX */
		return print_name(out, walk, 1);
	case TYPE_SRV:
		return print_name(out, walk, 3);
	case TYPE_TXT:
	case TYPE_HINFO:
		return print_strings(out, record);
	default:
		return false;
	}
}

/* RFC 3597 section 5. */
static void
print_unknown(FILE *out, const struct record *record)
{
	fprintf(out, " \\# %u ", record->rdata_len);
	for (unsigned i = 0; i < record->rdata_len; i++)
		fprintf(out, "%02x", record->rdata[i]);
}

static void
print_record(FILE *out, const struct reply_walk *walk)
{
	const struct record *record = &walk->record;
	char name[DNAME_TEXT_MAX], type[12];
	char *rdata = NULL;
	size_t rdata_size = 0;
	FILE *known = open_memstream(&rdata, &rdata_size);

	if (known == NULL)
		return;
	bool ok = print_known(known, walk);
	fclose(known);
	fprintf(out, "%s %u %s", dname_to_text(record->owner.wire, name), record->ttl_s,
	    type_name(record->type, type));
	if (ok)
		fputs(rdata, out);
	else
		print_unknown(out, record);
	fputc('\n', out);
	free(rdata);
}

char *
dns_reply_text(const uint8_t *wire, size_t len, unsigned max)
{
	struct reply_walk walk;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return xstrdup("");
	bool whole = reply_walk_begin(&walk, wire, len);
	for (unsigned i = 0; whole && walk.left[WALK_ANSWER] > 0; i++) {
		if (i == max) {
			fprintf(out, "and %u more\n", walk.left[WALK_ANSWER]);
			break;
		}
		if (reply_walk_next(&walk) < 0)
			break;
		print_record(out, &walk);
	}
	fclose(out);
	return text;
}
