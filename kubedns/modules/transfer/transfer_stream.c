/* Runs one transfer. Writes a version's tree to a connection as messages. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "kubedns/modules/transfer/transfer_internal.h"
#include "kubedns/modules/transfer/xfr_writer.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

struct stream {
	struct transfer *transfer;
	const struct job *job;
	uint32_t serial;
	struct xfr_writer writer;
	struct tsig_chain chain; /* used if the job is signed */
	int64_t begun_ms;
	int64_t worked_since_ns;
	uint64_t bytes;
	const char *failure; /* NULL if there is none */
	uint8_t buf[2 + XFR_MESSAGE_MAX];
};

static bool
fail(struct stream *s, const char *why)
{
	s->failure = why;
	return false;
}

/* Sends all bytes, while the client accepts them. */
static bool
send_all(struct stream *s, const uint8_t *bytes, size_t len)
{
	int64_t deadline_ms = clock_mono_ms() + STALL_MS;
	struct pollfd fd = { .fd = s->job->fd, .events = POLLOUT };

	while (len > 0) {
		int64_t left_ms = deadline_ms - clock_mono_ms();
		ssize_t n = send(fd.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
			s->bytes += (uint64_t)n;
		} else if (errno != EAGAIN && errno != EINTR) {
			return fail(s, "the client has closed the connection");
		} else if (left_ms <= 0) {
			return fail(s, "the client stopped reading");
		} else {
			poll(&fd, 1, (int)left_ms);
		}
		if (atomic_load(&s->transfer->stop))
			return fail(s, "kubedns is shutting down");
	}
	return true;
}

/* Sleeps for as long as the last message took, because queries have priority over transfers. */
static void
give_way(struct stream *s)
{
	int64_t worked_ns = clock_mono_ns() - s->worked_since_ns;
	struct timespec pause = { .tv_nsec = worked_ns > 10000000 ? 10000000 : worked_ns };

	nanosleep(&pause, NULL);
}

static bool
send_message(void *arg, uint8_t *message, size_t len)
{
	struct stream *s = arg;

	give_way(s);
	if (s->job->is_signed) /* XFR_TAIL_MAX leaves space for the TSIG */
		len = tsig_sign(message, len, XFR_MESSAGE_MAX, &s->chain, tsig_now_s(), NULL);
	assert(len > 0);
	wire_put16(message - 2, (unsigned)len);
	if (!send_all(s, message - 2, len + 2))
		return false;
	if (clock_mono_ms() - s->begun_ms > TRANSFER_MS)
		return fail(s, "the transfer takes too long");
	if (s->job->version < atomic_load(&s->transfer->cut_before))
		return fail(s, "the transfer keeps too much memory in use");
	s->worked_since_ns = clock_mono_ns();
	return true;
}

static bool
take_record(void *arg, const struct zone_record *record)
{
	struct stream *s = arg;

	return xfr_put(&s->writer, record);
}

static bool
put_soa(struct stream *s, uint32_t serial)
{
	const struct answer_config *config = s->transfer->answers;
	uint8_t rdata[SOA_RDATA_MAX];
	size_t len = zone_soa(config, zone_at(config, s->job->zone), serial, rdata);
	const struct zone_record soa = { zone_name(config, s->job->zone), config->ttl_s, TYPE_SOA,
		(uint16_t)len, rdata };

	return xfr_put(&s->writer, &soa);
}

/* Sends the zone between two copies of its SOA (RFC 5936 section 2.2). */
static bool
send_zone(struct stream *s, const struct zone_hold *version)
{
	struct zone_walk walk = { .config = s->transfer->answers,
		.trees = zone_hold_trees(version),
		.take = take_record,
		.arg = s };

	zone_walk_begin(&walk);
	bool whole = zone_walk_zone(&walk, s->job->zone);
	zone_walk_end(&walk);
	return whole && put_soa(s, s->serial) && xfr_end(&s->writer);
}

/*
 * Sends the changes from the client's serial to ours (RFC 1995 section 4). Each change is the old SOA with the removed records, then the
 * new SOA with the added records. A version that changed nothing in this zone is merged into the next version. The last change has our
 * serial.
 */
static bool
send_changes(struct stream *s)
{
	uint32_t at = s->job->has;
	bool open = put_soa(s, s->serial);

	for (size_t i = 0; i < s->job->change_count && open; i++) {
		const struct change *change = s->job->changes[i];

		open = put_soa(s, at) && change_records(change, CHANGE_WENT, take_record, s) &&
		       put_soa(s, change->to) &&
		       change_records(change, CHANGE_CAME, take_record, s);
		at = change->to;
	}
	if (open && at != s->serial)
		open = put_soa(s, at) && put_soa(s, s->serial);
	return open && put_soa(s, s->serial) && xfr_end(&s->writer);
}

static bool
send_all_of(struct stream *s, const struct zone_hold *version)
{
	switch (s->job->kind) {
	case KIND_IXFR:
		return send_changes(s);
	case KIND_CURRENT:
		return put_soa(s, s->serial) && xfr_end(&s->writer);
	default:
		return send_zone(s, version);
	}
}

static void
say(const struct stream *s)
{
	char zone[DNAME_TEXT_MAX], client[ADDR_TEXT_MAX];
	double seconds = (double)(clock_mono_ms() - s->begun_ms) / 1000;

	dname_to_text(zone_name(s->transfer->answers, s->job->zone)->wire, zone);
	addr_format(&s->job->client, client);
	const char *kind = s->job->kind == KIND_IXFR ? "IXFR" : "AXFR";
	if (s->job->kind == KIND_CURRENT)
		return;
	if (s->failure == NULL)
		log_info("transfer of %s to %s: %s, serial %u, %llu records, %llu bytes, %.3f s",
		    zone, client, kind, s->serial, (unsigned long long)s->writer.records,
		    (unsigned long long)s->bytes, seconds);
	else
		log_neterr("transfer of %s to %s: %s, serial %u, ended after %llu bytes and "
			   "%.3f s: %s",
		    zone, client, kind, s->serial, (unsigned long long)s->bytes, seconds,
		    s->failure);
}

bool
transfer_stream(struct transfer *t, struct job *job, const struct zone_hold *version)
{
	struct stream *s = xmalloc(sizeof *s);

	memset(s, 0, offsetof(struct stream, buf));
	s->transfer = t;
	s->job = job;
	s->serial = version_serial(version, t->answers, job->zone);
	s->begun_ms = clock_mono_ms();
	s->worked_since_ns = clock_mono_ns();
	s->chain = job->chain;
	s->writer = (struct xfr_writer){ .send = send_message,
		.arg = s,
		.query = job->query,
		.question_len = job->question.question_len,
		.has_edns = job->question.has_edns,
		.edns_do = job->question.edns_do };
	xfr_begin(&s->writer, s->buf + 2);
	bool whole = send_all_of(s, version);
	atomic_fetch_add(&t->records, s->writer.records);
	atomic_fetch_add(&t->bytes, s->bytes);
	say(s);
	free(s);
	return whole;
}
