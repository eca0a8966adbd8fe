#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"
#include "lib/xalloc.h"
#include "sidecar/page/html.h"

enum { SIZE_FIRST = 16384 };

static void
append(struct html *html, const char *bytes, size_t len)
{
	if (html->size - html->len <= len) {
		while (html->size - html->len <= len)
			html->size = html->size == 0 ? SIZE_FIRST : 2 * html->size;
		html->buf = xreallocarray(html->buf, html->size, 1);
	}
	memcpy(html->buf + html->len, bytes, len);
	html->len += len;
	html->buf[html->len] = '\0';
}

void
html_raw(struct html *html, const char *markup)
{
	append(html, markup, strlen(markup));
}

static char *
format(const char *fmt, va_list ap)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		text = xstrdup("");
	return text;
}

void
html_rawf(struct html *html, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = format(fmt, ap);
	va_end(ap);
	html_raw(html, text);
	free(text);
}

static const char *
entity(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

/* C0 except tab and newline, DEL, C1, and the marks that change the direction of writing:
 * characters that could mislead a reader. */
static bool
is_hidden(uint32_t cp)
{
	return (cp < 0x20 && cp != '\t' && cp != '\n') || (cp >= 0x7f && cp < 0xa0) ||
	       (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) || cp == 0x200e ||
	       cp == 0x200f;
}

void
html_text(struct html *html, const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len;) {
		uint32_t cp = 0;
		size_t n = utf8_read(text + i, len - i, &cp);
		const char *escaped = entity(text[i]);
		if (n == 0 || is_hidden(cp))
			html_raw(html, "\xef\xbf\xbd");
		else if (escaped != NULL)
			html_raw(html, escaped);
		else
			append(html, text + i, n);
		i += n > 0 ? n : 1;
	}
}

void
html_textf(struct html *html, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = format(fmt, ap);
	va_end(ap);
	html_text(html, text);
	free(text);
}

void
html_wrap(struct html *html, const char *before, const char *text, const char *after)
{
	html_raw(html, before);
	html_text(html, text);
	html_raw(html, after);
}

char *
html_finish(struct html *html, size_t *len)
{
	append(html, "", 0);
	*len = html->len;
	return html->buf;
}
