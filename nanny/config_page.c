/* The nanny's configuration as JSON, of which the sidecar's page shows a part. */
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "nanny/nanny.h"
#include "nanny/udp_drops.h"

/*
 * The sidecar reads 64 KiB of /config and takes a nanny that says more for one that is down; `hosts` and
 * `records` may have 10,000 names each, and each of them is a domain of the servers file too. What is
 * shown of these is bounded in bytes, with room for what JSON adds to each.
 */
enum {
	OWN_NAMES_SHOWN = 200,
	OWN_NAMES_BYTES = 7 * 1024, /* of hosts, and as many of records and of rewrites */
	ITEM_FORM = 16,
	STUBS_BYTES = 14 * 1024,
	HOSTS_BYTES = 10 * 1024, /* of the names of stub servers */
	HOST_FORM = 420,
	HOST_ADDRESS_FORM = 130,
	FILE_BYTES = 20 * 1024,
	FILE_DOMAIN_FORM = 110,
	FILE_SERVER_FORM = 56,
};

typedef struct json_object *object;

static void
put(object o, const char *key, object value)
{
	json_object_object_add(o, key, value);
}

static object
text(const char *s)
{
	return s ? json_object_new_string(s) : NULL;
}

static object
number(int64_t n)
{
	return json_object_new_int64(n);
}

/* RFC 3339, or null for never. */
static object
moment(int64_t unix_s)
{
	char buf[32];
	struct tm tm;
	time_t t = (time_t)unix_s;
	if (unix_s == 0 || gmtime_r(&t, &tm) == NULL)
		return NULL;
	strftime(buf, sizeof buf, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text(buf);
}

/* A time of the monotonic clock as one of the calendar. */
static object
moment_ms(int64_t ms)
{
	return moment(time(NULL) + (ms - clock_mono_ms()) / 1000);
}

static object
servers_json(const struct server *servers, size_t count)
{
	char buf[SERVER_TEXT_MAX];
	object array = json_object_new_array();
	for (size_t i = 0; i < count; i++)
		json_object_array_add(array, text(server_format(&servers[i], buf)));
	return array;
}

/* The first of them; how many there are is beside it. */
static object
stubs_json(const struct conf_stubs *stubs)
{
	object all = json_object_new_object();
	char buf[SERVER_TEXT_MAX + CONF_HOST_MAX];
	size_t bytes = 0;
	for (size_t i = 0; i < stubs->count; i++) {
		const struct conf_stub *stub = &stubs->items[i];
		bytes += strlen(stub->domain) + ITEM_FORM;
		for (size_t k = 0; k < stub->count; k++)
			bytes += strlen(stub->servers[k].host) + FILE_SERVER_FORM;
		if (i > 0 && bytes > STUBS_BYTES)
			break;
		object array = json_object_new_array();
		for (size_t k = 0; k < stub->count; k++) {
			const struct conf_server *s = &stub->servers[k];
			if (s->host[0])
				snprintf(buf, sizeof buf, "%s:%u", s->host, s->server.port);
			else
				server_format(&s->server, buf);
			json_object_array_add(array, text(buf));
		}
		put(all, stub->domain, array);
	}
	return all;
}

/* The first of them; how many there are is beside it. */
static object
domains_json(const struct operator_domains *domains)
{
	object array = json_object_new_array();
	size_t bytes = 0;
	for (size_t i = 0; i < domains->count && i < OWN_NAMES_SHOWN; i++) {
		bytes += strlen(domains->items[i]) + ITEM_FORM;
		if (bytes > OWN_NAMES_BYTES)
			break;
		json_object_array_add(array, text(domains->items[i]));
	}
	return array;
}

static void
put_keys(object o, const struct config *config)
{
	object keys = json_object_new_object(), refused = json_object_new_array();
	const struct operator_domains *const own[CONFIG_KEY_COUNT] = { [CONFIG_HOSTS] =
									   &config->hosts,
		[CONFIG_RECORDS] = &config->records,
		[CONFIG_REWRITES] = &config->rewrites };
	for (int i = 0; i < CONFIG_KEY_COUNT; i++) {
		const struct conf_key *state = &config->keys[i];
		object key = json_object_new_object();
		put(key, "present", json_object_new_boolean(state->present));
		put(key, "inForce",
		    own[i] != NULL ? domains_json(own[i])
		    : i == CONFIG_STUBS
			? stubs_json(&config->stubs)
			: servers_json(config->upstreams.servers, config->upstreams.count));
		if (i != CONFIG_UPSTREAMS)
			put(key, "count",
			    number(
				(int64_t)(own[i] != NULL ? own[i]->count : config->stubs.count)));
		put(key, "error", text(state->error));
		put(keys, config_key_names[i], key);
		if (state->error == NULL)
			continue;
		object refusal = json_object_new_object();
		put(refusal, "key", text(config_key_names[i]));
		put(refusal, "reason", text(state->error));
		put(refusal, "since", moment(state->error_since));
		put(refusal, "previousInForce", json_object_new_boolean(state->had_good));
		json_object_array_add(refused, refusal);
	}
	put(o, "keys", keys);
	put(o, "refused", refused);
}

static object
upstreams_json(struct nanny *nanny)
{
	object o = json_object_new_object();
	struct server servers[CONF_UPSTREAMS_MAX];
	size_t count =
	    config_upstreams(&nanny->config, &nanny->resolv, &nanny->forwarding_loop, servers);
	put(o, "source",
	    text(nanny->config.upstreams.count ? "upstreamNameservers"
		 : count                       ? "resolv.conf"
					       : "none"));
	put(o, "servers", servers_json(servers, count));
	put(o, "refused", text(nanny->config.loop));
	return o;
}

static object
family_json(const struct stub_host_family *family)
{
	object o = json_object_new_object();
	put(o, "ttl", number(family->ttl_s));
	put(o, "until", family->answered ? moment_ms(family->until_ms) : NULL);
	put(o, "failures", number(family->failures));
	put(o, "error", family->error[0] ? text(family->error) : NULL);
	return o;
}

static object
name_json(const struct stub_host *name)
{
	object o = json_object_new_object(), addrs = json_object_new_array();
	char buf[ADDR_TEXT_MAX];
	for (size_t i = 0; i < name->known_count; i++) {
		object addr = json_object_new_object();
		put(addr, "address", text(addr_format(&name->known[i].addr, buf)));
		put(addr, "current", json_object_new_boolean(name->known[i].current));
		if (!name->known[i].current)
			put(addr, "keptUntil", moment_ms(name->known[i].keep_until_ms));
		json_object_array_add(addrs, addr);
	}
	put(o, "name", text(name->host));
	put(o, "addresses", addrs);
	put(o, "A", family_json(&name->family[STUB_HOST_V4]));
	put(o, "AAAA", family_json(&name->family[STUB_HOST_V6]));
	return o;
}

static int64_t
count_names(const struct stub_hosts *names)
{
	size_t count = 0;
	while (stub_hosts_at(names, count))
		count++;
	return (int64_t)count;
}

/* Adds those that have addresses, or those that have none, while `bytes` allows. */
static void
add_names(object array, const struct stub_hosts *names, bool resolved, size_t *bytes)
{
	const struct stub_host *name;
	for (size_t i = 0; (name = stub_hosts_at(names, i)); i++) {
		if ((name->known_count > 0) != resolved)
			continue;
		*bytes += strlen(name->host) + HOST_FORM + name->known_count * HOST_ADDRESS_FORM;
		if (*bytes > HOSTS_BYTES)
			return;
		json_object_array_add(array, name_json(name));
	}
}

/* Those that cannot be resolved first, for they are what somebody looks for; "nameCount" is how
 * many there are. */
static object
names_json(const struct stub_hosts *names)
{
	object array = json_object_new_array();
	size_t bytes = 0;
	add_names(array, names, false, &bytes);
	add_names(array, names, true, &bytes);
	return array;
}

/* What dnsmasq's file says, padding and domains that are gone included: its first domains, "fileDomains"
 * is how many there are. */
static object
file_json(const struct servers_file *file)
{
	object array = json_object_new_array();
	size_t bytes = 0;
	for (size_t i = 0; i < file->count; i++) {
		bytes += strlen(file->items[i].domain) + FILE_DOMAIN_FORM +
			 file->items[i].count * FILE_SERVER_FORM;
		if (i > 0 && bytes > FILE_BYTES)
			break;
		object o = json_object_new_object();
		put(o, "domain", text(file->items[i].domain));
		put(o, "servers", servers_json(file->items[i].lines, file->items[i].count));
		put(o, "retired", json_object_new_boolean(file->items[i].retired != 0));
		json_object_array_add(array, o);
	}
	return array;
}

static object
dnsmasq_json(const struct nanny *nanny)
{
	object o = json_object_new_object(), args = json_object_new_array();
	for (size_t i = 0; i < nanny->args.argc; i++)
		json_object_array_add(args, text(nanny->args.argv[i]));
	put(o, "state", text(child_state_name(nanny->child.state)));
	put(o, "pid", number(nanny->process.pid));
	put(o, "deaths", number(nanny->child.deaths));
	put(o, "arguments", args);
	put(o, "portSharedWith", nanny->port.others > 0 ? text(nanny->port.holder) : NULL);
	put(o, "receiveDrops", number((int64_t)udp_receive_drops(nanny->args.port)));
	return o;
}

/* Of the container, which is dnsmasq's and the nanny's. */
static object
memory_json(void)
{
	object o = json_object_new_object();
	double used, limit;
	process_container_memory(&used, &limit);
	put(o, "bytes", number((int64_t)used));
	put(o, "limit", limit > 0 ? number((int64_t)limit) : NULL);
	return o;
}

void
config_page(const struct http_request *request, struct http_response *response, void *arg)
{
	struct nanny *nanny = arg;
	char hash[32];
	object o = json_object_new_object();
	(void)request;
	put(o, "confirmed", json_object_new_boolean(nanny_is_confirmed(nanny)));
	put(o, "confirmedAt", moment(nanny->confirmed_at));
	put(o, "generation", number(nanny->generation));
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->hash);
	put(o, "hash", text(hash));
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->confirmed_hash);
	put(o, "confirmedHash", nanny->confirmed_at ? text(hash) : NULL);
	put(o, "dnsmasq", dnsmasq_json(nanny));
	put(o, "nodeCacheRules", number(node_guard_node_cache_rules(&nanny->node_guard)));
	put(o, "memory", memory_json());
	put_keys(o, &nanny->config);
	put(o, "upstreams", upstreams_json(nanny));
	put(o, "hostLoop", text(nanny->config.host_loop));
	put(o, "names", names_json(nanny->names));
	put(o, "nameCount", number(count_names(nanny->names)));
	put(o, "file", file_json(&nanny->written));
	put(o, "fileDomains", number((int64_t)nanny->written.count));
	response->body = xstrdup(json_object_to_json_string_ext(
	    o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	response->len = strlen(response->body);
	response->content_type = "application/json";
	json_object_put(o);
}
