/*
 * The servers of each domain, as the engine's newest file has them (nanny/engine.h). Each engine plans
 * and renders its own file. All engines have a marker domain in common, whose only server is an
 * address of the nanny. That address is the file's generation. Pure.
 */
#ifndef NANNY_SERVERS_SERVERS_FILE_H
#define NANNY_SERVERS_SERVERS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nanny/servers/domain_table.h"

enum {
	/* smaller numbers map to 127.0.0.0/24, or to 127.0.1.0/24, where the nanny answers SERVFAIL
	 * and REFUSED */
	SERVERS_GENERATION_MIN = 512,
	SERVERS_GENERATION_MAX = 0xfffffe,
};

#define SERVERS_MARKER "generation.nanny.invalid"

/* The engine answers TXT of this name itself: "validate" if it checks DNSSEC signatures, "dns64" if it
 * only makes AAAA records, else "off".
 * kubedns asks for it (kubedns/serve/upstream/validation.h). */
#define SERVERS_VALIDATION "dnssec.nanny.invalid"

struct servers_domain {
	char *domain;         /* "" stands for all other names */
	struct server *lines; /* in the order of the file; padding repeats servers */
	char **tls_names; /* of tls:// servers, in the order of `lines`; NULL for plain servers */
	size_t count;
	/* number of the plan that deleted the domain; 0 while the domain is configured */
	uint64_t retired;
};

struct servers_file {
	struct servers_domain *items; /* sorted by domain */
	size_t count;
	size_t dropped;    /* lines of deleted domains that this file no longer has */
	size_t waiting;    /* lines of new domains that only a later file has */
	uint64_t settings; /* hash of what else the engine has in the file; 0 for nothing */
};

/* Whether both files are equal, so that no reload is needed. */
bool servers_equal(const struct servers_file *a, const struct servers_file *b);

/* Whether two entries have the same servers in the same order. */
bool servers_domain_equal(const struct servers_domain *a, const struct servers_domain *b);

/* Returns a hash of the file, by which people can compare files. */
uint64_t servers_hash(const struct servers_file *file);

/* Returns the address 127.a.b.c that represents a generation. */
struct addr servers_generation_addr(uint32_t generation);

/* Returns the generation that an address represents, or 0 if it represents no generation. */
uint32_t servers_generation(const struct addr *addr);

void servers_free(struct servers_file *file);

#endif
