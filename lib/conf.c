#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/conf.h"
#include "lib/xalloc.h"

enum { JSON_DEPTH = 8, QUOTED_MAX = 64 };

/* `text` in quotes, what is not printable ASCII as \xHH, and shortened: fit for a log line and for
 * JSON. Caller frees. */
static char *
quote(const char *text)
{
	char out[QUOTED_MAX * 4 + 8];
	size_t n = 0, i = 0;
	out[n++] = '"';
	for (; text[i] && i < QUOTED_MAX; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c >= 0x20 && c < 0x7f) {
			out[n++] = (char)c;
			continue;
		}
		out[n++] = '\\';
		out[n++] = 'x';
		out[n++] = "0123456789abcdef"[c >> 4];
		out[n++] = "0123456789abcdef"[c & 15];
	}
	strcpy(out + n, text[i] ? "...\"" : "\"");
	return xstrdup(out);
}

/* Sets *why to `"subject"place: reason` and returns -EINVAL. */
static int
refuse(char **why, const char *subject, const char *place, const char *reason)
{
	char *quoted = quote(subject);
	*why = xasprintf("%s%s: %s", quoted, place, reason);
	free(quoted);
	return -EINVAL;
}

static int
refuse_plain(char **why, const char *reason)
{
	*why = xstrdup(reason);
	return -EINVAL;
}

static int
refuse_at(char **why, const char *text, size_t offset, const char *reason)
{
	size_t line = 1, column = 1;
	for (size_t i = 0; i < offset; i++, column++)
		if (text[i] == '\n') {
			line++;
			column = 0;
		}
	*why = xasprintf("line %zu, column %zu: %s", line, column, reason);
	return -EINVAL;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The text's first offset from `from` on that is not blank. */
static size_t
skip_blank(const char *text, size_t len, size_t from)
{
	while (from < len && is_blank(text[from]))
		from++;
	return from;
}

/* What json-c does not tell about a text that it has accepted. */
struct scan {
	size_t members;    /* of the outermost object as written:
			    * json-c keeps the last of two of a name */
	const char *error; /* what json-c lets pass, NULL if nothing */
	size_t error_at;
};

static void
scan_error(struct scan *scan, size_t at, const char *error)
{
	if (scan->error == NULL) {
		scan->error = error;
		scan->error_at = at;
	}
}

/* A \u0000 would end the C strings that json-c gives;
 * a comma before '}' passes even its strict mode. */
static struct scan
scan_json(const char *text, size_t len)
{
	struct scan scan = { 0 };
	unsigned depth = 0;
	bool in_string = false;
	char before = '\0';
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (in_string) {
			if (c == '\\' && len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
				scan_error(&scan, i, "NUL in a string");
			i += c == '\\';
			in_string = c != '"';
			continue;
		}
		if (is_blank(c))
			continue;
		if ((c == '}' || c == ']') && before == ',')
			scan_error(&scan, i, "comma before the end");
		if (c == '\'' || c == '/')
			scan_error(&scan, i, "unexpected character");
		in_string = c == '"';
		depth += (c == '{' || c == '[');
		depth -= (c == '}' || c == ']');
		scan.members += c == ':' && depth == 1;
		before = c;
	}
	return scan;
}

/* Parses the whole of `text` as one JSON value, strictly. A NULL object is JSON's null. */
static int
parse_json(const char *text, size_t len, struct json_object **object, char **why)
{
	*object = NULL;
	if (skip_blank(text, len, 0) == len)
		return refuse_plain(why, "empty");
	const char *nul = memchr(text, '\0', len);
	if (nul)
		return refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	if (len >= INT_MAX)
		return refuse_plain(why, "too large");
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH);
	if (tokener == NULL)
		abort();
	json_tokener_set_flags(tokener,
	    JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	*object = json_tokener_parse_ex(tokener, text, (int)len);
	size_t end = json_tokener_get_parse_end(tokener);
	if (json_tokener_get_error(tokener) == json_tokener_continue) {
		*object = json_tokener_parse_ex(
		    tokener, "", 1); /* a bare number or word ends with the text */
		end = len;
	}
	enum json_tokener_error error = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	if (error == json_tokener_continue)
		return refuse_at(why, text, len, "unexpected end of data");
	if (error != json_tokener_success)
		return refuse_at(why, text, end, json_tokener_error_desc(error));
	end = skip_blank(text, len, end);
	if (end == len)
		return 0;
	json_object_put(*object);
	*object = NULL;
	return refuse_at(why, text, end, "text after the end of the value");
}

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

/* Whether `text` could only have been meant as an address: its last label is a number, or it has a
 * colon too many. */
static bool
meant_as_address(const char *text)
{
	if (strchr(text, '[') || strchr(text, ']'))
		return true;
	const char *colon = strchr(text, ':');
	if (colon && strchr(colon + 1, ':'))
		return true;
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
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

int
conf_server_parse(const char *text, struct conf_server *server, const char **why)
{
	*server = (struct conf_server){ .host = "" };
	if (server_parse(text, 53, &server->server, why) == 0)
		return conf_addr_useless(&server->server.addr, why) ? -EINVAL : 0;
	if (meant_as_address(text))
		return -EINVAL; /* with server_parse's reason */
	char host[CONF_HOST_MAX + 1];
	size_t len = strcspn(text, ":");
	server->server = (struct server){ .port = 53 };
	*why = "port out of range";
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

static bool
same_conf_server(const struct conf_server *a, const struct conf_server *b)
{
	if (strcmp(a->host, b->host) != 0)
		return false;
	return a->host[0] ? a->server.port == b->server.port : server_equal(&a->server, &b->server);
}

/* Appends what is not there yet; false if there is no room. */
static bool
add_server(struct conf_stub *stub, const struct conf_server *server)
{
	for (size_t i = 0; i < stub->count; i++)
		if (same_conf_server(&stub->servers[i], server))
			return true;
	if (stub->count == CONF_STUB_SERVERS_MAX)
		return false;
	stub->servers = xreallocarray(stub->servers, stub->count + 1, sizeof *stub->servers);
	stub->servers[stub->count++] = *server;
	return true;
}

static int
parse_stub_servers(
    const char *domain, struct json_object *array, struct conf_stub *stub, char **why)
{
	if (array == NULL)
		return 0;
	if (!json_object_is_type(array, json_type_array))
		return refuse(why, domain, "", "its servers must be an array of strings");
	for (size_t i = 0; i < json_object_array_length(array); i++) {
		struct json_object *item = json_object_array_get_idx(array, i);
		char place[32];
		snprintf(place, sizeof place, "[%zu]", i);
		if (!json_object_is_type(item, json_type_string))
			return refuse(why, domain, place, "not a string");
		struct conf_server server;
		const char *reason, *text = json_object_get_string(item);
		if (conf_server_parse(text, &server, &reason) < 0) {
			char *at = quote(domain);
			char *where = xasprintf(" (server %zu of %s)", i + 1, at);
			refuse(why, text, where, reason);
			free(at);
			free(where);
			return -EINVAL;
		}
		if (!add_server(stub, &server))
			return refuse(why, domain, "", "more than 16 servers");
	}
	return 0;
}

/* Why the cluster does not let `domain` be a stub, or NULL. */
static const char *
reserved(const char *domain, const char *cluster_domain)
{
	char cluster[CONF_HOST_MAX], below[CONF_HOST_MAX + 4];
	const char *why;
	if (conf_name_parse(cluster_domain, cluster, &why) < 0)
		return NULL;
	if (strcmp(domain, cluster) == 0)
		return "is the cluster domain";
	snprintf(below, sizeof below, "svc.%s", cluster);
	if (conf_name_under(domain, below))
		return "holds the cluster's services";
	snprintf(below, sizeof below, "pod.%s", cluster);
	return conf_name_under(domain, below) ? "holds the cluster's pods" : NULL;
}

static int
parse_stub(const char *name, struct json_object *servers, const char *cluster,
    struct conf_stub *stub, char **why)
{
	const char *reason;
	if (conf_name_parse(name, stub->domain, &reason) < 0 ||
	    (reason = reserved(stub->domain, cluster)) != NULL)
		return refuse(why, name, "", reason);
	return parse_stub_servers(name, servers, stub, why);
}

static int
stub_order(const void *a, const void *b)
{
	return strcmp(((const struct conf_stub *)a)->domain, ((const struct conf_stub *)b)->domain);
}

/* What can only be said of all stubs together: none twice (however spelled), not too many names. */
static int
check_stubs(struct conf_stubs *stubs, char **why)
{
	size_t names = 0;
	qsort(stubs->items, stubs->count, sizeof *stubs->items, stub_order);
	for (size_t i = 0; i < stubs->count; i++) {
		const struct conf_stub *stub = &stubs->items[i];
		if (i > 0 && strcmp(stub->domain, stub[-1].domain) == 0)
			return refuse(why, stub->domain, "", "is given twice");
		for (size_t k = 0; k < stub->count; k++)
			names += stub->servers[k].host[0] != '\0';
	}
	return names > CONF_STUB_NAMES_MAX
		   ? refuse_plain(why, "more than 1000 servers given by name")
		   : 0;
}

static int
fill_stubs(struct json_object *object, const char *cluster, struct conf_stubs *stubs, char **why)
{
	stubs->items = xcalloc((size_t)json_object_object_length(object) + 1, sizeof *stubs->items);
	json_object_object_foreach(object, name, servers)
	{
		int rc = parse_stub(name, servers, cluster, &stubs->items[stubs->count++], why);
		if (rc < 0)
			return rc;
	}
	return check_stubs(stubs, why);
}

int
conf_stubs_parse(
    const char *text, size_t len, const char *cluster_domain, struct conf_stubs *stubs, char **why)
{
	struct json_object *object;
	*stubs = (struct conf_stubs){ 0 };
	*why = NULL;
	int rc = parse_json(text, len, &object, why);
	if (rc < 0 || object == NULL)
		return rc;
	struct scan scan = scan_json(text, len);
	if (!json_object_is_type(object, json_type_object))
		rc = refuse_plain(why, "must be a JSON object of domains");
	else if (scan.error)
		rc = refuse_at(why, text, scan.error_at, scan.error);
	else if (scan.members > CONF_STUBS_MAX)
		rc = refuse_plain(why, "more than 20000 domains");
	else if (scan.members != (size_t)json_object_object_length(object))
		rc = refuse_plain(why, "a domain is given twice");
	else
		rc = fill_stubs(object, cluster_domain, stubs, why);
	json_object_put(object);
	if (rc < 0)
		conf_stubs_free(stubs);
	return rc;
}

void
conf_stubs_free(struct conf_stubs *stubs)
{
	for (size_t i = 0; i < stubs->count; i++)
		free(stubs->items[i].servers);
	free(stubs->items);
	*stubs = (struct conf_stubs){ 0 };
}

static int
add_upstream(struct conf_upstreams *upstreams, const char *text, size_t index, char **why)
{
	struct server server;
	const char *reason = NULL;
	if (server_parse(text, 53, &server, &reason) < 0 ||
	    conf_addr_useless(&server.addr, &reason)) {
		char place[32];
		snprintf(place, sizeof place, " (server %zu)", index + 1);
		return refuse(why, text, place, reason);
	}
	for (size_t i = 0; i < upstreams->count; i++)
		if (server_equal(&upstreams->servers[i], &server))
			return 0;
	if (upstreams->count == CONF_UPSTREAMS_MAX)
		return refuse_plain(why, "more than 15 servers");
	upstreams->servers[upstreams->count++] = server;
	return 0;
}

int
conf_upstreams_parse(const char *text, size_t len, struct conf_upstreams *upstreams, char **why)
{
	struct json_object *array;
	*upstreams = (struct conf_upstreams){ 0 };
	*why = NULL;
	int rc = parse_json(text, len, &array, why);
	if (rc < 0 || array == NULL)
		return rc;
	struct scan scan = scan_json(text, len);
	if (!json_object_is_type(array, json_type_array))
		rc = refuse_plain(why, "must be a JSON array of addresses");
	else if (scan.error)
		rc = refuse_at(why, text, scan.error_at, scan.error);
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

static int
add_federation(struct conf_federations *federations, const char *item, char **why)
{
	struct conf_federation f;
	char name[CONF_HOST_MAX];
	const char *reason, *equals = strchr(item, '=');
	if (equals == NULL)
		return refuse(why, item, "", "not name=domain");
	char *left = xstrndup(item, (size_t)(equals - item));
	int rc = conf_name_parse(left, name, &reason);
	free(left);
	if (rc < 0 || strchr(name, '.') || strchr(name, '_'))
		return refuse(why, item, "", "the federation's name is not one DNS label");
	strcpy(f.name, name);
	if (conf_name_parse(equals + 1, f.domain, &reason) < 0)
		return refuse(why, item, "", "the federation's domain is not a domain name");
	for (size_t i = 0; i < federations->count; i++)
		if (strcmp(federations->items[i].name, f.name) == 0)
			return refuse(why, f.name, "", "is given twice");
	if (federations->count == CONF_FEDERATIONS_MAX)
		return refuse_plain(why, "more than 64 federations");
	federations->items[federations->count++] = f;
	return 0;
}

/* One item of the list, blanks around it and around its '=' removed;
 * an empty one is allowed at the end only. */
static int
parse_federation(
    struct conf_federations *federations, const char *text, size_t len, bool last, char **why)
{
	size_t n = 0;
	char *item = xmalloc(len + 1);
	for (size_t i = 0; i < len; i++)
		if (!is_blank(text[i]))
			item[n++] = text[i];
		else if (n > 0 && item[n - 1] != '=' && skip_blank(text, len, i) < len &&
			 text[skip_blank(text, len, i)] != '=')
			item[n++] = ' '; /* inside a name: kept, to be refused */
	item[n] = '\0';
	int rc = n == 0 && last ? 0 : add_federation(federations, item, why);
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
	if (nul)
		return refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	size_t start = skip_blank(text, len, 0);
	if (start == len)
		return refuse_plain(why, "empty");
	size_t blank = len;
	while (is_blank(text[blank - 1]))
		blank--;
	if (blank - start == 4 && memcmp(text + start, "null", 4) == 0)
		return 0;
	int rc = 0;
	for (size_t at = 0; rc == 0 && at <= len;) {
		const char *comma = memchr(text + at, ',', len - at);
		size_t end = comma ? (size_t)(comma - text) : len;
		rc = parse_federation(federations, text + at, end - at, comma == NULL, why);
		at = end + 1;
	}
	if (rc < 0)
		federations->count = 0;
	return rc;
}
