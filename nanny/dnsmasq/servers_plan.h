/*
 * dnsmasq's servers file. The file contains all stub domains and upstreams, with one domain and one IP
 * address per line. Pure.
 *
 * On SIGHUP, dnsmasq reads the file and matches its lines to its server records by domain and
 * order. The nth line of a domain takes over the nth record of that domain, including its queries
 * in flight. A record without a line is freed, and its queries are never answered. Therefore the
 * number of lines of a domain never shrinks while a dnsmasq runs. A domain with fewer servers than
 * before repeats its servers. A deleted domain keeps its lines, with the servers that now answer
 * for its names. (Removing these lines later also loses queries, and so does adding
 * `server=/domain/#`.)
 *
 *	before   server=/a/10.0.0.1    server=/a/10.0.0.2    server=/b/10.0.0.3    server=8.8.8.8
 *	wanted   server=/a/10.0.0.2                                                server=9.9.9.9
 *	after    server=/a/10.0.0.2    server=/a/10.0.0.2    server=/b/9.9.9.9     server=9.9.9.9
 *
 * If a change adds very many domains, a running dnsmasq gets them in several files. A domain comes no
 * later than the domains above it, so each name has its old servers or its new ones.
 */
#ifndef NANNY_DNSMASQ_SERVERS_PLAN_H
#define NANNY_DNSMASQ_SERVERS_PLAN_H

#include "nanny/servers/servers_file.h"

enum {
	/* maximum number of lines kept for deleted domains; above this, the oldest lines are
	 * dropped, and their queries are lost */
	SERVERS_RETIRED_MAX = 20000,
	/* dnsmasq compares each line of a new domain with all lines that it has. Meanwhile it answers
	 * nobody. Maximum number of comparisons in one reload: about 0.1 s. */
	SERVERS_COMPARISONS_MAX = 20 * 1000 * 1000,
};

struct servers_input {
	const struct domain_table *wanted;
	/* domains and servers on dnsmasq's command line; these servers also answer for names of
	 * deleted domains */
	const struct domain_table *fixed;
	/* server for names of a deleted domain that no other server answers */
	struct server nobody;
	/* the file that dnsmasq may have loaded; empty for a new dnsmasq */
	const struct servers_file *before;
	bool fresh; /* for a new dnsmasq, which reads any number of domains at once */
	/* dnsmasq runs with --strict-order, so servers must be in the given order and cannot keep
	 * their lines */
	bool strict_order;
	uint64_t now; /* number of this plan, from 1 */
};

/* Plans the next file. Its `dropped` is the number of lines that it lacks because of
 * SERVERS_RETIRED_MAX, and its `waiting` the number of lines that it lacks because of
 * SERVERS_COMPARISONS_MAX. Caller frees with servers_free. */
struct servers_file servers_plan(const struct servers_input *input);

/*
 * Renders the file's text, including the marker line. Through that line, dnsmasq forwards
 * `<anything>.generation.nanny.invalid` to the address of the generation that dnsmasq has loaded,
 * at the nanny's `port`. If `port` is 0, the text has no marker line. Caller frees.
 */
char *servers_render(
    const struct servers_file *file, uint32_t generation, uint16_t port, size_t *len);

#endif
