#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/rdata_text.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/probes/reply_check.h"

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
	[CAUSE_TLS_WRONG_NAME] = "tls_wrong_name",
	[CAUSE_TLS_EXPIRED] = "tls_expired",
	[CAUSE_TLS_NOT_YET_VALID] = "tls_not_yet_valid",
	[CAUSE_TLS_UNKNOWN_CA] = "tls_unknown_ca",
	[CAUSE_TLS_CERTIFICATE] = "tls_certificate",
	[CAUSE_TLS_HANDSHAKE] = "tls_handshake",
	[CAUSE_TLS_STALLED] = "tls_stalled",
	[CAUSE_TLS_CA_BUNDLE] = "tls_ca_bundle",
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
	[CAUSE_TLS_WRONG_NAME] = "certificate for another name",
	[CAUSE_TLS_EXPIRED] = "expired certificate",
	[CAUSE_TLS_NOT_YET_VALID] = "certificate is not valid yet",
	[CAUSE_TLS_UNKNOWN_CA] = "certificate of an unknown CA",
	[CAUSE_TLS_CERTIFICATE] = "certificate is not acceptable",
	[CAUSE_TLS_HANDSHAKE] = "TLS handshake failed",
	[CAUSE_TLS_STALLED] = "TLS handshake stalled",
	[CAUSE_TLS_CA_BUNDLE] = "CA bundle cannot be read",
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

/* Whether the question section equals our question. In an error response the section may be missing, because some servers drop it. */
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

/* Finds an Extended DNS Error in the options of the OPT record. Returns false if the options are malformed. */
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

/* Returns the number of bytes before the domain name at the end of this type's RDATA. The name may be compressed. Returns -1 if RDATA of
 * this type has no name. */
static int
bytes_before_name(uint16_t type)
{
	switch (type) {
	case TYPE_CNAME:
	case TYPE_NS:
	case TYPE_PTR:
		return 0;
	case TYPE_MX:
		return 2;
	case TYPE_SRV:
		return 6;
	default:
		return -1;
	}
}

static void
print_record(FILE *out, const struct reply_walk *walk)
{
	const struct record *record = &walk->record;
	int fixed = bytes_before_name(record->type);
	uint8_t expanded[6 + DNAME_MAX];
	char name[DNAME_TEXT_MAX], type[12];
	struct dname target;

	fprintf(out, "%s %u %s ", dname_to_text(record->owner.wire, name), record->ttl_s,
	    type_name(record->type, type));
	if (fixed >= 0 && reply_walk_target(walk, (size_t)fixed, &target) == 0) {
		memcpy(expanded, record->rdata, (size_t)fixed);
		memcpy(expanded + fixed, target.wire, target.len);
		rdata_print(out, record->type, expanded, (size_t)fixed + target.len);
	} else
		rdata_print(out, record->type, record->rdata, record->rdata_len);
	fputc('\n', out);
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
