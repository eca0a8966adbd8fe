/* Questions for a zone: who may have it, the refusals, and the jobs for the stream threads. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/transfer/transfer_internal.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* The header and the question. */
static size_t
put_head(const struct transfer_ask *ask, unsigned flags)
{
	size_t question = ask->question->question_len;

	memset(ask->out, 0, DNS_HEADER);
	memcpy(ask->out, ask->query, 2);
	wire_put16(ask->out + 2, FLAG_QR | (ask->question->flags & FLAG_RD) | flags);
	wire_put16(ask->out + 4, 1);
	memcpy(ask->out + DNS_HEADER, ask->query + DNS_HEADER, question);
	return DNS_HEADER + question;
}

/* Ends a reply: with an OPT if the query had one (RFC 6891 section 6.1.1). */
static size_t
end_reply(const struct transfer_ask *ask, struct writer *w)
{
	if (ask->question->has_edns) {
		wire_put16(ask->out + 10, 1);
		writer_put_opt(w, DNS_UDP_PAYLOAD, ask->question->edns_do);
	}
	return w->len;
}

/* Nothing but this rcode. */
static size_t
put_rcode(const struct transfer_ask *ask, unsigned rcode)
{
	struct writer w = { ask->out, put_head(ask, rcode), ask->max, false };

	return end_reply(ask, &w);
}

static size_t
refuse(struct transfer *t, const struct transfer_ask *ask, enum transfer_refusal why,
    unsigned rcode, const char *text)
{
	struct server client;
	char name[DNAME_TEXT_MAX], from[ADDR_TEXT_MAX] = "?", code[12];

	atomic_fetch_add(&t->refused[why], 1);
	if (server_from_sockaddr(ask->peer, &client) == 0)
		addr_format(&client.addr, from);
	log_neterr("transfer of %s to %s: %s: %s", dname_to_text(ask->question->qname, name), from,
	    rcode_name(rcode, code), text);
	return put_rcode(ask, rcode);
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

/* The snapshot with the zone which is published now. */
static const struct tree *
newest_tree(const struct transfer *t, const struct transfer_ask *ask, size_t zone)
{
	return zone_is_external(t->answers, zone) ? tree_current(t->external) : ask->tree;
}

/* Over UDP the answer to IXFR is the SOA alone: the client then asks over TCP (RFC 1995 section
 * 2). */
static size_t
put_soa(const struct transfer *t, const struct transfer_ask *ask, size_t zone)
{
	uint8_t rdata[SOA_RDATA_MAX];
	size_t len = zone_soa(t->answers, zone, newest_tree(t, ask, zone)->serial, rdata);
	struct writer w = { ask->out, put_head(ask, FLAG_AA), ask->max, false };

	wire_put16(ask->out + 6, 1);
	writer_put16(&w, 0xc000 | DNS_HEADER);
	writer_put16(&w, TYPE_SOA);
	writer_put16(&w, CLASS_IN);
	writer_put32(&w, t->answers->ttl_s);
	writer_put16(&w, (unsigned)len);
	writer_put(&w, rdata, len);
	return end_reply(ask, &w);
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
	bool room =
	    t->job_count < QUEUE_MAX && of_client < QUEUE_CLIENT_MAX && !atomic_load(&t->stop);
	if (room) {
		TAILQ_INSERT_TAIL(&t->jobs, made, by_age);
		t->job_count++;
		pthread_cond_signal(&t->wake);
	}
	pthread_mutex_unlock(&t->lock);
	return room;
}

/* The serial that an IXFR's client has, of the SOA in the authority section; 0 or -EBADMSG. */
static int
read_serial(const struct transfer_ask *ask, uint32_t *serial)
{
	size_t at = DNS_HEADER + ask->question->question_len;
	struct record record;
	struct dname name;

	if (wire_get16(ask->query + 6) != 0 || wire_get16(ask->query + 8) != 1 ||
	    wire_read_record(ask->query, ask->query_len, &at, &record) < 0 ||
	    record.type != TYPE_SOA)
		return -EBADMSG;
	at = (size_t)(record.rdata - ask->query);
	for (int i = 0; i < 2; i++) /* MNAME, RNAME */
		if (wire_read_name(ask->query, record.end, &at, &name) < 0)
			return -EBADMSG;
	if (record.end - at != 20)
		return -EBADMSG;
	*serial = wire_get32(ask->query + at);
	return 0;
}

static size_t
start_stream(
    struct transfer *t, const struct transfer_ask *ask, size_t zone, const struct addr *client)
{
	bool incremental = ask->question->qtype == TYPE_IXFR;
	uint32_t has = 0;

	if (incremental && read_serial(ask, &has) < 0)
		return refuse(t, ask, REFUSED_MESSAGE, RCODE_FORMERR, "an IXFR without its SOA");
	struct job *job = xcalloc(1, sizeof *job);
	*job = (struct job){ .incremental = incremental,
		.has = has,
		.fd = fcntl(ask->fd, F_DUPFD_CLOEXEC, 0),
		.client = *client,
		.end = ask->end,
		.zone = zone,
		.wants = newest_tree(t, ask, zone)->serial,
		.queued_ms = clock_mono_ms(),
		.question = *ask->question,
		.query_len = ask->query_len };
	memcpy(job->query, ask->query, ask->query_len);
	if (job->fd >= 0 && queue_job(t, job))
		return 0;
	if (job->fd >= 0)
		close(job->fd);
	free(job);
	return refuse(t, ask, REFUSED_QUEUE, RCODE_REFUSED, "too many are waiting");
}

size_t
transfer_answer(struct transfer *t, const struct transfer_ask *ask)
{
	struct server client;

	if (t == NULL)
		return put_rcode(ask, RCODE_REFUSED);
	if (server_from_sockaddr(ask->peer, &client) < 0 || !may_have(t->rules, &client.addr))
		return refuse(t, ask, REFUSED_ADDRESS, RCODE_REFUSED, "not in --transfer-to");
	int zone = zone_index(t->answers, ask->question->qname);
	if (zone < 0 ||
	    (ask->answers->external_only && !zone_is_external(t->answers, (size_t)zone)))
		return refuse(t, ask, REFUSED_ZONE, RCODE_NOTAUTH, "no zone of ours");
	if (!newest_tree(t, ask, (size_t)zone)->synced)
		return put_rcode(ask, RCODE_SERVFAIL);
	if (ask->query_len > QUERY_MAX)
		return refuse(t, ask, REFUSED_MESSAGE, RCODE_FORMERR, "the message is too long");
	if (ask->fd >= 0)
		return start_stream(t, ask, (size_t)zone, &client.addr);
	if (ask->question->qtype == TYPE_AXFR)
		return refuse(t, ask, REFUSED_MESSAGE, RCODE_REFUSED, "AXFR is over TCP alone");
	return put_soa(t, ask, (size_t)zone);
}
