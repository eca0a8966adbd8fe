/*
 * The keys of the ConfigMap kube-system/kube-dns, each parsed and validated alone and whole:
 *
 *	stubDomains          {"acme.local": ["10.0.0.1", "[fd00::1]:5353", "ns.acme.example:53"]}
 *	upstreamNameservers  ["8.8.8.8", "[2001:db8::1]:53"]
 *	federations          name=domain,name=domain
 *
 * Pure: bytes in, a value or a reason out. `text` is untrusted: `len` bytes that may hold NULs. A
 * parser returns 0, or -EINVAL and in `*why` one line that says what is wrong and where (caller
 * frees; `why` must not be NULL); the result is then empty. A blank text is the empty value, as
 * `null` is: an operator who empties a key takes its entries away. The kubelet exchanges all keys of
 * a mounted ConfigMap at once, so a blank text is not a file that is just being written.
 */
#ifndef LIB_CONF_H
#define LIB_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum {
	CONF_UPSTREAMS_MAX = 15, /* kube-dns allowed 3 */
	CONF_STUBS_MAX =
	    20000, /* dnsmasq reads so many in about 20 ms, and stands still meanwhile */
	CONF_STUB_SERVERS_MAX = 16, /* of one domain */
	CONF_STUB_NAMES_MAX = 1000, /* servers given by name, in all */
	CONF_FEDERATIONS_MAX = 64,
	CONF_HOST_MAX = 254, /* text of a host or domain name, NUL included */
};

/* A server as it was written: a literal address, or a host name yet to be resolved. */
struct conf_server {
	char host[CONF_HOST_MAX]; /* lower case, no final dot; "" for an address */
	struct server server;     /* of a name, only the port is set */
};

/* One stub domain and its servers, duplicates removed, in the order written. */
struct conf_stub {
	char domain[CONF_HOST_MAX]; /* lower case, no final dot */
	struct conf_server *servers;
	size_t count; /* may be 0: such a domain is as if it were not there */
};

/* Stub domains in the order of their names, so that another order of the same object is no
 * change. */
struct conf_stubs {
	struct conf_stub *items;
	size_t count;
};

struct conf_upstreams {
	struct server servers[CONF_UPSTREAMS_MAX];
	size_t count;
};

struct conf_federation {
	char name[64];              /* one label, lower case */
	char domain[CONF_HOST_MAX]; /* lower case, no final dot */
};

struct conf_federations {
	struct conf_federation items[CONF_FEDERATIONS_MAX];
	size_t count;
};

/*
 * Parses stubDomains. `cluster_domain` (text, final dot or not) itself, `svc` and `pod` under it
 * and what is below those two are refused, and the root. Caller frees with conf_stubs_free.
 */
int conf_stubs_parse(
    const char *text, size_t len, const char *cluster_domain, struct conf_stubs *stubs, char **why);
void conf_stubs_free(struct conf_stubs *stubs);

/* What to say of the first domain without a server, which has no effect; NULL: each has one. Caller
 * frees. */
char *conf_stubs_empty(const struct conf_stubs *stubs);

/* Parses upstreamNameservers: addresses, ports optional, duplicates removed. */
int conf_upstreams_parse(
    const char *text, size_t len, struct conf_upstreams *upstreams, char **why);

/* Parses federations; blanks around names and an empty last item are allowed. */
int conf_federations_parse(
    const char *text, size_t len, struct conf_federations *federations, char **why);

/*
 * Parses one stub server: `ip`, `ip:port`, `[v6]:port`, `name`, `name:port`. 0, or -EINVAL and a
 * static reason in `why`.
 */
int conf_server_parse(const char *text, struct conf_server *server, const char **why);

/*
 * Copies `text` to `name` in lower case and without its final dot if it is a DNS name that is safe
 * in a configuration: labels of letters, digits, '-' and '_', no '-' at either end. 0, or -EINVAL
 * and a static reason in `why`.
 */
int conf_name_parse(const char *text, char name[CONF_HOST_MAX], const char **why);

/* Whether `name` is `zone` or below it; both without a final dot, any case. */
bool conf_name_under(const char *name, const char *zone);

/* Whether no server can have this address: unspecified, multicast, reserved, IPv4-mapped. `why`
 * then gets a static reason. */
bool conf_addr_useless(const struct addr *addr, const char **why);

#endif
