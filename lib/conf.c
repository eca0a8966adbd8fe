#include "lib/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/conf_closed.h"
#include "lib/conf_text.h"
#include "lib/xalloc.h"

enum { TLS_PORT = 853 /* RFC 7858 */ };

/* --- names, addresses and servers --- */

int
conf_name_parse(const char *text, char name[CONF_HOST_MAX], const char **why)
{
	size_t len = strlen(text);

	if (len > 0 && text[len - 1] == '.')
		len--;
	*why = "not a domain name";
	if (len == 0) {
		*why = "the root";
		return -EINVAL;
	}
	if (len >= CONF_HOST_MAX) {
		*why = "longer than 253 bytes";
		return -EINVAL;
	}
	size_t label = 0;
	for (size_t i = 0; i <= len; i++) {
		char c = i == len ? '.' : text[i];

		if (c == '.') {
			size_t label_len = i - label;

			if (label_len == 0 || label_len > 63 || text[label] == '-' ||
			    text[i - 1] == '-')
				return -EINVAL;
			label = i + 1;
		} else if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		else if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
			return -EINVAL;
		name[i] = c;
	}
	name[len] = '\0';
	return 0;
}

bool
conf_name_under(const char *name, const char *zone)
{
	size_t name_len = strlen(name), zone_len = strlen(zone);

	if (name_len < zone_len || strcasecmp(name + name_len - zone_len, zone) != 0)
		return false;
	return zone_len == 0 || name_len == zone_len || name[name_len - zone_len - 1] == '.';
}

bool
conf_addr_useless(const struct addr *addr, const char **why)
{
	static const uint8_t zero[16], mapped[12] = { [10] = 0xff, 0xff };
	const uint8_t *b = addr->bytes;
	bool v4 = addr->family == AF_INET;

	if (memcmp(b, zero, addr_len(addr)) == 0)
		*why = "the unspecified address";
	else if (v4 && b[0] == 0)
		*why = "not a host's address";
	else if (v4 ? b[0] >= 224 && b[0] < 240 : b[0] == 0xff)
		*why = "a multicast address";
	else if (v4 && b[0] >= 240)
		*why = "a reserved address";
	else if (!v4 && memcmp(b, mapped, 12) == 0)
		*why = "an IPv4 address in IPv6 form: write it as IPv4";
	else
		return false;
	return true;
}

/* Whether `text` looks like a malformed address, because its last label is a number or it has too
 * many colons. */
static bool
meant_as_address(const char *text)
{
	if (strchr(text, '[') != NULL || strchr(text, ']') != NULL || strchr(text, '#') != NULL ||
	    strstr(text, "://") != NULL)
		return true;
	const char *colon = strchr(text, ':');
	if (colon != NULL && strchr(colon + 1, ':') != NULL)
		return true;
	size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
	if (len > 0 && text[len - 1] == '.')
		len--;
	size_t digits = 0;
	while (digits < len && text[len - 1 - digits] >= '0' && text[len - 1 - digits] <= '9')
		digits++;
	return digits > 0 && (digits == len || text[len - 1 - digits] == '.');
}

static int
parse_port(const char *text, uint16_t *port)
{
	unsigned long n = 0;
	size_t len = strlen(text);

	if (len == 0 || len > 5 || text[0] == '0')
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		n = n * 10 + (unsigned long)(text[i] - '0');
	}
	if (n > 65535)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

/* Parses ADDRESS[:PORT]#SERVER-NAME. */
static int
parse_tls(const char *text, struct conf_server *server, const char **why)
{
	char address[SERVER_TEXT_MAX];
	const char *name = strchr(text, '#'), *ignored;
	size_t len = strcspn(text, "#");
	struct addr addr;

	*why = "the server name is missing: write tls://ADDRESS#SERVER-NAME, with the name in the "
	       "server's certificate";
	if (name == NULL || name[1] == '\0')
		return -EINVAL;
	*why = "not tls://ADDRESS#SERVER-NAME: the address is missing";
	if (len == 0)
		return -EINVAL;
	*why = "not an address: write tls://ADDRESS#SERVER-NAME, such as "
	       "tls://10.0.0.10#dns.example.org";
	if (len >= sizeof address)
		return -EINVAL;
	memcpy(address, text, len);
	address[len] = '\0';
	*why = "an IPv6 address needs brackets: write tls://[ADDRESS]#SERVER-NAME";
	if (address[0] != '[' && strchr(address, ':') != strrchr(address, ':'))
		return -EINVAL;
	if (server_parse(address, TLS_PORT, &server->server, why) < 0 ||
	    conf_addr_useless(&server->server.addr, why))
		return -EINVAL;
	*why = "the server name is an address: write a name in the server's certificate";
	if (addr_parse(name + 1, &addr) == 0)
		return -EINVAL;
	*why = "the server name is not a domain name";
	return conf_name_parse(name + 1, server->tls_name, &ignored);
}

/* Parses an address with an optional port, or a tls:// server. */
static int
parse_address(const char *text, struct conf_server *server, const char **why)
{
	static const char scheme[] = "tls://";

	*server = (struct conf_server){ .host = "" };
	if (strncmp(text, scheme, sizeof scheme - 1) == 0)
		return parse_tls(text + sizeof scheme - 1, server, why);
	*why = "only tls:// is supported: write ADDRESS, ADDRESS:PORT or tls://ADDRESS#SERVER-NAME";
	if (strstr(text, "://") != NULL)
		return -EINVAL;
	return server_parse(text, 53, &server->server, why);
}

int
conf_server_parse(const char *text, struct conf_server *server, const char **why)
{
	if (parse_address(text, server, why) == 0)
		return conf_addr_useless(&server->server.addr, why) ? -EINVAL : 0;
	if (meant_as_address(text))
		return -EINVAL; /* server_parse set the reason */
	char host[CONF_HOST_MAX + 1];
	size_t len = strcspn(text, ":");
	server->server = (struct server){ .port = 53 };
	*why = "port out of range, 1 to 65535";
	if (text[len] == ':' && parse_port(text + len + 1, &server->server.port) < 0)
		return -EINVAL;
	*why = "not an address or host name";
	if (len == 0 || len >= sizeof host)
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	const char *ignored;
	return conf_name_parse(host, server->host, &ignored);
}

const char *
conf_server_format(const struct conf_server *server, char *text)
{
	char address[SERVER_TEXT_MAX];

	if (server->host[0] != '\0')
		snprintf(text, CONF_SERVER_TEXT_MAX, "%s:%u", server->host, server->server.port);
	else
		snprintf(text, CONF_SERVER_TEXT_MAX, "%s%s%s%s",
		    server->tls_name[0] ? "tls://" : "", server_format(&server->server, address),
		    server->tls_name[0] ? "#" : "", server->tls_name);
	return text;
}

bool
conf_server_equal(const struct conf_server *a, const struct conf_server *b)
{
	if (strcmp(a->host, b->host) != 0 || strcmp(a->tls_name, b->tls_name) != 0)
		return false;
	return a->host[0] ? a->server.port == b->server.port : server_equal(&a->server, &b->server);
}

char *
conf_servers_no_tls(const struct conf_server *servers, size_t count, const char *program)
{
	char text[CONF_SERVER_TEXT_MAX];

	for (size_t i = 0; i < count; i++)
		if (servers[i].tls_name[0] != '\0')
			return xasprintf("\"%s\": %s cannot encrypt queries: run the nanny with "
					 "--engine=unbound, or remove tls:// and the server name",
			    conf_server_format(&servers[i], text), program);
	return NULL;
}

char *
conf_servers_tls_port(const struct conf_server *servers, size_t count)
{
	char text[CONF_SERVER_TEXT_MAX];

	for (size_t i = 0; i < count; i++)
		if (servers[i].tls_name[0] == '\0' && servers[i].server.port == TLS_PORT)
			return xasprintf(
			    "\"%s\": queries to this server are not encrypted, although "
			    "%d is the port of DNS over TLS: to encrypt them, write "
			    "tls://ADDRESS#SERVER-NAME",
			    conf_server_format(&servers[i], text), TLS_PORT);
	return NULL;
}

/* Whether the list would have plain servers and tls:// servers. */
static bool
is_mixed(const struct conf_server *servers, size_t count, const struct conf_server *server)
{
	return count > 0 && (servers[0].tls_name[0] == '\0') != (server->tls_name[0] == '\0');
}

static const char mixed[] =
    "plain servers and tls:// servers in one list: an engine that fails over "
    "would send queries unencrypted; use one kind";

/* --- stubDomains --- */

/* Appends the server unless it is a duplicate. Returns false if the stub domain has too many servers. */
static bool
add_server(struct conf_stub *stub, const struct conf_server *server)
{
	for (size_t i = 0; i < stub->count; i++)
		if (conf_server_equal(&stub->servers[i], server))
			return true;
	if (stub->count == CONF_STUB_SERVERS_MAX)
		return false;
	stub->servers = xreallocarray(stub->servers, stub->count + 1, sizeof *stub->servers);
	stub->servers[stub->count++] = *server;
	return true;
}

/* The refused entries of a text: the first reason, and how many there are. */
struct refusals {
	char *first;
	size_t count;
};

/* Takes a reason. */
static void
refusals_add(struct refusals *refusals, char *why)
{
	if (refusals->count++ == 0)
		refusals->first = why;
	else
		free(why);
}

/* Takes a reason to refuse a server of the domain, or the domain. */
static void
refuse_stub(struct conf_stub *stub, struct refusals *refusals, char *why)
{
	stub->refused = true;
	if (stub->why == NULL)
		stub->why = xstrdup(why);
	refusals_add(refusals, why);
}

/* Parses server `i` of the array. Returns the reason why it is refused (caller frees), or NULL. */
static char *
parse_stub_server(
    const char *domain, size_t i, struct json_object *item, struct conf_server *server)
{
	const char *reason;
	char place[32], *why;

	snprintf(place, sizeof place, "[%zu]", i);
	if (!json_object_is_type(item, json_type_string)) {
		conf_refuse(&why, domain, place, "not a string");
		return why;
	}
	if (conf_server_parse(json_object_get_string(item), server, &reason) == 0)
		return NULL;
	char *quoted = conf_quote(domain);
	char *where = xasprintf(" (server %zu of %s)", i + 1, quoted);
	conf_refuse(&why, json_object_get_string(item), where, reason);
	free(quoted);
	free(where);
	return why;
}

/* Removes plain servers from a list that asks for TLS: it cannot mix both kinds, and plain servers must not
 * replace a refused server that asks for TLS. Returns the reason (caller frees), or NULL. */
static char *
refuse_mixed(const char *domain, struct conf_stub *stub, bool asks_tls)
{
	size_t kept = 0;
	bool plain = false;

	for (size_t i = 0; i < stub->count; i++) {
		asks_tls |= stub->servers[i].tls_name[0] != '\0';
		plain |= stub->servers[i].tls_name[0] == '\0';
	}
	if (!asks_tls || !plain)
		return NULL;
	for (size_t i = 0; i < stub->count; i++)
		if (stub->servers[i].tls_name[0] != '\0')
			stub->servers[kept++] = stub->servers[i];
	stub->count = kept;
	char *why;
	conf_refuse(&why, domain, "", mixed);
	return why;
}

/* Parses the servers of a domain. The good ones take effect. */
static void
parse_stub_servers(const char *domain, struct json_object *array, struct conf_stub *stub,
    struct refusals *refusals)
{
	bool asks_tls = false;
	char *why;

	if (array == NULL)
		return;
	if (!json_object_is_type(array, json_type_array)) {
		conf_refuse(&why, domain, "",
		    "its servers must be an array of strings, such as [\"10.0.0.1\"]");
		refuse_stub(stub, refusals, why);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(array); i++) {
		struct json_object *item = json_object_array_get_idx(array, i);
		struct conf_server server;

		why = parse_stub_server(domain, i, item, &server);
		if (why == NULL && !add_server(stub, &server))
			conf_refuse(&why, domain, "", "more than 16 servers");
		if (why == NULL)
			continue;
		const char *text = json_object_get_string(item);
		asks_tls |= text != NULL && conf_asks_tls(text, strlen(text));
		refuse_stub(stub, refusals, why);
	}
	if ((why = refuse_mixed(domain, stub, asks_tls)) != NULL)
		refuse_stub(stub, refusals, why);
}

const char *
conf_stub_reserved(const char *domain, const char *cluster_domain)
{
	char cluster[CONF_HOST_MAX], below[CONF_HOST_MAX + 4];
	const char *why;

	if (conf_name_parse(cluster_domain, cluster, &why) < 0)
		return NULL;
	if (strcmp(domain, cluster) == 0)
		return "is the cluster domain, which kubedns answers: remove it";
	snprintf(below, sizeof below, "svc.%s", cluster);
	if (strcmp(domain, below) == 0)
		return "holds the cluster's services";
	snprintf(below, sizeof below, "pod.%s", cluster);
	return strcmp(domain, below) == 0 ? "holds the cluster's pods" : NULL;
}

/* Parses one entry and appends it, unless its domain is refused. */
static void
parse_stub(const char *name, struct json_object *servers, const char *cluster,
    struct conf_stubs *stubs, struct refusals *refusals)
{
	struct conf_stub stub = { .domain = "" };
	const char *reason;
	bool is_name = conf_name_parse(name, stub.domain, &reason) == 0;

	if (is_name && (reason = conf_stub_reserved(stub.domain, cluster)) == NULL) {
		parse_stub_servers(name, servers, &stub, refusals);
		stubs->items[stubs->count++] = stub;
		return;
	}
	char *why;
	conf_refuse(&why, name, "", reason);
	refusals_add(refusals, why);
	const char *text = json_object_to_json_string(servers);
	stubs->unnamed_tls |= !is_name && conf_asks_tls(text, strlen(text));
}

static int
stub_order(const void *a, const void *b)
{
	return strcmp(((const struct conf_stub *)a)->domain, ((const struct conf_stub *)b)->domain);
}

static int
find_order(const void *domain, const void *stub)
{
	return strcmp(domain, ((const struct conf_stub *)stub)->domain);
}

struct conf_stub *
conf_stubs_find(const struct conf_stubs *stubs, const char *domain)
{
	return stubs->count == 0
		   ? NULL
		   : bsearch(domain, stubs->items, stubs->count, sizeof *stubs->items, find_order);
}

/* Refuses the servers of each domain that occurs twice in any spelling. */
static void
refuse_twice(struct conf_stubs *stubs, struct refusals *refusals)
{
	size_t kept = 0;

	qsort(stubs->items, stubs->count, sizeof *stubs->items, stub_order);
	for (size_t i = 0; i < stubs->count; i++) {
		struct conf_stub *stub = &stubs->items[i], *last = &stubs->items[kept - (kept > 0)];
		char *why;

		if (kept == 0 || strcmp(stub->domain, last->domain) != 0) {
			stubs->items[kept++] = *stub;
			continue;
		}
		conf_refuse(&why, stub->domain, "", "is given twice");
		free(stub->servers);
		free(stub->why);
		last->count = 0;
		refuse_stub(last, refusals, why);
	}
	stubs->count = kept;
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of two members with the same name, json-c keeps the last one, so neither may be used. Finds these names
 * in the text. */
static void
refuse_members_twice(
    const char *text, size_t len, struct conf_stubs *stubs, struct refusals *refusals)
{
	char **names;
	size_t count = conf_json_names(text, len, &names);

	qsort(names, count, sizeof *names, by_text);
	for (size_t i = 1; i < count; i++) {
		char domain[CONF_HOST_MAX];
		const char *ignored;
		char *why;

		if (strcmp(names[i], names[i - 1]) != 0 ||
		    (i > 1 && strcmp(names[i], names[i - 2]) == 0))
			continue;
		conf_refuse(&why, names[i], "", "is given twice");
		struct conf_stub *stub = NULL;
		if (conf_name_parse(names[i], domain, &ignored) < 0)
			stubs->unnamed_tls |= conf_asks_tls(text, len);
		else
			stub = conf_stubs_find(stubs, domain);
		if (stub == NULL) {
			refusals_add(refusals, why);
			continue;
		}
		stub->count = 0;
		refuse_stub(stub, refusals, why);
	}
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

static int
check_names(const struct conf_stubs *stubs, char **why)
{
	size_t names = 0;

	for (size_t i = 0; i < stubs->count; i++)
		for (size_t k = 0; k < stubs->items[i].count; k++)
			names += stubs->items[i].servers[k].host[0] != '\0';
	return names > CONF_STUB_NAMES_MAX
		   ? conf_refuse_plain(why, "more than 1000 servers given by name")
		   : 0;
}

/* Parses each entry on its own. Sets `why` to the reason of the first refused entry. Returns -EINVAL if the
 * whole text is refused. */
static int
fill_stubs(struct json_object *object, const char *text, size_t len, const char *cluster,
    struct conf_stubs *stubs, char **why)
{
	struct refusals refusals = { 0 };

	stubs->items = xcalloc((size_t)json_object_object_length(object) + 1, sizeof *stubs->items);
	json_object_object_foreach(object, name, servers)
	{
		parse_stub(name, servers, cluster, stubs, &refusals);
	}
	refuse_twice(stubs, &refusals);
	if (conf_json_scan(text, len).members != (size_t)json_object_object_length(object))
		refuse_members_twice(text, len, stubs, &refusals);
	if (check_names(stubs, why) < 0) {
		free(refusals.first);
		return -EINVAL;
	}
	if (refusals.count > 1) {
		*why = xasprintf("%s; %zu more", refusals.first, refusals.count - 1);
		free(refusals.first);
	} else {
		*why = refusals.first;
	}
	return 0;
}

int
conf_stubs_parse(
    const char *text, size_t len, const char *cluster_domain, struct conf_stubs *stubs, char **why)
{
	struct json_object *object;

	*stubs = (struct conf_stubs){ 0 };
	*why = NULL;
	int rc = conf_json_parse(text, len, '{',
	    "must be a JSON object of domains, such as {\"acme.local\": [\"10.0.0.1\"]}", &object,
	    why);
	if (rc < 0 || object == NULL)
		return rc;
	struct conf_json_scan scan = conf_json_scan(text, len);
	if (scan.error != NULL)
		rc = conf_refuse_at(why, text, scan.error_at, scan.error);
	else if (scan.members > CONF_STUBS_MAX)
		rc = conf_refuse_plain(why, "more than 20000 domains");
	else
		rc = fill_stubs(object, text, len, cluster_domain, stubs, why);
	json_object_put(object);
	if (rc < 0)
		conf_stubs_free(stubs);
	return rc;
}

/* Whether these stub domains in force are an earlier good value. */
static bool
is_good(const struct conf_stubs *before)
{
	for (size_t i = 0; i < before->count && !before->closed_all; i++)
		if (before->items[i].count > 0)
			return true;
	return false;
}

/* Keeps the domains in force that the text does not have and whose names must not be sent in plain text.
 * One of them may be the domain that cannot be read. */
static void
keep_encrypted(struct conf_stubs *stubs, const struct conf_stubs *before)
{
	size_t count = stubs->count;

	stubs->items = xreallocarray(stubs->items, count + before->count + 1, sizeof *stubs->items);
	const struct conf_stubs written = { .items = stubs->items, .count = count };
	for (size_t i = 0; i < before->count; i++) {
		const struct conf_stub *last = &before->items[i];

		if (!conf_stub_encrypts(last) || conf_stubs_find(&written, last->domain) != NULL)
			continue;
		if (stubs->count == CONF_STUBS_MAX) {
			stubs->closed_all = true; /* no space for the domain */
			break;
		}
		struct conf_stub kept = { .refused = true,
			.closed = last->closed,
			.why = last->why != NULL ? xstrdup(last->why) : NULL };
		strcpy(kept.domain, last->domain);
		for (size_t k = 0; k < last->count; k++)
			add_server(&kept, &last->servers[k]);
		stubs->items[stubs->count++] = kept;
	}
	qsort(stubs->items, stubs->count, sizeof *stubs->items, stub_order);
}

void
conf_stubs_settle(struct conf_stubs *stubs, const struct conf_stubs *before)
{
	for (size_t i = 0; i < stubs->count; i++) {
		struct conf_stub *stub = &stubs->items[i];

		if (!stub->refused || stub->count > 0)
			continue;
		const struct conf_stub *last = conf_stubs_find(before, stub->domain);
		stub->closed = last == NULL || last->count == 0;
		for (size_t k = 0; last != NULL && k < last->count; k++)
			add_server(stub, &last->servers[k]);
	}
	if (!stubs->unnamed_tls)
		return;
	stubs->closed_all |= !is_good(before);
	keep_encrypted(stubs, before);
}

char *
conf_stubs_empty(const struct conf_stubs *stubs)
{
	for (size_t i = 0; i < stubs->count; i++)
		if (!conf_stub_has_effect(&stubs->items[i]))
			return xasprintf(
			    "\"%s\": has no server, so it has no effect: give it one, or "
			    "remove the domain",
			    stubs->items[i].domain);
	return NULL;
}

void
conf_stubs_free(struct conf_stubs *stubs)
{
	for (size_t i = 0; i < stubs->count; i++) {
		free(stubs->items[i].servers);
		free(stubs->items[i].why);
	}
	free(stubs->items);
	*stubs = (struct conf_stubs){ 0 };
}

/* --- upstreamNameservers --- */

static int
add_upstream(struct conf_upstreams *upstreams, const char *text, size_t index, char **why)
{
	struct conf_server server;
	const char *reason = NULL;
	int rc = parse_address(text, &server, &reason);

	if (rc == 0 && is_mixed(upstreams->servers, upstreams->count, &server)) {
		reason = mixed;
		rc = -EINVAL;
	}
	if (rc < 0 || conf_addr_useless(&server.server.addr, &reason)) {
		char place[32];

		snprintf(place, sizeof place, " (server %zu)", index + 1);
		return conf_refuse(why, text, place, reason);
	}
	for (size_t i = 0; i < upstreams->count; i++)
		if (conf_server_equal(&upstreams->servers[i], &server))
			return 0;
	if (upstreams->count == CONF_UPSTREAMS_MAX)
		return conf_refuse_plain(why, "more than 15 servers");
	upstreams->servers[upstreams->count++] = server;
	return 0;
}

int
conf_upstreams_parse(const char *text, size_t len, struct conf_upstreams *upstreams, char **why)
{
	struct json_object *array;

	*upstreams = (struct conf_upstreams){ 0 };
	*why = NULL;
	int rc = conf_json_parse(text, len, '[',
	    "must be a JSON array of addresses, such as [\"8.8.8.8\", \"[2001:db8::1]:53\"]",
	    &array, why);
	if (rc < 0 || array == NULL)
		return rc;
	struct conf_json_scan scan = conf_json_scan(text, len);
	if (scan.error != NULL)
		rc = conf_refuse_at(why, text, scan.error_at, scan.error);
	for (size_t i = 0; rc == 0 && i < json_object_array_length(array); i++) {
		struct json_object *item = json_object_array_get_idx(array, i);

		if (json_object_is_type(item, json_type_string))
			rc = add_upstream(upstreams, json_object_get_string(item), i, why);
		else {
			*why = xasprintf("server %zu: not a string", i + 1);
			rc = -EINVAL;
		}
	}
	json_object_put(array);
	if (rc < 0)
		upstreams->count = 0;
	return rc;
}

/* --- federations --- */

static int
add_federation(struct conf_federations *federations, const char *item, char **why)
{
	struct conf_federation f = { 0 }; /* zeroed, because settings are compared as bytes */
	char name[CONF_HOST_MAX];
	const char *reason, *equals = strchr(item, '=');

	if (equals == NULL)
		return conf_refuse(why, item, "", "not name=domain, such as east=east.example.org");
	char *left = xstrndup(item, (size_t)(equals - item));
	int rc = conf_name_parse(left, name, &reason);
	free(left);
	if (rc < 0 || strchr(name, '.') != NULL || strchr(name, '_') != NULL)
		return conf_refuse(why, item, "", "the federation's name is not one DNS label");
	strcpy(f.name, name);
	if (conf_name_parse(equals + 1, f.domain, &reason) < 0)
		return conf_refuse(why, item, "", "the federation's domain is not a domain name");
	for (size_t i = 0; i < federations->count; i++)
		if (strcmp(federations->items[i].name, f.name) == 0)
			return conf_refuse(why, f.name, "", "is given twice");
	if (federations->count == CONF_FEDERATIONS_MAX)
		return conf_refuse_plain(why, "more than 64 federations");
	federations->items[federations->count++] = f;
	return 0;
}

/* Reads one item of the list. Blanks are allowed around it and around its '='. Costs O(length). */
static int
parse_federation(
    struct conf_federations *federations, const char *text, size_t len, bool last, char **why)
{
	len = conf_trim(&text, len);
	if (len == 0 && last) /* after a trailing comma */
		return 0;
	const char *equals = memchr(text, '=', len);
	if (equals == NULL) {
		char *item = xstrndup(text, len);

		conf_refuse(why, item, "", "not name=domain, such as east=east.example.org");
		free(item);
		return -EINVAL;
	}
	const char *domain = equals + 1;
	size_t name_len = conf_trim(&text, (size_t)(equals - text)),
	       domain_len = conf_trim(&domain, len - (size_t)(domain - text));
	char *item = xasprintf("%.*s=%.*s", (int)name_len, text, (int)domain_len, domain);
	int rc = add_federation(federations, item, why);
	free(item);
	return rc;
}

int
conf_federations_parse(
    const char *text, size_t len, struct conf_federations *federations, char **why)
{
	*federations = (struct conf_federations){ 0 };
	*why = NULL;
	const char *nul = memchr(text, '\0', len);
	if (nul != NULL)
		return conf_refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	size_t start = conf_skip_blank(text, len, 0);
	if (start == len)
		return 0;
	size_t blank = len;
	while (conf_is_blank(text[blank - 1]))
		blank--;
	if (blank - start == 4 && memcmp(text + start, "null", 4) == 0)
		return 0;
	if (text[start] == '{')
		return conf_refuse_at(why, text, start,
		    "federations are not JSON: write name=domain,name=domain, such as "
		    "east=east.example.org");
	int rc = 0;
	for (size_t at = 0; rc == 0 && at <= len;) {
		const char *comma = memchr(text + at, ',', len - at);
		size_t end = comma != NULL ? (size_t)(comma - text) : len;

		rc = parse_federation(federations, text + at, end - at, comma == NULL, why);
		at = end + 1;
	}
	if (rc < 0)
		federations->count = 0;
	return rc;
}
