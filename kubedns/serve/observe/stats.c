#include "kubedns/serve/observe/stats.h"

#include <assert.h>
#include <string.h>

#include "kubedns/answer/stage.h"
#include "lib/metrics.h"

/*
 * The fine buckets. The fine buckets have every bound that a metric family below uses. Sizes are in bytes, times in nanoseconds. A value
 * belongs to the first bucket whose bound is not below it.
 */
static const uint32_t size_bounds[] = { 0, 64, 100, 128, 200, 256, 300, 400, 511, 512, 1023, 1024,
	1232, 1500, 2047, 2048, 4095, 4096, 8192, 8291, 12288, 16000, 16384, 20480, 24576, 28672,
	32000, 32768, 36864, 40960, 45056, 48000, 49152, 53248, 57344, 61440, 64000, 65536 };
static const uint64_t time_bounds[] = { 250000, 500000, 1000000, 2000000, 3000000, 4000000, 5000000,
	8000000, 10000000, 16000000, 25000000, 32000000, 50000000, 64000000, 100000000, 128000000,
	250000000, 256000000, 500000000, 512000000, 1000000000, 1024000000, 2048000000, 2500000000,
	4096000000, 5000000000, 8192000000, 10000000000 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SIZE_BOUNDS   LENGTH(size_bounds)
#define TIME_BOUNDS   LENGTH(time_bounds)
_Static_assert(SIZE_BOUNDS < (size_t)STATS_SIZE_BUCKETS && TIME_BOUNDS < (size_t)STATS_TIME_BUCKETS,
    "a bucket for what is above all bounds");

static const uint8_t type_index[256] = { [TYPE_A] = STATS_A,
	[TYPE_AAAA] = STATS_AAAA,
	[TYPE_CNAME] = STATS_CNAME,
	[TYPE_HTTPS] = STATS_HTTPS,
	[15] = STATS_MX,
	[TYPE_NS] = STATS_NS,
	[TYPE_PTR] = STATS_PTR,
	[TYPE_SOA] = STATS_SOA,
	[TYPE_SRV] = STATS_SRV,
	[TYPE_TXT] = STATS_TXT,
	[TYPE_ANY] = STATS_ANY };

static const char *const type_labels[STATS_TYPE_COUNT] = { "other", "A", "AAAA", "CNAME", "HTTPS",
	"MX", "NS", "PTR", "SOA", "SRV", "TXT", "ANY" };
static const char *const proto_labels[PROTO_COUNT] = { "udp", "tcp" };
static const char *const system_labels[SYSTEM_COUNT] = {
	[SYSTEM_AUTH] = "auth", [SYSTEM_REVERSE] = "reverse", [SYSTEM_RECURSIVE] = "recursive"
};
static const char *const cause_labels[CAUSE_COUNT] = { [CAUSE_NXDOMAIN] = "nxdomain",
	[CAUSE_TRUNCATED] = "truncated",
	[CAUSE_REFUSED] = "refused",
	[CAUSE_OVERFLOW] = "overflow",
	[CAUSE_SERVFAIL] = "servfail" };
static const char *const drop_labels[DROP_COUNT] = { [DROP_NOT_A_QUERY] = "not_a_query",
	[DROP_OVERSIZE] = "oversize",
	[DROP_SEND] = "send",
	[DROP_FORWARD_TOTAL] = "forward_total",
	[DROP_FORWARD_CLIENT] = "forward_client",
	[DROP_FORWARD_EVICTED] = "forward_evicted",
	[DROP_FORWARD_SIZE] = "forward_size",
	[DROP_REPLY_LATE] = "reply_late",
	[DROP_TCP_IDLE] = "tcp_idle",
	[DROP_TCP_SLOW_QUERY] = "tcp_slow_query",
	[DROP_TCP_SLOW_READER] = "tcp_slow_reader",
	[DROP_TCP_LIMIT] = "tcp_limit",
	[DROP_TCP_CLIENT] = "tcp_client",
	[DROP_TCP_MEMORY] = "tcp_memory",
	[DROP_TCP_ACCEPT] = "tcp_accept",
	[DROP_TCP_BAD_LENGTH] = "tcp_bad_length",
	[DROP_TCP_MODULE] = "tcp_module" };

static size_t
size_bucket(size_t size)
{
	size_t low = 0, high = SIZE_BOUNDS;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (size > size_bounds[middle])
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
size_add(struct stats_sizes *sizes, size_t size)
{
	/* Nearly all messages are short, and need no search. The table has the first bucket for each 16 sizes. The bucket of a size is
	 * the bucket in the table or the next one. */
	static const uint8_t by_16[] = { 1, 1, 1, 1, 2, 2, 2, 3, 4, 4, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7,
		7, 7, 7, 7, 7, 7 };
	size_t block = (size - 1) / 16; /* for size 0, this is beyond the table */
	size_t bucket;

	if (block < sizeof by_16)
		bucket = (size_t)by_16[block] + (size > size_bounds[by_16[block]]);
	else
		bucket = size_bucket(size);
	stats_add(&sizes->buckets[bucket], 1);
	stats_add(&sizes->sum, size);
}

void
stats_query(struct stats *stats, enum stats_proto proto, enum stats_family family,
    const struct answer_info *info, size_t query_len)
{
	unsigned type = info->query.qtype < 256 ? type_index[info->query.qtype] : STATS_OTHER;

	stats_add(&stats->requests[proto][family][type], 1);
	stats_add(&stats->systems[info->system], 1);
	size_add(&stats->request_sizes[proto], query_len);
	if (info->fell_through)
		stats_add(&stats->fallthrough, 1);
	if (info->rewritten)
		stats_add(&stats->rewritten, 1);
	if (info->rewrite_limit)
		stats_add(&stats->rewrite_limit, 1);
}

/* Each reply is counted under at most one cause. Truncation takes precedence over the rcode. */
static void
count_error(struct stats *stats, enum stats_proto proto, const struct answer_info *info)
{
	uint64_t *causes = stats->errors[info->system];

	if (info->truncated)
		stats_add(&causes[proto == PROTO_TCP ? CAUSE_OVERFLOW : CAUSE_TRUNCATED], 1);
	else if (info->rcode == RCODE_NXDOMAIN)
		stats_add(&causes[CAUSE_NXDOMAIN], 1);
	else if (info->rcode == RCODE_REFUSED)
		stats_add(&causes[CAUSE_REFUSED], 1);
	else if (info->rcode == RCODE_SERVFAIL)
		stats_add(&causes[CAUSE_SERVFAIL], 1);
}

void
stats_reply(
    struct stats *stats, enum stats_proto proto, const struct answer_info *info, size_t reply_len)
{
	unsigned rcode = info->rcode < STATS_RCODES - 1 ? info->rcode : STATS_RCODES - 1;

	stats_add(&stats->responses[rcode], 1);
	size_add(&stats->response_sizes[info->system][proto], reply_len);
	if (info->truncated)
		stats_add(&stats->truncated, 1);
	if (info->filtered)
		stats_add(&stats->filtered[info->query.qtype == TYPE_AAAA], 1);
	if (info->truncated || info->rcode != RCODE_NOERROR)
		count_error(stats, proto, info);
	if (info->claim.stage != NULL)
		info->claim.stage->replied(info, stats->modules + info->claim.stage->first_counter);
}

void
stats_took(struct stats_times *times, uint64_t ns, uint64_t n)
{
	size_t bucket = 0;

	while (bucket < TIME_BOUNDS && ns > time_bounds[bucket])
		bucket++;
	stats_add(&times->buckets[bucket], n);
	stats_add(&times->sum_ns, ns * n);
}

void
stats_sum(struct stats *into, const struct stats *from, size_t modules)
{
	_Static_assert(sizeof(struct stats) % sizeof(uint64_t) == 0, "all counters");
	uint64_t *to = (uint64_t *)into;
	const uint64_t *words = (const uint64_t *)from;
	for (size_t i = 0; i < sizeof *from / sizeof(uint64_t) + modules; i++)
		to[i] += __atomic_load_n(&words[i], __ATOMIC_RELAXED);
}

static double
number(uint64_t count)
{
	return (double)count;
}

/*
 * Computes the buckets of a metric family from the fine buckets. A fine bucket is added to the first family bucket whose bound is not
 * lower.
 */
static void
coarsen_sizes(
    struct histogram *h, const double *bounds, size_t count, const struct stats_sizes *sizes)
{
	*h = (struct histogram){ .bounds = bounds, .count = count, .sum = number(sizes->sum) };
	size_t bucket = 0;
	for (size_t i = 0; i <= SIZE_BOUNDS; i++) {
		while (
		    bucket < count && (i == SIZE_BOUNDS || (double)size_bounds[i] > bounds[bucket]))
			bucket++;
		h->buckets[bucket] += sizes->buckets[i];
	}
}

static void
coarsen_times(
    struct histogram *h, const double *bounds, size_t count, const struct stats_times *times)
{
	*h = (struct histogram){
		.bounds = bounds, .count = count, .sum = number(times->sum_ns) / 1e9
	};
	size_t bucket = 0;
	for (size_t i = 0; i <= TIME_BOUNDS; i++) {
		while (bucket < count &&
		       (i == TIME_BOUNDS || number(time_bounds[i]) / 1e9 > bounds[bucket] + 1e-12))
			bucket++;
		h->buckets[bucket] += times->buckets[i];
	}
}

static const double doubling_s[] = { 0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032,
	0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192 };
static const double skydns_s[] = { 0.001, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
	5, 10 };
static const double skydns_bytes[] = { 0, 512, 1024, 1500, 2048, 4096, 8192, 12288, 16384, 20480,
	24576, 28672, 32768, 36864, 40960, 45056, 49152, 53248, 57344, 61440, 65536 };
static const double our_bytes[] = { 64, 128, 256, 512, 1232, 4096, 16384, 65536 };
static const double coredns_bytes[] = { 0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16000,
	32000, 48000, 64000 };

static void
family_named(struct metrics *m, const char *prefix, const char *rest, enum metric_type type,
    const char *help)
{
	char name[256];
	size_t prefix_len = strnlen(prefix, sizeof name / 2), rest_len = strlen(rest);

	assert(prefix_len + rest_len < sizeof name);
	memcpy(name, prefix, prefix_len);
	memcpy(name + prefix_len, rest, rest_len + 1);
	metrics_family(m, name, type, help);
}

static struct stats_sizes
both_protos(const struct stats_sizes sizes[PROTO_COUNT])
{
	struct stats_sizes sum = sizes[PROTO_UDP];

	for (size_t i = 0; i < STATS_SIZE_BUCKETS; i++)
		sum.buckets[i] += sizes[PROTO_TCP].buckets[i];
	sum.sum += sizes[PROTO_TCP].sum;
	return sum;
}

static void
skydns_histograms(const struct stats *stats, struct metrics *m, const char *prefix)
{
	struct histogram h;

	family_named(m, prefix, "_dns_request_duration_seconds", METRIC_HISTOGRAM,
	    "Histogram of the time (in seconds) each request took to resolve.");
	for (size_t s = 0; s < SYSTEM_COUNT; s++) {
		coarsen_times(&h, skydns_s, LENGTH(skydns_s), &stats->times[s]);
		metrics_histogram(m, &h, "system", system_labels[s], (char *)NULL);
	}
	family_named(m, prefix, "_dns_response_size_bytes", METRIC_HISTOGRAM,
	    "Size of the returned response in bytes.");
	for (size_t s = 0; s < SYSTEM_COUNT; s++) {
		struct stats_sizes sizes = both_protos(stats->response_sizes[s]);

		coarsen_sizes(&h, skydns_bytes, LENGTH(skydns_bytes), &sizes);
		metrics_histogram(m, &h, "system", system_labels[s], (char *)NULL);
	}
}

void
stats_metrics_skydns(
    const struct stats *stats, struct metrics *m, const char *namespace, const char *subsystem)
{
	char prefix[128];
	size_t len = 0;

	for (const char *p = namespace; *p != '\0' && len < sizeof prefix / 2; p++)
		prefix[len++] = *p;
	if (*namespace != '\0' && *subsystem != '\0')
		prefix[len++] = '_';
	for (const char *p = subsystem; *p != '\0' && len < sizeof prefix - 1; p++)
		prefix[len++] = *p;
	prefix[len] = '\0';
	/* The client library of Prometheus omits an empty part and its underscore. */
	const char *skip = len == 0 ? "_" : "";
	size_t drop = strlen(skip);

	family_named(m, prefix, &"_dns_request_count_total"[drop], METRIC_COUNTER,
	    "Counter of DNS requests made.");
	for (size_t s = 0; s < SYSTEM_COUNT; s++)
		metrics_value(
		    m, number(stats->systems[s]), "system", system_labels[s], (char *)NULL);
	skydns_histograms(stats, m, prefix);
	family_named(m, prefix, &"_dns_error_count_total"[drop], METRIC_COUNTER,
	    "Counter of DNS requests resulting in an error.");
	for (size_t s = 0; s < SYSTEM_COUNT; s++)
		for (size_t c = 0; c < CAUSE_COUNT; c++)
			metrics_value(m, number(stats->errors[s][c]), "system", system_labels[s],
			    "cause", cause_labels[c], (char *)NULL);
	family_named(m, prefix, &"_dns_cachemiss_count_total"[drop], METRIC_COUNTER,
	    "Counter of DNS requests that result in a cache miss; there is no cache to miss.");
	metrics_value(m, 0, "cache", "response", (char *)NULL);
}

static void
requests_family(const struct stats *stats, struct metrics *m)
{
	metrics_family(m, "kubedns_dns_requests_total", METRIC_COUNTER,
	    "Queries read, by transport, address family and type.");
	for (size_t p = 0; p < PROTO_COUNT; p++)
		for (size_t f = 0; f < FAMILY_COUNT; f++)
			for (size_t t = 0; t < STATS_TYPE_COUNT; t++)
				metrics_value(m, number(stats->requests[p][f][t]), "proto",
				    proto_labels[p], "family", f == FAMILY_4 ? "ipv4" : "ipv6",
				    "type", type_labels[t], (char *)NULL);
}

static const char *
rcode_label(unsigned rcode, char *text)
{
	return rcode == STATS_RCODES - 1 ? "other" : rcode_name(rcode, text);
}

static void
dns_histograms(const struct stats *stats, struct metrics *m)
{
	struct histogram h, sum;

	metrics_family(m, "kubedns_dns_request_duration_seconds", METRIC_HISTOGRAM,
	    "Time from the arrival of a query at the worker to its reply; all queries of a batch "
	    "have the same time.");
	for (size_t s = 0; s < SYSTEM_COUNT; s++) {
		coarsen_times(&h, doubling_s, LENGTH(doubling_s), &stats->times[s]);
		metrics_histogram(m, &h, "system", system_labels[s], (char *)NULL);
	}
	metrics_family(m, "kubedns_dns_request_size_bytes", METRIC_HISTOGRAM, "Size of queries.");
	for (size_t p = 0; p < PROTO_COUNT; p++) {
		coarsen_sizes(&h, our_bytes, LENGTH(our_bytes), &stats->request_sizes[p]);
		metrics_histogram(m, &h, "proto", proto_labels[p], (char *)NULL);
	}
	metrics_family(m, "kubedns_dns_response_size_bytes", METRIC_HISTOGRAM, "Size of replies.");
	for (size_t p = 0; p < PROTO_COUNT; p++) {
		coarsen_sizes(&sum, our_bytes, LENGTH(our_bytes), &stats->response_sizes[0][p]);
		for (size_t s = 1; s < SYSTEM_COUNT; s++) {
			coarsen_sizes(
			    &h, our_bytes, LENGTH(our_bytes), &stats->response_sizes[s][p]);
			histogram_add(&sum, &h);
		}
		metrics_histogram(m, &sum, "proto", proto_labels[p], (char *)NULL);
	}
}

static void
one(struct metrics *m, const char *name, enum metric_type type, const char *help, uint64_t value)
{
	metrics_family(m, name, type, help);
	metrics_value(m, number(value), (char *)NULL);
}

static void
forward_families(const struct stats *stats, struct metrics *m)
{
	struct histogram h;

	one(m, "kubedns_forward_queries_total", METRIC_COUNTER,
	    "Queries forwarded to other servers.", stats->forward_queries);
	one(m, "kubedns_forward_in_flight", METRIC_GAUGE,
	    "Queries that wait now for a reply of another server.", stats->forward_in_flight);
	one(m, "kubedns_forward_joined_total", METRIC_COUNTER,
	    "Queries that waited for the answer to an identical query in flight.",
	    stats->forward_joined);
	one(m, "kubedns_forward_servfail_total", METRIC_COUNTER,
	    "Queries sent to the upstream servers after the resolver's SERVFAIL or silence.",
	    stats->forward_fallback);
	one(m, "kubedns_forward_retries_total", METRIC_COUNTER,
	    "Times a query was sent again or to the next server.", stats->forward_retries);
	one(m, "kubedns_forward_failed_total", METRIC_COUNTER,
	    "Queries answered SERVFAIL because no server had an answer.", stats->forward_failed);
	one(m, "kubedns_forward_server_failures_total", METRIC_COUNTER,
	    "Times a server did not answer or could not be reached.",
	    stats->forward_server_failures);
	one(m, "kubedns_forward_replies_ignored_total", METRIC_COUNTER,
	    "Replies that no query waited for, because they were late, repeated or forged.",
	    stats->forward_replies_ignored);
	metrics_family(m, "kubedns_forward_duration_seconds", METRIC_HISTOGRAM,
	    "Time from the arrival of a forwarded query to its reply.");
	coarsen_times(&h, doubling_s, LENGTH(doubling_s), &stats->forward_times);
	metrics_histogram(m, &h, (char *)NULL);
}

void
stats_metrics(const struct stats *stats, struct metrics *m, uint64_t queue_drops)
{
	char text[12];

	requests_family(stats, m);
	metrics_family(m, "kubedns_dns_responses_total", METRIC_COUNTER, "Replies, by rcode.");
	for (unsigned r = 0; r < STATS_RCODES; r++)
		metrics_value(
		    m, number(stats->responses[r]), "rcode", rcode_label(r, text), (char *)NULL);
	dns_histograms(stats, m);
	one(m, "kubedns_dns_truncated_total", METRIC_COUNTER, "Truncated replies (TC bit set).",
	    stats->truncated);
	metrics_family(m, "kubedns_dns_filtered_total", METRIC_COUNTER,
	    "A and AAAA queries for external names that were answered NODATA at once (--filter-a, "
	    "--filter-aaaa), by type.");
	metrics_value(m, number(stats->filtered[0]), "type", "A", (char *)NULL);
	metrics_value(m, number(stats->filtered[1]), "type", "AAAA", (char *)NULL);
	metrics_family(m, "kubedns_dns_dropped_total", METRIC_COUNTER,
	    "Queries, replies and connections that were not served, by reason.");
	for (size_t d = 0; d < DROP_COUNT; d++)
		metrics_value(m, number(stats->dropped[d]), "reason", drop_labels[d], (char *)NULL);
	metrics_value(m, number(queue_drops), "reason", "receive_queue", (char *)NULL);
	one(m, "kubedns_client_shed_total", METRIC_COUNTER,
	    "Packets of the heaviest clients that the kernel's filter dropped, so that an "
	    "overloaded worker serves the others.",
	    stats->client_shed);
	one(m, "kubedns_clients_held", METRIC_GAUGE,
	    "Clients that are limited now; each worker counts its own.", stats->clients_limited);
	one(m, "kubedns_tcp_accepted_total", METRIC_COUNTER, "TCP connections accepted.",
	    stats->tcp_accepted);
	one(m, "kubedns_tcp_connections", METRIC_GAUGE, "TCP connections that are open.",
	    stats->tcp_connections);
	forward_families(stats, m);
	stats_metrics_redirected(stats, m);
}

static void
coredns_histograms(
    const struct stats *stats, struct metrics *m, const char *server, const char *zone)
{
	struct histogram h, sum;

	metrics_family(
	    m, "coredns_dns_request_duration_seconds", METRIC_HISTOGRAM, "Time each request took.");
	coarsen_times(&sum, doubling_s, LENGTH(doubling_s), &stats->times[0]);
	for (size_t s = 1; s < SYSTEM_COUNT; s++) {
		coarsen_times(&h, doubling_s, LENGTH(doubling_s), &stats->times[s]);
		histogram_add(&sum, &h);
	}
	metrics_histogram(m, &sum, "server", server, "zone", zone, (char *)NULL);
	metrics_family(m, "coredns_dns_request_size_bytes", METRIC_HISTOGRAM, "Size of requests.");
	for (size_t p = 0; p < PROTO_COUNT; p++) {
		coarsen_sizes(&h, coredns_bytes, LENGTH(coredns_bytes), &stats->request_sizes[p]);
		metrics_histogram(
		    m, &h, "server", server, "zone", zone, "proto", proto_labels[p], (char *)NULL);
	}
	metrics_family(
	    m, "coredns_dns_response_size_bytes", METRIC_HISTOGRAM, "Size of responses.");
	for (size_t p = 0; p < PROTO_COUNT; p++) {
		coarsen_sizes(
		    &sum, coredns_bytes, LENGTH(coredns_bytes), &stats->response_sizes[0][p]);
		for (size_t s = 1; s < SYSTEM_COUNT; s++) {
			coarsen_sizes(
			    &h, coredns_bytes, LENGTH(coredns_bytes), &stats->response_sizes[s][p]);
			histogram_add(&sum, &h);
		}
		metrics_histogram(m, &sum, "server", server, "zone", zone, "proto", proto_labels[p],
		    (char *)NULL);
	}
}

void
stats_metrics_coredns(
    const struct stats *stats, struct metrics *m, const char *server, const char *zone)
{
	char text[12];

	metrics_family(m, "coredns_dns_requests_total", METRIC_COUNTER, "Requests, by type.");
	for (size_t p = 0; p < PROTO_COUNT; p++)
		for (size_t f = 0; f < FAMILY_COUNT; f++)
			for (size_t t = 0; t < STATS_TYPE_COUNT; t++)
				metrics_value(m, number(stats->requests[p][f][t]), "server", server,
				    "zone", zone, "proto", proto_labels[p], "family",
				    f == FAMILY_4 ? "1" : "2", "type", type_labels[t],
				    (char *)NULL);
	metrics_family(m, "coredns_dns_responses_total", METRIC_COUNTER, "Responses, by rcode.");
	for (unsigned r = 0; r < STATS_RCODES; r++)
		metrics_value(m, number(stats->responses[r]), "server", server, "zone", zone,
		    "rcode", rcode_label(r, text), (char *)NULL);
	coredns_histograms(stats, m, server, zone);
	one(m, "coredns_panics_total", METRIC_COUNTER,
	    "Always 0: there is nothing to recover from.", 0);
}
