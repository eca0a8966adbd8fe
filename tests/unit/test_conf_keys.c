/* The schema of the ConfigMap: the keys that each program uses, and how new content is applied or
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "lib/conf.h"
#include "lib/conf_keys.h"
#include "lib/confdir.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/xalloc.h"

static struct conf_key key;

static void
judge(const char *text, const char *error)
{
	conf_key_judge(&key, "test", "federations", text, text != NULL ? strlen(text) : 0,
	    error != NULL ? xstrdup(error) : NULL);
}

static int
finish(void **state)
{
	(void)state;
	conf_key_clear(&key);
	return 0;
}

static void
each_refused_content_counts_once(void **state)
{
	(void)state;
	judge("x", "not name=domain");
	judge("x", "not name=domain");
	assert_int_equal(key.refused, 1);
	assert_string_equal(key.error, "not name=domain");
	judge("y", "not name=domain");
	assert_int_equal(key.refused, 2);
	judge("y", "is given twice");
	assert_int_equal(key.refused, 3);
}

static void
a_good_content_ends_the_error_and_the_same_bad_one_after_it_counts_again(void **state)
{
	(void)state;
	judge("x", "bad");
	assert_true(key.error_since > 0);
	judge("a=b", NULL);
	assert_null(key.error);
	assert_true(key.present);
	judge("x", "bad");
	assert_int_equal(key.refused, 2);
	judge(NULL, NULL);
	assert_null(key.error);
	assert_false(key.present);
}

/* The hash is the same with and without padding. It depends on every byte, on the length and on the
 * seed. */
static void
the_hash_covers_every_byte_and_the_length(void **state)
{
	uint8_t bytes[32 + HASH_PAD] = "abcdefghijklmnopqrstuvwxyz012345";

	(void)state;
	for (size_t len = 0; len <= 32; len++) {
		uint64_t hash = hash64(HASH_START, bytes, len);

		assert_true(hash == hash64_padded(HASH_START, bytes, len));
		assert_true(hash != hash64(HASH_START + 2, bytes, len));
		assert_true(len == 0 || hash != hash64(HASH_START, bytes, len - 1));
		for (size_t i = 0; i < len; i++) {
			bytes[i] ^= 1;
			assert_true(hash != hash64(HASH_START, bytes, len));
			bytes[i] ^= 1;
		}
	}
}
/* --- the keys of one program --- */

static struct {
	size_t upstreams, stubs; /* the values that are in use */
	bool present;            /* whether the key that was applied last is present */
	const char *refuse;      /* why the program refuses upstreams; NULL if it accepts them */
} in_force;

static char *
take_stubs(void *arg, struct conf_content *content)
{
	const struct conf_stubs *stubs = content->value;

	(void)arg;
	content->changed = stubs->count != in_force.stubs;
	in_force.stubs = stubs->count;
	in_force.present = content->present;
	return NULL;
}

static char *
take_upstreams(void *arg, struct conf_content *content)
{
	const struct conf_upstreams *upstreams = content->value;

	(void)arg;
	if (in_force.refuse != NULL && upstreams->count > 0)
		return xstrdup(in_force.refuse);
	content->changed = upstreams->count != in_force.upstreams;
	in_force.upstreams = upstreams->count;
	in_force.present = content->present;
	return NULL;
}

static char *
take_nothing(void *arg, struct conf_content *content)
{
	(void)arg;
	(void)content;
	return NULL;
}

static conf_key_apply *const takers[CONF_KEYS] = { [CONF_KEY_STUBS] = take_stubs,
	[CONF_KEY_UPSTREAMS] = take_upstreams,
	[CONF_KEY_FEDERATIONS] = take_nothing,
	[CONF_KEY_HOSTS] = take_nothing,
	[CONF_KEY_RECORDS] = take_nothing,
	[CONF_KEY_REWRITES] = take_nothing };

static struct conf_keys
keys_of(enum conf_program program)
{
	memset(&in_force, 0, sizeof in_force);
	return (struct conf_keys){
		.program = program, .subject = "test", .domain = "cluster.local", .apply = takers
	};
}

static bool
take(struct conf_keys *keys, enum conf_key_id id, const char *text)
{
	return conf_keys_take(keys, id, text, text == NULL ? 0 : strlen(text), NULL);
}

static void
each_key_has_a_parser_and_a_program_that_applies_it(void **state)
{
	(void)state;
	for (enum conf_key_id id = 0; id < CONF_KEYS; id++) {
		const struct conf_key_row *row = &conf_key_rows[id];

		assert_non_null(row->name);
		assert_non_null(row->help);
		assert_non_null(row->parse);
		assert_true(row->size > 0);
		assert_true(
		    row->use[CONF_KUBEDNS] == CONF_APPLY || row->use[CONF_NANNY] == CONF_APPLY);
	}
}

static void
only_kubedns_reads_federations(void **state)
{
	const char *names[CONF_KEYS + 1];
	size_t count = 0;

	(void)state;
	conf_key_names(CONF_KUBEDNS, names);
	while (names[count] != NULL)
		count++;
	assert_int_equal(count, CONF_KEYS);
	conf_key_names(CONF_NANNY, names);
	for (count = 0; names[count] != NULL; count++)
		assert_string_not_equal(names[count], "federations");
	assert_int_equal(count, CONF_KEYS - 1);
}

static void
a_bad_key_keeps_its_value_and_the_others_take_effect(void **state)
{
	struct conf_keys keys = keys_of(CONF_NANNY);

	(void)state;
	assert_true(take(&keys, CONF_KEY_UPSTREAMS, "[\"192.0.2.1\", \"192.0.2.2\"]"));
	assert_false(take(&keys, CONF_KEY_UPSTREAMS, "[\"192.0.2\"]"));
	assert_true(take(&keys, CONF_KEY_STUBS, "{\"corp\": [\"192.0.2.3\"]}"));
	assert_int_equal(in_force.upstreams, 2);
	assert_int_equal(in_force.stubs, 1);
	assert_non_null(keys.states[CONF_KEY_UPSTREAMS].error);
	assert_int_equal(conf_keys_mistakes(&keys), 1);
	conf_keys_clear(&keys);
}

static void
a_key_that_is_gone_has_an_empty_value_again(void **state)
{
	struct conf_keys keys = keys_of(CONF_NANNY);

	(void)state;
	take(&keys, CONF_KEY_UPSTREAMS, "[\"192.0.2.1\"]");
	assert_true(in_force.present);
	assert_true(take(&keys, CONF_KEY_UPSTREAMS, NULL));
	assert_false(in_force.present);
	assert_int_equal(in_force.upstreams, 0);
	conf_keys_clear(&keys);
}

static void
what_the_program_refuses_is_a_mistake_like_what_the_parser_refuses(void **state)
{
	struct conf_keys keys = keys_of(CONF_NANNY);

	(void)state;
	in_force.refuse = "leads back to dnsmasq";
	assert_false(take(&keys, CONF_KEY_UPSTREAMS, "[\"192.0.2.1\"]"));
	assert_string_equal(keys.states[CONF_KEY_UPSTREAMS].error, in_force.refuse);
	assert_int_equal(keys.states[CONF_KEY_UPSTREAMS].refused, 1);
	conf_keys_clear(&keys);
}

static void
a_refused_key_with_tls_is_closed_until_there_is_a_good_value(void **state)
{
	static const struct {
		const char *text;
		bool closed, had_good;
	} steps[] = { { "[\"tls://192.0.2.1\"]", true, false }, { "[\"192.0.2\"]", false, false },
		{ "[\"tls://192.0.2.1\"]", true, false }, { "[\"192.0.2.1\"]", false, true },
		{ "[\"tls://192.0.2.1\"]", false, true }, { "[]", false, false },
		{ "[\"tls://192.0.2.1\"]", true, false }, { NULL, false, false },
		{ "[\"tls://192.0.2.1\"]", true, false } };
	struct conf_keys keys = keys_of(CONF_NANNY);
	const struct conf_key *state_of = &keys.states[CONF_KEY_UPSTREAMS];

	(void)state;
	in_force.refuse = NULL;
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		take(&keys, CONF_KEY_UPSTREAMS, steps[i].text);
		assert_int_equal(state_of->closed, steps[i].closed);
		assert_int_equal(state_of->had_good, steps[i].had_good);
	}
	conf_keys_clear(&keys);
}

static void
a_key_that_the_program_only_reads_is_counted_but_not_judged(void **state)
{
	struct conf_keys keys = keys_of(CONF_KUBEDNS);

	(void)state;
	assert_true(take(&keys, CONF_KEY_STUBS, "{\"corp\": [\"192.0.2.3\"]}"));
	assert_false(take(&keys, CONF_KEY_STUBS, "{"));
	assert_int_equal(in_force.stubs, 1);
	assert_int_equal(keys.states[CONF_KEY_STUBS].refused, 0);
	assert_false(conf_keys_applies(&keys, CONF_KEY_STUBS));
	assert_int_equal(conf_keys_mistakes(&keys), 1);
	take(&keys, CONF_KEY_STUBS, "{}");
	assert_int_equal(conf_keys_mistakes(&keys), 0);
	conf_keys_clear(&keys);
}

static void
a_file_that_cannot_be_read_keeps_the_value_of_its_key(void **state)
{
	struct conf_keys keys = keys_of(CONF_NANNY);
	static char good[] = "[\"192.0.2.1\"]", name[] = "upstreamNameservers",
		    unreadable[] = "too large";
	struct confdir_key file = { .name = name, .value = good, .len = strlen(good) };
	const struct confdir_set set = { .keys = &file, .count = 1, .exists = true };

	(void)state;
	assert_true(conf_keys_take_set(&keys, &set));
	file = (struct confdir_key){ .name = name, .error = unreadable };
	assert_false(conf_keys_take_set(&keys, &set));
	assert_int_equal(in_force.upstreams, 1);
	assert_string_equal(keys.states[CONF_KEY_UPSTREAMS].error, unreadable);
	conf_keys_clear(&keys);
}

static struct confdir_set
set_of(struct confdir_key *file)
{
	return (struct confdir_set){ .keys = file, .count = 1, .exists = true };
}

/* A file that was never read may ask for TLS. */
static void
a_file_that_was_never_read_is_closed_until_it_is(void **state)
{
	static char names[][20] = { "upstreamNameservers", "stubDomains", "hosts" },
		    unreadable[] = "is a directory", bad[] = "8.8.8";

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct conf_keys keys = keys_of(CONF_NANNY);
		enum conf_key_id id = i == 0   ? CONF_KEY_UPSTREAMS
				      : i == 1 ? CONF_KEY_STUBS
					       : CONF_KEY_HOSTS;
		struct confdir_key file = { .name = names[i], .error = unreadable };
		struct confdir_set set = set_of(&file);

		conf_keys_take_set(&keys, &set);
		assert_int_equal(keys.states[id].closed, id != CONF_KEY_HOSTS);
		file = (struct confdir_key){ .name = names[i], .value = bad, .len = strlen(bad) };
		conf_keys_take_set(&keys, &set);
		assert_false(keys.states[id].closed);
		conf_keys_clear(&keys);
	}
}

static void
a_misspelt_key_that_asks_for_tls_counts_as_refused(void **state)
{
	static char name[] = "upstreamNameservers", entry[] = "upstreamNameserver",
		    tls[] = "[\"tls://192.0.2.1#a.test\"]", plain[] = "[\"192.0.2.1\"]";
	struct conf_keys keys = keys_of(CONF_NANNY);
	const struct conf_key *state_of = &keys.states[CONF_KEY_UPSTREAMS];
	struct confdir_key file = {
		.name = name, .value = tls, .len = strlen(tls), .entry = entry
	};
	struct confdir_set set = set_of(&file);

	(void)state;
	conf_keys_take_set(&keys, &set);
	assert_true(state_of->closed);
	assert_string_equal(state_of->error, "the key is missing, and the key upstreamNameserver "
					     "looks like it: rename it");
	file.value = plain;
	file.len = strlen(plain);
	conf_keys_take_set(&keys, &set);
	assert_false(state_of->closed);
	assert_null(state_of->error);
	assert_int_equal(in_force.upstreams, 0);
	take(&keys, CONF_KEY_UPSTREAMS, plain);
	file.value = tls;
	file.len = strlen(tls);
	assert_false(conf_keys_take_set(&keys, &set));
	assert_false(state_of->closed);
	assert_int_equal(in_force.upstreams, 1);
	conf_keys_clear(&keys);
}

static void
the_key_log_level_takes_the_place_of_the_flag_in_both_programs(void **state)
{
	static const char *const bad[] = { "11", "-1", "debug", "4 4", "4x", "123456789" };

	(void)state;
	for (enum conf_program program = 0; program < CONF_PROGRAMS; program++) {
		struct conf_keys keys = keys_of(program);

		assert_false(log_is_debug());
		take(&keys, CONF_KEY_LOG_LEVEL, "4\n");
		assert_true(log_is_debug());
		for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
			take(&keys, CONF_KEY_LOG_LEVEL, bad[i]);
			assert_int_equal(conf_keys_mistakes(&keys), 1);
			assert_true(log_is_debug());
		}
		take(&keys, CONF_KEY_LOG_LEVEL, "0");
		assert_false(log_is_debug());
		take(&keys, CONF_KEY_LOG_LEVEL, "10");
		assert_true(log_is_debug());
		take(&keys, CONF_KEY_LOG_LEVEL, program == CONF_NANNY ? "" : NULL);
		assert_false(log_is_debug());
		conf_keys_clear(&keys);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(each_refused_content_counts_once, finish),
		cmocka_unit_test_teardown(
		    a_good_content_ends_the_error_and_the_same_bad_one_after_it_counts_again,
		    finish),
		cmocka_unit_test(each_key_has_a_parser_and_a_program_that_applies_it),
		cmocka_unit_test(only_kubedns_reads_federations),
		cmocka_unit_test(a_bad_key_keeps_its_value_and_the_others_take_effect),
		cmocka_unit_test(a_key_that_is_gone_has_an_empty_value_again),
		cmocka_unit_test(
		    what_the_program_refuses_is_a_mistake_like_what_the_parser_refuses),
		cmocka_unit_test(a_refused_key_with_tls_is_closed_until_there_is_a_good_value),
		cmocka_unit_test(a_key_that_the_program_only_reads_is_counted_but_not_judged),
		cmocka_unit_test(a_file_that_cannot_be_read_keeps_the_value_of_its_key),
		cmocka_unit_test(a_file_that_was_never_read_is_closed_until_it_is),
		cmocka_unit_test(a_misspelt_key_that_asks_for_tls_counts_as_refused),
		cmocka_unit_test(the_key_log_level_takes_the_place_of_the_flag_in_both_programs),
		cmocka_unit_test(the_hash_covers_every_byte_and_the_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
