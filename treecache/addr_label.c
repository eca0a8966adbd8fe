/*
 * Converts an address to the label that Kubernetes makes from it, and back. The label has dashes
 * instead of dots and colons. Every spelling of an address is accepted. A caller that accepts only
 * the canonical spelling converts the result again and compares.
 */
#include <errno.h>
#include <string.h>

#include "treecache/treecache.h"

static char *
put_decimal(char *p, unsigned byte)
{
	if (byte >= 100)
		*p++ = (char)('0' + byte / 100);
	if (byte >= 10)
		*p++ = (char)('0' + byte / 10 % 10);
	*p++ = (char)('0' + byte % 10);
	return p;
}

const uint8_t *
tree_addr_label(const struct addr *addr, uint8_t label[1 + DNAME_LABEL_MAX + 8])
{
	char text[ADDR_TEXT_MAX + 1], *end = text;

	if (addr->family == AF_INET) { /* faster than addr_format(); an SRV answer may have a
				        * hundred labels */
		for (unsigned i = 0; i < 4; i++) {
			end = put_decimal(end, addr->bytes[i]);
			*end++ = '-';
		}
		end--;
	} else {
		addr_format(addr, text);
		for (; *end != '\0'; end++)
			if (*end == '.' || *end == ':')
				*end = '-';
		if (end[-1] == '-')
			*end++ = '0';
	}
	memset(label, 0, 1 + DNAME_LABEL_MAX + 8);
	label[0] = (uint8_t)(end - text);
	memcpy(label + 1, text, label[0]);
	return label;
}

int
tree_label_addr(const uint8_t *label, struct addr *addr)
{
	char text[DNAME_LABEL_MAX + 1];
	unsigned dashes = 0;

	for (unsigned i = 0; i < label[0]; i++) {
		uint8_t c = label[i + 1];
		bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

		if (!hex && c != '-')
			return -EINVAL;
		dashes += c == '-';
	}
	if (dashes < 2) /* most names of pods have fewer than two dashes */
		return -EINVAL;
	/* Three dashes between decimal numbers are an IPv4 address. An IPv6 address with three
	 * colons has two adjacent colons. */
	for (int v6 = dashes != 3; v6 < 2; v6++) {
		for (unsigned i = 0; i < label[0]; i++)
			text[i] = label[i + 1] != '-' ? (char)label[i + 1] : v6 ? ':' : '.';
		text[label[0]] = '\0';
		if (addr_parse(text, addr) == 0)
			return 0;
	}
	return -EINVAL;
}
