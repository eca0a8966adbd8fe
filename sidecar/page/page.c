#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/wire.h"
#include "sidecar/page/chart.h"
#include "lib/clock.h"
#include "lib/version.h"
#include "sidecar/page/page.h"
#include "sidecar/format.h"
#include "sidecar/verdict/verdict.h"

void
page_loopback_only(struct html *html, const struct view *view, const char *what)
{
	html_wrap(html, "<p class=\"off\">", what, " to loopback peers only: ");
	html_raw(html, view->surroundings == SURROUNDINGS_POD
			   ? "use <code>kubectl port-forward</code>.</p>\n"
			   : "open the page on this machine itself.</p>\n");
}

void
page_fact(struct html *html, const char *name, const char *value)
{
	html_wrap(html, "<div><dt>", name, "</dt>");
	html_wrap(html, "<dd>", value, "</dd></div>");
}

struct chart
page_chart(const struct view *view, const char *title)
{
	return (struct chart){ .now_ns = view->now_ns,
		.window_s = chart_window_s(view->now_ns, view->started_ns),
		.title = title };
}

static void
head(struct html *html, const struct view *view, const struct verdict *verdict)
{
	bool waiting = view->asked != NULL && !view->asked->done;

	html_raw(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		       "<meta name=\"color-scheme\" content=\"light dark\">\n"
		       "<meta name=\"robots\" content=\"noindex\">\n");
	html_wrap(html, "<title>", verdict->sentence, " - cluster DNS</title>\n");
	html_rawf(html, "<noscript><meta http-equiv=\"refresh\" content=\"%d\"></noscript>\n",
	    waiting ? 1 : 15);
	html_wrap(html, "<link rel=\"icon\" type=\"image/svg+xml\" href=\"/icon.svg?",
	    level_name(verdict->level), "\">\n");
	html_raw(html, "<link rel=\"stylesheet\" href=\"/page.css\">\n"
		       "<script src=\"/page.js\" defer></script>\n</head>\n<body>\n"
		       "<a class=\"skip\" href=\"#probes\">Skip to the probes</a>\n");
}

/* Shape and word as well as colour. */
static const char *
mark(enum level level)
{
	static const char *const marks[] = {
		[LEVEL_WELL] = "<path d=\"M9 16.5l5 5 9.5-11\"/>",
		[LEVEL_NOTE] = "<path d=\"M16 14v9M16 9v.1\"/>",
		[LEVEL_STARTING] = "<path d=\"M9 16h.1M16 16h.1M23 16h.1\"/>",
		[LEVEL_DEGRADED] = "<path d=\"M16 8v10M16 23v.1\"/>",
		[LEVEL_DOWN] = "<path d=\"M10.5 10.5l11 11M21.5 10.5l-11 11\"/>",
	};

	return marks[level];
}

static void
badge(struct html *html, enum level level)
{
	html_raw(html, "<svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\">"
		       "<circle cx=\"16\" cy=\"16\" r=\"15\"/>");
	html_raw(html, mark(level));
	html_raw(html, "</svg>");
}

static void
say_verdict(struct html *html, const struct view *view, const struct verdict *verdict)
{
	char time[FORMAT_MAX];

	html_wrap(html, "<header id=\"verdict\" data-part class=\"verdict ",
	    level_name(verdict->level), "\">\n<div class=\"wide\">");
	html_wrap(html, "<p class=\"eyebrow\">Cluster DNS <span class=\"host\">", view->host,
	    "</span></p>\n");
	html_raw(html, "<div class=\"say\">");
	badge(html, verdict->level);
	html_wrap(html, "<h1 role=\"status\">", verdict->sentence, "</h1></div>\n");
	html_wrap(html, "<p class=\"when\"><span id=\"when\">As of ",
	    format_time(view->now_s, time), "</span>");
	if (view->draining)
		html_raw(html, " <strong>This pod is being stopped.</strong>");
	html_raw(html, "</p>\n</div>\n</header>\n");
}

/* Says that this page is one pod's view: the first question of an operator is whether all of DNS is
 * down. */
static void
say_alone(struct html *html, const struct view *view)
{
	html_wrap(html, "<div class=\"alone\"><p>This is what ", view->host, " sees,");
	html_wrap(html,
	    " one of the DNS pods among which clients are spread. The others may be well;"
	    " each has a page of its own:</p>\n<pre class=\"command\" tabindex=\"0\">",
	    surroundings_command(view->surroundings, COMMAND_RUNNING), "</pre></div>\n");
}

static void
say_findings(struct html *html, const struct view *view, const struct verdict *verdict)
{
	html_raw(html,
	    "<section id=\"findings\" data-part aria-label=\"What is wrong and what to do\">\n");
	if (verdict->count > 0)
		html_raw(html, "<h2>What is wrong, and what to do</h2>\n<ul class=\"findings\">\n");
	for (size_t i = 0; i < verdict->count; i++) {
		const struct finding *finding = &verdict->findings[i];
		html_wrap(html, "<li class=\"", level_name(finding->level), "\">");
		badge(html, finding->level);
		html_wrap(html, "<div><h3>", finding->what, "</h3>");
		html_wrap(html, "<p>", finding->meaning, "</p>");
		html_wrap(html, "<p class=\"todo\">", finding->todo, "</p>");
		if (finding->command[0] != '\0')
			html_wrap(html, "<pre class=\"command\" tabindex=\"0\">", finding->command,
			    "</pre>");
		html_raw(html, "</div></li>\n");
	}
	if (verdict->count > 0)
		html_raw(html, "</ul>\n");
	if (verdict->more > 0)
		html_rawf(html, "<p>And %zu more.</p>\n", verdict->more);
	if (verdict->level >= LEVEL_DEGRADED && view->surroundings == SURROUNDINGS_POD)
		say_alone(html, view);
	html_raw(html, "</section>\n");
}

/* " (timeout)" when it was always the same, else " (5 timeout, 1 SERVFAIL)". */
static void
say_causes(struct html *html, const struct history_summary *summary)
{
	char text[CAUSE_TEXT_MAX];
	const char *separator = " (";

	for (int cause = CAUSE_TIMEOUT; cause < CAUSE_COUNT; cause++) {
		if (summary->causes[cause] == 0)
			continue;
		html_raw(html, separator);
		if (summary->causes[cause] < summary->failed)
			html_rawf(html, "%u ", summary->causes[cause]);
		html_text(html,
		    cause == CAUSE_RCODE ? "other error" : cause_text((enum cause)cause, 0, text));
		separator = ", ";
	}
	if (separator[0] == ',')
		html_raw(html, ")");
}

static enum level
probe_level(const struct probe *probe)
{
	if (!probe->asked)
		return LEVEL_STARTING;
	if (probe->cause == CAUSE_OK)
		return LEVEL_WELL;
	return probe->cause == CAUSE_NOT_READY ? LEVEL_DEGRADED : LEVEL_DOWN;
}

static void
probe_now(struct html *html, const struct view *view, const struct probe *probe)
{
	char text[FORMAT_MAX];

	if (!probe->asked)
		html_raw(html, "<p class=\"now\">waiting</p>");
	else if (probe->cause == CAUSE_OK)
		html_wrap(
		    html, "<p class=\"now\">", format_ms(probe->latency_s * 1e3, text), "</p>");
	else {
		html_wrap(html, "<p class=\"now\">", probe->error, "");
		html_wrap(html, " <small>for ",
		    format_duration((double)(view->now_ns - probe->since_ns) / 1e9, text),
		    "</small></p>");
	}
}

static void
probe_figures(struct html *html, const struct history_summary *summary)
{
	char text[FORMAT_MAX];

	html_raw(html, "<dl class=\"facts\">");
	page_fact(html, "median", format_ms(summary->p50_ms, text));
	page_fact(html, "99 % within", format_ms(summary->p99_ms, text));
	page_fact(html, "slowest", format_ms(summary->max_ms, text));
	html_raw(html, "<div class=\"rest\"><dt>failed</dt><dd>");
	html_rawf(html, "%u of %u", summary->failed, summary->total);
	say_causes(html, summary);
	html_raw(html, "</dd></div></dl>");
}

static void
say_probe(struct html *html, const struct view *view, const struct probe *probe)
{
	char server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX], type[12], title[256], p50[FORMAT_MAX],
	    max[FORMAT_MAX];
	struct history_summary summary;
	enum level level = probe_level(probe);

	history_summary(&probe->history, view->now_ns - HISTORY_S * NS_PER_S, &summary);
	snprintf(title, sizeof title,
	    "Latency of probe %s over the last 10 minutes: median %s, slowest %s, %u of %u failed.",
	    probe->spec.label, format_ms(summary.p50_ms, p50), format_ms(summary.max_ms, max),
	    summary.failed, summary.total);
	html_wrap(html, "<article class=\"card ", level_name(level), "\">\n<div class=\"top\">");
	badge(html, level);
	html_wrap(html, "<h3>", probe->spec.label, "</h3>");
	probe_now(html, view, probe);
	html_wrap(html, "</div>\n<p class=\"what\"><code>",
	    dname_to_text(probe->spec.name.wire, name), "</code> ");
	html_wrap(html, "<span>", type_name(probe->spec.type, type), "</span>");
	html_wrap(html, "<br>asked of ", server_format(&probe->spec.server, server), "");
	html_rawf(html, " every %u&nbsp;s</p>\n", probe->spec.interval_s);
	struct chart chart = page_chart(view, title);
	chart_latency(html, &chart, &probe->history, probe->spec.interval_s);
	probe_figures(html, &summary);
	html_raw(html, "</article>\n");
}

static void
say_probes(struct html *html, const struct view *view)
{
	html_raw(html, "<section id=\"probes\" data-part aria-labelledby=\"h-probes\">\n"
		       "<h2 id=\"h-probes\">Probes <small>latency, last 10 minutes; failures are "
		       "marked</small></h2>\n");
	if (view->probe_count == 0)
		html_raw(html, "<p>None. Give the sidecar a <code>--probe</code>, and it asks real "
			       "questions.</p>\n");
	html_raw(html, "<div class=\"cards\">\n");
	for (size_t i = 0; i < view->probe_count; i++)
		say_probe(html, view, &view->probes[i]);
	html_raw(html, "</div>\n</section>\n");
}

static void
cache_figures(struct html *html, const struct view *view)
{
	const struct dnsmasq_stats *c = view->cache;
	char text[FORMAT_MAX], ago[FORMAT_MAX + 8];

	html_raw(html, "<dl class=\"facts\">");
	page_fact(html, "size, records", format_count(c->size, text));
	page_fact(html, "hits", format_count(c->counters[STAT_HITS], text));
	page_fact(html, "misses", format_count(c->counters[STAT_MISSES], text));
	page_fact(html, "inserted", format_count(c->counters[STAT_INSERTIONS], text));
	page_fact(html, "evicted", format_count(c->counters[STAT_EVICTIONS], text));
	double emptied = c->flushed_s > c->restarted_s ? c->flushed_s : c->restarted_s;
	if (emptied > 0) {
		snprintf(ago, sizeof ago, "%s ago", format_duration(view->now_s - emptied, text));
		page_fact(html, c->flushed_s > c->restarted_s ? "emptied" : "restarted", ago);
	}
	html_raw(html, "</dl>");
}

static void
say_cache(struct html *html, const struct view *view)
{
	const struct dnsmasq_stats *c = view->cache;
	double ratio = dnsmasq_stats_hit_ratio(c, view->now_ns);
	char text[FORMAT_MAX], title[128];

	html_raw(html, "<section id=\"cache\" data-part aria-labelledby=\"h-cache\">\n"
		       "<h2 id=\"h-cache\">Cache <small>dnsmasq</small></h2>\n");
	html_wrap(html, "<article class=\"card ", c->up ? "well" : "stale", "\">\n");
	if (!c->up)
		html_wrap(html, "<p class=\"off\">dnsmasq gives no statistics: ",
		    c->errors > 0 ? c->error : "not asked yet",
		    c->seen ? ". What follows is old.</p>\n" : "</p>\n");
	if (c->seen) {
		html_wrap(html,
		    "<div class=\"top\"><h3>Answered from the cache</h3><p class=\"now\">",
		    format_percent(ratio, text), "</p></div>\n");
		snprintf(title, sizeof title,
		    "Share of queries answered from the cache over the last 10 minutes: %s.", text);
		struct chart chart = page_chart(view, title);
		chart_ratio(html, &chart, &c->recent_hits, &c->recent_misses);
		cache_figures(html, view);
	}
	html_raw(html, "</article>\n</section>\n");
}

/* The label of a probe that asks the same server, which tells kubedns from the others; "" without
 * one. */
static const char *
probe_at(const struct view *view, const struct server *server)
{
	for (size_t i = 0; i < view->probe_count; i++)
		if (server_equal(&view->probes[i].spec.server, server))
			return view->probes[i].spec.label;
	return "";
}

/* The check of this server that fails, or NULL. */
static const struct check *
failing_check(const struct view *view, const struct server *server)
{
	for (size_t i = 0; i < view->checks->count; i++)
		if ((view->checks->items[i]->kind == CHECK_UPSTREAM ||
			view->checks->items[i]->kind == CHECK_STUB) &&
		    check_failing(view->checks->items[i]) &&
		    server_equal(&view->checks->items[i]->server, server))
			return view->checks->items[i];
	return NULL;
}

static void
say_upstream(struct html *html, const struct view *view, const struct upstream *u)
{
	char server[SERVER_TEXT_MAX], queries[FORMAT_MAX], failed[FORMAT_MAX], title[160];
	uint64_t asked = buckets_sum(&u->recent_queries, view->now_ns);
	uint64_t bad = buckets_sum(&u->recent_failed, view->now_ns);

	server_format(&u->server, server);
	snprintf(title, sizeof title,
	    "Queries to %s over the last 10 minutes: %s, of which %s failed.", server,
	    format_count(asked, queries), format_count(bad, failed));
	const struct check *dead = failing_check(view, &u->server);
	html_wrap(html, "<li><h3>", server, "");
	html_wrap(
	    html, " <small>", probe_at(view, &u->server), "</small></h3><p class=\"figures\">");
	if (dead != NULL) /* dnsmasq's counts know nothing of a server that is silent */
		html_wrap(html, "<span class=\"bad\">", cause_says(dead->cause), "</span> ");
	html_wrap(html, "<span>", queries, asked == 1 ? " query</span> " : " queries</span> ");
	html_wrap(html, bad > 0 ? "<span class=\"bad\">" : "<span>", failed, " failed</span></p>");
	struct chart chart = page_chart(view, title);
	if (asked > 0)
		chart_bars(html, &chart, &u->recent_queries, &u->recent_failed);
	html_raw(html, "</li>\n");
}

static void
say_upstreams(struct html *html, const struct view *view)
{
	const struct dnsmasq_stats *c = view->cache;

	html_raw(html, "<section id=\"upstreams\" data-part aria-labelledby=\"h-upstreams\">\n"
		       "<h2 id=\"h-upstreams\">Upstreams <small>whom dnsmasq asks, last 10 "
		       "minutes</small></h2>\n"
		       "<article class=\"card\">\n");
	if (c->upstream_count == 0)
		html_raw(html, c->seen
				   ? "<p class=\"off\">None: dnsmasq has no server to ask.</p>\n"
				   : "<p class=\"off\">Not known yet.</p>\n");
	else if (!c->up)
		html_raw(html, "<p class=\"off\">As dnsmasq last said; it does not say now.</p>\n");
	if (!view->may_ask)
		page_loopback_only(html, view, "Their addresses are shown");
	html_raw(html, "<ul class=\"servers\">\n");
	for (size_t i = 0; view->may_ask && i < c->upstream_count; i++)
		say_upstream(html, view, &c->upstreams[i]);
	html_raw(html, "</ul>\n</article>\n</section>\n");
}

static void
foot(struct html *html, const struct view *view)
{
	char text[FORMAT_MAX];

	html_raw(html, "<footer class=\"wide\"><p><button type=\"button\" id=\"pause\" "
		       "hidden>Pause updates</button> "
		       "<a href=\"/status.json\">status.json</a> <a href=\"");
	html_text(html, view->metrics_path);
	html_raw(html, "\">metrics</a></p>\n<p id=\"foot\" data-part>");
	html_textf(html, "sidecar %s, up for %s", suite_version,
	    format_duration((double)(view->now_ns - view->started_ns) / 1e9, text));
	html_raw(html, "</p></footer>\n</body>\n</html>\n");
}

char *
page_html(const struct view *view, size_t *len)
{
	struct html html = { 0 };
	struct verdict verdict;

	verdict_make(&verdict, view);
	head(&html, view, &verdict);
	say_verdict(&html, view, &verdict);
	html_raw(&html, "<main class=\"wide\">\n");
	say_findings(&html, view, &verdict);
	say_probes(&html, view);
	page_top(&html, view);
	html_raw(&html, "<div class=\"columns\">\n<div>\n");
	page_answers(&html, view);
	say_cache(&html, view);
	say_upstreams(&html, view);
	html_raw(&html, "</div>\n<div>\n");
	page_kubedns(&html, view);
	page_config(&html, view);
	page_neighbours(&html, view);
	html_raw(&html, "</div>\n</div>\n");
	page_journal(&html, view);
	page_question(&html, view);
	html_raw(&html, "</main>\n");
	foot(&html, view);
	return html_finish(&html, len);
}

char *
page_icon(const struct view *view, size_t *len)
{
	static const char *const colours[] = {
		[LEVEL_WELL] = "#1a7f4b",
		[LEVEL_NOTE] = "#1a7f4b",
		[LEVEL_STARTING] = "#5b6775",
		[LEVEL_DEGRADED] = "#b35c00",
		[LEVEL_DOWN] = "#c62828",
	};
	struct html html = { 0 };
	struct verdict verdict;

	verdict_make(&verdict, view);
	html_rawf(&html,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><circle cx=\"16\" "
	    "cy=\"16\" r=\"16\" fill=\"%s\"/>"
	    "<g fill=\"none\" stroke=\"#fff\" stroke-width=\"3.5\" stroke-linecap=\"round\" "
	    "stroke-linejoin=\"round\">%s</g></svg>\n",
	    colours[verdict.level], mark(verdict.level));
	return html_finish(&html, len);
}
