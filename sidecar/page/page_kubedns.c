#include <stdio.h>

#include "sidecar/page/chart.h"
#include "sidecar/format.h"
#include "sidecar/page/page.h"

static void
kubedns_table(struct html *html, const struct view *view)
{
	const struct kubedns_view *k = view->kubedns;
	char text[FORMAT_MAX];

	html_raw(html,
	    "<table><caption>What it watches</caption><thead><tr><th scope=\"col\">resource</th>"
	    "<th scope=\"col\">synced</th><th scope=\"col\">newest "
	    "event</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < k->resource_count; i++) {
		const struct kubedns_resource *r = &k->resources[i];
		if (!kubedns_watches(k, r))
			continue;
		html_wrap(html, "<tr><th scope=\"row\">", r->name, "</th>");
		html_wrap(html, r->synced ? "<td>" : "<td class=\"bad\">", r->synced ? "yes" : "no",
		    "</td>");
		if (r->last_event_s > 0)
			html_wrap(html, "<td>",
			    format_duration(
				r->last_event_s < view->now_s ? view->now_s - r->last_event_s : 0,
				text),
			    " ago</td></tr>\n");
		else
			html_raw(html, "<td>none yet</td></tr>\n");
	}
	html_raw(html, "</tbody></table>\n");
}

/* The value rounded down to two digits: it is an estimate. */
static uint64_t
about(double value)
{
	uint64_t unit = 1;

	for (; value >= 100; value /= 10)
		unit *= 10;
	return (uint64_t)value * unit;
}

/* Memory in use, the limit, and how many more Services fit below it (docs/sizing.md). */
static void
say_memory(struct html *html, const struct kubedns_view *k)
{
	enum {
		SERVICE_BYTES = 600, /* measured: tests/bench, 10,000 Services */
		ENDPOINT_BYTES = 40,
		ENDPOINTS = 15,    /* of a Service */
		NEAR_PERCENT = 85, /* of the limit: the alert's */
	};
	char text[FORMAT_MAX];

	if (k->memory <= 0)
		return;
	html_rawf(html, "<p class=\"off\">Memory: %.0f", k->memory / 1e6);
	if (k->memory_limit <= 0) {
		html_raw(html, " MB; the container has no limit.</p>\n");
		return;
	}
	html_rawf(html, " of %.0f MB", k->memory_limit / 1e6);
	double room = k->memory_limit / 100 * NEAR_PERCENT - k->memory;
	if (room > 0) {
		html_wrap(html, "; before the alert at 85&nbsp;% there is room for about ",
		    format_count(about(room / (SERVICE_BYTES + ENDPOINTS * ENDPOINT_BYTES)), text),
		    "");
		html_rawf(html, " more Services of %d endpoints each", ENDPOINTS);
	}
	html_raw(html, ".</p>\n");
}

/* What clients were told, drawn over time: the height is how much they ask. */
void
page_answers(struct html *html, const struct view *view)
{
	static const struct {
		const char *name, *class;
		enum kubedns_count count;
	} kinds[] = {
		{ "NOERROR", "bar", KUBEDNS_NOERROR },
		{ "NXDOMAIN", "softbar", KUBEDNS_NXDOMAIN },
		{ "SERVFAIL", "badbar", KUBEDNS_SERVFAIL },
		{ "REFUSED", "badbar", KUBEDNS_REFUSED },
		{ "other errors", "badbar", KUBEDNS_OTHER },
	};
	enum { KINDS = sizeof kinds / sizeof kinds[0] };
	const struct kubedns_view *k = view->kubedns;
	struct chart_part parts[KINDS];
	char counts[KINDS][FORMAT_MAX], text[FORMAT_MAX], title[256];
	uint64_t all = 0;

	if (k == NULL || !k->seen)
		return;
	for (int i = 0; i < KINDS; i++) {
		uint64_t count = buckets_sum(&k->recent[kinds[i].count], view->now_ns);
		parts[i] = (struct chart_part){ &k->recent[kinds[i].count], kinds[i].class };
		format_count(count, counts[i]);
		all += count;
	}
	snprintf(title, sizeof title,
	    "kubedns's answers over the last 10 minutes: %s NOERROR, %s NXDOMAIN, %s SERVFAIL, "
	    "%s REFUSED, %s other errors.",
	    counts[0], counts[1], counts[2], counts[3], counts[4]);
	html_raw(html, "<section id=\"answers\" data-part aria-labelledby=\"h-answers\">\n"
		       "<h2 id=\"h-answers\">Answers <small>kubedns, a second, last 10 "
		       "minutes</small></h2>\n");
	html_wrap(html, "<article class=\"card ", k->up ? "well" : "stale", "\">\n");
	html_wrap(html, "<div class=\"top\"><h3>By response code</h3><p class=\"now\">",
	    format_count(all, text), " <small>in all</small></p></div>\n");
	struct chart chart = page_chart(view, title);
	chart_stack(html, &chart, parts, KINDS);
	html_raw(html, "<dl class=\"facts legend\">");
	for (int i = 0; i < KINDS; i++) {
		html_wrap(html, "<div><dt class=\"", kinds[i].class, "\">");
		html_wrap(html, "", kinds[i].name, "</dt>");
		html_wrap(html, "<dd>", counts[i], "</dd></div>");
	}
	html_raw(html, "</dl>\n</article>\n</section>\n");
}

void
page_kubedns(struct html *html, const struct view *view)
{
	const struct kubedns_view *k = view->kubedns;
	char text[FORMAT_MAX];

	if (k == NULL || !k->seen)
		return;
	bool silent = kubedns_silence_s(k, view->now_s) > 0;
	html_raw(html, "<section id=\"kubedns\" data-part aria-labelledby=\"h-kubedns\">\n"
		       "<h2 id=\"h-kubedns\">kubedns <small>cluster names</small></h2>\n");
	html_wrap(html, "<article class=\"card ",
	    !k->up                ? "stale"
	    : k->ready && !silent ? "well"
				  : "degraded",
	    "\">\n");
	html_wrap(html, "<div class=\"top\"><h3>",
	    kubedns_newest_event_s(k) > 0 || !kubedns_synced(k) ? "Kubernetes API" : "Manifests",
	    "</h3>");
	html_wrap(html, "<p class=\"now\">",
	    !k->up      ? "no answer"
	    : !k->ready ? "not ready"
	    : silent    ? "out of date"
			: "synced",
	    "</p></div>\n");
	if (!k->up)
		html_wrap(html, "<p class=\"off\">kubedns does not answer: ", k->error,
		    ". What follows is old.</p>\n");
	else if (!k->ready && k->reasons[0] != '\0')
		html_wrap(html, "<pre class=\"reasons\">", k->reasons, "</pre>\n");
	if (kubedns_newest_event_s(k) > 0 || !kubedns_synced(k))
		kubedns_table(html, view);
	html_raw(html, "<dl class=\"facts\">");
	for (size_t i = 0; i < k->kind_count; i++)
		page_fact(html, k->kinds[i].name,
		    format_count(
			k->kinds[i].objects > 0 ? (uint64_t)k->kinds[i].objects : 0, text));
	html_raw(html, "</dl>\n");
	say_memory(html, k);
	html_raw(html, "</article>\n</section>\n");
}
