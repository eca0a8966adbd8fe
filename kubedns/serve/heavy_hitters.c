#include "kubedns/serve/heavy_hitters.h"

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
		memcpy(addr.bytes, &in->sin_addr, sizeof(in->sin_addr));
	else
		memcpy(addr.bytes, &in6->sin6_addr, sizeof(in6->sin6_addr));

	struct hitter *least = &hitters->entries[0];
	hitters->total++;
	for (unsigned i = 0; i < hitters->used; i++) {
		struct hitter *entry = &hitters->entries[i];
		if (memcmp(&entry->addr, &addr, sizeof(addr)) == 0) {
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

double
fair_level(const double *demands, size_t count, double others, double capacity)
{
	double room = capacity - others;
	if (room < 0)
		return -1;
	/* Each round gives those below the level what they ask for, and their rest to the others. */
	double level = count > 0 ? room / (double)count : room;
	for (size_t round = 0; round < count; round++) {
		double taken = 0;
		size_t above = 0;
		for (size_t i = 0; i < count; i++) {
			if (demands[i] > level)
				above++;
			else
				taken += demands[i];
		}
		if (above == 0)
			break;
		level = (room - taken) / (double)above;
	}
	return level;
}
