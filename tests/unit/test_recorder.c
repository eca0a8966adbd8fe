/* The last answers of a worker, read while they are written. */
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

#include "kubedns/serve/client.h"
#include "kubedns/serve/observe/recorder.h"
#include "lib/clock.h"

/* A query for as many labels as fit into `len` bytes, all of the letter `letter`. */
static void
question(struct answer_info *info, size_t len, char letter)
{
	uint8_t *p = info->query.qname;
	size_t left = len - 1;
	while (left > 0) {
		size_t label = left > 64 ? 63 : left - 1;
		if (left - 1 - label == 1) /* a label has a byte at least */
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

/* An answer of which every part says the same number. */
static void
add_numbered(struct recorder *recorder, uint32_t n)
{
	static const size_t lengths[] = { 3, 46, 64, 65, 68, 69, 120, 255 };
	struct answer_info info = { .len = n % 60000, .rcode = n % 16, .truncated = n % 2 };
	union client_addr from = { .in = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)n),
				       .sin_addr.s_addr = htonl(n) } };
	if (n % 3 == 0) {
		memset(&from.in6, 0xfd, sizeof(from.in6));
		from.in6.sin6_family = AF_INET6;
		from.in6.sin6_port = htons((uint16_t)n);
		memcpy(&from.in6.sin6_addr.s6_addr[12], &(uint32_t){ htonl(n) }, 4);
	}
	info.query.qtype = (uint16_t)n;
	question(&info, lengths[n % 8], (char)('a' + n % 26));
	recorder_add(recorder, &from.sa, &info, n);
	recorder_made(recorder, (enum answer_made)(n % MADE_COUNT), true);
	recorder_publish(recorder, n);
}

/* Fails unless all parts of the record say the same; returns what they say. */
static uint32_t
number_of(const struct answer_record *r)
{
	uint32_t n = r->took_ns, address;
	bool v6 = n % 3 == 0;
	assert_int_equal(r->at_ns, n);
	assert_int_equal(r->size, n % 60000);
	assert_int_equal(r->rcode, n % 16);
	assert_int_equal(r->truncated, n % 2);
	assert_int_equal(r->type, (uint16_t)n);
	assert_int_equal(r->made, n % MADE_COUNT);
	assert_int_equal(r->client.port, (uint16_t)n);
	assert_int_equal(r->client.addr.family, v6 ? AF_INET6 : AF_INET);
	memcpy(&address, r->client.addr.bytes + (v6 ? 12 : 0), 4);
	assert_int_equal(ntohl(address), n);
	struct answer_info want = { .len = 0 };
	static const size_t lengths[] = { 3, 46, 64, 65, 68, 69, 120, 255 };
	question(&want, lengths[n % 8], (char)('a' + n % 26));
	assert_int_equal(r->name.len, lengths[n % 8]);
	assert_memory_equal(r->name.wire, want.query.qname, r->name.len);
	return n;
}

static struct recorder *
recorder_made_of(size_t bytes)
{
	struct recorder *recorder = aligned_alloc(64, sizeof(*recorder));
	recorder_init(recorder, bytes);
	return recorder;
}

static void
the_last_answers_are_read_from_the_newest_backwards(void **state)
{
	(void)state;
	struct recorder *recorder = recorder_made_of(RECORDER_MIN);
	struct recorder_reader reader;
	struct answer_record record;
	recorder_reader_init(&reader, recorder);
	assert_false(recorder_read(&reader, &record));
	for (uint32_t n = 1; n <= 5000; n++) {
		unsigned seen = 0;
		add_numbered(recorder, n);
		if (n > 40 && n % 97 != 0)
			continue;
		recorder_reader_init(&reader, recorder);
		for (; recorder_read(&reader, &record); seen++)
			assert_int_equal(number_of(&record), n - seen);
		/* All of them at first; then what fits, a record being 140 bytes in the mean. */
		const uint32_t fit = (RECORDER_MIN - RECORDER_MARGIN) / 140;
		assert_in_range(seen, n < fit ? n : fit, n);
	}
	recorder_free(recorder);
	free(recorder);
}

static void
answers_of_one_batch_took_as_long_as_the_batch(void **state)
{
	(void)state;
	struct recorder *recorder = recorder_made_of(RECORDER_MIN);
	const union client_addr from = { .in.sin_family = AF_INET };
	struct answer_info info = { .len = 30 };
	struct recorder_reader reader;
	struct answer_record record;
	for (int64_t batch = 1; batch <= 3; batch++) {
		for (int i = 0; i < RECORD_BATCH; i++)
			recorder_add(recorder, &from.sa, &info, batch);
		recorder_publish(recorder, (uint32_t)batch * 1000);
	}
	recorder_reader_init(&reader, recorder);
	for (int i = 0; i < 3 * RECORD_BATCH; i++) {
		assert_true(recorder_read(&reader, &record));
		assert_int_equal(record.took_ns, record.at_ns * 1000);
		assert_int_equal(record.name.len, 0);
	}
	assert_false(recorder_read(&reader, &record));
	recorder_free(recorder);
	free(recorder);
}

static void
a_batch_is_seen_when_it_is_whole(void **state)
{
	(void)state;
	struct recorder *recorder = recorder_made_of(RECORDER_MIN);
	const union client_addr from = { .in.sin_family = AF_INET };
	struct answer_info info = { .len = 30 };
	struct recorder_reader reader;
	struct answer_record record;
	recorder_add(recorder, &from.sa, &info, 1);
	recorder_reader_init(&reader, recorder);
	assert_false(recorder_read(&reader, &record));
	recorder_publish(recorder, 1);
	recorder_reader_init(&reader, recorder);
	assert_true(recorder_read(&reader, &record));
	recorder_free(recorder);
	free(recorder);
}

enum { ENOUGH = 100000 };

struct writing {
	struct recorder *recorder;
	atomic_bool stop;
	_Atomic uint32_t written;
};

static void *
write_without_pause(void *arg)
{
	struct writing *writing = arg;
	for (uint32_t n = 1; !atomic_load(&writing->stop); n++) {
		add_numbered(writing->recorder, n);
		atomic_store_explicit(&writing->written, n, memory_order_relaxed);
	}
	return NULL;
}

/* Of a ring that is overwritten many times while one reader walks through it. */
static void
no_record_is_torn_while_the_ring_is_overwritten(void **state)
{
	(void)state;
	struct writing writing = { .recorder = recorder_made_of(RECORDER_MIN) };
	struct recorder_reader reader;
	struct answer_record record;
	pthread_t thread;
	uint64_t read = 0, cut_short = 0;
	/* A second, or as long as a sanitizer takes for so many. */
	int64_t start_ns = clock_mono_ns(), end_ns = start_ns + NS_PER_S;
	assert_int_equal(pthread_create(&thread, NULL, write_without_pause, &writing), 0);
	while (clock_mono_ns() < end_ns || (atomic_load(&writing.written) < ENOUGH &&
					       clock_mono_ns() < start_ns + 60 * NS_PER_S)) {
		uint32_t last = UINT32_MAX;
		recorder_reader_init(&reader, writing.recorder);
		bool any = reader.position != RECORDER_END;
		for (; recorder_read(&reader, &record); read++) {
			uint32_t n = number_of(&record);
			assert_true(last == UINT32_MAX || n + 1 == last);
			last = n;
		}
		cut_short += any && last != 1;
	}
	atomic_store(&writing.stop, true);
	pthread_join(thread, NULL);
	print_message("%llu records read, %llu walks met the writer, %u written\n",
	    (unsigned long long)read, (unsigned long long)cut_short, writing.written);
	assert_true(read > 1000 && cut_short > 0);
	assert_true(writing.written >= ENOUGH);
	recorder_free(writing.recorder);
	free(writing.recorder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_answers_are_read_from_the_newest_backwards),
		cmocka_unit_test(answers_of_one_batch_took_as_long_as_the_batch),
		cmocka_unit_test(a_batch_is_seen_when_it_is_whole),
		cmocka_unit_test(no_record_is_torn_while_the_ring_is_overwritten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
