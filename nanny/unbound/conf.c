#include "nanny/unbound/conf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/xalloc.h"

/* The result for one of dnsmasq's arguments. */
enum meaning {
	SILENT, /* unbound does this anyway, or the nanny does it, or it does not matter */
	NUMBER, /* a number for `option` */
	SIZE,   /* a number that put_sizes() reads */
	OPTION, /* `option` as it stands */
	OWN,    /* see the code that reads it */
};

static const struct translation {
	const char *name;
	enum meaning meaning;
	const char *option;
} translations[] = {
	{ "port", OWN, NULL },
	{ "listen-address", OWN, NULL },
	{ "server", OWN, NULL },
	{ "local", OWN, NULL },
	{ "cache-size", OWN, NULL },
	{ "no-negcache", OPTION, "cache-max-negative-ttl: 0" },
	{ "neg-ttl", NUMBER, "cache-min-negative-ttl" },
	{ "max-cache-ttl", NUMBER, "cache-max-ttl" },
	{ "min-cache-ttl", NUMBER, "cache-min-ttl" },
	{ "dns-forward-max", SIZE, NULL },
	{ "max-tcp-connections", NUMBER, "incoming-num-tcp" },
	{ "edns-packet-max", NUMBER, "edns-buffer-size" },
	{ "log-queries", OPTION, "log-queries: yes" },
	{ "keep-in-foreground", SILENT, NULL },
	{ "conf-file", OWN, NULL },
	{ "pid-file", SILENT, NULL },
	{ "log-facility", SILENT, NULL },
	{ "no-resolv", SILENT, NULL },
	{ "no-poll", SILENT, NULL },
	{ "no-hosts", SILENT, NULL },
	{ "user", SILENT, NULL },
	{ "group", SILENT, NULL },
	{ "fast-dns-retry", SILENT, NULL },
	{ "all-servers", SILENT, NULL },
	{ "dns-loop-detect", SILENT, NULL },
	{ "use-stale-cache", SILENT, NULL },
	{ "strip-subnet", SILENT, NULL },
	{ "strip-mac", SILENT, NULL },
	{ "bind-interfaces", SILENT, NULL },
};

/* The zones that unbound answers itself by default. dnsmasq forwards them. */
static const char *const default_zones[] = { "localhost.", "127.in-addr.arpa.",
	"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa.", "home.arpa.",
	"service.arpa.", "resolver.arpa.", "test.", "onion.", "invalid." };

static const struct translation *
translation_of(const char *name)
{
	for (size_t i = 0; i < sizeof translations / sizeof *translations; i++)
		if (strcmp(translations[i].name, name) == 0)
			return &translations[i];
	return NULL;
}

/* Returns the number in the last argument of this name, or -1. */
static long
number_of(const struct args *args, const char *name)
{
	long found = -1;

	for (size_t i = 0; i < args->given_count; i++) {
		const char *value = args->given[i].value;

		if (strcmp(args->given[i].name, name) == 0 && *value != '\0' &&
		    strspn(value, "0123456789") == strlen(value) && strlen(value) < 10)
			found = strtol(value, NULL, 10);
	}
	return found;
}

static void
add_warning(char ***warnings, size_t *count, char *taken)
{
	*warnings = xreallocarray(*warnings, *count + 1, sizeof **warnings);
	(*warnings)[(*count)++] = taken;
}

static void
put_arguments(FILE *out, const struct args *args, char ***warnings, size_t *count)
{
	for (size_t i = 0; i < args->given_count; i++) {
		const struct arg *arg = &args->given[i];
		const struct translation *t = translation_of(arg->name);
		bool bad = t != NULL && (t->meaning == NUMBER || t->meaning == SIZE) &&
			   number_of(args, arg->name) < 0;

		if (t == NULL || (strcmp(arg->name, "conf-file") == 0 && *arg->value != '\0' &&
				     strcmp(arg->value, "/dev/null") != 0))
			add_warning(warnings, count,
			    xasprintf("dnsmasq argument %s%s: ignored: unbound has no such option: "
				      "remove it, or use --engine=dnsmasq",
				arg->name[1] != '\0' ? "--" : "-", arg->name));
		else if (bad)
			add_warning(warnings, count,
			    xasprintf("dnsmasq argument --%s=%s: ignored: not a number", arg->name,
				arg->value));
		else if (t->meaning == OPTION)
			fprintf(out, "\t%s\n", t->option);
	}
	for (size_t i = 0; i < sizeof translations / sizeof *translations; i++) {
		const struct translation *t = &translations[i];
		long number = t->meaning == NUMBER ? number_of(args, t->name) : -1;

		if (number >= 0)
			fprintf(out, "\t%s: %ld\n", t->option, number);
	}
}

static double
between(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

/*
 * The cache gets half of the memory. unbound's own figures are for the data alone, and the memory
 * allocator needs about as much again. An operator's --cache-size counts names. --dns-forward-max can
 * only lower the number of queries that fits the memory: the manifests set it for dnsmasq, where a
 * query takes an eighth of the memory.
 */
static void
put_sizes(FILE *out, const struct unbound_conf *conf)
{
	const struct args *args = conf->args;
	long names = number_of(args, "cache-size"),
	     forward_max = number_of(args, "dns-forward-max");
	double cache = conf->memory > 0 ? conf->memory / 2 : UNBOUND_CACHE_DEFAULT;
	double tcp = conf->memory > 0 ? conf->memory / 8 / UNBOUND_TCP_BYTES / conf->threads
				      : UNBOUND_TCP_MAX;
	double queries = conf->memory > 0 ? conf->memory / 4 / UNBOUND_QUERIES_BYTES / conf->threads
					  : UNBOUND_QUERIES;

	if (names > 0 && conf->memory <= 0)
		cache = (double)names * UNBOUND_CACHE_BYTES;
	cache = between(cache, UNBOUND_CACHE_MIN, UNBOUND_CACHE_MAX);
	fprintf(
	    out, "\trrset-cache-size: %.0f\n\tmsg-cache-size: %.0f\n", cache * 2 / 3, cache / 3);
	fprintf(out, "\tkey-cache-size: %.0f\n\tneg-cache-size: %.0f\n", cache / 16, cache / 16);
	fprintf(out, "\tinfra-cache-numhosts: 1000\n");
	queries = between(queries, 256, UNBOUND_QUERIES);
	if (forward_max >= 0 && (conf->memory <= 0 || (double)forward_max < queries))
		queries = (double)forward_max;
	fprintf(out, "\tnum-queries-per-thread: %.0f\n", queries);
	fprintf(out, "\toutgoing-range: %.0f\n", queries * 2);
	if (!args_has(args, "max-tcp-connections"))
		fprintf(out, "\tincoming-num-tcp: %.0f\n",
		    between(tcp, UNBOUND_TCP_MIN, UNBOUND_TCP_MAX));
	fprintf(out, "\toutgoing-num-tcp: 64\n");
	if (names == 0) /* no cache */
		fputs("\tcache-max-ttl: 0\n\tcache-max-negative-ttl: 0\n", out);
	else
		fputs("\tserve-expired: yes\n\tprefetch: yes\n", out);
	if (!args_has(args, "max-cache-ttl") && names != 0)
		fputs("\tcache-max-ttl: 86400\n", out);
}

static void
put_addresses(FILE *out, const struct args *args)
{
	char text[ADDR_TEXT_MAX];

	fprintf(out, "\tport: %u\n", args->port);
	for (size_t i = 0; i < args->listen_count; i++)
		fprintf(out, "\tinterface: %s\n", addr_format(&args->listen[i], text));
	if (args->listen_count == 0) /* answers come from the address that the client used */
		fputs("\tinterface-automatic: yes\n", out);
}

/* What holds for every unbound of the nanny. */
static const char fixed_part[] =
    "\tdo-daemonize: no\n"
    "\tusername: \"\"\n"
    "\tchroot: \"\"\n"
    "\tdirectory: \"\"\n"
    "\tpidfile: \"\"\n"
    "\tuse-syslog: no\n"
    "\tlogfile: \"\"\n"
    "\tso-reuseport: yes\n"
    "\textended-statistics: yes\n"
    /* Pods may ask for anything, also without RD. */
    "\taccess-control: 0.0.0.0/0 allow_snoop\n"
    "\taccess-control: ::/0 allow_snoop\n"
    /* kubedns and the marker's server have loopback addresses. */
    "\tdo-not-query-localhost: no\n"
    "\tunblock-lan-zones: yes\n"
    "\tinsecure-lan-zones: yes\n"
    "\tqname-minimisation: no\n"
    "\ttarget-fetch-policy: \"0 0 0 0 0\"\n"
    "\tedns-buffer-size: 1232\n"
    "\tmax-udp-size: 4096\n"
    /* Stale answers, RFC 8767: after 1.2 s without a fresh one, for at most a day, with EDE 3. In
     * front, kubedns waits 1.8 s for unbound. */
    "\tserve-expired-ttl: 86400\n"
    "\tserve-expired-client-timeout: 1200\n"
    "\tserve-expired-reply-ttl: 30\n"
    "\tede: yes\n"
    "\tede-serve-expired: yes\n"
    /* A late answer is better than none: the resolver of a pod waits 5 s. */
    "\tdiscard-timeout: 5000\n"
    /*
     * 99 % of the queries go to the fastest server. The others go to a server whose time is at most
     * 400 ms above the best one. A timeout is at least 120 ms, and doubles when a query gets no
     * answer. So a server that becomes silent costs a query at most 120 + 240 ms, and then gets few
     * queries. unbound forgets this after 2 s, or when the nanny says that a server answers again.
     * Then unknown-server-time-limit decides (unbound_servers_render).
     *
     * unbound counts a query without an answer against the upstream server, although the name's own
     * servers may be silent. Anybody can send such names. When a server's timeout is 12 s, or
     * infra-cache-max-rtt if that is less, unbound sends it no more queries. If this happens to all
     * servers, the names of all clients get SERVFAIL. So infra-cache-max-rtt has its default, 120 s,
     * and unbound forgets the timeout before it is that long.
     */
    "\tfast-server-num: 1\n"
    "\tfast-server-permil: 990\n"
    "\tinfra-cache-min-rtt: 120\n"
    "\tinfra-host-ttl: 2\n"
    /* With one attempt, names of a server that answers after 200 ms got SERVFAIL. */
    "\toutbound-msg-retry: 4\n"
    "\tjostle-timeout: 1000\n";

char *
unbound_conf_render(
    const struct unbound_conf *conf, char ***warnings, size_t *warning_count, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (out == NULL)
		abort();
	*warnings = NULL;
	*warning_count = 0;
	fprintf(out, "server:\n%s", fixed_part);
	put_addresses(out, conf->args);
	fprintf(out, "\tnum-threads: %u\n", conf->threads);
	fprintf(out, "\tso-rcvbuf: %d\n", conf->receive_buffer);
	fprintf(out, "\tmodule-config: \"%s%siterator\"\n", conf->dns64 != NULL ? "dns64 " : "",
	    conf->validate ? "validator " : "");
	if (conf->dns64 != NULL)
		fprintf(out, "\tdns64-prefix: %s\n", conf->dns64);
	if (conf->validate)
		fputs("\ttrust-anchor-file: \"" UNBOUND_TRUST_ANCHOR "\"\n", out);
	fprintf(out, "\tlocal-data: '%s. 0 IN TXT \"%s\"'\n", SERVERS_VALIDATION,
	    conf->validate        ? "validate"
	    : conf->dns64 != NULL ? "dns64"
				  : "off");
	fprintf(out, "\twait-limit: %d\n", UNBOUND_CLIENT_WAITS);
	put_sizes(out, conf);
	for (size_t i = 0; i < sizeof default_zones / sizeof *default_zones; i++)
		fprintf(out, "\tlocal-zone: \"%s\" nodefault\n", default_zones[i]);
	put_arguments(out, conf->args, warnings, warning_count);
	fprintf(out,
	    "remote-control:\n\tcontrol-enable: yes\n\tcontrol-interface: \"%s/" UNBOUND_CONTROL_DIR
	    "/control\"\n"
	    "include: \"%s/servers.conf\"\n",
	    conf->dir, conf->dir);
	fclose(out);
	return text;
}

/* Adds the servers of `from` to the entry of the same domain. Entries for the names below a domain
 * come last, and are skipped if the domain has an entry. */
static void
merge(struct domain_table *to, const struct domain_table *from, bool below, size_t *merged)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct domain_servers *entry = &from->items[i];
		const char *domain = entry->domain;

		if ((strncmp(domain, "*.", 2) == 0) != below)
			continue;
		if (below && domain_table_get(to, domain + 2) != NULL) {
			++*merged;
			continue;
		}
		struct domain_servers *at = domain_table_add(to, domain + (below ? 2 : 0));
		for (size_t k = 0; k < entry->count; k++)
			domain_servers_add_tls(at, &entry->servers[k],
			    entry->tls_names != NULL ? entry->tls_names[k] : "");
		at->closed |= entry->closed;
	}
}

static int
compare(const struct domain_servers *entry, size_t a, size_t b)
{
	const struct server *x = &entry->servers[a], *y = &entry->servers[b];
	int order = x->addr.family - y->addr.family;

	if (order == 0)
		order = memcmp(x->addr.bytes, y->addr.bytes, sizeof x->addr.bytes);
	if (order == 0)
		order = x->port - y->port;
	return order == 0 && entry->tls_names != NULL
		   ? strcmp(entry->tls_names[a], entry->tls_names[b])
		   : order;
}

/* Sorts the servers of a domain. unbound chooses among them itself, so another order is no change. A
 * domain has at most DOMAIN_SERVERS_MAX servers. */
static void
sort_servers(struct domain_servers *entry)
{
	for (size_t i = 1; i < entry->count; i++)
		for (size_t k = i; k > 0 && compare(entry, k, k - 1) < 0; k--) {
			struct server server = entry->servers[k];

			entry->servers[k] = entry->servers[k - 1];
			entry->servers[k - 1] = server;
			if (entry->tls_names == NULL)
				continue;
			char *name = entry->tls_names[k];
			entry->tls_names[k] = entry->tls_names[k - 1];
			entry->tls_names[k - 1] = name;
		}
}

struct servers_file
unbound_plan(const struct domain_table *wanted, const struct domain_table *fixed, size_t *merged)
{
	struct domain_table all = { 0 };

	*merged = 0;
	domain_table_add(&all, "");
	for (int below = 0; below <= 1; below++) {
		merge(&all, wanted, below, merged);
		merge(&all, fixed, below, merged);
	}
	struct servers_file file = { .items = xcalloc(all.count + 1, sizeof *file.items) };
	for (size_t i = 0; i < all.count; i++) {
		struct domain_servers *entry = &all.items[i];
		bool local =
		    entry->domain[0] == '\0' || domain_table_get(fixed, entry->domain) != NULL;

		if (entry->count == 0 && !local)
			continue;
		sort_servers(entry);
		file.items[file.count++] = (struct servers_domain){ .domain = entry->domain,
			.lines = entry->servers,
			.tls_names = entry->tls_names,
			.count = entry->count };
		*entry = (struct domain_servers){ 0 }; /* the plan has taken everything */
	}
	domain_table_free(&all);
	return file;
}

/*
 * Clients' names without servers. unbound refuses all names if there are no upstream servers, except
 * names in a zone of type "transparent". A domain of --local=/domain/ does not exist. unbound's own
 * queries do not pass local zones.
 */
static void
put_local_zones(FILE *out, const struct servers_file *file)
{
	bool refuse =
	    file->count > 0 && file->items[0].domain[0] == '\0' && file->items[0].count == 0;

	if (refuse)
		fprintf(out, "\tlocal-zone: \".\" refuse\n\tlocal-zone: \"%s.\" transparent\n",
		    SERVERS_MARKER);
	for (size_t i = 0; i < file->count; i++) {
		const struct servers_domain *domain = &file->items[i];

		if (domain->domain[0] != '\0' && (refuse || domain->count == 0))
			fprintf(out, "\tlocal-zone: \"%s.\" %s\n", domain->domain,
			    domain->count == 0 ? "static" : "transparent");
	}
}

static void
put_zone(FILE *out, const struct servers_domain *domain, const struct server *nobody)
{
	char text[ADDR_TEXT_MAX];
	bool tls = domain->tls_names != NULL;

	fprintf(out, "forward-zone:\n\tname: \"%s.\"\n", domain->domain);
	if (domain->count == 0)
		fprintf(
		    out, "\tforward-addr: %s@%u\n", addr_format(&nobody->addr, text), nobody->port);
	if (tls)
		fputs("\tforward-tls-upstream: yes\n", out);
	for (size_t i = 0; i < domain->count; i++)
		fprintf(out, "\tforward-addr: %s@%u%s%s\n",
		    addr_format(&domain->lines[i].addr, text), domain->lines[i].port,
		    tls ? "#" : "", tls ? domain->tls_names[i] : "");
}

/* Whether the upstream servers speak TLS, and so do all servers of other domains, except kubedns on
 * this host. */
static bool
all_tls(const struct servers_file *file)
{
	static const struct addr loopback = { AF_INET, { 127 } },
				 loopback6 = { AF_INET6, { [15] = 1 } };

	for (size_t i = 0; i < file->count; i++) {
		const struct servers_domain *domain = &file->items[i];
		bool upstream = domain->domain[0] == '\0';

		for (size_t k = 0; k < domain->count && domain->tls_names == NULL; k++)
			if (upstream || !(addr_in_prefix(&domain->lines[k].addr, &loopback, 8) ||
					    addr_equal(&domain->lines[k].addr, &loopback6)))
				return false;
	}
	return unbound_has_tls(file);
}

char *
unbound_servers_render(
    const struct servers_file *file, const struct unbound_servers_conf *conf, size_t *len)
{
	char *text = NULL, addr[ADDR_TEXT_MAX];
	FILE *out = open_memstream(&text, len);

	if (out == NULL)
		abort();
	fputs("server:\n", out);
	if (conf->bundle != NULL)
		fprintf(out, "\ttls-cert-bundle: \"%s\"\n", conf->bundle);
	fprintf(
	    out, "\ttcp-auth-query-timeout: %d\n", all_tls(file) ? UNBOUND_TLS_MS : UNBOUND_TCP_MS);
	fprintf(out, "\tunknown-server-time-limit: %d\n",
	    unbound_has_tls(file) ? UNBOUND_UNKNOWN_TLS_MS : UNBOUND_UNKNOWN_MS);
	put_local_zones(out, file);
	for (size_t i = 0; i < file->count && conf->validate; i++)
		if (file->items[i].count > 0 && file->items[i].domain[0] != '\0')
			fprintf(out, "\tdomain-insecure: \"%s.\"\n", file->items[i].domain);
	if (conf->validate && conf->port != 0)
		fprintf(out, "\tdomain-insecure: \"%s.\"\n", SERVERS_MARKER);
	for (size_t i = 0; i < file->count; i++)
		put_zone(out, &file->items[i], &conf->nobody);
	if (conf->port != 0) {
		struct addr marker = servers_generation_addr(conf->generation);

		fprintf(out, "forward-zone:\n\tname: \"%s.\"\n\tforward-addr: %s@%u\n",
		    SERVERS_MARKER, addr_format(&marker, addr), conf->port);
	}
	fclose(out);
	return text;
}

const char **
unbound_changed(const struct servers_file *before, const struct servers_file *after, size_t *count)
{
	const char **domains = xcalloc(before->count + after->count + 1, sizeof *domains);

	*count = 0;
	for (size_t b = 0, a = 0; b < before->count || a < after->count;) {
		const struct servers_domain *old = b < before->count ? &before->items[b] : NULL;
		const struct servers_domain *new = a < after->count ? &after->items[a] : NULL;

		assert(old != NULL || new != NULL);
		int order = old == NULL ? 1 : new == NULL ? -1 : strcmp(old->domain, new->domain);
		assert(order <= 0 ? old != NULL : new != NULL);
		if (order < 0)
			domains[(*count)++] = old->domain;
		else if (order > 0)
			domains[(*count)++] = new->domain;
		else if (new != NULL && !servers_domain_equal(old, new))
			domains[(*count)++] = new->domain;
		b += order <= 0;
		a += order >= 0;
	}
	return domains;
}

bool
unbound_has_tls(const struct servers_file *file)
{
	for (size_t i = 0; i < file->count; i++)
		if (file->items[i].tls_names != NULL)
			return true;
	return false;
}

unsigned
unbound_version_parse(const char *text)
{
	unsigned major, minor, patch;

	if (sscanf(text, "Version %2u.%2u.%2u", &major, &minor, &patch) != 3)
		return 0;
	return major * 10000 + minor * 100 + patch;
}
