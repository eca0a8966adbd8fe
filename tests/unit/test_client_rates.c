/* The queries of the top clients over time. They are computed from lists of the ten top clients,
 * whose counts are halved every minute. */
#include "sidecar/format.h"
#include "tests/unit/sidecar_fixture.h"

enum { EVERYONE = 1000000 };

static struct client_rates rates;
static struct kubedns_talker clients[KUBEDNS_TOP_MAX];
static size_t count;
static double seconds;

static void
client(const char *name, const char *pod, double queries)
{
	struct kubedns_talker *c = &clients[count++];

	*c = (struct kubedns_talker){ .queries = queries };
	strcpy(c->name, name);
	strcpy(c->pod, pod);
}

/* Processes the list that client() has made since the last call. The time is `at_s`. kubedns
 * started at `start_s`. */
static void
reading(double at_s, double start_s, double answers)
{
	const struct client_reading r = { .clients = clients,
		.count = count,
		.seconds = seconds,
		.start_s = start_s,
		.answers = answers,
		.now_ns = (int64_t)(at_s * 1e9) };

	client_rates_read(&rates, &r);
	count = 0;
}

static uint64_t
answers_to(const char *name, double now_s)
{
	for (size_t i = 0; i < CLIENT_RATES_MAX; i++)
		if (strcmp(rates.clients[i].name, name) == 0)
			return buckets_sum(&rates.clients[i].answers, (int64_t)(now_s * 1e9));
	return UINT64_MAX;
}

static int
fresh(void **state)
{
	(void)state;
	rates = (struct client_rates){ 0 };
	count = 0;
	seconds = 60;
	return 0;
}

/* If kubedns has been running for a long time, its first list does not show when its clients sent
 * their queries. */
static void
the_growth_since_the_reading_before_is_what_they_got(void **state)
{
	(void)state;
	client("10.0.0.1", "", 5000);
	reading(1000, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1000), 0);
	client("10.0.0.1", "", 5200);
	/* All queries of this client are new, because the previous list was not full. */
	client("10.0.0.2", "", 40);
	reading(1002.5, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1003), 200);
	assert_int_equal(answers_to("10.0.0.2", 1003), 40);
	client("10.0.0.1", "", 5200);
	reading(1005, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1599), 200);
	assert_int_equal(answers_to("10.0.0.1", 1700), 0); /* ten minutes later */
}

static void
a_halving_is_no_fall_and_no_rise(void **state)
{
	(void)state;
	seconds = 119;
	client("10.0.0.1", "", 6000);
	reading(1000, 1, EVERYONE);
	seconds = 61;
	client("10.0.0.1", "", 3100);
	reading(1002.5, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1003), 100);
}

static void
a_new_kubedns_counts_from_zero(void **state)
{
	(void)state;
	client("10.0.0.1", "", 6000);
	reading(1000, 1, EVERYONE);
	seconds = 1;
	client("10.0.0.1", "", 700);
	reading(1002.5, 2, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1003), 700);
}

static void
nobody_gets_more_than_all_get(void **state)
{
	(void)state;
	client("10.0.0.1", "", 0);
	reading(1000, 1, EVERYONE);
	client("10.0.0.1", "", 1e15);
	client("10.0.0.2", "", 80);
	reading(1002.5, 1, 60);
	assert_int_equal(answers_to("10.0.0.1", 1003), 60);
	assert_int_equal(answers_to("10.0.0.2", 1003), 60);
}

/* If kubedns returned no list for a minute, it is unknown when the counts increased. */
static void
a_gap_is_no_spike(void **state)
{
	(void)state;
	client("10.0.0.1", "", 100);
	reading(1000, 1, EVERYONE);
	client("10.0.0.1", "", 9000);
	reading(1060, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1060), 0);
	client_rates_missed(&rates);
	client("10.0.0.1", "", 20000);
	reading(1065, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1065), 0);
	client("10.0.0.1", "", 20400);
	reading(1067.5, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.0.1", 1068), 400);
}

/* Before, the client had at most as many queries as the tenth client in the list. So only the
 * excess is certainly new. */
static void
who_comes_into_a_full_list_is_not_overstated(void **state)
{
	char name[ADDR_TEXT_MAX];

	(void)state;
	for (int i = 0; i < KUBEDNS_TOP_MAX; i++) {
		snprintf(name, sizeof name, "10.0.0.%d", i);
		client(name, "", 1000 - i);
	}
	reading(1000, 1, EVERYONE);
	client("10.0.1.1", "", 5000);
	for (int i = 0; i < KUBEDNS_TOP_MAX - 1; i++) {
		snprintf(name, sizeof name, "10.0.0.%d", i);
		client(name, "", 1000 - i);
	}
	reading(1002.5, 1, EVERYONE);
	assert_int_equal(answers_to("10.0.1.1", 1003), 5000 - 991);
	assert_int_equal(answers_to("10.0.0.1", 1003), 0);
}

/* Each list has other clients, many times. The top client stays, and no entry is replaced twice. */
static void
ever_new_clients_do_not_push_out_the_heavy_one(void **state)
{
	const struct client_rate *heaviest[CLIENT_RATES_SHOWN];
	char name[ADDR_TEXT_MAX];

	(void)state;
	for (int t = 0; t < 200; t++) {
		client("10.0.0.1", "", 1000 * t);
		for (int i = 1; i < KUBEDNS_TOP_MAX; i++) {
			snprintf(name, sizeof name, "10.1.%d.%d", t, i);
			client(name, "", 40 * i);
		}
		reading(1000 + 2.5 * t, 1, EVERYONE);
	}
	assert_int_equal(
	    client_rates_heaviest(&rates, 1500 * NS_PER_S, heaviest), CLIENT_RATES_SHOWN);
	assert_string_equal(heaviest[0]->name, "10.0.0.1");
	assert_int_equal(answers_to("10.0.0.1", 1500), 199000);
	for (int i = 1; i < CLIENT_RATES_SHOWN; i++)
		assert_true(buckets_sum(&heaviest[i]->answers, 1500 * NS_PER_S) <=
			    buckets_sum(&heaviest[i - 1]->answers, 1500 * NS_PER_S));
}

static void
an_address_that_another_pod_has_now_is_another_client(void **state)
{
	const struct client_rate *heaviest[CLIENT_RATES_SHOWN];

	(void)state;
	client("10.0.0.1", "", 0);
	reading(1000, 1, EVERYONE);
	client("10.0.0.1", "pod shop/web-1", 300);
	reading(1002.5, 1, EVERYONE);
	/* The pods are being listed again, so the list has no pod name. */
	client("10.0.0.1", "", 310);
	reading(1005, 1, EVERYONE);
	client("10.0.0.1", "pod shop/web-2", 400);
	reading(1007.5, 1, EVERYONE);
	assert_int_equal(client_rates_heaviest(&rates, 1008 * NS_PER_S, heaviest), 2);
	assert_string_equal(heaviest[0]->pod, "pod shop/web-1");
	assert_int_equal(buckets_sum(&heaviest[0]->answers, 1008 * NS_PER_S), 310);
	assert_string_equal(heaviest[1]->pod, "pod shop/web-2");
	assert_int_equal(buckets_sum(&heaviest[1]->answers, 1008 * NS_PER_S), 90);
}

/* The lists are unusual: one address ten times, entries without an address, texts of any length. */
static void
a_strange_list_does_no_harm(void **state)
{
	(void)state;
	for (int t = 0; t < 50; t++) {
		for (int i = 0; i < KUBEDNS_TOP_MAX; i++) {
			client(i % 2 == 0 ? "10.0.0.1" : "", "", 100 * t);
			memset(clients[i].pod, 'a' + (t + i) % 26, sizeof clients[i].pod - 1);
			if (i == 7)
				memset(clients[i].name, 'x', sizeof clients[i].name - 1);
		}
		reading(1000 + 2.5 * t, 1, EVERYONE);
	}
	for (size_t i = 0; i < CLIENT_RATES_MAX; i++)
		assert_true(strlen(rates.clients[i].name) < sizeof rates.clients[i].name);
}

/* The output is as on the page: one time axis for all clients, and the top clients first. Clients
 * without permission get no list. */
static void
the_heaviest_are_told_over_time_to_those_who_may_ask(void **state)
{
	static const char *const lists[] = {
		"{\"seconds\": 60, \"clients\": []}",
		"{\"seconds\": 62, \"clients\": [{\"address\": \"10.0.0.9\", \"namespace\": "
		"\"shop\", "
		"\"pod\": \"web-1\", \"queries\": 41000}, {\"address\": \"10.0.0.8\", \"queries\": "
		"20000}, "
		"{\"address\": \"<b>\", \"queries\": 40}]}",
	};
	static const char metrics[] = "kubedns_dns_responses_total{rcode=\"NOERROR\"} %d\n";
	char text[128];

	setup(state);
	view.kubedns = &kubedns;
	kubedns = (struct kubedns_view){ .seen = true, .up = true, .ready = true };
	view.started_ns = view.now_ns - HISTORY_S * NS_PER_S;
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof text, metrics, 100000 * i);
		kubedns_read_metrics(&kubedns, text, strlen(text), view.now_ns);
		kubedns_read_top(
		    &kubedns, lists[i], strlen(lists[i]), view.now_ns - (1 - i) * NS_PER_S);
	}
	char *json = shown_status();
	const char *drawn = strstr(json, "\"topRates\":[");
	const char *first = strstr(drawn, "{\"name\":\"10.0.0.9\",\"pod\":\"pod shop/web-1\",");
	const char *second = strstr(drawn, "{\"name\":\"10.0.0.8\",\"pod\":\"\",");
	assert_true(first != NULL && second != NULL && first < second);
	assert_non_null(strstr(first, ",0,41000]}"));
	assert_non_null(strstr(second, ",0,20000]}"));
	free(json);
	view.may_ask = false;
	json = shown_status();
	assert_null(strstr(json, "10.0.0.9"));
	free(json);
	teardown(state);
}

#define F(name) cmocka_unit_test_setup(name, fresh)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		F(the_growth_since_the_reading_before_is_what_they_got),
		F(a_halving_is_no_fall_and_no_rise),
		F(a_new_kubedns_counts_from_zero),
		F(nobody_gets_more_than_all_get),
		F(a_gap_is_no_spike),
		F(who_comes_into_a_full_list_is_not_overstated),
		F(ever_new_clients_do_not_push_out_the_heavy_one),
		F(an_address_that_another_pod_has_now_is_another_client),
		F(a_strange_list_does_no_harm),
		F(the_heaviest_are_told_over_time_to_those_who_may_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
