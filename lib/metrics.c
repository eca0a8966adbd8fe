#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/metrics.h"
#include "lib/utf8.h"
#include "lib/xalloc.h"

enum { NAME_MAX_BYTES = 128, NUMBER_MAX = 32, FIRST_SIZE = 16384 };

struct metrics {
	enum metrics_format format;
	char *text;
	size_t len, size;
	char name[NAME_MAX_BYTES]; /* name of the samples of the current family */
};

struct metrics *
metrics_new(enum metrics_format format)
{
	struct metrics *m = xcalloc(1, sizeof *m);

	m->format = format;
	m->size = FIRST_SIZE;
	m->text = xmalloc(m->size);
	return m;
}

static void
put(struct metrics *m, const char *bytes, size_t len)
{
	if (m->len + len > m->size) {
		while (m->len + len > m->size)
			m->size *= 2;
		m->text = xreallocarray(m->text, m->size, 1);
	}
	memcpy(m->text + m->len, bytes, len);
	m->len += len;
}

static void
puts_text(struct metrics *m, const char *text)
{
	put(m, text, strlen(text));
}

/*
 * Escapes backslash and line feed everywhere, and quotes in label values. In OpenMetrics, also
 * escapes quotes in HELP. Bytes that are not UTF-8 become U+FFFD, because Prometheus would reject
 * the whole page.
 */
static void
put_escaped(struct metrics *m, const char *text, bool quotes)
{
	size_t left = strlen(text);

	while (left > 0) {
		uint32_t cp = 0;
		size_t len = utf8_read(text, left, &cp);

		if (len == 0)
			puts_text(m, "\xef\xbf\xbd");
		else if (cp == '\n')
			puts_text(m, "\\n");
		else if (cp == '\\' || (cp == '"' && quotes))
			put(m, (char[]){ '\\', (char)cp }, 2);
		else
			put(m, text, len);
		text += len > 0 ? len : 1;
		left -= len > 0 ? len : 1;
	}
}

/* Writes the shortest decimal that parses to the same number. */
static const char *
number(double value, char *text)
{
	if (isnan(value))
		return "NaN";
	if (isinf(value))
		return value > 0 ? "+Inf" : "-Inf";
	if (value > -1e15 && value < 1e15 && value == (double)(long long)value) {
		snprintf(text, NUMBER_MAX, "%lld", (long long)value);
		return text;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, NUMBER_MAX, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return text;
}

static void
put_number(struct metrics *m, double value)
{
	char text[NUMBER_MAX];

	puts_text(m, number(value, text));
}

/* In OpenMetrics, only a counter's sample ends in `_total`; the name of its family does not. A
 * counter without `_total` has type unknown. */
static const char *
shown_type(const struct metrics *m, enum metric_type type, size_t *name_len)
{
	static const char suffix[] = "_total";
	bool open = m->format == METRICS_OPENMETRICS;

	switch (type) {
	case METRIC_COUNTER:
		if (!open)
			return "counter";
		if (*name_len <= sizeof suffix - 1 ||
		    strcmp(m->name + *name_len - (sizeof suffix - 1), suffix) != 0)
			return "unknown";
		*name_len -= sizeof suffix - 1;
		return "counter";
	case METRIC_GAUGE:
		return "gauge";
	case METRIC_HISTOGRAM:
		return "histogram";
	case METRIC_UNTYPED:
		break;
	}
	return open ? "unknown" : "untyped";
}

void
metrics_family(struct metrics *m, const char *name, enum metric_type type, const char *help)
{
	size_t len = strlen(name);

	assert(len < sizeof m->name);
	memcpy(m->name, name, len + 1);
	const char *shown = shown_type(m, type, &len);
	puts_text(m, "# HELP ");
	put(m, name, len);
	puts_text(m, " ");
	put_escaped(m, help, m->format == METRICS_OPENMETRICS);
	puts_text(m, "\n# TYPE ");
	put(m, name, len);
	puts_text(m, " ");
	puts_text(m, shown);
	puts_text(m, "\n");
}

/* Writes {name="value",...} with the pairs in `ap`. A bucket's bound is the last label. Writes
 * nothing if there are no labels. */
static void
put_labels(struct metrics *m, va_list ap, const double *le)
{
	char text[NUMBER_MAX];
	const char *separator = "{";
	const char *name = NULL;

	while ((name = va_arg(ap, const char *)) != NULL) {
		puts_text(m, separator);
		puts_text(m, name);
		puts_text(m, "=\"");
		put_escaped(m, va_arg(ap, const char *), true);
		puts_text(m, "\"");
		separator = ",";
	}
	if (le != NULL) {
		const char *bound = number(*le, text);

		puts_text(m, separator);
		puts_text(m, "le=\"");
		puts_text(m, bound);
		if (m->format == METRICS_OPENMETRICS &&
		    strspn(bound, "-0123456789") == strlen(bound))
			puts_text(m, ".0"); /* OpenMetrics writes `le`=1 as 1.0 */
		puts_text(m, "\"");
		separator = ",";
	}
	if (*separator == ',')
		puts_text(m, "}");
}

static void
put_sample(struct metrics *m, const char *suffix, va_list labels, const double *le, double value)
{
	va_list copy;

	puts_text(m, m->name);
	puts_text(m, suffix);
	va_copy(copy, labels);
	put_labels(m, copy, le);
	va_end(copy);
	puts_text(m, " ");
	put_number(m, value);
	puts_text(m, "\n");
}

void
metrics_value(struct metrics *m, double value, ...)
{
	va_list ap;

	va_start(ap, value);
	put_sample(m, "", ap, NULL, value);
	va_end(ap);
}

void
metrics_histogram(struct metrics *m, const struct histogram *h, ...)
{
	const double infinity = INFINITY;
	uint64_t seen = 0;
	va_list ap;

	va_start(ap, h);
	for (size_t i = 0; i <= h->count; i++) {
		seen += h->buckets[i];
		put_sample(
		    m, "_bucket", ap, i < h->count ? &h->bounds[i] : &infinity, (double)seen);
	}
	put_sample(m, "_sum", ap, NULL, h->sum);
	put_sample(m, "_count", ap, NULL, (double)seen);
	va_end(ap);
}

char *
metrics_finish(struct metrics *m, size_t *len)
{
	if (m->format == METRICS_OPENMETRICS)
		puts_text(m, "# EOF\n");
	put(m, "", 1);
	char *text = m->text;
	*len = m->len - 1;
	free(m);
	return text;
}

void
histogram_observe(struct histogram *h, double value)
{
	size_t i = 0;

	while (i < h->count && value > h->bounds[i])
		i++;
	h->buckets[i]++;
	h->sum += value;
}

void
histogram_add(struct histogram *into, const struct histogram *from)
{
	for (size_t i = 0; i <= into->count; i++)
		into->buckets[i] += from->buckets[i];
	into->sum += from->sum;
}

const char *
metrics_content_type(enum metrics_format format)
{
	return format == METRICS_OPENMETRICS
		   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		   : "text/plain; version=0.0.4; charset=utf-8";
}

/* One element of an Accept header (RFC 9110 section 12.5.1), between commas. */
struct media_range {
	const char *type;
	size_t type_len;
	bool version_other; /* has a version parameter other than 1.0.0 */
	double q;
};

static struct media_range
media_range_read(const char *text, size_t len)
{
	struct media_range range = { .q = 1 };
	const char *end = text + len;

	for (bool first = true; text < end; first = false) {
		text += strspn(text, " \t;");
		if (text >= end)
			break;
		size_t part = strcspn(text, "; \t,");

		if (first) {
			range.type = text;
			range.type_len = part;
		} else if (strncasecmp(text, "q=", 2) == 0) {
			range.q = strtod(text + 2, NULL);
		} else if (strncasecmp(text, "version=", 8) == 0) {
			range.version_other = part != 13 || strncmp(text + 8, "1.0.0", 5) != 0;
		}
		text += part;
	}
	return range;
}

enum metrics_format
metrics_negotiate(const char *accept)
{
	static const char open[] = "application/openmetrics-text", plain[] = "text/plain";
	double open_q = 0, plain_q = 0;

	for (const char *p = accept != NULL ? accept : ""; *p != '\0'; p += strspn(p, ",")) {
		size_t len = strcspn(p, ",");
		struct media_range range = media_range_read(p, len);

		if (range.type_len == sizeof open - 1 &&
		    strncasecmp(range.type, open, range.type_len) == 0) {
			if (!range.version_other && range.q > open_q)
				open_q = range.q;
		} else if (range.type_len == sizeof plain - 1 &&
			   strncasecmp(range.type, plain, range.type_len) == 0) {
			if (range.q > plain_q)
				plain_q = range.q;
		}
		p += len;
	}
	return open_q > 0 && open_q >= plain_q ? METRICS_OPENMETRICS : METRICS_TEXT;
}
