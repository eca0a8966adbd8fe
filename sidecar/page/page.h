/*
 * The status page's files, which are static: page.html, page.css, page.js and icon.svg, embedded in
 * the program. page.js fetches /status.json (status.h) and draws everything from it, so that text
 * of others becomes text nodes only: no markup is written here.
 */
#ifndef SIDECAR_PAGE_H
#define SIDECAR_PAGE_H

/*
 * Nothing from other origins, nothing inline, no framing, and no text that becomes markup or code.
 * The frame is that of /status.txt, for browsers without scripts.
 */
#define PAGE_CSP                                                                                   \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "    \
	"'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "  \
	"require-trusted-types-for 'script'; trusted-types 'none'"

struct page_file {
	const char *path; /* "/page.css" */
	const char *content_type, *csp;
	const char *content, *end;
};

/* The page itself. */
#define PAGE_PATH "/"

/* The file at this path, or NULL. */
const struct page_file *page_file(const char *path);

#endif
