/* How reply.c classifies replies. ldns writes the replies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "sidecar/probes/reply_check.h"

static struct question question;
static struct dns_reply reply;
static uint8_t *wire;
static size_t len;

static int
setup(void **state)
{
	(void)state;
	question = (struct question){ .id = 0x1234, .type = TYPE_A, .class = CLASS_IN };
	return dname_from_text(&question.name, "a.example.");
}

/* Returns a response to `question` with these records in the answer section. */
static ldns_pkt *
response(ldns_pkt_rcode rcode, const char *const *records)
{
	ldns_rdf *name = NULL;
	char text[DNAME_TEXT_MAX];

	ldns_str2rdf_dname(&name, dname_to_text(question.name.wire, text));
	ldns_pkt *pkt = ldns_pkt_query_new(name, question.type, question.class, LDNS_RD | LDNS_QR);
	ldns_pkt_set_id(pkt, question.id);
	ldns_pkt_set_rcode(pkt, (uint8_t)rcode);
	for (; records != NULL && *records != NULL; records++) {
		ldns_rr *rr = NULL;

		assert_int_equal(
		    ldns_rr_new_frm_str(&rr, *records, 30, NULL, NULL), LDNS_STATUS_OK);
		ldns_pkt_push_rr(pkt, LDNS_SECTION_ANSWER, rr);
	}
	return pkt;
}

static enum dns_reply_kind
judge(ldns_pkt *pkt)
{
	free(wire);
	assert_int_equal(ldns_pkt2wire(&wire, pkt, &len), LDNS_STATUS_OK);
	ldns_pkt_free(pkt);
	return dns_reply_read(&reply, &question, wire, len);
}

static const char *const one_a[] = { "a.example. 30 IN A 10.0.0.1", NULL };

static void
noerror_with_a_record_is_ok(void **state)
{
	(void)state;
	assert_int_equal(judge(response(LDNS_RCODE_NOERROR, one_a)), DNS_REPLY_DONE);
	assert_int_equal(reply.cause, CAUSE_OK);
	assert_int_equal(reply.answers, 1);
}

static void
letter_case_of_the_question_does_not_matter(void **state)
{
	(void)state;
	ldns_pkt *pkt = response(LDNS_RCODE_NOERROR, one_a);
	dname_from_text(&question.name, "A.Example.");
	assert_int_equal(judge(pkt), DNS_REPLY_DONE);
	assert_int_equal(reply.cause, CAUSE_OK);
}

static void
noerror_without_a_record_is_no_records(void **state)
{
	(void)state;
	assert_int_equal(judge(response(LDNS_RCODE_NOERROR, NULL)), DNS_REPLY_DONE);
	assert_int_equal(reply.cause, CAUSE_NO_RECORDS);
}

static void
each_rcode_has_its_cause(void **state)
{
	static const struct {
		ldns_pkt_rcode rcode;
		enum cause cause;
	} table[] = { { LDNS_RCODE_NXDOMAIN, CAUSE_NXDOMAIN },
		{ LDNS_RCODE_SERVFAIL, CAUSE_SERVFAIL }, { LDNS_RCODE_REFUSED, CAUSE_REFUSED },
		{ LDNS_RCODE_FORMERR, CAUSE_RCODE }, { LDNS_RCODE_NOTIMPL, CAUSE_RCODE } };
	char text[CAUSE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		assert_int_equal(judge(response(table[i].rcode, NULL)), DNS_REPLY_DONE);
		assert_int_equal(reply.cause, table[i].cause);
	}
	assert_string_equal(cause_text(reply.cause, reply.rcode, text), "NOTIMP");
}

/* RFC 8914: a SERVFAIL has an OPT with info code 14. */
static void
servfail_with_not_ready_is_alive(void **state)
{
	static const uint8_t opt[] = { 0, 0, TYPE_OPT, 4, 0xd0, 0, 0, 0, 0, 0, 6, 0, 15, 0, 2, 0,
		EDE_NOT_READY };
	uint8_t message[512];

	(void)state;
	judge(response(LDNS_RCODE_SERVFAIL, NULL));
	memcpy(message, wire, len);
	memcpy(message + len, opt, sizeof opt);
	message[11] = 1;
	assert_int_equal(
	    dns_reply_read(&reply, &question, message, len + sizeof opt), DNS_REPLY_DONE);
	assert_int_equal(reply.cause, CAUSE_NOT_READY);
	assert_true(cause_is_alive(reply.cause));
	message[len + sizeof opt - 1] = EDE_NOT_READY + 1;
	dns_reply_read(&reply, &question, message, len + sizeof opt);
	assert_int_equal(reply.cause, CAUSE_SERVFAIL);
}

static void
tc_asks_for_tcp(void **state)
{
	(void)state;
	ldns_pkt *pkt = response(LDNS_RCODE_NOERROR, NULL);
	ldns_pkt_set_tc(pkt, true);
	assert_int_equal(judge(pkt), DNS_REPLY_TRUNCATED);
}

static void
another_id_or_question_is_a_stray(void **state)
{
	(void)state;
	ldns_pkt *pkt = response(LDNS_RCODE_NOERROR, one_a);
	ldns_pkt_set_id(pkt, 0x4321);
	assert_int_equal(judge(pkt), DNS_REPLY_STRAY);
	assert_int_equal(reply.cause, CAUSE_WRONG_ID);

	pkt = response(LDNS_RCODE_NOERROR, one_a);
	question.type = TYPE_AAAA;
	assert_int_equal(judge(pkt), DNS_REPLY_STRAY);
	assert_int_equal(reply.cause, CAUSE_MALFORMED);
}

static void
a_query_is_no_reply(void **state)
{
	(void)state;
	ldns_pkt *pkt = response(LDNS_RCODE_NOERROR, NULL);
	ldns_pkt_set_qr(pkt, false);
	assert_int_equal(judge(pkt), DNS_REPLY_STRAY);
}

/* If a valid message is truncated at any byte, it is not accepted. */
static void
every_cut_of_a_good_reply_is_bad(void **state)
{
	(void)state;
	judge(response(LDNS_RCODE_NOERROR, one_a));
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *part = malloc(cut + 1);

		memcpy(part, wire, cut);
		dns_reply_read(&reply, &question, part, cut);
		assert_int_not_equal(reply.cause, CAUSE_OK);
		free(part);
	}
}

static void
bytes_behind_the_last_record_are_malformed(void **state)
{
	uint8_t message[512];

	(void)state;
	judge(response(LDNS_RCODE_NOERROR, one_a));
	memcpy(message, wire, len);
	message[len] = 0;
	assert_int_equal(dns_reply_read(&reply, &question, message, len + 1), DNS_REPLY_DONE);
	assert_int_equal(reply.cause, CAUSE_MALFORMED);
}

static void
answers_read_as_text(void **state)
{
	static const char *const records[] = { "a.example. 30 IN CNAME b.example.",
		"b.example. 5 IN A 10.0.0.1", "b.example. 5 IN AAAA 2001:db8::1",
		"_x._tcp.example. 9 IN SRV 0 50 443 b.example.",
		"b.example. 5 IN TXT \"a<b\" \"c\\\"d\\007\"",
		"b.example. 5 IN MX 10 mail.example.", "b.example. 5 IN CAA 0 issue \"ca\"", NULL };

	(void)state;
	judge(response(LDNS_RCODE_NOERROR, records));
	char *text = dns_reply_text(wire, len, 10);
	assert_string_equal(text,
	    "a.example. 30 CNAME b.example.\nb.example. 5 A 10.0.0.1\nb.example. 5 AAAA "
	    "2001:db8::1\n"
	    "_x._tcp.example. 9 SRV 0 50 443 b.example.\nb.example. 5 TXT \"a<b\" \"c\\\"d\\007\"\n"
	    "b.example. 5 MX 10 mail.example.\nb.example. 5 CAA 0 issue \"ca\"\n");
	free(text);
	text = dns_reply_text(wire, len, 2);
	assert_non_null(strstr(text, "\nand 5 more\n"));
	free(text);
}

static void
a_tag_with_a_newline_is_printed_as_hexadecimal(void **state)
{
	static const char *const records[] = { "b.example. 5 IN TYPE257 \\# 9 00050a737375656361",
		NULL };

	(void)state;
	judge(response(LDNS_RCODE_NOERROR, records));
	char *text = dns_reply_text(wire, len, 10);
	assert_string_equal(text, "b.example. 5 CAA \\# 9 00050a737375656361\n");
	free(text);
}

static void
collect(void *arg, const uint8_t *string, size_t string_len)
{
	strncat(arg, (const char *)string, string_len);
	strcat(arg, "|");
}

static void
strings_of_a_chaos_answer(void **state)
{
	static const char *const records[] = {
		"servers.bind. 0 CH TXT \"10.0.0.1#53 5 1\" \"10.0.0.2#53 0 0\"", NULL
	};
	char all[200] = "";

	(void)state;
	dname_from_text(&question.name, "servers.bind.");
	question.type = TYPE_TXT;
	question.class = CLASS_CH;
	assert_int_equal(judge(response(LDNS_RCODE_NOERROR, records)), DNS_REPLY_DONE);
	assert_int_equal(dns_reply_strings(wire, len, &question, collect, all), 2);
	assert_string_equal(all, "10.0.0.1#53 5 1|10.0.0.2#53 0 0|");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(noerror_with_a_record_is_ok, setup),
		cmocka_unit_test_setup(letter_case_of_the_question_does_not_matter, setup),
		cmocka_unit_test_setup(noerror_without_a_record_is_no_records, setup),
		cmocka_unit_test_setup(each_rcode_has_its_cause, setup),
		cmocka_unit_test_setup(servfail_with_not_ready_is_alive, setup),
		cmocka_unit_test_setup(tc_asks_for_tcp, setup),
		cmocka_unit_test_setup(another_id_or_question_is_a_stray, setup),
		cmocka_unit_test_setup(a_query_is_no_reply, setup),
		cmocka_unit_test_setup(every_cut_of_a_good_reply_is_bad, setup),
		cmocka_unit_test_setup(bytes_behind_the_last_record_are_malformed, setup),
		cmocka_unit_test_setup(answers_read_as_text, setup),
		cmocka_unit_test_setup(a_tag_with_a_newline_is_printed_as_hexadecimal, setup),
		cmocka_unit_test_setup(strings_of_a_chaos_answer, setup),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(wire);
	return failed;
}
