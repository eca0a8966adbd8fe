/* dnstap: the encoding of a message, and the flag --dnstap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/modules/dnstap/dnstap.h"
#include "kubedns/modules/dnstap/dnstap_frame.h"

enum { LONGEST = 65535 };

/* --- frames --- */

static struct dnstap_sender
sender_of(const char *identity, const char *version, int64_t wall_ns)
{
	struct dnstap_sender sender;

	dnstap_sender_init(&sender, identity, version);
	sender.wall_ns = wall_ns;
	return sender;
}

static struct dnstap_head
head_of(enum dnstap_kind kind, bool tcp, const char *peer, uint16_t len)
{
	struct dnstap_head head = { .len = len,
		.kind = kind,
		.tcp = tcp,
		.query_ns = INT64_C(2000000003),
		.response_ns = INT64_C(3000000004) };

	assert_int_equal(server_parse(peer, 53, &head.peer, NULL), 0);
	return head;
}

static void
assert_frame(const struct dnstap_head *head, const void *want, size_t len)
{
	static const uint8_t message[] = { 0xaa, 0xbb };
	const struct dnstap_sender pod = sender_of("a", "v1", INT64_C(1000) * 1000000000);
	uint8_t out[DNSTAP_FRAME_MAX];

	assert_int_equal(dnstap_frame(&pod, head, message, out), len);
	assert_memory_equal(out, want, len);
}

/* These bytes were written by hand from the encoding of protobuf and the fields of dnstap.info. */
static void
a_client_query_has_the_client_as_query_address(void **state)
{
	(void)state;
	static const uint8_t want[] = {
		0x0a, 1, 'a',         /* identity */
		0x12, 2, 'v', '1',    /* version */
		0x72, 27,             /* message: */
		0x08, 5,              /* CLIENT_QUERY */
		0x10, 1,              /* INET */
		0x18, 1,              /* UDP */
		0x22, 4, 10, 0, 0, 1, /* query_address */
		0x30, 0xb9, 0x60,     /* query_port 12345 */
		0x40, 0xea, 0x07,     /* query_time_sec 1002 */
		0x4d, 3, 0, 0, 0,     /* query_time_nsec */
		0x52, 2, 0xaa, 0xbb,  /* query_message */
		0x78, 1               /* MESSAGE */
	};
	struct dnstap_head head = head_of(DNSTAP_CLIENT_QUERY, false, "10.0.0.1:12345", 2);
	assert_frame(&head, want, sizeof want);
}

static void
a_forwarder_response_has_the_server_as_response_address_and_both_times(void **state)
{
	(void)state;
	static const uint8_t want[] = { 0x0a, 1, 'a', 0x12, 2, 'v', '1', 0x72, 46, /* message: */
		0x08, 8, /* FORWARDER_RESPONSE */
		0x10, 2, /* INET6 */
		0x18, 2, /* TCP */
		0x2a, 16, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, /* response_address */
		0x38, 53,                                                    /* response_port */
		0x40, 0xea, 0x07, 0x4d, 3, 0, 0, 0,                          /* query_time */
		0x60, 0xeb, 0x07, 0x6d, 4, 0, 0, 0,                          /* response_time */
		0x72, 2, 0xaa, 0xbb,                                         /* response_message */
		0x78, 1 };
	struct dnstap_head head = head_of(DNSTAP_FORWARDER_RESPONSE, true, "[fd00::1]:53", 2);
	assert_frame(&head, want, sizeof want);
}

/* In a frame, the length of a message has one, two or three bytes. */
static void
a_message_of_any_length_follows_its_length(void **state)
{
	(void)state;
	static const uint16_t lengths[] = { 1, 96, 97, 98, 99, 16250, 16350, 16354, 16355, 16356,
		16357, 16358, 65535 };
	static uint8_t message[LONGEST], out[DNSTAP_FRAME_MAX];
	const struct dnstap_sender pod = sender_of("a", "v1", INT64_C(1000) * 1000000000);

	memset(message, 0xaa, sizeof message);
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		struct dnstap_head head =
		    head_of(DNSTAP_CLIENT_QUERY, false, "10.0.0.1:12345", lengths[i]);
		size_t len = dnstap_frame(&pod, &head, message, out);
		size_t at = 8, said = 0, width = 0;

		assert_int_equal(out[7], 0x72);
		do {
			assert_true(width < 3);
			said |= (size_t)(out[at] & 0x7f) << 7 * width++;
		} while ((out[at++] & 0x80) != 0);
		assert_true(width == 1 || out[at - 1] != 0); /* it is not longer than needed */
		assert_int_equal(at + said + 2, len);
		assert_true(out[at] == 0x08 && out[at + 1] == 5);
		for (size_t b = at + said - lengths[i]; b < at + said; b++)
			assert_int_equal(out[b], 0xaa);
		assert_true(out[len - 2] == 0x78 && out[len - 1] == 1);
	}
}

static void
the_longest_message_with_the_longest_names_fits(void **state)
{
	(void)state;
	static uint8_t message[LONGEST], out[DNSTAP_FRAME_MAX + 64];
	char name[2 * DNSTAP_NAME_MAX];
	struct dnstap_head head =
	    head_of(DNSTAP_FORWARDER_RESPONSE, true, "[fd00::1]:65535", LONGEST);
	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = '\0';
	memset(out, 0x5a, sizeof out);
	const struct dnstap_sender sender = sender_of(name, name, INT64_MAX / 2);
	size_t len = dnstap_frame(&sender, &head, message, out);
	assert_true(len > LONGEST + 2 * DNSTAP_NAME_MAX && len <= DNSTAP_FRAME_MAX);
	for (size_t i = len; i < sizeof out; i++)
		assert_int_equal(out[i], 0x5a);
}

/* --- the flag --- */

static void
a_collector_is_a_path_or_an_address_with_a_port(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why; /* NULL if `text` is valid */
	} cases[] = { { "unix:/run/dnstap/d.sock", NULL }, { "tcp:10.0.0.1:6000", NULL },
		{ "tcp:[fd00::1]:6000", NULL }, { "", "unix:/PATH or tcp:IP:PORT is needed" },
		{ "/run/d.sock", "unix:/PATH or tcp:IP:PORT is needed" },
		{ "unix:", "a socket's path begins with /" },
		{ "unix:d.sock", "a socket's path begins with /" },
		{ "tcp:10.0.0.1", "the port is missing: tcp:IP:PORT" },
		{ "tcp:collector:6000",
		    "not an address, but a name; an address such as 10.0.0.10 is needed" } };
	char text[DNSTAP_TARGET_TEXT_MAX], longest[] = "unix:/" /* and 106 more bytes */
						       "1234567890123456789012345678901234567890123"
						       "456789012345678901234567890123456789012345"
						       "678901234567890123456";
	struct dnstap_target target;
	const char *why;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		int rc = dnstap_target_parse(cases[i].text, &target, &why);

		if (cases[i].why == NULL) {
			assert_int_equal(rc, 0);
			assert_string_equal(dnstap_target_format(&target, text), cases[i].text);
		} else {
			assert_true(rc < 0);
			assert_string_equal(why, cases[i].why);
		}
	}
	assert_int_equal(dnstap_target_parse(longest, &target, &why), 0);
	assert_string_equal(dnstap_target_format(&target, text), longest);
	snprintf(text, sizeof text, "%s", longest);
	strcat(text, "x");
	assert_true(dnstap_target_parse(text, &target, &why) < 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_query_has_the_client_as_query_address),
		cmocka_unit_test(
		    a_forwarder_response_has_the_server_as_response_address_and_both_times),
		cmocka_unit_test(a_message_of_any_length_follows_its_length),
		cmocka_unit_test(the_longest_message_with_the_longest_names_fits),
		cmocka_unit_test(a_collector_is_a_path_or_an_address_with_a_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
