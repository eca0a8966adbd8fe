/* NAME._explain over DNS: the content and size of the answer, and the rate limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "kubedns/answer/explanation_stage.h"
#include "tests/unit/answer_bed.h"

static const char *said; /* the text of the explainer */
static char asked[DNAME_TEXT_MAX];
static int64_t now_ns;
static uint64_t made, refused;
static struct answer_thread thread;
static struct sockaddr_in client; /* of the next query */

static char *
explain(const struct answer_config *config, const struct tree *tree, const char *name, size_t *len)
{
	assert_ptr_equal(config, &bed.config);
	assert_non_null(tree);
	snprintf(asked, sizeof asked, "%s", name);
	*len = strlen(said);
	return strdup(said);
}

static const struct explanation_config enabled = { .explain = explain };

static int
begin(void **state)
{
	bed_begin(state);
	now_ns = 1;
	made = refused = 0;
	thread = (struct answer_thread){
		.now_ns = &now_ns, .explained = &made, .explain_refused = &refused
	};
	said = "one\ntwo\n";
	bed.config.stage_config[STAGE_explanation] = &enabled;
	stages_build(&bed.config);
	return 0;
}

/* Sends a query and returns the rcode. Writes the strings of the TXT record to `out`, separated by
 * "|". */
static unsigned
ask(const char *text, uint16_t type, uint16_t size, bool tcp, char out[2048])
{
	struct dname name;
	uint8_t query[512];
	ldns_pkt *pkt = NULL;
	struct answer_request request = { .config = &bed.config,
		.tree = tree_current(bed.cache),
		.query = query,
		.out = bed.out,
		.max = tcp ? sizeof bed.out : DNS_UDP_PAYLOAD,
		.tcp = tcp,
		.thread = &thread,
		.client = (const struct sockaddr *)&client };

	assert_int_equal(dname_from_text(&name, text), 0);
	request.query_len = query_write(query, sizeof query, 7, name.wire, type, CLASS_IN, size);
	assert_int_equal(answer(&request, &bed.info), ANSWER_REPLY);
	assert_true(bed.info.len <= DNS_UDP_PAYLOAD);
	assert_true(tcp || bed.info.len <= (size < DNS_UDP_MIN ? DNS_UDP_MIN : size));
	assert_int_equal(ldns_wire2pkt(&pkt, bed.out, bed.info.len), LDNS_STATUS_OK);
	ldns_rr_list *records = ldns_pkt_answer(pkt);
	*out = '\0';
	for (size_t i = 0; i < ldns_rr_list_rr_count(records); i++) {
		ldns_rr *rr = ldns_rr_list_rr(records, i);

		assert_int_equal(ldns_rr_ttl(rr), 0);
		for (size_t s = 0; s < ldns_rr_rd_count(rr); s++) {
			const uint8_t *string = ldns_rdf_data(ldns_rr_rdf(rr, s));
			size_t len = strlen(out);

			snprintf(out + len, 2048 - len, "%s%.*s", s > 0 ? "|" : "", string[0],
			    string + 1);
		}
	}
	ldns_pkt_free(pkt);
	return bed.info.rcode;
}

static void
a_line_is_a_string_and_the_name_is_what_stands_before_the_label(void **state)
{
	char out[2048];

	(void)state;
	assert_int_equal(
	    ask("Web.Prod._explain.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NOERROR);
	assert_string_equal(out, "one|two");
	assert_string_equal(asked, "web.prod.");
	ask("web.prod.svc.cluster.local._explain.cluster.local.", TYPE_TXT, 1232, false, out);
	assert_string_equal(asked, "web.prod.svc.cluster.local.");
	assert_int_equal(made, 2);
}

static void
other_types_have_no_data_and_cost_no_explanation(void **state)
{
	char out[2048];

	(void)state;
	assert_int_equal(ask("web._explain.cluster.local.", TYPE_A, 0, false, out), RCODE_NOERROR);
	assert_string_equal(out, "");
	assert_int_equal(made, 0);
}

static void
whatever_is_said_fits_into_a_small_message(void **state)
{
	static char long_text[20000];
	char out[2048], name[300];
	const char *label = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee";

	(void)state;
	/* The text has 1 to 60 lines. Each line has 1 to 300 bytes. */
	for (size_t lines = 1; lines < 60; lines++) {
		size_t len = 0;

		for (size_t i = 0; i < lines; i++) {
			size_t width = (lines * 37 + i * 91) % 300 + 1;

			memset(long_text + len, 'x', width);
			len += width;
			long_text[len++] = '\n';
		}
		long_text[len] = '\0';
		said = long_text;
		now_ns += 2000000000; /* because only so many requests at a time are allowed */
		assert_int_equal(
		    ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NOERROR);
		assert_true(len <= 1000 || strcmp(out + strlen(out) - 4, "|...") == 0);
		snprintf(name, sizeof name, "%s.%s.%s.%s._explain.cluster.local.", label, label,
		    label, label);
		ask(name, TYPE_TXT, 1232, false, out);
		assert_false(bed.info.truncated);
		now_ns += 2000000000;
		ask(name, TYPE_TXT, 0, true, out);
		assert_false(bed.info.truncated);
		ask(name, TYPE_TXT, 0, false, out); /* 512 bytes; a longer answer sets TC */
		assert_true(bed.info.truncated == (*out == '\0'));
	}
}

/* Returns how many of the next five queries of this client get an explanation. */
static unsigned
explained_to(uint32_t host)
{
	char out[2048];
	unsigned count = 0;

	client = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(host) } };
	for (unsigned i = 0; i < 5; i++)
		count +=
		    ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out) == RCODE_NOERROR;
	return count;
}

static void
so_many_a_second_and_one_client_half_of_them(void **state)
{
	(void)state;
	assert_int_equal(explained_to(1), EXPLANATIONS / 2);
	assert_int_equal(explained_to(2), EXPLANATIONS / 4);
	assert_int_equal(explained_to(1), 0);
	assert_int_equal(explained_to(3), 1);
	assert_int_equal(explained_to(4), 0);
	assert_int_equal(made, EXPLANATIONS);
	assert_int_equal(refused, 5 * 5 - EXPLANATIONS);
	now_ns += EXPLANATIONS_MS * INT64_C(1000000);
	assert_int_equal(explained_to(4), EXPLANATIONS / 2);
}

/* The versions of the API and the moment of each change are not for pods. */
static void
the_digest_is_no_name(void **state)
{
	char out[2048];

	(void)state;
	assert_int_equal(ask("_digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NXDOMAIN);
}

static void
without_an_explainer_there_is_no_such_name(void **state)
{
	char out[2048];

	(void)state;
	bed.config.stage_config[STAGE_explanation] = NULL;
	stages_build(&bed.config);
	assert_int_equal(
	    ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NXDOMAIN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    a_line_is_a_string_and_the_name_is_what_stands_before_the_label, begin,
		    bed_end),
		cmocka_unit_test_setup_teardown(
		    other_types_have_no_data_and_cost_no_explanation, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    whatever_is_said_fits_into_a_small_message, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    so_many_a_second_and_one_client_half_of_them, begin, bed_end),
		cmocka_unit_test_setup_teardown(the_digest_is_no_name, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    without_an_explainer_there_is_no_such_name, begin, bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
