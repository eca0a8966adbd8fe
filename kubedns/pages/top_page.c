#include "kubedns/pages/top_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/pages/answer_line.h"
#include "kubedns/serve/worker.h"
#include "kubedns/serve/observe/top_clients.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { LIMIT_DEFAULT = 10, LIMIT_MOST = 100 };

static const char *const class_names[TOP_COUNT] = { [TOP_ALL] = "queries",
	[TOP_NXDOMAIN] = "nxdomain",
	[TOP_SEARCH_WALK] = "search_walk",
	[TOP_AAAA] = "aaaa",
	[TOP_OUTSIDE] = "outside" };

/* A client or a name, with its samples in each class. */
struct talker {
	uint8_t key[TOP_NAME_MAX];
	double of[TOP_COUNT];
};

/* The counts of all clients and names. */
struct top {
	double seconds; /* the time that the counts represent */
	double totals[TOP_COUNT];
	size_t client_count, name_count;
	struct talker *clients, *names;
};

/* --- adding up counts --- */

static void
add_counts(double of[TOP_COUNT], const struct top_counts *counts)
{
	for (unsigned c = 0; c < TOP_COUNT; c++)
		of[c] += counts->of[c];
	/* The lower bound is used, because other clients or names may have sent the difference. */
	of[TOP_ALL] -= counts->error;
}

static int
by_key(const void *a, const void *b)
{
	const struct talker *x = a, *y = b;

	return memcmp(x->key, y->key, sizeof x->key);
}

/* Merges the entries of long names with the same end. */
static size_t
merge(struct talker *talkers, size_t count)
{
	size_t kept = 0;

	qsort(talkers, count, sizeof *talkers, by_key);
	for (size_t i = 0; i < count; i++) {
		if (kept > 0 && by_key(&talkers[kept - 1], &talkers[i]) == 0)
			for (unsigned c = 0; c < TOP_COUNT; c++)
				talkers[kept - 1].of[c] += talkers[i].of[c];
		else
			talkers[kept++] = talkers[i];
	}
	return kept;
}

/* Reads the counts up to now. */
static void
top_read(struct top *top, struct observers *observers, struct top_clients *counted)
{
	int64_t now_ns = clock_mono_ns();

	observers_drain(observers);
	top_clients_age(counted, now_ns);
	*top = (struct top){ .seconds = top_clients_seconds(counted, now_ns),
		.clients = xcalloc(TOP_CLIENTS, sizeof(struct talker)),
		.names = xcalloc(TOP_NAMES, sizeof(struct talker)) };
	for (unsigned c = 0; c < TOP_COUNT; c++)
		top->totals[c] = counted->totals[c];
	for (size_t i = 0; i < TOP_CLIENTS; i++) {
		const struct top_client *client = &counted->clients[i];

		if (client->counts.of[TOP_ALL] == 0)
			continue;
		struct talker *to = &top->clients[top->client_count++];
		memcpy(to->key, &client->addr, sizeof client->addr);
		add_counts(to->of, &client->counts);
	}
	for (size_t i = 0; i < TOP_NAMES; i++) {
		const struct top_name *name = &counted->names[i];

		if (name->counts.of[TOP_ALL] == 0)
			continue;
		struct talker *to = &top->names[top->name_count++];
		memcpy(to->key, name->name, dname_length(name->name, sizeof name->name));
		add_counts(to->of, &name->counts);
	}
	top->name_count = merge(top->names, top->name_count);
}

static void
top_free(struct top *top)
{
	free(top->clients);
	free(top->names);
}

/* --- the page --- */

static enum top_class sort_class;

static int
by_count(const void *a, const void *b)
{
	double x = ((const struct talker *)a)->of[sort_class];
	double y = ((const struct talker *)b)->of[sort_class];

	return x < y ? 1 : x > y ? -1 : by_key(a, b);
}

struct page {
	FILE *out;
	bool json;
	double seconds;
	size_t limit;
	const struct store *store;
};

static void
print_counts(const struct page *page, const double of[TOP_COUNT])
{
	for (unsigned c = 0; c < TOP_COUNT; c++) {
		double queries = of[c] * RING_SAMPLE;

		if (page->json)
			fprintf(page->out, ",\"%s\":%.0f", class_names[c], queries);
		else
			fprintf(page->out, "%11.0f ", queries);
		if (c == TOP_ALL)
			fprintf(page->out, page->json ? ",\"per_second\":%.1f" : "%8.1f/s ",
			    page->seconds > 0 ? queries / page->seconds : 0);
	}
}

static struct addr
client_addr(const struct talker *talker)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct addr addr = { .family = AF_INET6 };

	memcpy(addr.bytes, talker->key, sizeof addr.bytes);
	if (memcmp(talker->key, mapped, sizeof mapped) == 0) {
		addr = (struct addr){ .family = AF_INET };
		memcpy(addr.bytes, talker->key + sizeof mapped, 4);
	}
	return addr;
}

static void
print_client(const struct page *page, const struct talker *talker)
{
	struct addr addr = client_addr(talker);
	char text[ADDR_TEXT_MAX], pod[CLIENT_TEXT_MAX];

	addr_format(&addr, text);
	client_text(page->store, &addr, page->json, pod);
	if (page->json) {
		fprintf(page->out, "{\"address\":\"%s\"%s", text, pod);
		print_counts(page, talker->of);
		fputc('}', page->out);
		return;
	}
	print_counts(page, talker->of);
	fprintf(page->out, "%s%s\n", text, pod);
}

static void
print_name(const struct page *page, const struct talker *talker)
{
	char text[DNAME_TEXT_MAX];

	dname_to_text(talker->key, text);
	if (!page->json) {
		print_counts(page, talker->of);
		fprintf(page->out, "%s\n", text);
		return;
	}
	fputs("{\"name\":\"", page->out);
	for (const char *c = text; *c != '\0'; c++)
		fprintf(page->out, *c == '\\' || *c == '"' ? "\\%c" : "%c", *c);
	fputc('"', page->out);
	print_counts(page, talker->of);
	fputc('}', page->out);
}

static void
print_list(const struct page *page, const char *what, struct talker *talkers, size_t count,
    void (*print)(const struct page *, const struct talker *))
{
	if (page->json)
		fprintf(page->out, ",\"%s\":[", what);
	else
		fprintf(page->out,
		    "\n    queries           nxdomain search_walk        aaaa     "
		    "outside %s\n",
		    what);
	for (size_t i = 0; i < count && i < page->limit && talkers[i].of[sort_class] > 0; i++) {
		if (page->json && i > 0)
			fputc(',', page->out);
		print(page, &talkers[i]);
	}
	if (page->json)
		fputc(']', page->out);
}

/* Reads the parameters by, limit and format. Returns 0, or -EINVAL after it has written an
 * explanation to the response. */
static int
read_parameters(
    struct page *page, const struct http_request *request, struct http_response *response)
{
	const char *by = http_query(request, "by"), *limit = http_query(request, "limit");
	const char *format = http_query(request, "format");
	char *end = NULL;

	sort_class = TOP_ALL;
	page->json = format != NULL && strcmp(format, "json") == 0;
	page->limit = LIMIT_DEFAULT;
	if (format != NULL && !page->json && strcmp(format, "text") != 0) {
		http_text(response, 400, "format=%s: json or text is needed\n", format);
		return -EINVAL;
	}
	while (by != NULL && sort_class < TOP_COUNT && strcmp(by, class_names[sort_class]) != 0)
		sort_class++;
	if (sort_class == TOP_COUNT) {
		http_text(response, 400,
		    "by=%s: queries, nxdomain, search_walk, aaaa or outside is needed\n", by);
		return -EINVAL;
	}
	if (limit != NULL && *limit >= '0' && *limit <= '9')
		page->limit = strtoul(limit, &end, 10);
	if (limit != NULL &&
	    (end == NULL || *end != '\0' || page->limit == 0 || page->limit > LIMIT_MOST)) {
		http_text(response, 400, "limit=%s: a number from 1 to 100 is needed\n", limit);
		return -EINVAL;
	}
	return 0;
}

void
top_respond(struct observers *observers, struct top_clients *counted, const struct store *store,
    const struct http_request *request, struct http_response *response)
{
	struct page page = { .store = store };
	struct top top;

	if (counted == NULL) {
		http_text(response, 404, "%s", "answers are not counted: --recorder=off\n");
		return;
	}
	if (read_parameters(&page, request, response) < 0)
		return;
	page.out = open_memstream(&response->body, &response->len);
	if (page.out == NULL)
		log_fatal("open_memstream");
	top_read(&top, observers, counted);
	page.seconds = top.seconds;
	if (page.json) {
		response->content_type = "application/json";
		fprintf(page.out, "{\"seconds\":%.0f", top.seconds);
	} else {
		fprintf(page.out,
		    "# about %.0f queries, estimated from %.0f; older than a minute counts half\n",
		    top.totals[TOP_ALL] * RING_SAMPLE, top.totals[TOP_ALL]);
	}
	if (page.json)
		print_counts(&page, top.totals);
	qsort(top.clients, top.client_count, sizeof *top.clients, by_count);
	qsort(top.names, top.name_count, sizeof *top.names, by_count);
	print_list(&page, "clients", top.clients, top.client_count, print_client);
	print_list(&page, "names", top.names, top.name_count, print_name);
	if (page.json)
		fputs("}\n", page.out);
	fclose(page.out);
	top_free(&top);
}

/* --- metrics --- */

static void
ratio_family(struct metrics *m, const char *name, const char *help, const struct talker *talkers,
    size_t count, const double totals[TOP_COUNT])
{
	metrics_family(m, name, METRIC_GAUGE, help);
	for (unsigned c = 0; c < TOP_COUNT; c++) {
		double most = 0;

		for (size_t i = 0; i < count; i++)
			most = talkers[i].of[c] > most ? talkers[i].of[c] : most;
		metrics_value(
		    m, totals[c] > 0 ? most / totals[c] : 0, "class", class_names[c], NULL);
	}
}

void
top_metrics(struct observers *observers, struct top_clients *counted, struct metrics *m)
{
	struct top top = { 0 };

	if (counted != NULL)
		top_read(&top, observers, counted);
	ratio_family(m, "kubedns_top_client_ratio",
	    "Share of the client that sends most queries, of all queries and of each kind; /top "
	    "shows the client.",
	    top.clients, top.client_count, top.totals);
	ratio_family(m, "kubedns_top_name_ratio",
	    "Share of the name that is queried most, of all queries and of each kind; /top shows "
	    "the name.",
	    top.names, top.name_count, top.totals);
	top_free(&top);
}
