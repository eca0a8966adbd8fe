#include "kubedns/pages/query_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/observe/observers.h"
#include "lib/clock.h"
#include "lib/duration.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { PERIOD_MS = 200, PERIODS_PER_S = 1000 / PERIOD_MS, TELL_MS = 10000 };

struct query_log {
	struct observers *observers; /* NULL with --recorder=off */
	const struct store *store;
	bool on;
	struct query_log_wish wish;
	int64_t until_ms; /* monotonic time; CLOCK_NEVER: until the log is disabled */
	int64_t next_ms;

	/* This iteration's random sample of the matching answers. */
	/* The sample has space for as many records as capacity() returns. NULL: no answer has
	 * matched yet. */
	struct ring_record *sample;
	uint64_t matches;
	uint64_t random;

	/* Totals since the last line about skipped answers. */
	int64_t told_ms;
	uint64_t matched, written, skipped;
};

/* --- parameters --- */

static int
set_rate(struct query_log_wish *wish, const char *text, const char **why)
{
	char *end = NULL;
	unsigned long rate = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

	*why = "a number of lines a second from 5 to 100000";
	if (end == NULL || *end != '\0' || rate < PERIODS_PER_S || rate > QUERY_LOG_RATE_MAX)
		return -EINVAL;
	wish->rate = (unsigned)rate;
	return 0;
}

static int
set_part(struct query_log_wish *wish, const char *part, const char *text, const char **why)
{
	if (strcmp(part, "rate") == 0)
		return set_rate(wish, text, why);
	for (size_t i = 0; recorded_filter_parts[i] != NULL; i++)
		if (strcmp(part, recorded_filter_parts[i]) == 0)
			return recorded_filter_set(&wish->filter, part, text, why);
	*why = "client=, name=, type=, rcode= or rate=";
	return -EINVAL;
}

static void
wish_init(struct query_log_wish *wish)
{
	*wish = (struct query_log_wish){ .filter = { .rcode = -1 }, .rate = QUERY_LOG_RATE };
}

int
query_log_wish_parse(struct query_log_wish *wish, const char *text, char **part, const char **why)
{
	char *copy = xstrdup(text), *rest = copy, *item;
	int rc = 0;

	wish_init(wish);
	while (rc == 0 && *text != '\0' && (item = strsep(&rest, ",")) != NULL) {
		char *equals = strchr(item, '=');

		*part = xstrdup(item);
		if (equals != NULL)
			*equals++ = '\0';
		rc = set_part(wish, item, equals != NULL ? equals : "", why);
		if (rc == 0)
			free(*part);
	}
	free(copy);
	return rc;
}

/* --- observing --- */

/* Returns the number of lines for one iteration. */
static size_t
capacity(const struct query_log *log)
{
	return log->wish.rate / PERIODS_PER_S;
}

/*
 * Chooses the index in the sample for a match. Each match is in the sample with the same
 * probability (Vitter, algorithm R). If the index is not below capacity(), the match is not in the
 * sample.
 */
static uint64_t
choose_place(struct query_log *log)
{
	uint64_t n = log->matches++;

	if (n < capacity(log))
		return n;
	log->random = hash64(log->random, &n, sizeof n);
	return log->random % (n + 1);
}

static void
consume(void *arg, const struct ring_record *record)
{
	struct query_log *log = arg;

	if (!recorded_filter_matches(&log->wish.filter, record))
		return;
	uint64_t place = choose_place(log);
	if (place >= capacity(log))
		return;
	if (log->sample == NULL)
		log->sample = xmalloc(capacity(log) * sizeof *log->sample);
	log->sample[place] = *record;
}

const struct observer query_log_observer = { "query_log", OBSERVE_ANSWERS, consume };

static void
begin(struct query_log *log)
{
	log->on = true;
	log->next_ms = clock_mono_ms() + PERIOD_MS;
	log->told_ms = log->next_ms;
	log->matched = log->written = 0;
	observers_set(log->observers, &query_log_observer, log);
	log->skipped = observers_skipped(log->observers, &query_log_observer);
}

struct query_log *
query_log_new(
    struct observers *observers, const struct store *store, const struct query_log_wish *wish)
{
	struct query_log *log = xcalloc(1, sizeof *log);

	log->until_ms = CLOCK_NEVER;

	log->observers = observers;
	log->store = store;
	if (wish != NULL) {
		log->wish = *wish;
		begin(log);
	}
	return log;
}

static int
by_time(const void *a, const void *b)
{
	const struct ring_record *x = a, *y = b;

	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* Ends an iteration: writes its sample. */
static void
write_lines(struct query_log *log)
{
	char line[ANSWER_LINE_MAX];

	observers_drain(log->observers);
	size_t count = log->matches < capacity(log) ? (size_t)log->matches : capacity(log);
	if (count > 0)
		qsort(log->sample, count, sizeof *log->sample, by_time);
	for (size_t i = 0; i < count; i++) {
		recorded_answer_line(&log->sample[i], log->store, false, line);
		log_info("query %s", line);
	}
	log->written += count;
	log->matched += log->matches;
	log->matches = 0;
	free(log->sample);
	log->sample = NULL;
}

/* Logs how many answers were skipped, every ten seconds. */
static void
tell_left_out(struct query_log *log, int64_t now_ms)
{
	int64_t since_ms = now_ms - log->told_ms;
	uint64_t skipped = observers_skipped(log->observers, &query_log_observer);

	if (since_ms < TELL_MS && log->on)
		return;
	if (log->matched > log->written)
		log_warnx("query log: %llu of %llu answers were written: the limit is rate=%u "
			  "lines a second (--log-queries)",
		    (unsigned long long)log->written, (unsigned long long)log->matched,
		    log->wish.rate);
	if (skipped > log->skipped)
		log_warnx("query log: %llu answers were missed: they were overwritten within %d "
			  "ms: use a larger --recorder",
		    (unsigned long long)(skipped - log->skipped), PERIOD_MS);
	log->told_ms = now_ms;
	log->matched = log->written = 0;
	log->skipped = skipped;
}

static void
end(struct query_log *log, const char *why)
{
	write_lines(log);
	log->on = false;
	tell_left_out(log, clock_mono_ms());
	observers_set(log->observers, &query_log_observer, NULL);
	log_info("query log: off%s", why);
}

int64_t
query_log_due_ms(const struct query_log *log)
{
	return log->on ? log->next_ms : CLOCK_NEVER;
}

void
query_log_iteration(struct query_log *log)
{
	int64_t now_ms = clock_mono_ms();

	if (!log->on || now_ms < log->next_ms)
		return;
	log->next_ms = now_ms + PERIOD_MS;
	write_lines(log);
	tell_left_out(log, now_ms);
	if (now_ms >= log->until_ms)
		end(log, ": the time in for= is over");
}

/* --- enabling and disabling --- */

static void
switch_on(struct query_log *log, const struct http_request *request, struct http_response *response)
{
	static const char *const parts[] = { "client", "name", "type", "rcode", "rate" };
	const char *why, *value = http_query(request, "for");
	struct query_log_wish wish;
	long long for_ms = 0;

	wish_init(&wish);
	if (value != NULL && (duration_parse(value, &for_ms) < 0 || for_ms <= 0)) {
		http_text(response, 400, "for=%s: a duration such as 10m is needed\n", value);
		return;
	}
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if ((value = http_query(request, parts[i])) != NULL &&
		    set_part(&wish, parts[i], value, &why) < 0) {
			http_text(response, 400, "%s=%s: %s is needed\n", parts[i], value, why);
			return;
		}
	if (log->on)
		write_lines(log);
	log->wish = wish;
	log->until_ms = for_ms > 0 ? clock_mono_ms() + for_ms : CLOCK_NEVER;
	begin(log);
	log_info("query log: on, at most %u lines a second%s", wish.rate,
	    for_ms > 0 ? ", for a while" : "");
	http_text(response, 200, "%s", "on\n");
}

void
query_log_respond(
    struct query_log *log, const struct http_request *request, struct http_response *response)
{
	if (log->observers == NULL) {
		http_text(response, 404, "%s", "answers are not recorded: --recorder=off\n");
		return;
	}
	if (request->method == HTTP_PUT) {
		switch_on(log, request, response);
		return;
	}
	if (request->method == HTTP_DELETE && log->on)
		end(log, "");
	http_text(response, 200, "%s", log->on ? "on\n" : "off\n");
}

void
query_log_free(struct query_log *log)
{
	if (log != NULL && log->on)
		end(log, ": stopping");
	free(log);
}
