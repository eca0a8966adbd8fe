/* resolv.conf. The result must not have more servers than there is space for. No server may be a
 * duplicate, and each server must be at port 53. */
#include <stdint.h>
#include <stdlib.h>

#include "lib/resolv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct resolv resolv;

	resolv_parse((const char *)data, size, &resolv);
	if (resolv.count > RESOLV_SERVERS_MAX)
		abort();
	for (size_t i = 0; i < resolv.count; i++) {
		if (resolv.servers[i].port != 53)
			abort();
		for (size_t k = 0; k < i; k++)
			if (server_equal(&resolv.servers[i], &resolv.servers[k]))
				abort();
	}
	return 0;
}
