#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/utf8.h"
#include "lib/xalloc.h"
#include "sidecar/format.h"

const char *
format_ms(double ms, char *text)
{
	if (isnan(ms))
		snprintf(text, FORMAT_MAX, "-");
	else if (ms < 0.995)
		snprintf(text, FORMAT_MAX, "%.2f ms", ms);
	else if (ms < 9.95)
		snprintf(text, FORMAT_MAX, "%.1f ms", ms);
	else if (ms < 999.5)
		snprintf(text, FORMAT_MAX, "%.0f ms", ms);
	else
		snprintf(text, FORMAT_MAX, "%.1f s", ms / 1000);
	return text;
}

const char *
format_duration(double seconds, char *text)
{
	static const struct {
		double seconds;
		const char *one;
	} units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };

	for (int i = 0; i < 4; i++) {
		/* Show at least two of a unit, so that 90 seconds do not become "1 minute". */
		double least = i < 3 ? 2 * units[i].seconds : 1;

		if (seconds < least)
			continue;
		double n = floor(seconds / units[i].seconds);
		snprintf(text, FORMAT_MAX, "%.0f %s%s", n, units[i].one, n >= 2 ? "s" : "");
		return text;
	}
	snprintf(text, FORMAT_MAX, "less than a second");
	return text;
}

const char *
format_count(uint64_t count, char *text)
{
	char digits[FORMAT_MAX];
	int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), at = 0;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

const char *
format_time(double wall_s, char *text)
{
	time_t t = (time_t)wall_s;
	struct tm tm;

	if (wall_s <= 0 || wall_s > 253402300799.0 || gmtime_r(&t, &tm) == NULL)
		snprintf(text, FORMAT_MAX, "never");
	else
		strftime(text, FORMAT_MAX, "%Y-%m-%d %H:%M:%S UTC", &tm);
	return text;
}

/* Returns a copy with U+FFFD in place of invalid bytes. If `plain` is true, also replaces unsafe
 * characters. */
static char *
copy_valid(const char *text, bool plain)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t len = strlen(text);
	char *valid = xmalloc(3 * len + 1), *out = valid;

	for (size_t i = 0; i < len;) {
		uint32_t cp = 0;
		size_t n = utf8_read(text + i, len - i, &cp);
		bool hidden = plain && utf8_unsafe(cp) && cp != '\t' && cp != '\n';
		bool kept = n > 0 && !hidden;

		memcpy(out, kept ? text + i : replacement, kept ? n : 3);
		out += kept ? n : 3;
		i += n > 0 ? n : 1;
	}
	*out = '\0';
	return valid;
}

char *
format_utf8(const char *text)
{
	return copy_valid(text, false);
}

char *
format_plain(const char *text)
{
	return copy_valid(text, true);
}
