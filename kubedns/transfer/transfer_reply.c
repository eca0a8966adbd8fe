/* Replies to questions for a zone: header, question, OPT and TSIG; and whether a question's own TSIG
 * is good. */
#include <string.h>

#include "kubedns/transfer/transfer_internal.h"
#include "lib/clock.h"

int64_t
tsig_now_s(void)
{
	return clock_wall_ns() / NS_PER_S;
}

/* --- the question's TSIG --- */

static bool
find_fault(struct asked *asked, enum transfer_refusal refusal, const char *why)
{
	asked->refusal = refusal;
	asked->why = why;
	return false;
}

bool
asked_verify(struct transfer *t, struct asked *asked)
{
	const struct transfer_ask *ask = asked->ask;
	enum tsig_read read = tsig_read(ask->query, ask->query_len, &asked->tsig);

	if (read == TSIG_MALFORMED)
		asked->error = TSIG_FORMERR;
	else if (read == TSIG_FOUND && !tsig_ring_find(t->keys, &asked->tsig, &asked->chain.key))
		asked->error = TSIG_BADKEY;
	else if (read == TSIG_FOUND)
		asked->error = tsig_verify(ask->query, &asked->tsig, &asked->chain, tsig_now_s());
	/* A BADTIME reply is signed: the client can trust the time in it. */
	asked->is_signed =
	    read == TSIG_FOUND && (asked->error == TSIG_NOERROR || asked->error == TSIG_BADTIME);
	switch (asked->error) {
	case TSIG_NOERROR:
		return true;
	case TSIG_BADKEY:
		return find_fault(asked, REFUSED_KEY,
		    "BADKEY: no key of --transfer-key has this name and algorithm");
	case TSIG_BADSIG:
		return find_fault(asked, REFUSED_SIGNATURE,
		    "BADSIG: the secret is another, or the message was changed on its way");
	case TSIG_BADTRUNC:
		return find_fault(asked, REFUSED_SIGNATURE, "BADTRUNC: the MAC is cut");
	case TSIG_BADTIME:
		return find_fault(asked, REFUSED_TIME,
		    "BADTIME: its clock and ours differ by more than it allows");
	default:
		return find_fault(asked, REFUSED_MESSAGE, "a malformed TSIG");
	}
}

/* --- the reply --- */

struct writer
asked_begin(const struct asked *asked, unsigned flags)
{
	const struct transfer_ask *ask = asked->ask;
	size_t question = ask->question->question_len;

	memset(ask->out, 0, DNS_HEADER);
	memcpy(ask->out, ask->query, 2);
	wire_put16(ask->out + 2, FLAG_QR | (ask->question->flags & FLAG_RD) | flags);
	wire_put16(ask->out + 4, 1);
	memcpy(ask->out + DNS_HEADER, ask->query + DNS_HEADER, question);
	return (struct writer){ ask->out, DNS_HEADER + question, ask->max, false };
}

/* The length with a TSIG, if there has to be one; 0: it does not fit. */
static size_t
sign(struct asked *asked, size_t len)
{
	uint8_t *out = asked->ask->out;
	size_t max = asked->ask->max;

	if (asked->is_signed)
		return tsig_sign(out, len, max, &asked->chain, tsig_now_s(),
		    asked->error == TSIG_BADTIME ? &asked->tsig : NULL);
	if (asked->error != TSIG_NOERROR && asked->error != TSIG_FORMERR)
		return tsig_put_error(out, len, max, &asked->tsig, asked->error, tsig_now_s());
	return len;
}

size_t
asked_end(struct asked *asked, struct writer *w)
{
	const struct query *question = asked->ask->question;
	size_t len;

	if (question->has_edns) { /* RFC 6891 section 6.1.1 */
		wire_put16(w->buf + 10, 1);
		writer_put_opt(w, DNS_UDP_PAYLOAD, question->edns_do);
	}
	if (!w->overflow && (len = sign(asked, w->len)) > 0)
		return len;
	/* RFC 8945 section 5.3: the question alone, and TC, where it does not fit. */
	struct writer cut = asked_begin(asked, FLAG_TC | (wire_get16(w->buf + 2) & (FLAG_AA | 15)));
	len = sign(asked, cut.len);
	return len > 0 ? len : cut.len;
}

size_t
asked_rcode(struct asked *asked, unsigned rcode)
{
	struct writer w = asked_begin(asked, rcode);

	return asked_end(asked, &w);
}
