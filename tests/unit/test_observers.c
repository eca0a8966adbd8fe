/* The observers of the main thread: the records that they get, and the counts if an observer is too
 * slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/cluster/store.h"
#include "kubedns/pages/query_log.h"
#include "kubedns/serve/client.h"
#include "kubedns/serve/observe/observe.h"
#include "kubedns/serve/observe/observers.h"
#include "lib/log.h"
#include "treecache/treecache.h"

enum { RINGS = 2, SIZE = 1 << 20 };

struct seen {
	uint64_t count, sum;
};

static void
see(void *arg, const struct ring_record *record)
{
	struct seen *seen = arg;

	seen->count++;
	seen->sum += (uint64_t)record->at_ns;
}

static const struct observer all = { "all", OBSERVE_ANSWERS, see };
static const struct observer some = { "some", OBSERVE_SAMPLES, see };
static const struct observer *const table[] = { &all, &some, &query_log_observer, NULL };

struct world {
	struct observers *observers;
	struct ring *rings[RINGS];
};

static int
setup(void **state)
{
	struct world *world = calloc(1, sizeof *world);

	world->observers = observers_new(table);
	for (unsigned i = 0; i < RINGS; i++) {
		world->rings[i] = ring_new(&(struct ring_config){
		    .bytes = SIZE, .wake = observers_fd(world->observers), .seed = i + 1 });
		observers_add_ring(world->observers, world->rings[i]);
	}
	*state = world;
	return 0;
}

static int
teardown(void **state)
{
	struct world *world = *state;

	observers_free(world->observers);
	for (unsigned i = 0; i < RINGS; i++)
		ring_free(world->rings[i]);
	free(world);
	return 0;
}

static void
answered(struct ring *ring, int64_t at_ns, uint8_t rcode)
{
	const union client_addr from = { .in.sin_family = AF_INET };
	struct answer_info info = { .len = 30, .rcode = rcode };

	observe_alone(ring, &(struct observed){ .client = &from.sa, .info = &info, .at_ns = at_ns },
	    MADE_CLUSTER, false, 1000);
}

static void
an_observer_that_is_on_gets_each_answer_of_all_rings_once(void **state)
{
	struct world *world = *state;
	struct seen seen = { 0 };

	answered(world->rings[0], 1, 0); /* an answer before the observer is enabled */
	observers_set(world->observers, &all, &seen);
	observers_drain(world->observers);
	assert_int_equal(seen.count, 0);
	for (unsigned n = 1; n <= 3000; n++) {
		answered(world->rings[n % RINGS], n, 0);
		if (n % 700 == 0)
			observers_drain(world->observers);
	}
	observers_drain(world->observers);
	assert_int_equal(seen.count, 3000);
	assert_int_equal(seen.sum, 3000 * 3001 / 2);
	observers_set(world->observers, &all, NULL);
	answered(world->rings[0], 1, 0);
	observers_drain(world->observers);
	assert_int_equal(seen.count, 3000);
	assert_int_equal(observers_skipped(world->observers, &all), 0);
}

static void
what_a_slow_observer_has_skipped_is_counted_also_when_it_is_off_again(void **state)
{
	struct world *world = *state;
	struct seen seen = { 0 };

	observers_set(world->observers, &all, &seen);
	for (unsigned n = 0; n < 100000; n++)
		answered(world->rings[n % RINGS], n, 0);
	observers_drain(world->observers);
	uint64_t skipped = observers_skipped(world->observers, &all);
	assert_true(skipped > 0 && seen.count > 10000);
	assert_int_equal(seen.count + skipped, 100000);
	observers_set(world->observers, &all, NULL);
	observers_set(world->observers, &all, &seen);
	assert_int_equal(observers_skipped(world->observers, &all), skipped);
}

static void
an_observer_of_samples_that_is_woken_in_time_skips_none(void **state)
{
	struct world *world = *state;
	struct seen seen = { 0 };
	struct pollfd fd = { .fd = observers_fd(world->observers), .events = POLLIN };
	unsigned woken = 0;

	observers_set(world->observers, &some, &seen);
	for (unsigned n = 0; n < 400000; n++) {
		answered(world->rings[n % RINGS], n, 0);
		if (n % 64 != 0 || poll(&fd, 1, 0) == 0)
			continue;
		observers_drain(world->observers);
		assert_int_equal(poll(&fd, 1, 0), 0);
		woken++;
	}
	observers_drain(world->observers);
	assert_in_range(seen.count, 9500, 10500);
	assert_int_equal(observers_skipped(world->observers, &some), 0);
	assert_true(woken > 10);
}

/* --- the query log --- */

/* Ends the log and returns what the log wrote to stderr during this call. The caller frees it. */
static char *
written_at_end(struct query_log *log)
{
	FILE *file = tmpfile();
	int kept = dup(STDERR_FILENO);

	assert_non_null(file);
	dup2(fileno(file), STDERR_FILENO);
	query_log_free(log);
	dup2(kept, STDERR_FILENO);
	close(kept);
	size_t len = (size_t)lseek(fileno(file), 0, SEEK_END);
	char *text = calloc(1, len + 1);
	assert_int_equal(pread(fileno(file), text, len, 0), len);
	fclose(file);
	return text;
}

static unsigned
occurrences(const char *text, const char *of)
{
	unsigned count = 0;

	while ((text = strstr(text, of)) != NULL) {
		count++;
		text += strlen(of);
	}
	return count;
}

static const struct store_config no_pods = { .records = { .ttl_s = 30 } };

static struct query_log *
new_log(struct world *world, const struct store *store, const char *text)
{
	struct query_log_wish wish;
	const char *why;
	char *part;

	assert_int_equal(query_log_wish_parse(&wish, text, &part, &why), 0);
	return query_log_new(world->observers, store, &wish);
}

static void
the_query_log_has_a_line_for_each_answer_that_matches(void **state)
{
	struct world *world = *state;
	struct treecache *cache = treecache_new(1);
	struct store *store = store_new(cache, &no_pods);
	struct query_log *log = new_log(world, store, "rcode=REFUSED");

	for (unsigned n = 0; n < 30; n++)
		answered(world->rings[n % RINGS], n, n % 3 == 0 ? RCODE_REFUSED : 0);
	char *text = written_at_end(log);
	assert_int_equal(occurrences(text, " REFUSED 30 cluster 0.001ms"), 10);
	assert_int_equal(occurrences(text, "query 0.0.0.0:0 udp"), 10);
	free(text);
	store_free(store);
	treecache_free(cache);
}

static void
of_too_many_answers_the_query_log_has_an_even_sample(void **state)
{
	struct world *world = *state;
	struct treecache *cache = treecache_new(1);
	struct store *store = store_new(cache, &no_pods);
	struct query_log *log = new_log(world, store, "rate=1000"); /* 200 lines per iteration */

	for (unsigned n = 0; n < 2000; n++)
		answered(world->rings[n % RINGS], n, n < 1000 ? RCODE_REFUSED : 0);
	char *text = written_at_end(log);
	assert_int_equal(occurrences(text, "query 0.0.0.0:0 udp"), 200);
	/* The bounds are more than five standard deviations from the mean. */
	assert_in_range(occurrences(text, " REFUSED "), 60, 140);
	assert_non_null(strstr(
	    text, "200 of 2000 answers were written: the limit is rate=1000 lines a second"));
	free(text);
	store_free(store);
	treecache_free(cache);
}

static void
the_query_log_says_how_many_answers_it_has_not_seen(void **state)
{
	struct world *world = *state;
	struct treecache *cache = treecache_new(1);
	struct store *store = store_new(cache, &no_pods);
	struct query_log *log = new_log(world, store, "rcode=SERVFAIL");
	char line[96];

	for (unsigned n = 0; n < 100000; n++)
		answered(world->rings[n % RINGS], n, 0);
	observers_drain(world->observers);
	uint64_t skipped = observers_skipped(world->observers, &query_log_observer);
	assert_true(skipped > 0);
	char *text = written_at_end(log);
	snprintf(line, sizeof line, "%llu answers were missed", (unsigned long long)skipped);
	assert_non_null(strstr(text, line));
	free(text);
	store_free(store);
	treecache_free(cache);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_observer_that_is_on_gets_each_answer_of_all_rings_once),
		TEST(what_a_slow_observer_has_skipped_is_counted_also_when_it_is_off_again),
		TEST(an_observer_of_samples_that_is_woken_in_time_skips_none),
		TEST(the_query_log_has_a_line_for_each_answer_that_matches),
		TEST(of_too_many_answers_the_query_log_has_an_even_sample),
		TEST(the_query_log_says_how_many_answers_it_has_not_seen),
	};
	log_init("kubedns", LOG_FORMAT_TEXT, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
