/* Embeds the style sheet and the script, which are files of their own, in the program: there is
 * nothing to install. */
#include "sidecar/page/page.h"

#define EMBED(name, file)                                                                          \
	__asm__(".section .rodata\n"                                                               \
		".global " #name "\n" #name ":\n"                                                  \
		".incbin \"" file "\"\n"                                                           \
		".global " #name "_end\n" #name "_end:\n"                                          \
		".byte 0\n"                                                                        \
		".previous\n")

EMBED(page_css, "sidecar/page/page.css");
EMBED(page_js, "sidecar/page/page.js");
