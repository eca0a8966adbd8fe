#include "kubedns/pages/queries_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/pages/answer_line.h"
#include "kubedns/serve/worker.h"
#include "lib/clock.h"
#include "lib/duration.h"
#include "lib/xalloc.h"

enum {
	LIMIT_DEFAULT = 1000,
	CLOCK_STEP_NS = 10000000,
	/* Number of answers that one iteration of the main thread searches, about 10 ms. A recorder
	 * of 1 GB has millions of answers, and a filter may match none of them. */
	LOOKS_MAX = 50000,
};

/* --- the rings of all workers as one --- */

struct source {
	const struct ring *ring;
	uint64_t next;             /* position of the next record to read */
	struct ring_record record; /* the next record, if there is one */
	bool has;
};

struct queries_reader {
	int64_t wall_offset_ns;
	unsigned count;
	struct source sources[];
};

/*
 * Returns the offset from the monotonic clock to the wall clock. The offset does not change until
 * the wall clock is set or has drifted. The time of an answer must stay the same from one page to
 * the next, because the parameter `after` refers to it.
 */
static int64_t
wall_offset(void)
{
	static int64_t offset_ns;
	int64_t now_ns = clock_wall_ns() - clock_mono_ns();

	if (llabs(now_ns - offset_ns) > CLOCK_STEP_NS)
		offset_ns = now_ns;
	return offset_ns;
}

static bool
source_next(struct source *source)
{
	do {
		if (!ring_read(source->ring, source->next, &source->record, NULL))
			return false;
		source->next = source->record.predecessor;
	} while (source->record.kind != RECORD_ANSWER);
	return true;
}

struct queries_reader *
queries_reader_new(const struct workers *workers)
{
	unsigned count = workers_count(workers);
	struct queries_reader *reader =
	    xcalloc(1, sizeof *reader + count * sizeof reader->sources[0]);

	reader->wall_offset_ns = wall_offset();
	for (unsigned i = 0; i < count; i++) {
		const struct ring *ring = workers_recorder(workers, i);
		struct source *source = &reader->sources[reader->count];

		if (ring == NULL)
			continue;
		reader->count++;
		source->ring = ring;
		source->next = ring_newest(ring);
		source->has = source_next(source);
	}
	return reader;
}

bool
queries_reader_next(struct queries_reader *reader, struct ring_record *record, int64_t *wall_ns)
{
	struct source *latest = NULL;

	for (unsigned i = 0; i < reader->count; i++) {
		struct source *source = &reader->sources[i];

		if (source->has && (latest == NULL || source->record.at_ns > latest->record.at_ns))
			latest = source;
	}
	if (latest == NULL)
		return false;
	*record = latest->record;
	*wall_ns = record->at_ns + reader->wall_offset_ns;
	latest->has = source_next(latest);
	return true;
}

const char *
queries_time(int64_t wall_ns, char text[QUERIES_TIME_MAX])
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	size_t len = strftime(text, QUERIES_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(
	    text + len, QUERIES_TIME_MAX - len, ".%06uZ", (unsigned)(wall_ns % NS_PER_S / 1000));
	return text;
}

/* Parses a time as queries_time() writes it. Returns 0 or -EINVAL. */
static int
time_parse(const char *text, int64_t *wall_ns)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t fraction_ns = 0;

	if (rest != NULL && *rest == '.')
		for (int64_t unit = NS_PER_S / 10; *++rest >= '0' && *rest <= '9'; unit /= 10)
			fraction_ns += (*rest - '0') * unit;
	if (rest == NULL || strcmp(rest, "Z") != 0)
		return -EINVAL;
	*wall_ns = (int64_t)timegm(&tm) * NS_PER_S + fraction_ns;
	return 0;
}

/* --- the page --- */

struct queries {
	struct queries_reader *reader;
	const struct store *store;
	struct recorded_filter filter;
	int64_t after_ns; /* wall clock time; older answers are not shown */
	unsigned long left;
	bool json, ended;
	unsigned looks;    /* number of answers that may still be searched in this iteration */
	int64_t oldest_ns; /* time of the oldest answer that was searched */
	char line[ANSWER_LINE_MAX + 64];
	size_t len, sent;
};

/*
 * Writes a line if the iteration has found no match among all the answers that it may search.
 * Without a line, the piece would be empty, which would end the body. In JSON, the line is empty.
 * Returns false if the search is at its end.
 */
static bool
looking_line(struct queries *q)
{
	char when[QUERIES_TIME_MAX];

	if (q->looks > 0)
		return false;
	q->len = q->json ? (size_t)snprintf(q->line, sizeof q->line, "\n")
			 : (size_t)snprintf(q->line, sizeof q->line, "# looking, back to %s\n",
			       queries_time(q->oldest_ns, when));
	return true;
}

/* Writes the next line. Returns false if there is no more line in this iteration, or none at all.
 * In text format, the last line tells how far back the search went. */
static bool
next_line(struct queries *q)
{
	struct ring_record record;
	char text[ANSWER_LINE_MAX], when[QUERIES_TIME_MAX];
	int64_t wall_ns;

	q->sent = q->len = 0;
	while (!q->ended && q->left > 0) {
		if (q->looks == 0)
			return false;
		q->looks--;
		if (!queries_reader_next(q->reader, &record, &wall_ns) ||
		    wall_ns / 1000 <= q->after_ns / 1000) /* times are displayed in microseconds */
			break;
		q->oldest_ns = wall_ns;
		if (!recorded_filter_matches(&q->filter, &record))
			continue;
		q->left--;
		recorded_answer_line(&record, q->store, q->json, text);
		q->len = (size_t)snprintf(q->line, sizeof q->line,
		    q->json ? "{\"time\":\"%s\",%s}\n" : "%s %s\n", queries_time(wall_ns, when),
		    text);
		return true;
	}
	if (q->ended || q->json)
		return false;
	q->ended = true;
	if (q->oldest_ns == 0)
		q->len = (size_t)snprintf(q->line, sizeof q->line, "# no answer\n");
	else
		q->len = (size_t)snprintf(q->line, sizeof q->line, "# %s back to %s\n",
		    q->left == 0 ? "limit= reached, looked" : "looked",
		    queries_time(q->oldest_ns, when));
	return true;
}

static ssize_t
stream_lines(void *arg, char *buf, size_t max)
{
	struct queries *q = arg;
	size_t len = 0;

	q->looks = LOOKS_MAX;
	while (len < max && (q->sent < q->len || next_line(q) || (len == 0 && looking_line(q)))) {
		size_t n = q->len - q->sent < max - len ? q->len - q->sent : max - len;

		memcpy(buf + len, q->line + q->sent, n);
		q->sent += n;
		len += n;
	}
	return (ssize_t)len;
}

static void
queries_free(void *arg)
{
	struct queries *q = arg;

	free(q->reader);
	free(q);
}

/* Reads the parameters, except the parameters of the filter. Returns 0, or -EINVAL with the invalid
 * parameter and its accepted form. */
static int
read_parameters(struct queries *q, const struct http_request *request, const char **name,
    const char **value, const char **why)
{
	long long last_ms;
	char *end = NULL;

	*name = "last";
	*why = "a duration such as 5m or 30s";
	if ((*value = http_query(request, *name)) != NULL) {
		if (duration_parse(*value, &last_ms) < 0 || last_ms < 0)
			return -EINVAL;
		q->after_ns = clock_wall_ns() - last_ms * NS_PER_MS;
	}
	*name = "after";
	*why = "a time such as 2026-11-22T10:32:16.123456Z";
	if ((*value = http_query(request, *name)) != NULL && time_parse(*value, &q->after_ns) < 0)
		return -EINVAL;
	*name = "limit";
	*why = "how many answers, at least 1";
	if ((*value = http_query(request, *name)) != NULL) {
		q->left = **value >= '0' && **value <= '9' ? strtoul(*value, &end, 10) : 0;
		if (q->left == 0 || *end != '\0')
			return -EINVAL;
	}
	*name = "format";
	*why = "json or text";
	if ((*value = http_query(request, *name)) != NULL) {
		q->json = strcmp(*value, "json") == 0;
		if (!q->json && strcmp(*value, "text") != 0)
			return -EINVAL;
	}
	for (size_t i = 0; recorded_filter_parts[i] != NULL; i++) {
		*name = recorded_filter_parts[i];
		if ((*value = http_query(request, *name)) != NULL &&
		    recorded_filter_set(&q->filter, *name, *value, why) < 0)
			return -EINVAL;
	}
	return 0;
}

void
queries_respond(const struct workers *workers, const struct store *store,
    const struct http_request *request, struct http_response *response)
{
	const char *name, *value, *why;

	if (workers_recorder(workers, 0) == NULL) {
		http_text(response, 404, "answers are not recorded: --recorder=off\n");
		return;
	}
	struct queries *q = xcalloc(1, sizeof *q);
	q->left = LIMIT_DEFAULT;
	q->store = store;
	q->filter.rcode = -1;
	if (read_parameters(q, request, &name, &value, &why) < 0) {
		http_text(response, 400, "%s=%s: %s is needed\n", name, value, why);
		free(q);
		return;
	}
	q->reader = queries_reader_new(workers);
	if (q->json)
		response->content_type = "application/x-ndjson";
	response->stream = stream_lines;
	response->stream_free = queries_free;
	response->stream_arg = q;
}
