/* What a question for an incremental transfer says (RFC 1995 section 3), and the order of serials. Pure. */
#ifndef KUBEDNS_TRANSFER_IXFR_QUERY_H
#define KUBEDNS_TRANSFER_IXFR_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether serial `a` is before `b` (RFC 1982): a circle, on which the nearer way counts. Of two that are
 * 2^31 apart each is before the other.
 */
static inline bool
serial_before(uint32_t a, uint32_t b)
{
	return a != b && (uint32_t)(b - a) <= UINT32_C(0x80000000);
}

/* The serial that the client has, of the SOA in the authority section of a query whose question has
 * `question_len` bytes; 0 or -EBADMSG. */
int ixfr_serial(const uint8_t *query, size_t len, size_t question_len, uint32_t *serial);

#endif
