#include <stdio.h>
#include <string.h>

#include "sidecar/page/chart.h"
#include "sidecar/format.h"
#include "sidecar/page/page.h"

static void
cell_share(struct html *html, double part, double whole)
{
	char text[FORMAT_MAX];

	snprintf(text, sizeof text, "%.0f&nbsp;%%", whole > 0 ? 100 * part / whole : 0);
	html_rawf(html, "<td>%s</td>", text);
}

/* As long as its share of the heaviest. */
static void
rate_bar(struct html *html, double rate, double heaviest)
{
	if (rate > 0 && heaviest >= rate)
		html_rawf(html,
		    "<svg class=\"rate\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" "
		    "aria-hidden=\"true\"><path d=\"M0 0h%.1fv4H0z\"/></svg>",
		    100 * rate / heaviest);
}

static void
say_talkers(struct html *html, const struct kubedns_talker *talkers, size_t count,
    const char *caption, const char *who)
{
	char text[FORMAT_MAX];

	if (count == 0)
		return;
	html_wrap(html, "<table class=\"top-table\"><caption>", caption, "</caption><thead><tr>");
	html_wrap(html, "<th scope=\"col\">", who, "</th>");
	html_raw(html, "<th scope=\"col\">a second</th><th scope=\"col\">NXDOMAIN</th>"
		       "<th scope=\"col\">search list</th><th scope=\"col\">AAAA</th>"
		       "<th scope=\"col\">outside</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < count; i++) {
		const struct kubedns_talker *t = &talkers[i];
		html_wrap(html, "<tr><th scope=\"row\">", t->name, "");
		if (strcmp(t->name, "127.0.0.1") == 0 || strcmp(t->name, "::1") == 0)
			html_raw(html, "<small>dnsmasq, for its clients, and the sidecar</small>");
		if (t->pod[0] != '\0')
			html_wrap(html, "<small>", t->pod, "</small>");
		if (t->per_second < 10)
			snprintf(text, sizeof text, "%.1f", t->per_second);
		else
			format_count((uint64_t)(t->per_second + 0.5), text);
		html_wrap(html, "</th><td>", text, "");
		rate_bar(html, t->per_second, talkers[0].per_second);
		html_raw(html, "</td>");
		cell_share(html, t->nxdomain, t->queries);
		cell_share(html, t->search_walk, t->queries);
		cell_share(html, t->aaaa, t->queries);
		cell_share(html, t->outside, t->queries);
		html_raw(html, "</tr>\n");
	}
	html_raw(html, "</tbody></table>\n");
}

/* A count of a bucket as a rate: it is estimated from a sample, so in two digits. */
static const char *
format_rate(uint64_t count, char *text)
{
	uint64_t rate = (count + BUCKET_S / 2) / BUCKET_S, unit = 1;

	for (; rate >= 100; rate /= 10)
		unit *= 10;
	if (rate == 0 && count > 0)
		return "less than 1";
	return format_count(rate * unit, text);
}

static void
say_rate(struct html *html, const struct view *view, const struct client_rate *client, uint64_t top)
{
	static const struct buckets no_failures;
	char text[FORMAT_MAX], title[160];
	uint64_t most = 0;

	for (int age = 0; age < BUCKETS; age++) {
		uint32_t count = buckets_get(&client->answers, view->now_ns, age);
		most = count > most ? count : most;
	}
	const char *rate = format_rate(most, text);
	snprintf(title, sizeof title,
	    "Answers to %s over the last 10 minutes: about %s a second at most.", client->name,
	    rate);
	html_wrap(html, "<li><h3>", client->name, "");
	html_wrap(html, " <small>", client->pod, "</small></h3>");
	html_wrap(html, "<p class=\"figures\">at most ", rate, " a second</p>");
	struct chart chart = page_chart(view, title);
	chart.top = top;
	chart_bars(html, &chart, &client->answers, &no_failures);
	html_raw(html, "</li>\n");
}

/* When each of the heaviest asked how much, on one scale, below the probes' latency. */
static void
say_rates(struct html *html, const struct view *view, const struct client_rate *const *heaviest,
    size_t count)
{
	uint64_t top = 0;

	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t own = chart_top(view->now_ns, &heaviest[i]->answers);
		top = own > top ? own : top;
	}
	html_raw(html, "<p class=\"over\">Clients, answers a second, last 10 minutes; all on one "
		       "scale</p>\n<ul class=\"servers rates\">\n");
	for (size_t i = 0; i < count; i++)
		say_rate(html, view, heaviest[i], top);
	html_raw(html, "</ul>\n");
}

/* The heaviest clients of kubedns and the most asked names, in the last minutes. In the classic
 * topology the client is dnsmasq, with all cache misses. Below them the clients of the last ten
 * minutes over time. */
void
page_top(struct html *html, const struct view *view)
{
	const struct client_rate *heaviest[CLIENT_RATES_SHOWN];
	const struct kubedns_view *k = view->kubedns;
	size_t count;

	if (k == NULL || !k->seen)
		return;
	count = client_rates_heaviest(&k->rates, view->now_ns, heaviest);
	if (k->client_count + k->name_count + count == 0)
		return;
	bool quiet = k->client_count + k->name_count == 0;
	html_raw(html,
	    "<section id=\"top\" data-part aria-labelledby=\"h-top\">\n"
	    "<h2 id=\"h-top\">Top clients <small>and names, of kubedns, the last two minutes"
	    "</small></h2>\n");
	html_wrap(html, "<article class=\"card ", k->up ? "well" : "stale", "\">\n");
	if (!view->may_ask)
		page_loopback_only(html, view, "Shown");
	else {
		html_raw(html, quiet ? "<p class=\"off\">Too few queries in the last two minutes "
				       "to rank.</p>\n<div class=\"tops\">\n"
				     : "<div class=\"tops\">\n");
		say_talkers(html, k->clients, k->client_count, "Clients", "address");
		say_talkers(html, k->names, k->name_count, "Names", "name");
		html_raw(html, "</div>\n");
		say_rates(html, view, heaviest, count);
	}
	html_raw(html, "</article>\n</section>\n");
}
