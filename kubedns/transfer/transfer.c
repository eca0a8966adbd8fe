#include "kubedns/transfer/transfer_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kubedns/answer/zone_walk.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/xalloc.h"

/* --- the stream threads --- */

struct version
version_share(const struct version *version)
{
	struct tree_hold *external = version->external;

	return (struct version){ tree_hold_share(version->tree),
		external == NULL ? NULL : tree_hold_share(external) };
}

void
version_drop(const struct version *version)
{
	tree_hold_drop(version->tree);
	tree_hold_drop(version->external);
}

static void
end_job(struct transfer *t, struct job *job, bool whole)
{
	TAILQ_REMOVE(&t->jobs, job, by_age);
	t->job_count--;
	close(job->fd);
	job->end.ended(job->end.arg, job->end.slot, job->end.generation, whole);
	free(job);
}

static bool
client_has_one(const struct transfer *t, const struct addr *client)
{
	const struct job *job;

	TAILQ_FOREACH(job, &t->jobs, by_age)
	if (job->running && addr_equal(&job->client, client))
		return true;
	return false;
}

/* The oldest job that can be run now, or NULL; drops those that have waited for too long. */
static struct job *
next_job(struct transfer *t)
{
	struct job *job, *next;

	for (job = TAILQ_FIRST(&t->jobs); job != NULL; job = next) {
		next = TAILQ_NEXT(job, by_age);
		if (job->running)
			continue;
		if (clock_mono_ms() - job->queued_ms > QUEUE_MS) {
			atomic_fetch_add(&t->cut, 1);
			end_job(t, job, false);
		} else if (t->version.tree != NULL &&
			   !serial_before(version_tree(&t->version, t->answers, job->zone)->serial,
			       job->wants) &&
			   !client_has_one(t, &job->client)) {
			return job;
		}
	}
	return NULL;
}

static void
wait_for_work(struct transfer *t)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10; /* then old jobs are looked for */
	pthread_cond_timedwait(&t->wake, &t->lock, &until);
}

static void *
stream_main(void *arg)
{
	struct transfer *t = arg;
	struct job *job;

	pthread_setname_np(pthread_self(), "transfer");
	pthread_mutex_lock(&t->lock);
	while (!atomic_load(&t->stop)) {
		if ((job = next_job(t)) == NULL) {
			wait_for_work(t);
			continue;
		}
		struct version version = version_share(&t->version);
		job->running = true;
		job->version = t->number;
		pthread_mutex_unlock(&t->lock);
		bool whole = transfer_stream(t, job, &version);
		version_drop(&version);
		pthread_mutex_lock(&t->lock);
		atomic_fetch_add(whole ? &t->whole : &t->cut, 1);
		end_job(t, job, whole);
		pthread_cond_broadcast(&t->wake); /* the client's next one can begin */
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* --- the main thread --- */

struct transfer *
transfer_new(const struct transfer_rules *rules, const struct answer_config *answers,
    struct treecache *cache, struct treecache *external)
{
	struct transfer *t = xcalloc(1, sizeof *t);

	t->rules = rules;
	t->answers = answers;
	t->cache = cache;
	t->external = external;
	TAILQ_INIT(&t->jobs);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, NULL);
	t->wake_changes = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->wake_changes < 0)
		log_fatal("eventfd");
	struct notify_config config = { .servers = rules->notify,
		.count = rules->notify_count,
		.sources = { rules->sources[0], rules->sources[1] },
		.answers = answers,
		.counts = &t->counts };
	if (rules->notify_count > 0)
		t->notify = notify_new(&config);
	return t;
}

void
transfer_start(struct transfer *t)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < STREAMS; i++)
		if ((errno = pthread_create(&t->threads[i], NULL, stream_main, t)) != 0)
			log_fatal("pthread_create");
	if ((errno = pthread_create(&t->changes, NULL, transfer_changes, t)) != 0)
		log_fatal("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	t->started = true;
}

static size_t
held_bytes(const struct transfer *t)
{
	return treecache_held(t->cache) + (t->external == NULL ? 0 : treecache_held(t->external));
}

bool
transfer_waits(const struct transfer *t)
{
	return tree_current(t->cache)->synced &&
	       (tree_current(t->cache) != t->given ||
		   (t->external != NULL && tree_current(t->external) != t->given_external));
}

static void
wake_changes(const struct transfer *t)
{
	uint64_t one = 1;

	if (write(t->wake_changes, &one, sizeof one) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

static bool
second_is_over(const struct treecache *cache, uint32_t now_s)
{
	return cache == NULL || serial_before(tree_current(cache)->serial, now_s);
}

void
transfer_turn(struct transfer *t, uint32_t now_s)
{
	if (!transfer_waits(t) || !second_is_over(t->cache, now_s) ||
	    !second_is_over(t->external, now_s))
		return;
	struct version next = { .tree = treecache_hold(t->cache) };
	if (t->external != NULL)
		next.external = treecache_hold(t->external);
	t->given = tree_held(next.tree);
	t->given_external = t->external == NULL ? NULL : tree_held(next.external);
	pthread_mutex_lock(&t->lock);
	struct version missed = t->next;
	t->next = next;
	if (held_bytes(t) > HELD_MAX)
		atomic_store(&t->cut_before, t->number + 1);
	pthread_mutex_unlock(&t->lock);
	version_drop(&missed);
	wake_changes(t);
}

void
transfer_metrics(struct transfer *t, struct metrics *m)
{
	static const char *const reasons[REFUSED_COUNT] = { [REFUSED_ADDRESS] = "address",
		[REFUSED_ZONE] = "zone",
		[REFUSED_QUEUE] = "queue",
		[REFUSED_MESSAGE] = "message" };

	metrics_family(m, "kubedns_transfers_total", METRIC_COUNTER, "Zone transfers that ended.");
	metrics_value(m, (double)atomic_load(&t->whole), "kind", "AXFR", "result", "whole", NULL);
	metrics_value(m, (double)atomic_load(&t->cut), "kind", "AXFR", "result", "cut", NULL);
	metrics_family(m, "kubedns_transfer_refused_total", METRIC_COUNTER,
	    "Questions for a zone transfer that were refused.");
	for (unsigned i = 0; i < REFUSED_COUNT; i++)
		metrics_value(m, (double)atomic_load(&t->refused[i]), "reason", reasons[i], NULL);
	metrics_family(
	    m, "kubedns_transfer_records_total", METRIC_COUNTER, "Records in zone transfers.");
	metrics_value(m, (double)atomic_load(&t->records), NULL);
	metrics_family(
	    m, "kubedns_transfer_bytes_total", METRIC_COUNTER, "Bytes sent in zone transfers.");
	metrics_value(m, (double)atomic_load(&t->bytes), NULL);
	metrics_family(m, "kubedns_notify_total", METRIC_COUNTER,
	    "NOTIFY to --transfer-notify, by what became of it.");
	metrics_value(m, (double)atomic_load(&t->counts.sent), "result", "sent", NULL);
	metrics_value(m, (double)atomic_load(&t->counts.answered), "result", "answered", NULL);
	metrics_value(m, (double)atomic_load(&t->counts.failed), "result", "failed", NULL);
	metrics_family(m, "kubedns_transfer_held_bytes", METRIC_GAUGE,
	    "Replaced memory that is kept for snapshots being transferred.");
	metrics_value(m, (double)held_bytes(t), NULL);
}

void
transfer_stop(struct transfer *t)
{
	struct job *job;

	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	atomic_store(&t->stop, true);
	TAILQ_FOREACH(job, &t->jobs, by_age)
	shutdown(job->fd, SHUT_RDWR); /* wakes a stream that waits for its client */
	pthread_cond_broadcast(&t->wake);
	pthread_mutex_unlock(&t->lock);
	wake_changes(t);
	for (unsigned i = 0; t->started && i < STREAMS; i++)
		pthread_join(t->threads[i], NULL);
	if (t->started)
		pthread_join(t->changes, NULL);
	t->started = false;
}

void
transfer_free(struct transfer *t)
{
	struct job *job;

	if (t == NULL)
		return;
	while ((job = TAILQ_FIRST(&t->jobs)) != NULL) {
		TAILQ_REMOVE(&t->jobs, job, by_age);
		close(job->fd);
		free(job);
	}
	version_drop(&t->version);
	version_drop(&t->next);
	notify_free(t->notify);
	close(t->wake_changes);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* --- the workers --- */

/* The header and the question, with this rcode. */
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
	return put_head(ask, rcode);
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

/* That of the snapshot which is published now. */
static uint32_t
newest_serial(const struct transfer *t, const struct transfer_ask *ask, size_t zone)
{
	return zone_is_external(t->answers, zone) ? tree_current(t->external)->serial
						  : ask->tree->serial;
}

/* Over UDP the answer to IXFR is the SOA alone: the client then asks over TCP (RFC 1995 section
 * 2). */
static size_t
put_soa(const struct transfer *t, const struct transfer_ask *ask, size_t zone)
{
	uint8_t rdata[SOA_RDATA_MAX];
	size_t len = zone_soa(t->answers, zone, newest_serial(t, ask, zone), rdata);
	struct writer w = { ask->out, put_head(ask, FLAG_AA), ask->max, false };

	wire_put16(ask->out + 6, 1);
	writer_put16(&w, 0xc000 | DNS_HEADER);
	writer_put16(&w, TYPE_SOA);
	writer_put16(&w, CLASS_IN);
	writer_put32(&w, t->answers->ttl_s);
	writer_put16(&w, (unsigned)len);
	writer_put(&w, rdata, len);
	return w.len;
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

static size_t
start_stream(
    struct transfer *t, const struct transfer_ask *ask, size_t zone, const struct addr *client)
{
	struct job *job = xcalloc(1, sizeof *job);

	*job = (struct job){ .fd = fcntl(ask->fd, F_DUPFD_CLOEXEC, 0),
		.client = *client,
		.end = ask->end,
		.zone = zone,
		.wants = newest_serial(t, ask, zone),
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
		return put_head(ask, RCODE_REFUSED);
	if (server_from_sockaddr(ask->peer, &client) < 0 || !may_have(t->rules, &client.addr))
		return refuse(t, ask, REFUSED_ADDRESS, RCODE_REFUSED, "not in --transfer-to");
	int zone = zone_index(t->answers, ask->question->qname);
	if (zone < 0 ||
	    (ask->answers->external_only && !zone_is_external(t->answers, (size_t)zone)))
		return refuse(t, ask, REFUSED_ZONE, RCODE_NOTAUTH, "no zone of ours");
	if (!ask->tree->synced)
		return put_head(ask, RCODE_SERVFAIL);
	if (ask->query_len > QUERY_MAX)
		return refuse(t, ask, REFUSED_MESSAGE, RCODE_FORMERR, "the message is too long");
	if (ask->fd >= 0)
		return start_stream(t, ask, (size_t)zone, &client.addr);
	if (ask->question->qtype == TYPE_AXFR)
		return refuse(t, ask, REFUSED_MESSAGE, RCODE_REFUSED, "AXFR is over TCP alone");
	return put_soa(t, ask, (size_t)zone);
}
