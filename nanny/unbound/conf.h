/*
 * unbound's configuration, in two files of the run directory. Pure.
 *
 *	unbound.conf   what holds for the life of the process: addresses, sizes, limits, the control
 *	               socket. Written once. Includes the next file.
 *	servers.conf   a forward zone for each domain. Written at each change.
 *
 * unbound resolves nothing itself. Each domain of the plan has a forward zone, also "." and a domain
 * without servers. Otherwise unbound would ask the Internet's root servers for the name that a CNAME
 * leads to, for a DS record, and for the keys of the root zone. A local zone stops only the names that
 * clients ask for.
 *
 * unbound has no notation for "all names below a domain, but not the domain itself" (dnsmasq's
 * `*.domain`). Such an entry becomes the domain's forward zone. If the domain has an entry too, that
 * entry wins, so names below it use its servers.
 */
#ifndef NANNY_UNBOUND_CONF_H
#define NANNY_UNBOUND_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nanny/args.h"
#include "nanny/servers/servers_file.h"

enum {
	UNBOUND_CACHE_MIN = 2 * 1024 * 1024,
	UNBOUND_CACHE_DEFAULT = 16 * 1024 * 1024, /* if no limit of memory is known */
	UNBOUND_CACHE_MAX = 512 * 1024 * 1024,
	/* memory of a cached name: the message, its record sets and the hash table's entries */
	UNBOUND_CACHE_BYTES = 1024,
	UNBOUND_QUERIES = 2048,       /* queries in flight for each thread */
	UNBOUND_QUERIES_BYTES = 8192, /* memory of one of them, with its packet buffers */
	UNBOUND_TCP_MIN = 32,         /* TCP connections of clients for each thread */
	UNBOUND_TCP_MAX = 512,
	UNBOUND_TCP_BYTES = 66 * 1024, /* the packet buffer of a connection */
	/* Queries of one client that may wait at the same time. Further queries are dropped. Clients
	 * on a loopback address, such as kubedns, have no limit. */
	UNBOUND_CLIENT_WAITS = 256,
	/* Time that a server has to reply over TCP or TLS, in milliseconds. A server without TLS gets
	 * it only after its UDP reply did not fit. If one of two servers never replies over TCP,
	 * unbound may try it four times before it tries the other one. In front, kubedns then fails the
	 * client's first attempt. The second one ends after 3.6 s and still gets the answer. */
	UNBOUND_TCP_MS = 700,
	/* The same, if all servers speak TLS. The time then doubles after each attempt without a reply,
	 * until unbound forgets the server's times. It is unbound's own first guess for a server that it
	 * does not know. */
	UNBOUND_TLS_MS = 376,
	/* What unbound takes for the time of a server that it does not know, or knew more than 2 s ago,
	 * when it chooses the fastest one. With 20 ms it soon queries each server again. With 200 ms
	 * a server that is not the fastest waits for chance, up to 7 s. */
	UNBOUND_UNKNOWN_MS = 20,
	/* The same, if a server speaks TLS. A query over TLS has this timeout or less, or otherwise that
	 * of UNBOUND_TCP_MS or UNBOUND_TLS_MS. With 20 ms each query to a silent server would wait so
	 * long. Then names of one client that nobody answers would make unbound avoid all servers. */
	UNBOUND_UNKNOWN_TLS_MS = 200,
	/* Receive buffer of each thread's UDP socket. The kernel doubles this size. A small packet
	 * takes 768 bytes, so 2,700 queries can wait while the thread does not run. The kernel's default
	 * size has space for 277 queries. One client with 3,000 queries a second fills that in 0.1 s. The
	 * kernel then drops the queries of all clients. */
	UNBOUND_RECEIVE_BUFFER = 1024 * 1024,
};

/* The trust anchor of the root zone, in Debian's package dns-root-data. */
#define UNBOUND_TRUST_ANCHOR "/usr/share/dns/root.key"
#define UNBOUND_CONTROL_DIR  "socket" /* below the nanny's directory, for the control socket */

struct unbound_conf {
	const struct args *args; /* the operator's arguments */
	const char *dir;         /* the run directory */
	double memory;           /* memory that unbound may use, in bytes; 0 if unknown */
	unsigned threads;
	int receive_buffer; /* of UDP sockets, in bytes, as the kernel permits; 0 is its default */
	bool validate;      /* check DNSSEC signatures */
	const char *dns64;  /* prefix of synthesized AAAA records (RFC 6147), or NULL for none */
};

/* Returns the text of unbound.conf. Appends a line to `warnings` for each argument that has no
 * meaning for unbound. Caller frees the text, and `*warnings` with its lines. */
char *unbound_conf_render(
    const struct unbound_conf *conf, char ***warnings, size_t *warning_count, size_t *len);

/* Plans the servers of each domain: those that are wanted and those of the arguments. The domain ""
 * has an entry even without servers. Sets `*merged` to the number of entries for names below a domain
 * whose own entry wins. Caller frees with servers_free. */
struct servers_file unbound_plan(
    const struct domain_table *wanted, const struct domain_table *fixed, size_t *merged);

/* What servers.conf has beside the servers of the plan. */
struct unbound_servers_conf {
	const char *bundle;   /* the file of the CA certificates for tls:// servers, or NULL */
	bool validate;        /* check DNSSEC signatures, except in domains that have servers */
	struct server nobody; /* answers REFUSED, for domains without servers */
	uint32_t generation;  /* the marker's address */
	uint16_t port;        /* the marker's port. 0: the text has no marker */
};

/* Returns the text of servers.conf. Caller frees. */
char *unbound_servers_render(
    const struct servers_file *file, const struct unbound_servers_conf *conf, size_t *len);

/* Whether a domain has tls:// servers. */
bool unbound_has_tls(const struct servers_file *file);

/*
 * Compares two plans. Returns the domains whose servers are not the same in both plans. For these
 * domains, the cache may have answers of the old servers. `*count` is the number of domains. Caller
 * frees the list, but not the names.
 */
const char **unbound_changed(
    const struct servers_file *before, const struct servers_file *after, size_t *count);

/* Parses the version in the output of `unbound -V`. Returns 12602 for 1.26.2, or 0. */
unsigned unbound_version_parse(const char *text);

#endif
