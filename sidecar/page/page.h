/*
 * The static files of the status page, embedded in the program: page.html, page.css, page.js and icon.svg. page.js fetches /status.json
 * (status.h) and draws the page from it. page.js inserts text only as text nodes, so untrusted text never becomes markup.
 */
#ifndef SIDECAR_PAGE_H
#define SIDECAR_PAGE_H

/* This Content-Security-Policy forbids content from other origins, inline scripts and styles, and embedding in other pages. No text can
 * become markup or code. The page has one frame, /status.txt, for browsers without scripts. */
#define PAGE_CSP                                                                                   \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "    \
	"'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "  \
	"require-trusted-types-for 'script'; trusted-types 'none'"

struct page_file {
	const char *path; /* "/page.css" */
	const char *content_type, *csp;
	const char *content, *end;
};

/* The path of the page itself. */
#define PAGE_PATH "/"

/* Returns the file at this path, or NULL. */
const struct page_file *page_file(const char *path);

#endif
