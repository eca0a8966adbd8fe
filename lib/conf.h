/*
 * The keys of the ConfigMap kube-system/kube-dns. Each key is parsed and validated alone, as a
 * whole:
 *
 *	stubDomains          {"acme.local": ["10.0.0.1", "[fd00::1]:5353", "ns.acme.example:53"]}
 *	upstreamNameservers  ["8.8.8.8", "[2001:db8::1]:53"]
 *	                     ["tls://9.9.9.9#dns.quad9.net", "tls://[2001:db8::1]:853#dns.example"]
 *	federations          name=domain,name=domain
 *
 * The parsers are pure: they take bytes and return a value or a reason. `text` is untrusted: `len`
 * bytes that may contain NULs. A parser returns 0 or -EINVAL. On failure the result is empty, and
 * `*why` is one line that says what is wrong and where. `why` must not be NULL; the caller frees
 * `*why`. A blank text means the empty value, like `null`. An operator who empties a key thus
 * removes its entries. A blank text is never a half-written file, because the kubelet replaces all
 * keys of a mounted ConfigMap at once.
 */
#ifndef LIB_CONF_H
#define LIB_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"

enum {
	CONF_UPSTREAMS_MAX = 15, /* name servers in the key; kube-dns allowed 3 */
	/* dnsmasq needs about 20 ms to read this number of stub domains. Meanwhile dnsmasq answers nothing. */
	CONF_STUBS_MAX = 20000,
	CONF_STUB_SERVERS_MAX = 16, /* per domain */
	CONF_STUB_NAMES_MAX = 1000, /* stub servers given by name, in total */
	CONF_FEDERATIONS_MAX = 64,
	CONF_HOST_MAX = 254, /* text of a host or domain name, including the NUL */
	CONF_SERVER_TEXT_MAX = 6 + SERVER_TEXT_MAX + CONF_HOST_MAX,
};

/* A server as written in the key. It is an address, or a host name that is not resolved yet. A
 * server with a `tls_name` must never get a query in plain text. */
struct conf_server {
	char host[CONF_HOST_MAX]; /* lower case, no final dot; "" for an address */
	struct server server;     /* with a host name, only the port is set */
	/* tls://: the name that the server's certificate must have, in the form of `host`; "": plain */
	char tls_name[CONF_HOST_MAX];
};

/* One stub domain and its servers, duplicates removed, in the order written. */
struct conf_stub {
	char domain[CONF_HOST_MAX]; /* lower case, no final dot */
	struct conf_server *servers;
	size_t count; /* 0 if the domain has no server. Unless it is closed, it has no effect */
	bool refused; /* some or all of the servers in the text were refused; `servers` are the
		       * others */
	bool closed;  /* its names get SERVFAIL (lib/conf_closed.h); it has no server */
	char *why;    /* why its first refused server or the domain is refused; NULL if unknown */
};

/* Stub domains, sorted by name. The same domains in another order are thus not a change. */
struct conf_stubs {
	struct conf_stub *items;
	size_t count;
	/* The text is refused and asks for TLS (lib/conf_closed.h). The domains are closed, or, with
	 * `closed_all`, all external names. */
	bool closed, closed_all;
	bool unnamed_tls; /* an entry whose domain cannot be read asks for TLS */
};

struct conf_upstreams {
	struct conf_server servers[CONF_UPSTREAMS_MAX];
	size_t count;
	bool closed; /* all external names get SERVFAIL (lib/conf_closed.h); there is no server */
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
 * Parses stubDomains. Each entry is parsed on its own: if some entries, or some servers of an entry, are
 * refused, the function returns 0, the others are in `stubs`, and `*why` has the first reason and the
 * number of further ones. A text that is not such an object, or exceeds a limit of the whole, is refused.
 *
 * Refuses the root, `cluster_domain` itself, and the names `svc` and `pod` in it. `cluster_domain` is text
 * with or without a final dot. Caller frees with conf_stubs_free.
 */
int conf_stubs_parse(
    const char *text, size_t len, const char *cluster_domain, struct conf_stubs *stubs, char **why);

/*
 * Completes a parsed value with `before`, the stub domains in force. If all servers of a domain are refused,
 * the domain keeps those that it has in `before`. If it has none there, it is closed: its names must not go
 * to the upstream servers.
 *
 * If `unnamed_tls` is set, the domains of `before` stay whose names must not be sent in plain text. If no
 * domain of `before` has a server, or `before` has `closed_all`, `closed_all` is set.
 */
void conf_stubs_settle(struct conf_stubs *stubs, const struct conf_stubs *before);

/* Returns the stub domain of this name (lower case, no final dot), or NULL. O(log n). */
struct conf_stub *conf_stubs_find(const struct conf_stubs *stubs, const char *domain);

/* Returns why `domain` cannot be a stub domain of this cluster, or NULL. */
const char *conf_stub_reserved(const char *domain, const char *cluster_domain);

void conf_stubs_free(struct conf_stubs *stubs);

/* Whether the domain has servers or is closed. A domain without effect is ignored. */
static inline bool
conf_stub_has_effect(const struct conf_stub *stub)
{
	return stub->count > 0 || stub->closed;
}

/* Whether the domain's names must not be sent in plain text. */
static inline bool
conf_stub_encrypts(const struct conf_stub *stub)
{
	return stub->closed || (stub->count > 0 && stub->servers[0].tls_name[0] != '\0');
}

/* Returns a message about the first domain that has no servers and therefore no effect, or NULL if
 * every domain has servers. Caller frees. */
char *conf_stubs_empty(const struct conf_stubs *stubs);

/* Parses upstreamNameservers: addresses with optional ports, or tls:// servers. `host` of each server
 * is "". Removes duplicates. */
int conf_upstreams_parse(
    const char *text, size_t len, struct conf_upstreams *upstreams, char **why);

/* Parses federations. Blanks around names and an empty last item are allowed. */
int conf_federations_parse(
    const char *text, size_t len, struct conf_federations *federations, char **why);

/*
 * Parses one server: `ip`, `ip:port`, `[v6]:port`, `name`, `name:port` or
 * `tls://ADDRESS[:PORT]#SERVER-NAME`. The default port is 53, or 853 for tls://. Returns 0, or
 * -EINVAL and a static reason in `why`.
 *
 * A list has either only tls:// servers or none. A resolver that fails over to a plain server would
 * send queries unencrypted that the operator wants encrypted.
 */
int conf_server_parse(const char *text, struct conf_server *server, const char **why);

/* Writes the server in the form that conf_server_parse reads, always with its port, to `text` of
 * CONF_SERVER_TEXT_MAX bytes; returns it. */
const char *conf_server_format(const struct conf_server *server, char *text);

bool conf_server_equal(const struct conf_server *a, const struct conf_server *b);

/* Returns why `program`, which cannot use TLS, cannot use these servers; NULL if none of them is a
 * tls:// server. Caller frees. */
char *conf_servers_no_tls(const struct conf_server *servers, size_t count, const char *program);

/* Returns a warning about the first server without tls:// at the port of DNS over TLS, or NULL. Caller
 * frees. */
char *conf_servers_tls_port(const struct conf_server *servers, size_t count);

/*
 * Copies `text` to `name`, in lower case and without the final dot. `text` must be a DNS name that
 * is safe in a configuration file: labels of letters, digits, '-' and '_', without '-' at either
 * end. Returns 0, or -EINVAL and a static reason in `why`.
 */
int conf_name_parse(const char *text, char name[CONF_HOST_MAX], const char **why);

/* Whether `name` is `zone` or below it. Both names have no final dot, and may be in any case. */
bool conf_name_under(const char *name, const char *zone);

/* Whether no server can have this address, because it is unspecified, multicast, reserved or
 * IPv4-mapped. If so, sets `why` to a static reason. */
bool conf_addr_useless(const struct addr *addr, const char **why);

#endif
