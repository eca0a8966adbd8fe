/* The last answers of a worker. Other threads read them while the worker writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kubedns/serve/client.h"
#include "kubedns/serve/observe/observe.h"
#include "lib/clock.h"
#include "lib/wire.h"

enum { WHOLE = RING_WHOLE_MIN, LONGEST = 65535 };

static uint64_t messages[RING_MESSAGES_MAX / sizeof(uint64_t)];

/* Makes a query whose name has `len` bytes. Each label consists of the letter `letter`. */
static void
question(struct answer_info *info, size_t len, char letter)
{
	uint8_t *p = info->query.qname;
	size_t left = len - 1;

	while (left > 0) {
		size_t label = left > 64 ? 63 : left - 1;

		if (left - 1 - label == 1) /* a label has at least one byte */
			label--;
		*p++ = (uint8_t)label;
		memset(p, letter, label);
		p += label;
		left -= 1 + label;
	}
	*p = 0;
	info->query.question_len = (uint16_t)(len + 4);
	info->query.has_question = true;
}

static const size_t name_lengths[] = { 3, 46, 64, 65, 68, 69, 120, 255 };

/* The lengths of the whole messages of record `n`. Some messages have the longest possible length.
 * A query has its name, and then up to 7 more bytes. */
static size_t
query_length(uint32_t n)
{
	return DNS_HEADER + name_lengths[n % 8] + n % 8;
}

static size_t
reply_length(uint32_t n)
{
	static const size_t lengths[] = { 12, 1232, 77, 120, 4096, 255, 33 };

	return n % 97 == 0 ? LONGEST : lengths[n % 7];
}

/* A client may write its name in upper case. The record has the name in lower case. */
static void
put_upper(uint8_t *to, const uint8_t *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
}

/* Adds an answer. All its parts contain the number `n`. */
static void
add_numbered(struct ring *ring, uint32_t n)
{
	static uint8_t query[512], reply[LONGEST];
	struct answer_info info = { .len = ring->whole ? reply_length(n) : n % 60000,
		.rcode = n % 16,
		.truncated = n % 2,
		.system = SYSTEM_RECURSIVE,
		.below = (int)(n % 100) - 1 };
	union client_addr from = { .in = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)n),
				       .sin_addr.s_addr = htonl(n) } };

	if (n % 3 == 0) {
		memset(&from.in6, 0xfd, sizeof from.in6);
		from.in6.sin6_family = AF_INET6;
		from.in6.sin6_port = htons((uint16_t)n);
		memcpy(&from.in6.sin6_addr.s6_addr[12], &(uint32_t){ htonl(n) }, 4);
	}
	info.query.qtype = (uint16_t)n;
	question(&info, name_lengths[n % 8], (char)('a' + n % 26));
	if (ring->whole) {
		memset(query, (int)n, query_length(n));
		put_upper(query + DNS_HEADER, info.query.qname, name_lengths[n % 8]);
		memset(reply, (int)n + 1, info.len);
	}
	observe_alone(ring,
	    &(struct observed){ .client = &from.sa,
		.info = &info,
		.query = query,
		.query_len = query_length(n),
		.reply = reply,
		.at_ns = n },
	    (enum answer_made)(n % MADE_COUNT), true, n);
}

static void
assert_bytes(const uint8_t *bytes, size_t len, size_t want_len, uint8_t want)
{
	assert_non_null(bytes);
	assert_int_equal(len, want_len);
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != want)
			fail_msg("byte %zu of %zu", i, len);
}

/* Returns the number in the record. Fails unless all parts of the record contain this number. */
static uint32_t
number_of(const struct ring *ring, const struct ring_record *r)
{
	uint32_t n = r->took_ns, address;
	bool v6 = n % 3 == 0;

	assert_int_equal(r->kind, RECORD_ANSWER);
	assert_false(r->batch);
	assert_true(r->tcp && r->outside);
	assert_int_equal(r->at_ns, n);
	assert_int_equal(r->size, ring->whole ? reply_length(n) : n % 60000);
	assert_int_equal(r->rcode, n % 16);
	assert_int_equal(r->truncated, n % 2);
	assert_int_equal(r->type, (uint16_t)n);
	assert_int_equal(r->below, (int)(n % 100) - 1);
	assert_int_equal(r->made, n % MADE_COUNT);
	assert_int_equal(r->peer.port, (uint16_t)n);
	assert_int_equal(r->peer.addr.family, v6 ? AF_INET6 : AF_INET);
	memcpy(&address, r->peer.addr.bytes + (v6 ? 12 : 0), 4);
	assert_int_equal(ntohl(address), n);
	struct answer_info want = { .len = 0 };
	size_t name_len = name_lengths[n % 8];
	question(&want, name_len, (char)('a' + n % 26));
	if (r->query == NULL) {
		assert_int_equal(r->name.len, name_len);
		assert_memory_equal(r->name.wire, want.query.qname, name_len);
	} else {
		assert_int_equal(r->name.len, 0); /* the name is in the query */
		assert_int_equal(r->messages, 2);
		uint8_t asked[DNAME_MAX];
		size_t name_end = DNS_HEADER + name_len;

		assert_bytes(r->query, DNS_HEADER, DNS_HEADER, (uint8_t)n);
		put_upper(asked, want.query.qname, name_len);
		assert_memory_equal(r->query + DNS_HEADER, asked, name_len);
		assert_bytes(r->query + name_end, r->query_len - name_end, n % 8, (uint8_t)n);
		assert_bytes(r->response, r->reply_len, reply_length(n), (uint8_t)(n + 1));
	}
	return n;
}

static struct ring *
new_ring(size_t bytes, bool whole)
{
	return ring_new(
	    &(struct ring_config){ .bytes = bytes, .whole = whole, .wake = -1, .seed = 1 });
}

/* Reads backwards from the newest record. This record must have the number `newest`. Returns how
 * many records there are. */
static unsigned
read_backwards(const struct ring *ring, uint32_t newest)
{
	struct ring_record record;
	unsigned seen = 0;

	for (uint64_t at = ring_newest(ring); ring_read(ring, at, &record, messages);
	     at = record.predecessor, seen++) {
		assert_int_equal(number_of(ring, &record), newest - seen);
		assert_true((record.query != NULL) == ring->whole);
		assert_true(ring_read(ring, at, &record, NULL));
		assert_int_equal(number_of(ring, &record), newest - seen);
	}
	return seen;
}

static void
the_last_answers_are_read_from_the_newest_backwards(void **state)
{
	(void)state;
	struct ring *ring = new_ring(RING_MIN, false);
	assert_int_equal(read_backwards(ring, 0), 0);
	for (uint32_t n = 1; n <= 5000; n++) {
		add_numbered(ring, n);
		if (n > 40 && n % 97 != 0)
			continue;
		/* At first, the ring has all records. Later, it has as many as fit. A record has
		 * 140 bytes on average. */
		const uint32_t fit = (RING_MIN - RECORD_MAX - RECORD_AHEAD) / 140;
		assert_in_range(read_backwards(ring, n), n < fit ? n : fit, n);
	}
	ring_free(ring);
}

static void
whole_messages_are_read_as_they_were(void **state)
{
	(void)state;
	struct ring *ring = new_ring(WHOLE, true);
	struct ring_record record;
	const struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(53) };
	for (uint32_t n = 1; n <= 3000; n++) {
		add_numbered(ring, n);
		if (n % 7 == 0)
			assert_true(read_backwards(ring, n) >= 1);
	}
	observe_message(ring, RECORD_SERVER_RESPONSE, true, (const struct sockaddr *)&from,
	    (const uint8_t *)"reply", 5, 7, 3);
	assert_true(ring_read(ring, ring_newest(ring), &record, messages));
	assert_int_equal(record.kind, RECORD_SERVER_RESPONSE);
	assert_int_equal(record.messages, 1);
	assert_null(record.query);
	assert_int_equal(record.reply_len, 5);
	assert_memory_equal(record.response, "reply", 5);
	assert_true(record.at_ns == 7 && record.took_ns == 3 && record.tcp);
	assert_int_equal(record.peer.port, 53);
	ring_free(ring);
}

/* The query got a record of its own when it arrived. So the name is read from the response. */
static void
an_answer_without_its_query_has_the_name_of_its_response(void **state)
{
	(void)state;
	struct ring *ring = new_ring(WHOLE, true);
	struct ring_record record;
	const struct sockaddr_in from = { .sin_family = AF_INET };
	static const uint8_t reply[] = "\0\1\200\0\0\1\0\0\0\0\0\0\3Web\7example\0\0\1\0\1";
	struct answer_info info = { .len = sizeof reply - 1 };
	info.query.question_len = 17;
	observe_alone(ring,
	    &(struct observed){
		.client = (const struct sockaddr *)&from, .info = &info, .reply = reply },
	    MADE_FORWARDED, false, 0);
	assert_true(ring_read(ring, ring_newest(ring), &record, NULL));
	assert_int_equal(record.name.len, 13);
	assert_memory_equal(record.name.wire, "\3web\7example", 13);
	/* If the response is truncated, there is no name. */
	for (info.len = 1; info.len < sizeof reply - 5; info.len++) {
		observe_alone(ring,
		    &(struct observed){
			.client = (const struct sockaddr *)&from, .info = &info, .reply = reply },
		    MADE_FORWARDED, false, 0);
		assert_true(ring_read(ring, ring_newest(ring), &record, NULL));
		assert_int_equal(record.name.len, 0);
	}
	ring_free(ring);
}

/* A batch has the time of its beginning. A message of another server has the time when it arrived. */
static void
messages_of_other_servers_have_their_own_times_over_udp_and_tcp(void **state)
{
	(void)state;
	struct ring *ring = new_ring(WHOLE, true);
	struct ring_record record;
	const struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(53) };
	for (int tcp = 0; tcp < 2; tcp++) {
		observe_message(ring, RECORD_SERVER_RESPONSE, tcp, (const struct sockaddr *)&from,
		    (const uint8_t *)"reply", 5, 100, 30);
		assert_true(ring_read(ring, ring_newest(ring), &record, messages));
		assert_true(record.at_ns == 100 && record.took_ns == 30 && !record.batch);
		assert_true(record.tcp == tcp);
	}
	ring_free(ring);
}

static void
without_whole_messages_a_message_leaves_no_record(void **state)
{
	(void)state;
	struct ring *ring = new_ring(RING_MIN, false);
	const struct sockaddr_in from = { .sin_family = AF_INET };
	observe_message(ring, RECORD_CLIENT_QUERY, false, (const struct sockaddr *)&from,
	    (const uint8_t *)"query", 5, 7, 0);
	assert_true(ring_newest(ring) == RING_NONE);
	observe_message(NULL, RECORD_CLIENT_QUERY, false, (const struct sockaddr *)&from,
	    (const uint8_t *)"query", 5, 7, 0);
	ring_free(ring);
}

static void
answers_of_one_batch_are_seen_together_and_took_as_long_as_the_batch(void **state)
{
	(void)state;
	struct ring *ring = new_ring(RING_MIN, false);
	const union client_addr from = { .in.sin_family = AF_INET };
	struct answer_info info = { .len = 30 };
	struct ring_record record;
	uint64_t at, before = RING_NONE;
	for (int64_t batch = 1; batch <= 3; batch++) {
		for (int i = 0; i < RING_BATCH; i++)
			observe(ring, &(struct observed){
					  .client = &from.sa, .info = &info, .at_ns = batch });
		assert_true(ring_newest(ring) == before);
		observe_batch(ring, batch * 1000);
		before = ring_newest(ring);
	}
	at = before;
	for (int i = 0; i < 3 * RING_BATCH; i++, at = record.predecessor) {
		assert_true(ring_read(ring, at, &record, NULL));
		assert_true(record.batch);
		assert_int_equal(record.took_ns, record.at_ns * 1000);
		assert_int_equal(record.name.len, 0);
	}
	assert_false(ring_read(ring, at, &record, NULL));
	ring_free(ring);
}

/* --- following --- */

static void
a_follower_reads_each_record_once_however_often_the_ring_turns(void **state)
{
	(void)state;
	struct ring *ring = new_ring(WHOLE, true);
	struct ring_follower follower;
	struct ring_record record;
	uint32_t next = 2;
	add_numbered(ring, 1);
	ring_follow(&follower, ring); /* the reader starts after this record */
	for (uint32_t n = 2; n <= 5000; n++) {
		add_numbered(ring, n);
		assert_true(ring_follow_has_more(&follower));
		if (n % 3 == 0)
			continue;
		ring_follow_iteration(&follower);
		while (ring_follow_next(&follower, &record, messages))
			assert_int_equal(number_of(ring, &record), next++);
		assert_false(ring_follow_has_more(&follower));
	}
	assert_int_equal(next, 5001);
	assert_int_equal(follower.skipped.answers, 0);
	assert_int_equal(follower.skipped.messages, 0);
	ring_free(ring);
}

static void
a_slow_follower_goes_on_with_the_newest_and_counts_what_it_skipped(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		struct ring *ring = new_ring(WHOLE, whole);
		struct ring_follower follower;
		struct ring_record record;
		uint32_t last = 0, read = 0;

		ring_follow(&follower, ring);
		for (uint32_t n = 1; n <= 10000; n++)
			add_numbered(ring, n);
		ring_follow_iteration(&follower);
		for (; ring_follow_next(&follower, &record, messages); read++) {
			uint32_t n = number_of(ring, &record);

			assert_true(read == 0 || n == last + 1);
			last = n;
		}
		assert_int_equal(last, 10000);
		assert_true(read > 10 && read < 9000);
		assert_int_equal(read + follower.skipped.answers, 10000);
		if (whole)
			assert_int_equal(2 * read + follower.skipped.messages, 20000);
		add_numbered(ring, 10001); /* the reader continues normally */
		ring_follow_iteration(&follower);
		assert_true(ring_follow_next(&follower, &record, messages));
		assert_int_equal(number_of(ring, &record), 10001);
		assert_false(ring_follow_next(&follower, &record, messages));
		ring_free(ring);
	}
}

/* If the ring overtakes a reader, the reader examines a limited number of records, however large
 * the ring is. */
static void
a_slow_follower_of_a_large_ring_goes_on_soon(void **state)
{
	(void)state;
	enum { RECORDS = 400000, MOST = 16384 };
	struct ring *ring = new_ring(8 << 20, false);
	struct ring_follower follower;
	struct ring_record record;
	uint32_t read = 0;

	ring_follow(&follower, ring);
	for (uint32_t n = 1; n <= RECORDS; n++)
		add_numbered(ring, n);
	ring_follow_iteration(&follower);
	while (ring_follow_next(&follower, &record, messages))
		read++;
	assert_int_equal(read, MOST);
	assert_int_equal(read + follower.skipped.answers, RECORDS);
	ring_free(ring);
}

/* --- samples --- */

static void
one_answer_in_forty_is_a_sample_and_half_of_the_samples_wake_the_reader(void **state)
{
	(void)state;
	struct ring_config config = { .bytes = 1 << 20, .seed = 1 };
	config.wake = eventfd(0, EFD_NONBLOCK);
	struct ring *ring = ring_new(&config);
	struct ring_sampler sampler;
	struct ring_record record;
	uint64_t count, woken = 0;
	unsigned samples = 0;
	uint32_t last = 0;
	ring_sample_follow(&sampler, ring);
	for (uint32_t n = 1; n <= 400000; n++) {
		add_numbered(ring, n);
		if (read(config.wake, &count, sizeof count) < 0)
			continue;
		woken++;
		for (; ring_sample_next(&sampler, &record); samples++) {
			assert_true(number_of(ring, &record) > last);
			last = number_of(ring, &record);
		}
	}
	assert_in_range(samples, 9500, 10500);
	assert_int_equal(sampler.skipped, 0);
	assert_in_range(woken, samples / RING_SAMPLES, samples / (RING_SAMPLES / 4));
	close(config.wake);
	ring_free(ring);
}

static void
samples_that_were_overwritten_are_counted(void **state)
{
	(void)state;
	/* With the small ring, the records are overwritten first. With the large one, the positions
	 * of the samples are. */
	for (size_t bytes = RING_MIN; bytes <= (64 << 20); bytes <<= 10) {
		struct ring *ring = new_ring(bytes, false);
		struct ring_sampler sampler;
		struct ring_record record;
		uint64_t read = 0;

		ring_sample_follow(&sampler, ring);
		for (uint32_t n = 1; n <= 100000; n++)
			add_numbered(ring, n);
		for (; ring_sample_next(&sampler, &record); read++)
			number_of(ring, &record);
		assert_true(read > 0 && read < RING_SAMPLES && sampler.skipped > 2000);
		assert_int_equal(read + sampler.skipped, ring->sampled);
		ring_free(ring);
	}
}

/* --- reading and writing at the same time --- */

enum { ENOUGH = 100000, ENOUGH_WHOLE = 10000 };

/* Returns the minimum number of records that a test writes. It takes longer to compare records with
 * whole messages. */
static uint32_t
enough(const struct ring *ring)
{
	return ring->whole ? ENOUGH_WHOLE : ENOUGH;
}

struct writing {
	struct ring *ring;
	atomic_bool stop;
	_Atomic uint32_t written;
};

static void *
write_without_pause(void *arg)
{
	struct writing *writing = arg;

	for (uint32_t n = 1; !atomic_load(&writing->stop); n++) {
		add_numbered(writing->ring, n);
		atomic_store_explicit(&writing->written, n, memory_order_relaxed);
	}
	return NULL;
}

/* Returns whether to continue: for a second, and then until there are enough records. With a
 * sanitizer, that can take longer. */
static bool
go_on(struct writing *writing, int64_t start_ns)
{
	int64_t now_ns = clock_mono_ns();

	return now_ns < start_ns + NS_PER_S ||
	       (atomic_load(&writing->written) < enough(writing->ring) &&
		   now_ns < start_ns + 60 * NS_PER_S);
}

static void
no_record_is_torn_while_the_ring_is_overwritten(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		struct writing writing = { .ring = new_ring(whole ? WHOLE : RING_MIN, whole) };
		struct ring_record record;
		pthread_t thread;
		uint64_t read = 0, cut_short = 0;
		int64_t start_ns = clock_mono_ns();

		assert_int_equal(pthread_create(&thread, NULL, write_without_pause, &writing), 0);
		while (go_on(&writing, start_ns)) {
			uint32_t last = UINT32_MAX;
			uint64_t at = ring_newest(writing.ring);
			bool any = at != RING_NONE;

			for (; ring_read(writing.ring, at, &record, messages); read++) {
				uint32_t n = number_of(writing.ring, &record);

				assert_true(last == UINT32_MAX || n + 1 == last);
				last = n;
				at = record.predecessor;
			}
			cut_short += any && last != 1;
		}
		atomic_store(&writing.stop, true);
		pthread_join(thread, NULL);
		print_message("%llu records read, %llu walks met the writer, %u written\n",
		    (unsigned long long)read, (unsigned long long)cut_short, writing.written);
		assert_true(read > 1000 && cut_short > 0);
		assert_true(writing.written >= enough(writing.ring));
		ring_free(writing.ring);
	}
}

static void
each_record_is_read_once_or_counted_while_both_sides_run(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		struct writing writing = { .ring = new_ring(whole ? WHOLE : RING_MIN, whole) };
		struct ring_follower follower;
		struct ring_sampler sampler;
		struct ring_record record;
		pthread_t thread;
		uint64_t read = 0, samples = 0;
		uint32_t last = 0;
		int64_t start_ns = clock_mono_ns();

		ring_follow(&follower, writing.ring);
		ring_sample_follow(&sampler, writing.ring);
		assert_int_equal(pthread_create(&thread, NULL, write_without_pause, &writing), 0);
		for (bool more = true; more;) {
			if (!go_on(&writing, start_ns) && !atomic_load(&writing.stop)) {
				atomic_store(&writing.stop, true);
				pthread_join(thread, NULL);
				more = false; /* the last iteration */
			}
			ring_follow_iteration(&follower);
			for (; ring_follow_next(&follower, &record, messages); read++) {
				uint32_t n = number_of(writing.ring, &record);

				assert_true(n > last);
				last = n;
			}
			for (; ring_sample_next(&sampler, &record); samples++)
				assert_true(record.at_ns > 0);
		}
		assert_int_equal(last, writing.written);
		assert_int_equal(read + follower.skipped.answers, writing.written);
		if (whole)
			assert_int_equal(2 * read + follower.skipped.messages, 2 * writing.written);
		assert_int_equal(samples + sampler.skipped, writing.ring->sampled);
		ring_free(writing.ring);
	}
}

static void
a_sleeping_reader_of_messages_is_woken_once(void **state)
{
	(void)state;
	struct ring_listener listener = { .wake = eventfd(0, EFD_NONBLOCK) };
	struct ring *ring = ring_new(&(struct ring_config){
	    .bytes = WHOLE, .whole = true, .listener = &listener, .wake = -1, .seed = 1 });
	uint64_t count;
	add_numbered(ring, 1);
	assert_int_equal(read(listener.wake, &count, sizeof count), -1);
	atomic_store(&listener.asleep, true);
	add_numbered(ring, 2);
	add_numbered(ring, 3);
	assert_int_equal(read(listener.wake, &count, sizeof count), sizeof count);
	assert_int_equal(count, 1);
	assert_false(atomic_load(&listener.asleep));
	close(listener.wake);
	ring_free(ring);
}

static void
a_ring_has_its_part_of_the_memory_and_none_if_nobody_reads_it(void **state)
{
	(void)state;
	assert_int_equal(ring_bytes(0, false, 4), 0);
	assert_int_equal(ring_bytes(2 << 20, false, 4), 512 << 10);
	assert_int_equal(ring_bytes(256 << 10, false, 16), RING_MIN);
	assert_int_equal(ring_bytes(0, true, 4), 1 << 20);
	assert_int_equal(ring_bytes(2 << 20, true, 4), (6 << 20) / 4);
	assert_int_equal(ring_bytes(0, true, 64), RING_WHOLE_MIN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_answers_are_read_from_the_newest_backwards),
		cmocka_unit_test(whole_messages_are_read_as_they_were),
		cmocka_unit_test(an_answer_without_its_query_has_the_name_of_its_response),
		cmocka_unit_test(messages_of_other_servers_have_their_own_times_over_udp_and_tcp),
		cmocka_unit_test(without_whole_messages_a_message_leaves_no_record),
		cmocka_unit_test(
		    answers_of_one_batch_are_seen_together_and_took_as_long_as_the_batch),
		cmocka_unit_test(a_follower_reads_each_record_once_however_often_the_ring_turns),
		cmocka_unit_test(
		    a_slow_follower_goes_on_with_the_newest_and_counts_what_it_skipped),
		cmocka_unit_test(a_slow_follower_of_a_large_ring_goes_on_soon),
		cmocka_unit_test(
		    one_answer_in_forty_is_a_sample_and_half_of_the_samples_wake_the_reader),
		cmocka_unit_test(samples_that_were_overwritten_are_counted),
		cmocka_unit_test(no_record_is_torn_while_the_ring_is_overwritten),
		cmocka_unit_test(each_record_is_read_once_or_counted_while_both_sides_run),
		cmocka_unit_test(a_sleeping_reader_of_messages_is_woken_once),
		cmocka_unit_test(a_ring_has_its_part_of_the_memory_and_none_if_nobody_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
