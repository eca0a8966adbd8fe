/* Handles queries for zone transfers: checks permissions, refuses, and makes jobs for the stream threads. Also writes the replies, with
 * header, question, OPT and TSIG. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/modules/transfer/transfer_internal.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

int64_t
tsig_now_s(void)
{
	return clock_wall_ns() / NS_PER_S;
}

/* --- the query's TSIG --- */

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
	const struct module_message *ask = asked->ask;
	enum tsig_read read = tsig_read(ask->query, ask->query_len, &asked->tsig);

	if (read == TSIG_MALFORMED)
		asked->error = TSIG_FORMERR;
	else if (read == TSIG_FOUND && !tsig_ring_find(t->keys, &asked->tsig, &asked->chain.key))
		asked->error = TSIG_BADKEY;
	else if (read == TSIG_FOUND)
		asked->error = tsig_verify(ask->query, &asked->tsig, &asked->chain, tsig_now_s());
	/* A BADTIME reply is signed. The client can then trust the time in it. */
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
		    "BADSIG: the secrets differ, or the message was changed on its way");
	case TSIG_BADTRUNC:
		return find_fault(asked, REFUSED_SIGNATURE, "BADTRUNC: the MAC is truncated");
	case TSIG_BADTIME:
		return find_fault(
		    asked, REFUSED_TIME, "BADTIME: the clocks of both servers differ too much");
	default:
		return find_fault(asked, REFUSED_MESSAGE, "a malformed TSIG");
	}
}

/* --- the reply --- */

struct writer
asked_begin(const struct asked *asked, unsigned flags)
{
	const struct module_message *ask = asked->ask;
	size_t question = ask->question->question_len;

	memset(ask->out, 0, DNS_HEADER);
	memcpy(ask->out, ask->query, 2);
	wire_put16(ask->out + 2, FLAG_QR | (ask->question->flags & FLAG_RD) | flags);
	wire_put16(ask->out + 4, 1);
	memcpy(ask->out + DNS_HEADER, ask->query + DNS_HEADER, question);
	return (struct writer){ ask->out, DNS_HEADER + question, ask->max, false };
}

/* Adds a TSIG if the reply needs it. Returns the new length, or 0 if the TSIG does not fit. */
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
	/* If the reply does not fit, only the question is sent, with TC (RFC 8945 section 5.3). */
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

/* --- permissions, refusals, jobs --- */

static size_t
refuse(struct transfer *t, struct asked *asked, enum transfer_refusal why, unsigned rcode,
    const char *text)
{
	const struct module_message *ask = asked->ask;
	struct server client;
	char name[DNAME_TEXT_MAX], from[ADDR_TEXT_MAX] = "?", code[12];

	atomic_fetch_add(&t->refused[why], 1);
	if (server_from_sockaddr(ask->peer, &client) == 0)
		addr_format(&client.addr, from);
	log_neterr("transfer of %s to %s: %s: %s", dname_to_text(ask->question->qname, name), from,
	    rcode_name(rcode, code), text);
	return asked_rcode(asked, rcode);
}

static bool
may_have(const struct transfer_rules *rules, const struct addr *client)
{
	for (size_t i = 0; i < rules->to_count; i++)
		if (rules->to[i].addr.family == client->family &&
		    addr_in_prefix(client, &rules->to[i].addr, rules->to[i].bits))
			return true;
	return false;
}

static uint32_t
newest_serial(const struct transfer *t, const struct asked *asked, size_t zone)
{
	const struct zone_trees now = zone_trees_now(t->answers, asked->ask->tree);

	return zone_serial(t->answers, zone_at(t->answers, zone), &now);
}

/* Writes the answer to an SOA query. IXFR over UDP gets the same answer, and the client then retries over TCP (RFC 1995 section 2). */
static size_t
put_soa(const struct transfer *t, struct asked *asked, size_t zone)
{
	uint8_t rdata[SOA_RDATA_MAX];
	size_t len =
	    zone_soa(t->answers, zone_at(t->answers, zone), newest_serial(t, asked, zone), rdata);
	struct writer w = asked_begin(asked, FLAG_AA);

	wire_put16(w.buf + 6, 1);
	writer_put16(&w, 0xc000 | DNS_HEADER);
	writer_put16(&w, TYPE_SOA);
	writer_put16(&w, CLASS_IN);
	writer_put32(&w, t->answers->ttl_s);
	writer_put16(&w, (unsigned)len);
	writer_put(&w, rdata, len);
	return asked_end(asked, &w);
}

/* Adds a job, unless there are too many. */
static bool
queue_job(struct transfer *t, struct job *made)
{
	unsigned of_client = 0;
	struct job *job;

	pthread_mutex_lock(&t->lock);
	TAILQ_FOREACH(job, &t->jobs, by_age)
	of_client += addr_equal(&job->client, &made->client);
	bool fits =
	    t->job_count < QUEUE_MAX && of_client < QUEUE_CLIENT_MAX && !atomic_load(&t->stop);
	if (fits) {
		TAILQ_INSERT_TAIL(&t->jobs, made, by_age);
		t->job_count++;
		pthread_cond_signal(&t->wake);
	}
	pthread_mutex_unlock(&t->lock);
	return fits;
}

static size_t
start_stream(struct transfer *t, struct asked *asked, size_t zone, const struct addr *client)
{
	const struct module_message *ask = asked->ask;
	bool incremental = ask->question->qtype == TYPE_IXFR;
	uint32_t has = 0;

	if (incremental &&
	    ixfr_serial(ask->query, ask->query_len, ask->question->question_len, &has) < 0)
		return refuse(t, asked, REFUSED_MESSAGE, RCODE_FORMERR, "an IXFR without its SOA");
	struct job *job = xcalloc(1, sizeof *job);
	*job = (struct job){ .incremental = incremental,
		.has = has,
		.fd = fcntl(ask->fd, F_DUPFD_CLOEXEC, 0),
		.client = *client,
		.end = ask->end,
		.zone = zone,
		.wants = newest_serial(t, asked, zone),
		.queued_ms = clock_mono_ms(),
		.is_signed = asked->is_signed,
		.chain = asked->chain,
		.question = *ask->question,
		.query_len = ask->query_len };
	memcpy(job->query, ask->query, ask->query_len);
	if (job->fd >= 0 && queue_job(t, job))
		return 0;
	if (job->fd >= 0)
		close(job->fd);
	free(job);
	return refuse(t, asked, REFUSED_QUEUE, RCODE_REFUSED, "too many are waiting");
}

/* Returns the reason why the client may not transfer the zone, or NULL. */
static const char *
content_refusal(const struct transfer *t, const struct asked *asked, const struct addr *client,
    enum transfer_refusal *why)
{
	*why = REFUSED_ADDRESS;
	if (!may_have(t->rules, client))
		return "not in --transfer-to";
	*why = REFUSED_KEY;
	if (t->keys != NULL && !asked->is_signed)
		return "not signed with a key of --transfer-key";
	return NULL;
}

bool
transfer_takes(const struct transfer *t, const struct answer_config *answers,
    const struct query *query, bool has_tsig)
{
	return query->qtype == TYPE_AXFR || query->qtype == TYPE_IXFR ||
	       (has_tsig && t->keys != NULL && query->qtype == TYPE_SOA &&
		   zone_index(answers, query->qname) >= 0);
}

size_t
transfer_answer(struct transfer *t, const struct module_message *ask)
{
	struct asked asked = { .ask = ask };
	struct server client = { .addr = { .family = AF_UNSPEC } };
	bool content = ask->question->qtype != TYPE_SOA;
	enum transfer_refusal why;
	const char *text;

	if (ask->query_len > QUERY_MAX)
		return refuse(t, &asked, REFUSED_MESSAGE, RCODE_FORMERR, "the message is too long");
	if (t->keys != NULL && !asked_verify(t, &asked))
		return refuse(t, &asked, asked.refusal,
		    asked.error == TSIG_FORMERR ? RCODE_FORMERR : RCODE_NOTAUTH, asked.why);
	server_from_sockaddr(ask->peer, &client);
	if (content && (text = content_refusal(t, &asked, &client.addr, &why)) != NULL)
		return refuse(t, &asked, why, RCODE_REFUSED, text);
	int zone = zone_index(ask->answers, ask->question->qname);
	if (zone < 0 || !zone_is_answered(ask->answers, zone_at(ask->answers, (size_t)zone)))
		return refuse(t, &asked, REFUSED_ZONE, RCODE_NOTAUTH, "not a zone of this server");
	const struct zone_trees now = zone_trees_now(t->answers, ask->tree);
	if (!zone_is_synced(t->answers, zone_at(t->answers, (size_t)zone), &now))
		return asked_rcode(&asked, RCODE_SERVFAIL);
	if (content && ask->fd >= 0)
		return start_stream(t, &asked, (size_t)zone, &client.addr);
	if (ask->question->qtype == TYPE_AXFR)
		return refuse(t, &asked, REFUSED_MESSAGE, RCODE_REFUSED, "AXFR needs TCP");
	return put_soa(t, &asked, (size_t)zone);
}
