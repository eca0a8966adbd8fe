#include "lib/dns64.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
dns64_parse(const char *text, char *prefix, const char **why)
{
	static const uint8_t zero[16];
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : 0;
	char address[ADDR_TEXT_MAX], *end = NULL;
	struct addr addr;
	unsigned long bits = 0;

	if (len > 0 && len < sizeof address && slash[1] >= '0' && slash[1] <= '9') {
		memcpy(address, text, len);
		address[len] = '\0';
		bits = strtoul(slash + 1, &end, 10);
	}
	if (end == NULL || *end != '\0' || addr_parse(address, &addr) < 0 ||
	    addr.family != AF_INET6 || bits < 32 || bits % 8 != 0 || (bits > 64 && bits != 96)) {
		*why = "not an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits, such as "
		       "2001:db8:64::/96";
		return -EINVAL;
	}
	if (addr.bytes[8] != 0) {
		*why = "bits 64 to 71 must be zero (RFC 6052)";
		return -EINVAL;
	}
	if (memcmp(addr.bytes + bits / 8, zero, sizeof addr.bytes - bits / 8) != 0) {
		*why = "the bits after the prefix must be zero";
		return -EINVAL;
	}
	snprintf(prefix, DNS64_TEXT_MAX, "%s/%lu", addr_format(&addr, address), bits);
	return 0;
}
