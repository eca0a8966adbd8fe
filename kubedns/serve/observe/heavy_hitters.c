#include "kubedns/serve/observe/heavy_hitters.h"

#include <netinet/in.h>
#include <string.h>

void
heavy_hitters_add(struct heavy_hitters *hitters, const struct sockaddr *from)
{
	const bool v4 = from->sa_family == AF_INET;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;
	struct addr addr = { .family = v4 ? AF_INET : AF_INET6 };

	if (v4)
		memcpy(addr.bytes, &in->sin_addr, sizeof in->sin_addr);
	else
		memcpy(addr.bytes, &in6->sin6_addr, sizeof in6->sin6_addr);

	struct hitter *least = &hitters->entries[0];
	hitters->total++;
	for (unsigned i = 0; i < hitters->used; i++) {
		struct hitter *entry = &hitters->entries[i];

		if (memcmp(&entry->addr, &addr, sizeof addr) == 0) {
			entry->count++;
			return;
		}
		if (entry->count < least->count)
			least = entry;
	}
	if (hitters->used < HITTERS) {
		hitters->entries[hitters->used++] = (struct hitter){ addr, 1, 0 };
		return;
	}
	*least = (struct hitter){ addr, least->count + 1, least->count };
}
