/* A reply to a query for a stub server's name. The parser must return at most as many addresses as
 * fit, without duplicates. */
#include <stdint.h>
#include <stdlib.h>

#include "nanny/servers/stub_hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int family = 0; family < STUB_HOST_FAMILIES; family++) {
		struct addr addrs[STUB_HOST_ADDRS_MAX];
		unsigned ttl_s;
		int count = stub_hosts_parse_reply(data, size, "a.test", family, addrs, &ttl_s);

		if (count > STUB_HOST_ADDRS_MAX || (count >= 0 && ttl_s > STUB_HOST_TTL_MAX_S))
			abort();
		for (int i = 0; i < count; i++)
			if (addrs[i].family != (family == STUB_HOST_V4 ? AF_INET : AF_INET6))
				abort();
	}
	return 0;
}
