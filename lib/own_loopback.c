#include "lib/own_loopback.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/xalloc.h"

static const char variable[] = "OWN_LOOPBACK", word[] = "own-loopback";

/* The hash FNV-1a. Only the two pods on one node need different hashes, and their UIDs differ in
 * most characters. */
static uint32_t
hash(const char *text)
{
	uint32_t h = 2166136261U;

	for (; *text != '\0'; text++)
		h = (h ^ (uint8_t)*text) * 16777619U;
	return h;
}

bool
own_loopback(struct addr *addr)
{
	const char *uid = getenv(variable);

	*addr = (struct addr){ .family = AF_INET, .bytes = { 127, 0, 0, 1 } };
	if (uid == NULL || *uid == '\0')
		return false;
	uint32_t h = hash(uid);
	addr->bytes[1] = (uint8_t)(64 | (h >> 24 & 63));
	addr->bytes[2] = (uint8_t)(h >> 16);
	addr->bytes[3] = (uint8_t)(1 + (h & 0xffff) % 254);
	return true;
}

bool
own_loopback_is_one(const struct addr *addr)
{
	return addr->family == AF_INET && addr->bytes[0] == 127 && (addr->bytes[1] & 0xc0) == 64;
}

static bool
is_of_a_name(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

char *
own_loopback_expand(const char *text)
{
	const size_t len = sizeof word - 1;
	char address[ADDR_TEXT_MAX], *out = xstrdup("");
	struct addr addr;
	const char *from = text, *at;

	own_loopback(&addr);
	addr_format(&addr, address);
	for (const char *look = text; (at = strstr(look, word)) != NULL; look = at + len) {
		if ((at > text && is_of_a_name(at[-1])) || is_of_a_name(at[len]))
			continue;
		char *more = xasprintf("%s%.*s%s", out, (int)(at - from), from, address);
		free(out);
		out = more;
		from = at + len;
	}
	char *whole = xasprintf("%s%s", out, from);
	free(out);
	return whole;
}
