#include <math.h>
#include <stdio.h>

#include "sidecar/page/chart.h"
#include "lib/clock.h"
#include "sidecar/format.h"

enum {
	PLOT_HEIGHT = 100,
	DECADE_MIN = -2, /* 0.01 ms */
	DECADE_MAX = 4,  /* 10 s: longer than any timeout */
	DECADES_MIN = 2,
};

int
chart_window_s(int64_t now_ns, int64_t started_ns)
{
	int64_t up_s = (now_ns - started_ns) / NS_PER_S;

	return up_s < 120 ? 120 : up_s < 300 ? 300 : HISTORY_S;
}

/* x is HISTORY_S now and less before; a shorter window is the right part of that. */
static void
open_chart(struct html *html, const struct chart *chart)
{
	html_rawf(html,
	    "<figure class=\"chart\"><svg class=\"plot\" viewBox=\"%d 0 %d 100\" "
	    "preserveAspectRatio=\"none\" role=\"img\"><title>",
	    HISTORY_S - chart->window_s, chart->window_s);
	html_text(html, chart->title);
	html_raw(html, "</title>");
}

/* Horizontal lines at equal distances, the outer two included, for `labels` labels; labels from top
 * to bottom. */
static void
grid(struct html *html, const struct chart *chart, int labels)
{
	html_raw(html, "<path class=\"grid\" d=\"");
	for (int i = 0; i < labels; i++)
		html_rawf(html, "M%d %.1fH%d", HISTORY_S - chart->window_s,
		    (double)PLOT_HEIGHT * i / (labels - 1), HISTORY_S);
	html_raw(html, "\"/>");
}

static void
close_svg(struct html *html)
{
	html_raw(html, "</svg><div class=\"y\" aria-hidden=\"true\">");
}

static void
close_chart(struct html *html, const struct chart *chart)
{
	html_rawf(html,
	    "</div><div class=\"x\" aria-hidden=\"true\"><span>%d min ago</span>"
	    "<span>%g min</span><span>now</span></div></figure>",
	    chart->window_s / 60, chart->window_s / 120.0);
}

static double
larger(double a, double b)
{
	return a > b ? a : b;
}

static double
smaller(double a, double b)
{
	return a < b ? a : b;
}

/*
 * The decimal logarithm, one binary digit at a time, to far less than a pixel. libm would cost 0.9
 * MB in memory and in the image, a tenth of the whole container, for one axis.
 */
static double
decades_of(double x)
{
	enum { BINARY_DIGITS = 20 };
	double log = 0, digit = 1;

	x = smaller(larger(x, 1e-9), 1e9);
	while (x >= 10) {
		x /= 10;
		log++;
	}
	while (x < 1) {
		x *= 10;
		log--;
	}
	for (int i = 0; i < BINARY_DIGITS; i++) {
		x *= x;
		digit /= 2;
		if (x >= 10) {
			x /= 10;
			log += digit;
		}
	}
	return log;
}

static double
power_of_ten(int decade)
{
	double x = 1;

	for (; decade > 0; decade--)
		x *= 10;
	for (; decade < 0; decade++)
		x /= 10;
	return x;
}

void
chart_decades(double min_ms, double max_ms, int *low, int *high)
{
	*low = (int)larger(floor(decades_of(min_ms)), DECADE_MIN);
	*high = (int)smaller(ceil(decades_of(max_ms)), DECADE_MAX);
	if (*low > DECADE_MAX - DECADES_MIN)
		*low = DECADE_MAX - DECADES_MIN;
	if (*high < *low + DECADES_MIN)
		*high = *low + DECADES_MIN;
}

struct axis {
	int low, high;
};

static double
y_of(const struct axis *axis, double ms)
{
	double at = (decades_of(ms) - axis->low) / (axis->high - axis->low);

	return PLOT_HEIGHT * (1 - smaller(larger(at, 0), 1));
}

static double
x_of(int64_t now_ns, int64_t at_ns)
{
	return HISTORY_S - (double)(now_ns - at_ns) / 1e9;
}

static bool
shown(const struct history_point *point, int64_t now_ns)
{
	return now_ns - point->at_ns <= HISTORY_S * NS_PER_S;
}

static struct axis
fit(const struct history *history, int64_t now_ns)
{
	double min = INFINITY, max = 0;
	struct axis axis = { -1, 1 };

	for (size_t i = 0; i < history->count; i++) {
		const struct history_point *point = history_get(history, i);
		if (!shown(point, now_ns) || point->cause != CAUSE_OK)
			continue;
		min = smaller(min, (double)point->latency_ms);
		max = larger(max, (double)point->latency_ms);
	}
	if (max > 0)
		chart_decades(min, max, &axis.low, &axis.high);
	return axis;
}

/* Points further apart than this are not joined: nothing was measured between them. */
static bool
gap(const struct history_point *before, const struct history_point *point, uint32_t interval_s)
{
	return before == NULL ||
	       point->at_ns - before->at_ns > 5 * (int64_t)interval_s * NS_PER_S / 2;
}

static void
draw_line(struct html *html, const struct history *history, int64_t now_ns, uint32_t interval_s,
    const struct axis *axis)
{
	const struct history_point *before = NULL, *last = NULL;

	html_raw(html, "<path class=\"line\" d=\"");
	for (size_t i = 0; i < history->count; i++) {
		const struct history_point *point = history_get(history, i);
		if (!shown(point, now_ns) || point->cause != CAUSE_OK) {
			before = NULL;
			continue;
		}
		/* A point alone is a line of no length, which round ends make a dot. */
		bool begin = gap(before, point, interval_s);
		html_rawf(html, "%c%.1f %.1f", begin ? 'M' : 'L', x_of(now_ns, point->at_ns),
		    y_of(axis, (double)point->latency_ms));
		if (begin)
			html_raw(html, "h0");
		before = last = point;
	}
	html_raw(html, "\"/>");
	if (last != NULL)
		html_rawf(html, "<path class=\"last\" d=\"M%.1f %.1fh0\"/>",
		    x_of(now_ns, last->at_ns), y_of(axis, (double)last->latency_ms));
}

static void
draw_failures(struct html *html, const struct history *history, int64_t now_ns)
{
	static const char *const classes[] = { "fail", "wait" };

	for (int kind = 0; kind < 2; kind++) {
		bool any = false;
		for (size_t i = 0; i < history->count; i++) {
			const struct history_point *point = history_get(history, i);
			bool wait = point->cause == CAUSE_NOT_READY;
			if (point->cause == CAUSE_OK || wait != (kind == 1) ||
			    !shown(point, now_ns))
				continue;
			html_rawf(html, "%s%s%sM%.1f 0V100", any ? "" : "<path class=\"",
			    any ? "" : classes[kind], any ? "" : "\" d=\"",
			    x_of(now_ns, point->at_ns));
			any = true;
		}
		if (any)
			html_raw(html, "\"/>");
	}
}

void
chart_latency(struct html *html, const struct chart *chart, const struct history *history,
    uint32_t interval_s)
{
	int64_t now_ns = chart->now_ns;
	struct axis axis = fit(history, now_ns);
	char text[FORMAT_MAX];

	open_chart(html, chart);
	grid(html, chart, axis.high - axis.low + 1);
	draw_failures(html, history, now_ns);
	draw_line(html, history, now_ns, interval_s, &axis);
	close_svg(html);
	for (int decade = axis.high; decade >= axis.low; decade--) {
		double ms = power_of_ten(decade);
		if (ms < 1)
			snprintf(text, sizeof text, "%g ms", ms);
		else
			snprintf(text, sizeof text, "%g %s", ms < 1000 ? ms : ms / 1000,
			    ms < 1000 ? "ms" : "s");
		html_wrap(html, "<span>", text, "</span>");
	}
	close_chart(html, chart);
}

/* The middle of the bucket of this age. */
static double
bucket_x(int age)
{
	return HISTORY_S - (age + 0.5) * BUCKET_S;
}

void
chart_ratio(struct html *html, const struct chart *chart, const struct buckets *part,
    const struct buckets *rest)
{
	int64_t now_ns = chart->now_ns;
	bool joined = false;
	double x = 0, y = -1;

	open_chart(html, chart);
	grid(html, chart, 3);
	html_raw(html, "<path class=\"line\" d=\"");
	for (int age = BUCKETS - 1; age >= 0; age--) {
		uint32_t a = buckets_get(part, now_ns, age), b = buckets_get(rest, now_ns, age);
		if (a + b == 0) /* an empty bucket has no share; the line goes on to the next */
			continue;
		x = bucket_x(age);
		y = PLOT_HEIGHT * (1 - (double)a / ((double)a + b));
		html_rawf(html, "%c%.1f %.1f%s", joined ? 'L' : 'M', x, y, joined ? "" : "h0");
		joined = true;
	}
	html_raw(html, "\"/>");
	if (y >= 0)
		html_rawf(html, "<path class=\"last\" d=\"M%.1f %.1fh0\"/>", x, y);
	close_svg(html);
	html_raw(html, "<span>100 %</span><span>50 %</span><span>0 %</span>");
	close_chart(html, chart);
}

/* 1, 2 or 5 times a power of ten, not less than `value`. */
static uint64_t
round_up(uint64_t value)
{
	static const uint64_t steps[] = { 1, 2, 5 };

	for (uint64_t decade = 1;; decade *= 10)
		for (int i = 0; i < 3; i++)
			if (steps[i] * decade >= value)
				return steps[i] * decade;
}

static void
draw_bars(struct html *html, const struct buckets *buckets, int64_t now_ns, const char *class,
    uint64_t top)
{
	html_rawf(html, "<path class=\"%s\" d=\"", class);
	for (int age = 0; age < BUCKETS; age++) {
		uint32_t count = buckets_get(buckets, now_ns, age);
		if (count > 0)
			html_rawf(html, "M%.0f 100v-%.1fh8V100z", bucket_x(age) - 4,
			    (double)PLOT_HEIGHT * count / (double)top);
	}
	html_raw(html, "\"/>");
}

/* The labels of an axis of counts a bucket; buckets hold ten seconds, people think in seconds. */
static void
label_rate(struct html *html, const struct chart *chart, uint64_t top)
{
	char text[FORMAT_MAX];

	close_svg(html);
	if (top < BUCKET_S)
		snprintf(text, sizeof text, "%g", (double)top / BUCKET_S);
	else
		format_count(top / BUCKET_S, text);
	html_wrap(html, "<span>", text, "/s</span>");
	html_raw(html, "<span>0</span>");
	close_chart(html, chart);
}

uint64_t
chart_top(int64_t now_ns, const struct buckets *buckets)
{
	uint64_t max = 1;

	for (int age = 0; age < BUCKETS; age++)
		if (buckets_get(buckets, now_ns, age) > max)
			max = buckets_get(buckets, now_ns, age);
	return round_up(max);
}

void
chart_bars(struct html *html, const struct chart *chart, const struct buckets *total,
    const struct buckets *bad)
{
	int64_t now_ns = chart->now_ns;
	uint64_t top = chart->top > 0 ? chart->top : chart_top(now_ns, total);

	open_chart(html, chart);
	grid(html, chart, 2);
	draw_bars(html, total, now_ns, "bar", top);
	draw_bars(html, bad, now_ns, "badbar", top);
	label_rate(html, chart, top);
}

/* Draws one part of a stack on top of the height in `below`, and adds its own to that. */
static void
draw_part(struct html *html, const struct chart_part *part, int64_t now_ns, uint64_t top,
    uint64_t below[BUCKETS])
{
	html_rawf(html, "<path class=\"%s\" d=\"", part->class);
	for (int age = 0; age < BUCKETS; age++) {
		uint32_t count = buckets_get(part->buckets, now_ns, age);
		if (count == 0)
			continue;
		html_rawf(html, "M%.0f %.1fv-%.1fh8v%.1fz", bucket_x(age) - 4,
		    PLOT_HEIGHT * (1 - (double)below[age] / (double)top),
		    (double)PLOT_HEIGHT * count / (double)top,
		    (double)PLOT_HEIGHT * count / (double)top);
		below[age] += count;
	}
	html_raw(html, "\"/>");
}

void
chart_stack(
    struct html *html, const struct chart *chart, const struct chart_part *parts, size_t count)
{
	uint64_t max = 1, below[BUCKETS] = { 0 };

	for (int age = 0; age < BUCKETS; age++) {
		uint64_t sum = 0;
		for (size_t i = 0; i < count; i++)
			sum += buckets_get(parts[i].buckets, chart->now_ns, age);
		max = sum > max ? sum : max;
	}
	uint64_t top = round_up(max);
	open_chart(html, chart);
	grid(html, chart, 2);
	for (size_t i = 0; i < count; i++)
		draw_part(html, &parts[i], chart->now_ns, top, below);
	label_rate(html, chart, top);
}
