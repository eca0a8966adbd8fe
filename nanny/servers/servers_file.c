#include "nanny/servers/servers_file.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"

bool
servers_domain_equal(const struct servers_domain *a, const struct servers_domain *b)
{
	if (a->count != b->count || (a->tls_names == NULL) != (b->tls_names == NULL))
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!server_equal(&a->lines[i], &b->lines[i]) ||
		    (a->tls_names != NULL && strcmp(a->tls_names[i], b->tls_names[i]) != 0))
			return false;
	return true;
}

bool
servers_equal(const struct servers_file *a, const struct servers_file *b)
{
	if (a->count != b->count || a->settings != b->settings)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i].domain, b->items[i].domain) != 0 ||
		    !servers_domain_equal(&a->items[i], &b->items[i]))
			return false;
	return true;
}

struct addr
servers_generation_addr(uint32_t generation)
{
	struct addr addr = { .family = AF_INET };

	addr.bytes[0] = 127;
	addr.bytes[1] = (uint8_t)(generation >> 16);
	addr.bytes[2] = (uint8_t)(generation >> 8);
	addr.bytes[3] = (uint8_t)generation;
	return addr;
}

uint32_t
servers_generation(const struct addr *addr)
{
	if (addr->family != AF_INET || addr->bytes[0] != 127)
		return 0;
	uint32_t generation =
	    (uint32_t)addr->bytes[1] << 16 | (uint32_t)addr->bytes[2] << 8 | addr->bytes[3];
	return generation >= SERVERS_GENERATION_MIN && generation <= SERVERS_GENERATION_MAX
		   ? generation
		   : 0;
}

uint64_t
servers_hash(const struct servers_file *file)
{
	uint64_t hash = hash64(HASH_START, &file->settings, sizeof file->settings);
	char text[SERVER_TEXT_MAX];

	for (size_t i = 0; i < file->count; i++) {
		const struct servers_domain *d = &file->items[i];

		hash = hash64(hash, d->domain, strlen(d->domain) + 1);
		for (size_t k = 0; k < d->count; k++) {
			server_format(&d->lines[k], text);
			hash = hash64(hash, text, strlen(text) + 1);
			if (d->tls_names != NULL)
				hash = hash64(hash, d->tls_names[k], strlen(d->tls_names[k]) + 1);
		}
	}
	return hash;
}

void
servers_free(struct servers_file *file)
{
	for (size_t i = 0; i < file->count; i++) {
		free(file->items[i].domain);
		for (size_t k = 0; file->items[i].tls_names != NULL && k < file->items[i].count;
		     k++)
			free(file->items[i].tls_names[k]);
		free(file->items[i].tls_names);
		free(file->items[i].lines);
	}
	free(file->items);
	*file = (struct servers_file){ 0 };
}
