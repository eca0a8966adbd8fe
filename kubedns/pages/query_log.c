#include "kubedns/pages/query_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/serve/worker.h"
#include "lib/clock.h"
#include "lib/flags.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { TURN_MS = 200, TURNS_PER_S = 1000 / TURN_MS, TELL_MS = 10000 };

struct query_log {
	const struct workers *workers;
	const struct store *store;
	bool on;
	struct query_log_wish wish;
	int64_t until_ms; /* monotonic; 0: until it is switched off */
	int64_t next_ms;
	uint64_t seen[WORKERS_MAX]; /* the newest position that was looked at; RECORDER_END: none */

	/* Since the last line about it. */
	int64_t told_ms;
	uint64_t matched, written, lost;
};

/* --- what is wanted --- */

static int
set_rate(struct query_log_wish *wish, const char *text, const char **why)
{
	char *end = NULL;
	unsigned long rate = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

	*why = "a number of lines a second from 5 to 100000";
	if (end == NULL || *end != '\0' || rate < TURNS_PER_S || rate > QUERY_LOG_RATE_MAX)
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

/* --- following the recorders --- */

/* Reads one worker's answers since the last turn, the newest first. */
struct follower {
	struct recorder_reader reader;
	uint64_t seen;
};

static bool
follower_next(struct follower *follower, struct answer_record *record, bool *lost)
{
	uint64_t position = follower->reader.position;

	if (position == RECORDER_END || position == follower->seen)
		return false;
	if (recorder_read(&follower->reader, record))
		return true;
	*lost = true; /* the worker has come round to what was not looked at yet */
	return false;
}

static void
begin(struct query_log *log)
{
	struct recorder_reader reader;

	log->on = true;
	log->next_ms = clock_mono_ms() + TURN_MS;
	log->told_ms = log->next_ms;
	log->matched = log->written = log->lost = 0;
	for (unsigned w = 0; w < workers_count(log->workers); w++) {
		recorder_reader_init(&reader, workers_recorder(log->workers, w));
		log->seen[w] = reader.position;
	}
}

struct query_log *
query_log_new(
    const struct workers *workers, const struct store *store, const struct query_log_wish *wish)
{
	struct query_log *log = xcalloc(1, sizeof *log);

	log->workers = workers;
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
	const struct answer_record *x = a, *y = b;
	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* How many there are since the last turn that match. */
static uint64_t
count_matches(struct query_log *log, const struct follower *followers, unsigned count)
{
	struct answer_record record;
	uint64_t matches = 0;

	for (unsigned w = 0; w < count; w++) {
		struct follower follower = followers[w];
		bool lost = false;
		while (follower_next(&follower, &record, &lost))
			matches += recorded_filter_matches(&log->wish.filter, &record);
		log->lost += lost;
	}
	return matches;
}

static void
write_lines(struct query_log *log, struct answer_record *records, size_t count)
{
	char line[ANSWER_LINE_MAX];

	qsort(records, count, sizeof *records, by_time);
	for (size_t i = 0; i < count; i++) {
		recorded_answer_line(&records[i], log->store, false, line);
		log_info("query %s", line);
	}
	log->written += count;
}

/* Writes an even sample of the matches, as many as the rate allows for one turn. */
static void
write_sample(
    struct query_log *log, const struct follower *followers, unsigned count, uint64_t matches)
{
	size_t room = log->wish.rate / TURNS_PER_S, written = 0;
	uint64_t step = (matches + room - 1) / room, n = 0;
	struct answer_record *records = xcalloc(room, sizeof *records), record;

	for (unsigned w = 0; w < count; w++) {
		struct follower follower = followers[w];
		bool lost = false;
		while (written < room && follower_next(&follower, &record, &lost))
			if (recorded_filter_matches(&log->wish.filter, &record) && n++ % step == 0)
				records[written++] = record;
	}
	write_lines(log, records, written);
	free(records);
}

/* Says what was left out, every ten seconds. */
static void
tell_left_out(struct query_log *log, int64_t now_ms)
{
	int64_t since_ms = now_ms - log->told_ms;

	if (since_ms < TELL_MS && log->on)
		return;
	if (log->matched > log->written)
		log_warnx("query log: %llu of %llu answers were written: rate=%u lines a second is "
			  "what --log-queries allows",
		    (unsigned long long)log->written, (unsigned long long)log->matched,
		    log->wish.rate);
	if (log->lost > 0)
		log_warnx("query log: some answers were not seen, %llu times: --recorder= holds "
			  "less than %d ms of them",
		    (unsigned long long)log->lost, TURN_MS);
	log->told_ms = now_ms;
	log->matched = log->written = log->lost = 0;
}

static void
follow(struct query_log *log)
{
	struct follower followers[WORKERS_MAX];
	unsigned count = workers_count(log->workers);

	for (unsigned w = 0; w < count; w++) {
		recorder_reader_init(&followers[w].reader, workers_recorder(log->workers, w));
		followers[w].seen = log->seen[w];
		log->seen[w] = followers[w].reader.position;
	}
	uint64_t matches = count_matches(log, followers, count);
	log->matched += matches;
	if (matches > 0)
		write_sample(log, followers, count, matches);
}

static void
end(struct query_log *log, const char *why)
{
	follow(log);
	log->on = false;
	tell_left_out(log, clock_mono_ms());
	log_info("query log: off%s", why);
}

int64_t
query_log_wait_ms(const struct query_log *log)
{
	int64_t now_ms = clock_mono_ms();

	if (!log->on)
		return -1;
	return log->next_ms > now_ms ? log->next_ms - now_ms : 0;
}

void
query_log_turn(struct query_log *log)
{
	int64_t now_ms = clock_mono_ms();

	if (!log->on || now_ms < log->next_ms)
		return;
	log->next_ms = now_ms + TURN_MS;
	follow(log);
	tell_left_out(log, now_ms);
	if (log->until_ms != 0 && now_ms >= log->until_ms)
		end(log, ": its time is over");
}

/* --- the switch --- */

static void
switch_on(struct query_log *log, const struct http_request *request, struct http_response *response)
{
	static const char *const parts[] = { "client", "name", "type", "rcode", "rate" };
	const char *why, *value = http_query(request, "for");
	struct query_log_wish wish;
	long long for_ms = 0;

	wish_init(&wish);
	if (value != NULL && (flags_duration(value, &for_ms) < 0 || for_ms <= 0)) {
		http_text(response, 400, "for=%s: a duration such as 10m is needed\n", value);
		return;
	}
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if ((value = http_query(request, parts[i])) != NULL &&
		    set_part(&wish, parts[i], value, &why) < 0) {
			http_text(response, 400, "%s=%s: %s is needed\n", parts[i], value, why);
			return;
		}
	log->wish = wish;
	log->until_ms = for_ms > 0 ? clock_mono_ms() + for_ms : 0;
	begin(log);
	log_info("query log: on, at most %u lines a second%s", wish.rate,
	    for_ms > 0 ? ", for a while" : "");
	http_text(response, 200, "%s", "on\n");
}

void
query_log_respond(
    struct query_log *log, const struct http_request *request, struct http_response *response)
{
	if (workers_recorder(log->workers, 0) == NULL) {
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
