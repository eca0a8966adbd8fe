/*
 * The status page: one HTML document, complete without JavaScript. page.js fetches it again and
 * replaces the parts (elements with data-part) that have changed, so there is one renderer, and one
 * place where untrusted text is escaped: html_text.
 */
#ifndef SIDECAR_PAGE_PAGE_H
#define SIDECAR_PAGE_PAGE_H

#include <stddef.h>

#include "sidecar/page/chart.h"
#include "sidecar/page/html.h"
#include "sidecar/view.h"

/* Nothing from other origins, nothing inline, no framing. */
#define PAGE_CSP                                                                                   \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "    \
	"'self'; "                                                                                 \
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

/* The whole page; its length in `len`; caller frees. */
char *page_html(const struct view *view, size_t *len);

/* The page's icon in the colour of the verdict, SVG; caller frees. */
char *page_icon(const struct view *view, size_t *len);

/* page.css and page.js as they are beside this file. */
extern const char page_css[], page_css_end[], page_js[], page_js_end[];

/* The panels of the configuration in force (page_config.c) and of the question box
 * (page_question.c). */
void page_config(struct html *html, const struct view *view);
void page_question(struct html *html, const struct view *view);

/* The panels of what kubedns answers, and of what it watches and needs (page_kubedns.c). */
void page_answers(struct html *html, const struct view *view);
void page_kubedns(struct html *html, const struct view *view);

/* The panel of the other DNS pods, with links to their pages (page_neighbours.c). */
void page_neighbours(struct html *html, const struct view *view);

/* The panel of the heaviest clients and names (page_top.c). */
void page_top(struct html *html, const struct view *view);

/* The panel of what changed, newest first (page_journal.c). */
void page_journal(struct html *html, const struct view *view);

/* `what` ("Their addresses are shown") is for loopback peers only, and how to become one here. */
void page_loopback_only(struct html *html, const struct view *view, const char *what);

/* A figure with its name over it; a chart of the time since the start, ten minutes at most. */
void page_fact(struct html *html, const char *name, const char *value);
struct chart page_chart(const struct view *view, const char *title);

#endif
