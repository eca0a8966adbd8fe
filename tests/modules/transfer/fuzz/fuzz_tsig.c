/*
 * Signed messages. For any message of an attacker, the parts of a TSIG must be inside the message.
 * A well-formed message without a TSIG can be signed. The signed message passes verification, but
 * fails if a bit is changed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/modules/transfer/tsig.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW_S = 1700000000, TAIL = 512 };

static void
check_inside(const uint8_t *data, size_t size, const struct tsig *tsig)
{
	if (tsig->offset < DNS_HEADER || tsig->offset >= size || tsig->mac < data ||
	    tsig->mac + tsig->mac_len > data + size || tsig->other < data ||
	    tsig->other + tsig->other_len > data + size)
		abort();
}

/* Signs a copy, verifies it, and verifies it with a changed bit. */
static void
round_trip(const uint8_t *data, size_t size, const struct tsig_chain *start)
{
	struct tsig_chain ours = *start, theirs = *start;
	uint8_t *copy = xmalloc(size + TAIL);
	struct tsig tsig;

	memcpy(copy, data, size);
	size_t len = tsig_sign(copy, size, size + TAIL, &ours, NOW_S, NULL);
	enum tsig_read read = tsig_read(copy, len, &tsig);
	if (len == 0 || (read != TSIG_FOUND && copy[10] == 0 && copy[11] < TSIG_RECORDS_MAX &&
			    wire_get16(copy + 6) + wire_get16(copy + 8) == 0))
		abort();
	if (read == TSIG_FOUND) {
		if (!tsig_is_of(&tsig, &theirs.key) ||
		    tsig_verify(copy, &tsig, &theirs, NOW_S) != TSIG_NOERROR)
			abort();
		theirs = *start;
		copy[2 + data[0] % (tsig.offset - 2)] ^= 1;
		if (tsig_verify(copy, &tsig, &theirs, NOW_S) == TSIG_NOERROR)
			abort();
	}
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tsig_chain chain = { .mac_len = 0 };
	struct tsig tsig;

	dname_from_text(&chain.key.name, "key.example.");
	chain.key.algorithm = size > 0 ? data[0] % TSIG_ALGORITHMS : TSIG_SHA256;
	chain.key.secret_len = 32;
	switch (tsig_read(data, size, &tsig)) {
	case TSIG_FOUND:
		check_inside(data, size, &tsig);
		if (tsig_verify(data, &tsig, &chain, NOW_S) == TSIG_NOERROR)
			abort(); /* the attacker does not have the secret */
		break;
	case TSIG_NONE:
		if (size <= DNS_TCP_MAX)
			round_trip(data, size, &chain);
		break;
	default:
		break;
	}
	return 0;
}
