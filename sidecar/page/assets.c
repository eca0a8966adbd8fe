/* Embeds the files of the page in the program, so that there is nothing to install. */
#include "sidecar/page/page.h"

#include <stddef.h>
#include <string.h>

#define EMBED(name, file)                                                                          \
	extern const char name[], name##_end[];                                                    \
	__asm__(".section .rodata\n"                                                               \
		".global " #name "\n" #name ":\n"                                                  \
		".incbin \"" file "\"\n"                                                           \
		".global " #name "_end\n" #name "_end:\n"                                          \
		".byte 0\n"                                                                        \
		".previous\n")

EMBED(page_html, "sidecar/page/page.html");
EMBED(page_css, "sidecar/page/page.css");
EMBED(page_js, "sidecar/page/page.js");
EMBED(page_icon, "sidecar/page/icon.svg");

static const struct page_file files[] = {
	{ PAGE_PATH, "text/html; charset=utf-8", PAGE_CSP, page_html, page_html_end },
	{ "/page.css", "text/css; charset=utf-8", PAGE_CSP, page_css, page_css_end },
	{ "/page.js", "text/javascript; charset=utf-8", PAGE_CSP, page_js, page_js_end },
	{ "/icon.svg", "image/svg+xml", PAGE_CSP, page_icon, page_icon_end },
};

const struct page_file *
page_file(const char *path)
{
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		if (strcmp(files[i].path, path) == 0)
			return &files[i];
	return NULL;
}
