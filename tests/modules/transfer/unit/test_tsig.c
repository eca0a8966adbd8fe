/* TSIG. Another implementation (dnspython) signed these messages. They are read, verified, and
 * signed again: each byte is the same. No other messages are accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/modules/transfer/tsig.h"
#include "lib/wire.h"

enum { NOW_S = 1700000000, ROOM = 1024, REPLIES = 3 };

/* An AXFR query for cluster.local with the ID 0x1234. It is signed at NOW_S with the key
 * Key.Example, whose secret is the bytes 0 to 31. `replies` are the first messages of the transfer,
 * one second apart, before and after signing. */
static const struct {
	const char *algorithm, *request, *replies[REPLIES][2];
} rows[] = {
	{ "hmac-sha256",
	    "12340000000100000000000107636c7573746572056c6f63616c0000fc0001034b6579074578616d706c65"
	    "0000fa00ff"
	    "00000000003d0b686d61632d7368613235360000006553f100012c002052d7c7347df9ab73d952400139bf"
	    "71784e8a9c"
	    "477e87fd4b2758e686a7b44db9123400000000",
	    {
		{ "12348400000100010000000007636c7573746572056c6f63616c0000fc00010161c00c0001000100"
		  "00001e00040a0000"
		  "01",
		    "12348400000100010000000107636c7573746572056c6f63616c0000fc00010161c00c00010001"
		    "0000001e00040a0000"
		    "01036b6579076578616d706c650000fa00ff00000000003d0b686d61632d736861323536000000"
		    "6553f100012c0020dd"
		    "3ade4d169e7a10f5924a6a899b97aed30bb96e4bf0ec6bfecf508587def535123400000000" },
		{ "123484000000000100000000016107636c7573746572056c6f63616c00000100010000001e00040a"
		  "000002",
		    "123484000000000100000001016107636c7573746572056c6f63616c00000100010000001e0004"
		    "0a000002036b657907"
		    "6578616d706c650000fa00ff00000000003d0b686d61632d7368613235360000006553f101012c"
		    "0020e5b4a33187adbb"
		    "6616245234ba9a9bc36790c773bdc29845dff1c9f9d19dfa10123400000000" },
		{ "123484000000000100000000016107636c7573746572056c6f63616c00000100010000001e00040a"
		  "000003",
		    "123484000000000100000001016107636c7573746572056c6f63616c00000100010000001e0004"
		    "0a000003036b657907"
		    "6578616d706c650000fa00ff00000000003d0b686d61632d7368613235360000006553f102012c"
		    "0020b4d3eec12337d6"
		    "a622737b785b851785a262b567428f4b4f723c09ffd8f9d73e123400000000" },
	    } },
	{ "hmac-sha384",
	    "12340000000100000000000107636c7573746572056c6f63616c0000fc0001034b6579074578616d706c65"
	    "0000fa00ff"
	    "00000000004d0b686d61632d7368613338340000006553f100012c0030502a28c157bd3cb8ef18d5ae9ebc"
	    "aa7c4a2a90"
	    "66998ce5511914b275b1e638ef8625dc73be7ae4d58556a67d5c9521f1123400000000",
	    {
		{ "12348400000100010000000007636c7573746572056c6f63616c0000fc00010161c00c0001000100"
		  "00001e00040a0000"
		  "01",
		    "12348400000100010000000107636c7573746572056c6f63616c0000fc00010161c00c00010001"
		    "0000001e00040a0000"
		    "01036b6579076578616d706c650000fa00ff00000000004d0b686d61632d736861333834000000"
		    "6553f100012c003085"
		    "6b1f33cfee6b086ef1f9ffafdeb58334dd0f00dd47effc3faca4577c6a38d258ffa941e5a5663f"
		    "a09f16e7edae0fd112"
		    "3400000000" },
		{ "123484000000000100000000016107636c7573746572056c6f63616c00000100010000001e00040a"
		  "000002",
		    "123484000000000100000001016107636c7573746572056c6f63616c00000100010000001e0004"
		    "0a000002036b657907"
		    "6578616d706c650000fa00ff00000000004d0b686d61632d7368613338340000006553f101012c"
		    "0030c33912a9b47ac4"
		    "b91ca46276ae013c0b2973ae3f34b807c67e80afb1e237415c61d245176816dccb83aa11af8c67"
		    "8de4123400000000" },
		{ "123484000000000100000000016107636c7573746572056c6f63616c00000100010000001e00040a"
		  "000003",
		    "123484000000000100000001016107636c7573746572056c6f63616c00000100010000001e0004"
		    "0a000003036b657907"
		    "6578616d706c650000fa00ff00000000004d0b686d61632d7368613338340000006553f102012c"
		    "0030059aba47b51137"
		    "6e4f5a4c1299cfa765315b78f78c71fb420ebebaf5ecc33f85cb77f73ba38243ae5e6d6e78b942"
		    "8c33123400000000" },
	    } },
	{ "hmac-sha512",
	    "12340000000100000000000107636c7573746572056c6f63616c0000fc0001034b6579074578616d706c65"
	    "0000fa00ff"
	    "00000000005d0b686d61632d7368613531320000006553f100012c00406501e47f27bf910af557bb9236eb"
	    "afa3841e67"
	    "69f71bc98eb8ae6d2efc386949a165a5601aaccb58379f66d61bf9809fdb7f24ffc0886373ffb4daf3730c"
	    "89c3123400"
	    "000000",
	    {
		{ "12348400000100010000000007636c7573746572056c6f63616c0000fc00010161c00c0001000100"
		  "00001e00040a0000"
		  "01",
		    "12348400000100010000000107636c7573746572056c6f63616c0000fc00010161c00c00010001"
		    "0000001e00040a0000"
		    "01036b6579076578616d706c650000fa00ff00000000005d0b686d61632d736861353132000000"
		    "6553f100012c0040a1"
		    "6c03bc5a958cef9a8cde50783f50a7333aa4c3cd976d1f16f06ab5d675505dcec8e18c3e956f64"
		    "45c1f8994721a5c3b0"
		    "a7ec5b4280aa351b9715b822b917b0123400000000" },
		{ "123484000000000100000000016107636c7573746572056c6f63616c00000100010000001e00040a"
		  "000002",
		    "123484000000000100000001016107636c7573746572056c6f63616c00000100010000001e0004"
		    "0a000002036b657907"
		    "6578616d706c650000fa00ff00000000005d0b686d61632d7368613531320000006553f101012c"
		    "004004ac32aacb5a39"
		    "78921a2112c513c6ef56aaeac750e7c6780ccce40ecf01b350816c2518d9232da00a0f07ecaa0e"
		    "4e23c1e118cf39a712"
		    "85aaeb382ed9ef13b9123400000000" },
		{ "123484000000000100000000016107636c7573746572056c6f63616c00000100010000001e00040a"
		  "000003",
		    "123484000000000100000001016107636c7573746572056c6f63616c00000100010000001e0004"
		    "0a000003036b657907"
		    "6578616d706c650000fa00ff00000000005d0b686d61632d7368613531320000006553f102012c"
		    "0040e0ca98e61effd1"
		    "e9ee22332e493df4a39bfbbe8c1b2f9501220207da7f274cd878627bbdd60481a375897ae80fe2"
		    "cdfdb47dc9739b9173"
		    "ace52392effb073371123400000000" },
	    } },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static size_t
unhex(const char *text, uint8_t wire[ROOM])
{
	size_t len = strlen(text) / 2;
	unsigned byte;

	assert_true(len <= ROOM);
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
		wire[i] = (uint8_t)byte;
	}
	return len;
}

static struct tsig_chain
chain_of(const char *algorithm)
{
	struct tsig_chain chain = { .mac_len = 0 };
	struct dname name;

	assert_int_equal(dname_from_text(&chain.key.name, "key.example."), 0);
	assert_int_equal(dname_from_text(&name, algorithm), 0);
	chain.key.algorithm = (enum tsig_algorithm)tsig_algorithm(&name);
	assert_string_equal(tsig_algorithm_text(chain.key.algorithm), algorithm);
	chain.key.secret_len = 32;
	for (unsigned i = 0; i < 32; i++)
		chain.key.secret[i] = (uint8_t)i;
	return chain;
}

static void
a_signed_request_verifies(void **state)
{
	uint8_t wire[ROOM];
	struct tsig tsig;

	(void)state;

	for (size_t i = 0; i < ROWS; i++) {
		size_t len = unhex(rows[i].request, wire);
		struct tsig_chain chain = chain_of(rows[i].algorithm);

		assert_int_equal(tsig_read(wire, len, &tsig), TSIG_FOUND);
		assert_true(tsig_is_of(&tsig, &chain.key));
		assert_int_equal(tsig_verify(wire, &tsig, &chain, NOW_S), TSIG_NOERROR);
		assert_int_equal(chain.mac_len, tsig.mac_len);
		assert_memory_equal(chain.mac, tsig.mac, tsig.mac_len);
	}
}

static void
replies_are_signed_byte_for_byte_as_another_signs_them(void **state)
{
	uint8_t wire[ROOM], want[ROOM];
	struct tsig tsig;

	(void)state;

	for (size_t i = 0; i < ROWS; i++) {
		struct tsig_chain chain = chain_of(rows[i].algorithm);
		size_t len = unhex(rows[i].request, wire);

		tsig_read(wire, len, &tsig);
		assert_int_equal(tsig_verify(wire, &tsig, &chain, NOW_S), TSIG_NOERROR);
		for (unsigned r = 0; r < REPLIES; r++) {
			len = unhex(rows[i].replies[r][0], wire);
			size_t want_len = unhex(rows[i].replies[r][1], want);
			assert_int_equal(
			    tsig_sign(wire, len, ROOM, &chain, NOW_S + r, NULL), want_len);
			assert_memory_equal(wire, want, want_len);
		}
	}
}

static void
requests_of_ours_and_their_replies_verify(void **state)
{
	uint8_t wire[ROOM], reply[ROOM];
	struct tsig tsig;

	(void)state;

	for (size_t i = 0; i < ROWS; i++) {
		struct tsig_chain ours = chain_of(rows[i].algorithm), theirs = ours;
		size_t len = unhex(rows[i].replies[0][0], wire);

		len = tsig_sign(wire, len, ROOM, &ours, NOW_S, NULL);
		assert_int_equal(tsig_read(wire, len, &tsig), TSIG_FOUND);
		assert_int_equal(tsig_verify(wire, &tsig, &theirs, NOW_S), TSIG_NOERROR);
		len = unhex(rows[i].replies[1][0], reply);
		len = tsig_sign(reply, len, ROOM, &theirs, NOW_S, NULL);
		assert_int_equal(tsig_read(reply, len, &tsig), TSIG_FOUND);
		struct tsig_chain without = chain_of(rows[i].algorithm);
		assert_int_equal(tsig_verify(reply, &tsig, &without, NOW_S), TSIG_BADSIG);
		assert_int_equal(tsig_verify(reply, &tsig, &ours, NOW_S), TSIG_NOERROR);
	}
}

/* Only the ID may change, because the TSIG contains the original ID. */
static void
no_byte_can_be_changed(void **state)
{
	uint8_t wire[ROOM];
	struct tsig tsig;

	(void)state;

	for (size_t i = 0; i < ROWS; i++) {
		size_t len = unhex(rows[i].request, wire);

		for (size_t at = 2; at < len; at++) {
			struct tsig_chain chain = chain_of(rows[i].algorithm);

			wire[at] ^= 1;
			if (tsig_read(wire, len, &tsig) == TSIG_FOUND &&
			    tsig_is_of(&tsig, &chain.key) &&
			    tsig_verify(wire, &tsig, &chain, NOW_S) == TSIG_NOERROR)
				fail_msg("byte %zu", at);
			wire[at] ^= 1;
		}
		wire[0] ^= 1;
		struct tsig_chain chain = chain_of(rows[i].algorithm);
		assert_int_equal(tsig_read(wire, len, &tsig), TSIG_FOUND);
		assert_int_equal(tsig_verify(wire, &tsig, &chain, NOW_S), TSIG_NOERROR);
	}
}

static void
the_clocks_may_differ_by_the_fudge(void **state)
{
	static const struct {
		int off_s;
		enum tsig_error error;
	} times[] = { { -301, TSIG_BADTIME }, { -300, TSIG_NOERROR }, { 0, TSIG_NOERROR },
		{ 300, TSIG_NOERROR }, { 301, TSIG_BADTIME }, { -NOW_S, TSIG_BADTIME } };
	uint8_t wire[ROOM];
	struct tsig tsig;

	(void)state;

	size_t len = unhex(rows[0].request, wire);
	assert_int_equal(tsig_read(wire, len, &tsig), TSIG_FOUND);
	for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
		struct tsig_chain chain = chain_of(rows[0].algorithm);

		assert_int_equal(
		    tsig_verify(wire, &tsig, &chain, NOW_S + times[i].off_s), times[i].error);
	}
	tsig.time_s = UINT64_C(0xffffffffffff); /* the latest possible time */
	struct tsig_chain chain = chain_of(rows[0].algorithm);
	assert_int_equal(tsig_verify(wire, &tsig, &chain, NOW_S), TSIG_BADSIG);
}

/* The client chooses the fudge. With 65,535 s, a recorded message could be sent again for 18 hours. */
static void
a_larger_fudge_grants_300_s(void **state)
{
	static const int offs_s[] = { -301, -300, 300, 301 };

	(void)state;

	for (size_t i = 0; i < sizeof offs_s / sizeof offs_s[0]; i++) {
		struct tsig_chain theirs = chain_of(rows[0].algorithm), ours = theirs;
		uint8_t wire[ROOM];
		struct tsig tsig;
		size_t len = unhex(rows[0].replies[0][0], wire);
		/* Only in this case, tsig_sign() does not use its own fudge, but the fudge of the
		 * request. */
		const struct tsig wide = { .time_s = NOW_S, .fudge_s = UINT16_MAX };

		len = tsig_sign(wire, len, ROOM, &theirs, NOW_S, &wide);
		assert_int_equal(tsig_read(wire, len, &tsig), TSIG_FOUND);
		assert_int_equal(tsig.fudge_s, UINT16_MAX);
		assert_int_equal(tsig_verify(wire, &tsig, &ours, NOW_S + offs_s[i]),
		    offs_s[i] < -300 || offs_s[i] > 300 ? TSIG_BADTIME : TSIG_NOERROR);
	}
}

/* RFC 8945 section 5.2.2.1. Section 5.2.4 also applies, because we accept only complete MACs. */
static void
a_cut_mac_is_not_accepted(void **state)
{
	uint8_t wire[ROOM];
	struct tsig tsig;

	(void)state;

	for (size_t i = 0; i < ROWS; i++) {
		size_t len = unhex(rows[i].request, wire);

		tsig_read(wire, len, &tsig);
		unsigned whole = tsig.mac_len;
		for (unsigned mac_len = 0; mac_len < 80; mac_len++) {
			struct tsig_chain chain = chain_of(rows[i].algorithm);

			tsig.mac_len = (uint16_t)mac_len;
			enum tsig_error want = mac_len == whole ? TSIG_NOERROR
					       : mac_len < whole / 2 || mac_len > whole
						   ? TSIG_FORMERR
						   : TSIG_BADTRUNC;
			assert_int_equal(tsig_verify(wire, &tsig, &chain, NOW_S), want);
		}
	}
}

static void
another_name_or_algorithm_is_another_key(void **state)
{
	uint8_t wire[ROOM];
	struct tsig tsig;

	(void)state;

	for (size_t i = 0; i < ROWS; i++) {
		tsig_read(wire, unhex(rows[i].request, wire), &tsig);
		for (size_t k = 0; k < ROWS; k++) {
			struct tsig_chain chain = chain_of(rows[k].algorithm);

			assert_int_equal(tsig_is_of(&tsig, &chain.key), i == k);
			dname_from_text(&chain.key.name, "key.example.org.");
			assert_false(tsig_is_of(&tsig, &chain.key));
		}
	}
}

/* --- invalid TSIGs --- */

static void
a_message_that_ends_early_has_none(void **state)
{
	uint8_t wire[ROOM];
	struct tsig tsig;

	(void)state;

	size_t len = unhex(rows[2].request, wire);
	for (size_t cut = 0; cut < len; cut++) {
		/* The buffer has the exact size, so a sanitizer detects overreads. */
		uint8_t *exact = malloc(cut == 0 ? 1 : cut);

		memcpy(exact, wire, cut);
		assert_int_equal(tsig_read(exact, cut, &tsig), TSIG_MALFORMED);
		free(exact);
	}
	wire[len] = 0;
	assert_int_equal(tsig_read(wire, len + 1, &tsig), TSIG_MALFORMED);
}

static void
a_tsig_is_one_and_last_and_in_the_additional_section(void **state)
{
	static const struct {
		size_t at; /* the offset of the changed bytes */
		const char *bytes;
		size_t len;
		enum tsig_read result;
	} changes[] = {
		{ 8, "\0\1\0\0", 4, TSIG_MALFORMED },  /* in the authority section */
		{ 46, "\0\1", 2, TSIG_MALFORMED },     /* class */
		{ 48, "\0\0\0\1", 4, TSIG_MALFORMED }, /* TTL */
		{ 44, "\0\51", 2, TSIG_NONE },         /* type: an OPT */
		{ 4, "\0\2", 2, TSIG_MALFORMED },      /* two questions */
	};
	uint8_t wire[ROOM], original[ROOM];
	struct tsig tsig;

	(void)state;

	size_t len = unhex(rows[0].request, original);
	assert_int_equal(wire_get16(original + 44), TYPE_TSIG);
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		memcpy(wire, original, len);
		memcpy(wire + changes[i].at, changes[i].bytes, changes[i].len);
		assert_int_equal(tsig_read(wire, len, &tsig), changes[i].result);
	}
	/* The TSIG is in the message twice, and then once before another record. */
	size_t tsig_at = 31, tsig_len = len - tsig_at;
	memcpy(wire, original, len);
	memcpy(wire + len, wire + tsig_at, tsig_len);
	wire[11] = 2;
	assert_int_equal(tsig_read(wire, len + tsig_len, &tsig), TSIG_MALFORMED);
	memcpy(wire + len, "\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4", 15);
	assert_int_equal(tsig_read(wire, len + 15, &tsig), TSIG_MALFORMED);
}

static void
records_are_looked_at_up_to_a_bound(void **state)
{
	uint8_t wire[ROOM] = { 0 };
	struct tsig tsig;
	size_t len = DNS_HEADER;

	(void)state;

	for (unsigned count = 1; count < 20; count++) {
		memcpy(wire + len, "\0\0\1\0\1\0\0\0\0\0\0", 11);
		len += 11;
		wire[11] = (uint8_t)count;
		assert_int_equal(tsig_read(wire, len, &tsig),
		    count <= TSIG_RECORDS_MAX ? TSIG_NONE : TSIG_MALFORMED);
	}
}

/* --- space and errors --- */

static void
what_does_not_fit_is_not_signed(void **state)
{
	uint8_t wire[ROOM], before[ROOM];

	(void)state;

	struct tsig_chain chain = chain_of(rows[0].algorithm), was = chain;
	size_t len = unhex(rows[0].replies[0][0], wire),
	       whole = unhex(rows[0].replies[0][1], before);
	memcpy(before, wire, len);
	for (size_t max = len; max < whole; max++) {
		assert_int_equal(tsig_sign(wire, len, max, &chain, NOW_S, NULL), 0);
		assert_memory_equal(wire, before, len);
		assert_memory_equal(&chain, &was, sizeof chain);
	}
	assert_int_equal(tsig_sign(wire, len, whole, &chain, NOW_S, NULL), whole);
}

static void
errors_of_keys_have_no_mac_and_bad_time_has_ours(void **state)
{
	uint8_t wire[ROOM], reply[ROOM];
	struct tsig tsig, said;

	(void)state;

	size_t len = unhex(rows[0].request, wire);
	tsig_read(wire, len, &tsig);
	size_t reply_len = unhex(rows[0].replies[1][0], reply);
	size_t whole = tsig_put_error(reply, reply_len, ROOM, &tsig, TSIG_BADKEY, NOW_S + 5);
	assert_int_equal(tsig_read(reply, whole, &said), TSIG_FOUND);
	assert_int_equal(said.error, TSIG_BADKEY);
	assert_int_equal(said.mac_len, 0);
	assert_int_equal(said.time_s, NOW_S + 5);
	assert_true(dname_equal(said.key.wire, tsig.key.wire));

	struct tsig_chain chain = chain_of(rows[0].algorithm);
	assert_int_equal(tsig_verify(wire, &tsig, &chain, NOW_S + 1000), TSIG_BADTIME);
	struct tsig_chain client = chain;
	reply_len = unhex(rows[0].replies[1][0], reply);
	whole = tsig_sign(reply, reply_len, ROOM, &chain, NOW_S + 1000, &tsig);
	assert_int_equal(tsig_read(reply, whole, &said), TSIG_FOUND);
	assert_int_equal(said.error, TSIG_BADTIME);
	assert_int_equal(said.other_len, 6);
	assert_int_equal(wire_get32(said.other + 2), NOW_S + 1000);
	/* The client accepts the reply, because it is signed with the time of the client. */
	assert_int_equal(tsig_verify(reply, &said, &client, NOW_S), TSIG_NOERROR);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signed_request_verifies),
		cmocka_unit_test(replies_are_signed_byte_for_byte_as_another_signs_them),
		cmocka_unit_test(requests_of_ours_and_their_replies_verify),
		cmocka_unit_test(no_byte_can_be_changed),
		cmocka_unit_test(the_clocks_may_differ_by_the_fudge),
		cmocka_unit_test(a_larger_fudge_grants_300_s),
		cmocka_unit_test(a_cut_mac_is_not_accepted),
		cmocka_unit_test(another_name_or_algorithm_is_another_key),
		cmocka_unit_test(a_message_that_ends_early_has_none),
		cmocka_unit_test(a_tsig_is_one_and_last_and_in_the_additional_section),
		cmocka_unit_test(records_are_looked_at_up_to_a_bound),
		cmocka_unit_test(what_does_not_fit_is_not_signed),
		cmocka_unit_test(errors_of_keys_have_no_mac_and_bad_time_has_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
