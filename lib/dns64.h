/* The prefix of DNS64 (RFC 6147). The address that stands for an IPv4 address is the prefix, followed by
 * the IPv4 address (RFC 6052). */
#ifndef LIB_DNS64_H
#define LIB_DNS64_H

#include "lib/addr.h"

enum { DNS64_TEXT_MAX = ADDR_TEXT_MAX + 4 };

/* RFC 6052's prefix, which NAT64 gateways use by default. */
#define DNS64_WELL_KNOWN "64:ff9b::/96"

/* Reads a prefix of 32, 40, 48, 56, 64 or 96 bits. Writes its canonical text into `prefix`, of
 * DNS64_TEXT_MAX bytes. Returns 0, or -EINVAL and sets `*why` to the reason. */
int dns64_parse(const char *text, char *prefix, const char **why);

#endif
