/*
 * The servers file: all stub domains and upstreams, one domain and one literal address a line.
 * Pure.
 *
 * dnsmasq reads it at SIGHUP and matches lines with its records by domain and order: the nth line
 * of a domain takes over the nth record of that domain, with the queries in flight to it; a record
 * without a line is freed, and its queries are never answered. Hence the invariant of this module:
 * as long as a dnsmasq runs, the number of lines of a domain never shrinks. A domain with fewer
 * servers than before repeats them; one that is gone gets the servers that now answer for its
 * names. (Removing such lines later loses queries too, and so does `server=/domain/#` beside them:
 * both were tried.)
 *
 *	before   server=/a/10.0.0.1    server=/a/10.0.0.2    server=/b/10.0.0.3    server=8.8.8.8
 *	wanted   server=/a/10.0.0.2                                                server=9.9.9.9
 *	after    server=/a/10.0.0.2    server=/a/10.0.0.2    server=/b/9.9.9.9     server=9.9.9.9
 */
#ifndef NANNY_SERVERS_SERVERS_FILE_H
#define NANNY_SERVERS_SERVERS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nanny/servers/domain_table.h"

enum {
	SERVERS_RETIRED_MAX = 20000, /* lines kept for domains that are gone;
				      * beyond it the oldest go, with their queries */
	SERVERS_GENERATION_MIN =
	    512, /* below lie 127.0.0.0/24, and 127.0.1.0/24 for the nanny's own answers */
	SERVERS_GENERATION_MAX = 0xfffffe,
};

#define SERVERS_MARKER "generation.nanny.invalid"

struct servers_domain {
	char *domain;         /* "" is every other name */
	struct server *lines; /* in the file's order; repeated where padded */
	size_t count;
	uint64_t retired; /* when the domain went, as a count of plans; 0: it is configured */
};

struct servers_file {
	struct servers_domain *items; /* sorted by domain */
	size_t count;
};

struct servers_input {
	const struct domain_table *wanted;
	const struct domain_table
	    *fixed; /* on dnsmasq's command line: they answer for names whose domain is gone */
	struct server nobody;              /* stands in where nothing answers for such names */
	const struct servers_file *before; /* what dnsmasq may have; empty for a new dnsmasq */
	bool strict_order;                 /* dnsmasq was told to respect it:
					    * servers are not kept in their old places */
	uint64_t now;                      /* count of plans, from 1 */
};

/* Plans the next file; `*dropped` is the number of lines over SERVERS_RETIRED_MAX. Caller frees
 * with servers_free. */
struct servers_file servers_plan(const struct servers_input *input, size_t *dropped);

/* Whether both files are the same, so that dnsmasq need not be reloaded. */
bool servers_equal(const struct servers_file *a, const struct servers_file *b);

/* A number for the content, to be shown and compared by people. */
uint64_t servers_hash(const struct servers_file *file);

/* The address that stands for a generation: 127.a.b.c. */
struct addr servers_generation_addr(uint32_t generation);

/* The generation that an address stands for, 0 if it stands for none. */
uint32_t servers_generation(const struct addr *addr);

/*
 * The file's text, ending with the marker line: dnsmasq asks `<anything>.generation.nanny.invalid`
 * at the address of the generation it has, and `port` there is the nanny's own. Port 0 leaves the
 * marker out. Caller frees.
 */
char *servers_render(
    const struct servers_file *file, uint32_t generation, uint16_t port, size_t *len);

void servers_free(struct servers_file *file);

#endif
