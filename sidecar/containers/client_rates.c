#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "sidecar/containers/client_rates.h"
#include "sidecar/containers/container_status.h"

_Static_assert((int)CLIENT_RATES_MAX >= 2 * (int)KUBEDNS_TOP_MAX,
    "a client that is listed now never takes the place of another one");

#define FLOODER_SHARE 0.5 /* fraction of the answers */

/* kubedns halves its counts each minute. After a longer pause the sidecar does not know how often that happened. */
static const int64_t silence_max_ns = 50 * NS_PER_S;

static bool
has_address(const struct client_rate *rate, const struct kubedns_talker *client)
{
	return strncmp(rate->name, client->name, sizeof rate->name - 1) == 0;
}

/* Whether `rate` belongs to the client. An address may have moved to another pod, so the pods are compared too. If one of the pods is
 * unknown, the same address counts as the same client. */
static bool
is_of(const struct client_rate *rate, const struct kubedns_talker *client)
{
	return has_address(rate, client) && (rate->pod[0] == '\0' || client->pod[0] == '\0' ||
						strcmp(rate->pod, client->pod) == 0);
}

static int
find(const struct client_rates *rates, const struct kubedns_talker *client)
{
	for (int i = 0; i < CLIENT_RATES_MAX; i++)
		if (is_of(&rates->clients[i], client))
			return i;
	return -1;
}

/* Clears and returns the place of the unlisted client with the fewest answers. */
static int
take_place(struct client_rates *rates, const bool *listed, int64_t now_ns)
{
	uint64_t least_sum = UINT64_MAX;
	int least = -1;

	for (int i = 0; i < CLIENT_RATES_MAX; i++) {
		uint64_t sum = buckets_sum(&rates->clients[i].answers, now_ns);

		if (sum < least_sum && !listed[i]) {
			least = i;
			least_sum = sum;
		}
	}
	rates->clients[least] = (struct client_rate){ 0 };
	return least;
}

/* Finds a place for each client of the reading. Handles clients that already have a place first, so that no new client takes such a place. */
static void
find_places(struct client_rates *rates, const struct client_reading *reading,
    int places[KUBEDNS_TOP_MAX], bool listed[CLIENT_RATES_MAX])
{
	for (size_t i = 0; i < reading->count; i++)
		if ((places[i] = find(rates, &reading->clients[i])) >= 0)
			listed[places[i]] = true;
	for (size_t i = 0; i < reading->count; i++) {
		if (places[i] >= 0)
			continue;
		int place = take_place(rates, listed, reading->now_ns);
		snprintf(rates->clients[place].name, ADDR_TEXT_MAX, "%.*s", ADDR_TEXT_MAX - 1,
		    reading->clients[i].name);
		listed[place] = true;
		places[i] = place;
	}
}

/* Returns the client's count in the previous reading. kubedns counts by address, even if the pod of the address changed. */
static double
count_before(const struct client_rates *rates, const struct kubedns_talker *client)
{
	for (size_t i = 0; i < CLIENT_RATES_MAX; i++)
		if (rates->clients[i].listed && has_address(&rates->clients[i], client))
			return rates->clients[i].queries;
	return rates->unlisted;
}

void
client_rates_read(struct client_rates *rates, const struct client_reading *reading)
{
	int places[KUBEDNS_TOP_MAX];
	double before[KUBEDNS_TOP_MAX];
	bool listed[CLIENT_RATES_MAX] = { false };
	bool restarted = reading->start_s != rates->start_s;
	double keep = restarted ? 0 : reading->seconds < rates->seconds ? 0.5 : 1;
	double least = reading->count == KUBEDNS_TOP_MAX ? INFINITY : 0;
	bool known = rates->read_ns != 0 && reading->now_ns - rates->read_ns < silence_max_ns;

	for (size_t i = 0; i < reading->count; i++)
		before[i] = count_before(rates, &reading->clients[i]);
	find_places(rates, reading, places, listed);
	for (size_t i = 0; i < reading->count; i++) {
		const struct kubedns_talker *client = &reading->clients[i];
		struct client_rate *rate = &rates->clients[places[i]];
		double grown = client->queries - keep * before[i];

		if (grown > reading->answers)
			grown = reading->answers;
		if (known && grown > 0)
			buckets_add(&rate->answers, reading->now_ns, (uint64_t)grown);
		if (client->pod[0] != '\0')
			snprintf(rate->pod, sizeof rate->pod, "%s", client->pod);
		rate->queries = client->queries;
		least = client->queries < least ? client->queries : least;
	}
	for (size_t i = 0; i < CLIENT_RATES_MAX; i++)
		rates->clients[i].listed = listed[i];
	rates->read_ns = reading->now_ns;
	rates->seconds = reading->seconds;
	rates->start_s = reading->start_s;
	rates->unlisted = least;
}

void
client_rates_missed(struct client_rates *rates)
{
	rates->read_ns = 0;
}

size_t
client_rates_heaviest(const struct client_rates *rates, int64_t now_ns,
    const struct client_rate *heaviest[CLIENT_RATES_SHOWN])
{
	uint64_t sums[CLIENT_RATES_SHOWN];
	size_t count = 0;

	for (size_t i = 0; i < CLIENT_RATES_MAX; i++) {
		uint64_t sum = buckets_sum(&rates->clients[i].answers, now_ns);
		size_t k = count;

		if (sum == 0 || (k == CLIENT_RATES_SHOWN && sum <= sums[--k]))
			continue;
		for (; k > 0 && sums[k - 1] < sum; k--) {
			sums[k] = sums[k - 1];
			heaviest[k] = heaviest[k - 1];
		}
		sums[k] = sum;
		heaviest[k] = &rates->clients[i];
		count += count < CLIENT_RATES_SHOWN;
	}
	return count;
}

/* Whether a count is in the bucket of this age or in the previous bucket. Late counts go into the next bucket. */
static bool
counts_then(const struct buckets *when, int64_t now_ns, int age)
{
	return buckets_get(when, now_ns, age) > 0 ||
	       (age + 1 < BUCKETS && buckets_get(when, now_ns, age + 1) > 0);
}

const struct client_rate *
client_rates_flooder(const struct client_rates *rates, int64_t now_ns, const struct buckets *when,
    const struct buckets *all, size_t kinds, double *share)
{
	const struct client_rate *most = NULL;
	uint64_t most_sum = 0, total = 0;
	struct addr addr;

	for (int age = 0; age < BUCKETS; age++)
		for (size_t k = 0; k < kinds && counts_then(when, now_ns, age); k++)
			total += buckets_get(&all[k], now_ns, age);
	for (size_t i = 0; i < CLIENT_RATES_MAX; i++) {
		uint64_t sum = 0;

		for (int age = 0; age < BUCKETS; age++)
			if (counts_then(when, now_ns, age))
				sum += buckets_get(&rates->clients[i].answers, now_ns, age);
		if (sum > most_sum) {
			most = &rates->clients[i];
			most_sum = sum;
		}
	}
	*share = total > 0 && most_sum < total ? (double)most_sum / (double)total : most != NULL;
	if (most == NULL || *share < FLOODER_SHARE || addr_parse(most->name, &addr) < 0 ||
	    strcmp(most->name, "127.0.0.1") == 0 || strcmp(most->name, "::1") == 0)
		return NULL;
	return most;
}
