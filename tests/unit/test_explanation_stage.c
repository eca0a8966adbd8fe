/* NAME._explain over DNS: the content and size of the answer, and the rate limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static char *
explain(const struct answer_config *config, const struct tree *tree, const char *name, size_t *len)
{
	assert_ptr_equal(config, &bed.config);
	assert_non_null(tree);
	snprintf(asked, sizeof asked, "%s", name);
	*len = strlen(said);
	return strdup(said);
}

/* Returns a copy of `*arg`, or NULL while the digest is changing. */
static char *
digest(const void *arg, size_t *len)
{
	const char *const *lines = arg;

	if (*lines == NULL)
		return NULL;
	*len = strlen(*lines);
	return strdup(*lines);
}

static const char *digest_lines; /* NULL: the digest is changing */
static const struct explanation_config enabled = {
	.explain = explain, .digest = digest, .digest_arg = &digest_lines
};

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
		.thread = &thread };

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
		/* The clock advances because only four requests at a time are allowed. */
		now_ns += 2000000000;
		assert_int_equal(
		    ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NOERROR);
		assert_true(len <= 1000 || strcmp(out + strlen(out) - 4, "|...") == 0);
		snprintf(name, sizeof name, "%s.%s.%s.%s._explain.cluster.local.", label, label,
		    label, label);
		ask(name, TYPE_TXT, 1232, false, out);
		assert_false(bed.info.truncated);
		ask(name, TYPE_TXT, 0, true, out);
		assert_false(bed.info.truncated);
		ask(name, TYPE_TXT, 0, false, out); /* 512 bytes; a longer answer sets TC */
		assert_true(bed.info.truncated == (*out == '\0'));
	}
}

static void
so_many_a_second_and_no_more(void **state)
{
	char out[2048];

	(void)state;
	for (unsigned i = 0; i < 3 * EXPLANATIONS; i++)
		assert_int_equal(ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out),
		    i < EXPLANATIONS ? RCODE_NOERROR : RCODE_REFUSED);
	assert_int_equal(made, EXPLANATIONS);
	assert_int_equal(refused, 2 * EXPLANATIONS);
	now_ns += EXPLANATIONS_MS * INT64_C(1000000);
	assert_int_equal(
	    ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NOERROR);
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
	assert_int_equal(ask("_digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NXDOMAIN);
}

static void
the_digest_is_a_name_of_the_zone_itself(void **state)
{
	char out[2048];

	(void)state;
	digest_lines = "digest=0123\nservices=5-7\n";
	assert_int_equal(ask("_Digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NOERROR);
	assert_string_equal(out, "digest=0123|services=5-7");
	assert_int_equal(ask("_digest.cluster.local.", TYPE_A, 1232, false, out), RCODE_NOERROR);
	assert_string_equal(out, "");
	assert_int_equal(
	    ask("a._digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NXDOMAIN);
	assert_int_equal(
	    ask("_digest.default.svc.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NXDOMAIN);
	digest_lines = NULL;
	assert_int_equal(ask("_digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_REFUSED);
	assert_int_equal(made, 2); /* one refusal included */
}

static void
digests_and_explanations_share_a_limit(void **state)
{
	char out[2048];

	(void)state;
	digest_lines = "digest=0123\n";
	for (unsigned i = 0; i < EXPLANATIONS; i++)
		assert_int_equal(
		    ask("_digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_NOERROR);
	assert_int_equal(ask("_digest.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_REFUSED);
	assert_int_equal(
	    ask("web._explain.cluster.local.", TYPE_TXT, 1232, false, out), RCODE_REFUSED);
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
		cmocka_unit_test_setup_teardown(so_many_a_second_and_no_more, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    the_digest_is_a_name_of_the_zone_itself, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    digests_and_explanations_share_a_limit, begin, bed_end),
		cmocka_unit_test_setup_teardown(
		    without_an_explainer_there_is_no_such_name, begin, bed_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
