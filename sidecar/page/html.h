/*
 * Writes HTML. Our own markup is copied, everything else goes through html_text, which escapes the
 * special characters of text and of quoted attributes, and replaces control bytes and invalid UTF-8
 * by U+FFFD.
 */
#ifndef SIDECAR_PAGE_HTML_H
#define SIDECAR_PAGE_HTML_H

#include <stddef.h>

struct html {
	char *buf;
	size_t len, size;
};

/* Markup of our own: a string literal, or one made of numbers only. */
void html_raw(struct html *html, const char *markup);
void html_rawf(struct html *html, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text from anywhere, escaped. */
void html_text(struct html *html, const char *text);
void html_textf(struct html *html, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text between two pieces of markup. */
void html_wrap(struct html *html, const char *before, const char *text, const char *after);

/* The text, NUL-terminated; its length in `len`; caller frees. */
char *html_finish(struct html *html, size_t *len);

#endif
