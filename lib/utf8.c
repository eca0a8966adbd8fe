#include <string.h>

#include "lib/utf8.h"

size_t
utf8_read(const char *text, size_t max, uint32_t *cp)
{
	/* The smallest code point of each length. */
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	size_t len = s[0] < 0x80   ? 1
		     : s[0] < 0xc0 ? 0
		     : s[0] < 0xe0 ? 2
		     : s[0] < 0xf0 ? 3
		     : s[0] < 0xf8 ? 4
				   : 0;

	if (len == 0 || len > max)
		return 0;
	*cp = len == 1 ? s[0] : s[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | (s[i] & 0x3f);
	}
	if (*cp < least[len] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000))
		return 0;
	return len;
}

size_t
utf8_whole(const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		uint64_t eight;
		uint32_t cp;

		/* Most text is ASCII, so check eight bytes at a time. */
		for (; len - at >= sizeof eight; at += sizeof eight) {
			memcpy(&eight, text + at, sizeof eight);
			if ((eight & UINT64_C(0x8080808080808080)) != 0)
				break;
		}
		size_t one = at < len ? utf8_read(text + at, len - at, &cp) : 0;
		if (one == 0)
			break;
		at += one;
	}
	return at;
}

bool
utf8_unsafe(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x61c || cp == 0x200e ||
	       cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
}
