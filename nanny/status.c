/*
 * The nanny's HTTP pages: health, readiness, metrics and /config.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "nanny/nanny.h"
#include "nanny/child_port.h"

bool
nanny_is_confirmed(const struct nanny *nanny)
{
	return nanny->confirmed_generation == nanny->generation && !nanny->child.changed;
}

static void
page_healthz(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct nanny *nanny = arg;
	int64_t silent_ms = clock_mono_ms() - nanny->answered_ms;

	(void)request;
	if (silent_ms >= nanny->options->silence_ms)
		http_text(response, 503, "%s has not answered for %lld s\n", nanny->engine->name,
		    (long long)(silent_ms / 1000));
	else
		http_text(response, 200, "ok\n");
}

static void
page_readiness(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct nanny *nanny = arg;
	const char *why;

	(void)request;
	if (nanny_is_ready(nanny, &why))
		http_text(response, 200, "ok\n");
	else
		http_text(response, 503, "%s: %s\n", nanny->engine->name, why);
}

static void
one(struct metrics *m, const char *name, enum metric_type type, const char *help, double value)
{
	metrics_family(m, name, type, help);
	metrics_value(m, value, NULL);
}

static void
put_reloads(struct metrics *m, const struct nanny *nanny)
{
	const struct nanny_stats *s = &nanny->stats;

	metrics_family(m, "nanny_reloads_total", METRIC_COUNTER,
	    "Servers files by result: dnsmasq confirmed it, did not confirm it in time (another "
	    "SIGHUP follows), died first, or the file could not be written.");
	metrics_value(m, (double)s->reloads_confirmed, "result", "confirmed", NULL);
	metrics_value(m, nanny->child.unconfirmed, "result", "timeout", NULL);
	metrics_value(m, (double)s->reloads_lost, "result", "lost", NULL);
	metrics_value(m, (double)s->write_failures, "result", "unwritten", NULL);
	one(m, "nanny_name_reloads_total", METRIC_COUNTER,
	    "Reloads only because a stub server's addresses changed; each empties dnsmasq's cache.",
	    (double)s->reloads_names);
	one(m, "nanny_sighups_total", METRIC_COUNTER, "SIGHUPs sent to dnsmasq.", (double)s->hups);
	one(m, "nanny_config_changes_total", METRIC_COUNTER,
	    "Changes of dnsmasq's configuration, from the ConfigMap, resolv.conf or addresses of "
	    "stub servers.",
	    (double)s->changes);
	one(m, "nanny_config_changes_not_applied_total", METRIC_COUNTER,
	    "Changes of the ConfigMap ignored because -restartDnsmasq is false.",
	    (double)s->not_applied);
	metrics_family(m, "nanny_config_confirm_seconds", METRIC_HISTOGRAM,
	    "Time from a change until dnsmasq confirmed it.");
	metrics_histogram(m, &nanny->confirm_s, NULL);
}

/* Returns the state of the engine's own file, or NULL. */
static const struct conf_key *
file_key(const struct nanny *nanny, const char **name)
{
	return nanny->engine->file_key != NULL ? nanny->engine->file_key(nanny, name) : NULL;
}

static void
put_config(struct metrics *m, const struct nanny *nanny)
{
	const char *name;
	const struct conf_key *own = file_key(nanny, &name);
	char hash[32];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->confirmed_hash);
	metrics_family(m, "nanny_config_info", METRIC_GAUGE,
	    "Always 1; the label is the hash of the last servers file that dnsmasq confirmed.");
	metrics_value(m, 1, "hash", hash, NULL);
	one(m, "nanny_config_generation", METRIC_GAUGE, "Number of the newest servers file.",
	    nanny->generation);
	one(m, "nanny_config_confirmed", METRIC_GAUGE,
	    "1 if dnsmasq has confirmed the newest configuration.", nanny_is_confirmed(nanny));
	one(m, "nanny_config_confirmed_timestamp_seconds", METRIC_GAUGE,
	    "Unix time at which dnsmasq last confirmed a new servers file; 0: never.",
	    (double)nanny->confirmed_at);
	metrics_family(m, "nanny_config_error", METRIC_GAUGE,
	    "1 if the current content of the key is refused and an older one is in force.");
	conf_keys_metrics(&nanny->config.keys, m);
	if (own != NULL)
		metrics_value(m, own->error != NULL, "key", name, NULL);
	metrics_family(m, "nanny_config_errors_total", METRIC_COUNTER,
	    "Times that a new content of the key was refused.");
	for (enum conf_key_id id = 0; id < CONF_KEYS; id++)
		if (conf_keys_applies(&nanny->config.keys, id))
			metrics_value(m, (double)nanny->config.keys.states[id].refused, "key",
			    conf_key_rows[id].name, NULL);
	if (own != NULL)
		metrics_value(m, (double)own->refused, "key", name, NULL);
	one(m, "nanny_upstream_loop", METRIC_GAUGE,
	    "1 if a server of resolv.conf is dnsmasq itself and therefore not used.",
	    nanny->config.loop != NULL);
}

static void
put_state(struct metrics *m, const struct nanny *nanny, const char *name, const char *help)
{
	metrics_family(m, name, METRIC_GAUGE, help);
	for (int i = 0; i < CHILD_STATE_COUNT; i++)
		metrics_value(m, nanny->child.state == (enum child_state)i, "state",
		    child_state_name((enum child_state)i), NULL);
}

/* Some metrics have a second name that does not say which engine runs. */
static void
put_child(struct metrics *m, const struct nanny *nanny)
{
	double answer_age_s = (double)(clock_mono_ms() - nanny->answered_ms) / 1000;

	put_state(m, nanny, "nanny_dnsmasq_state",
	    "1 for the current state of dnsmasq, 0 for other states.");
	put_state(m, nanny, "nanny_engine_state",
	    "1 for the current state of the engine, 0 for other states.");
	metrics_family(m, "nanny_engine_info", METRIC_GAUGE,
	    "Always 1; the labels are the engine that the nanny runs, and its version.");
	metrics_value(m, 1, "engine", nanny->engine->name, "version", nanny->process.version, NULL);
	one(m, "nanny_child_restarts_total", METRIC_COUNTER, "Restarts of dnsmasq.",
	    nanny->stats.spawns ? (double)nanny->stats.spawns - 1 : 0);
	one(m, "nanny_dnsmasq_deaths_total", METRIC_COUNTER, "Times dnsmasq exited unexpectedly.",
	    nanny->child.deaths);
	one(m, "nanny_engine_deaths_total", METRIC_COUNTER, "Times the engine exited unexpectedly.",
	    nanny->child.deaths);
	one(m, "nanny_dnsmasq_silences_total", METRIC_COUNTER,
	    "Times dnsmasq was killed because it did not answer.", (double)nanny->stats.silences);
	one(m, "nanny_dnsmasq_last_answer_age_seconds", METRIC_GAUGE,
	    "Time since dnsmasq last answered the nanny.", answer_age_s);
	one(m, "nanny_engine_last_answer_age_seconds", METRIC_GAUGE,
	    "Time since the engine last answered the nanny.", answer_age_s);
	one(m, "nanny_dnsmasq_port_others", METRIC_GAUGE,
	    "UDP sockets of other processes at dnsmasq's address and port: they can answer clients "
	    "instead of dnsmasq.",
	    (double)nanny->port.others);
	one(m, "nanny_dnsmasq_udp_receive_drops", METRIC_GAUGE,
	    "Packets the kernel dropped because dnsmasq's socket buffer was full, for the "
	    "current sockets.",
	    (double)child_port_drops(nanny->args.port));
}

static void
put_names(struct metrics *m, const struct nanny *nanny)
{
	struct stub_hosts_stats stats = stub_hosts_stats(nanny->names);
	const struct stub_host *name;
	size_t count = 0, resolved = 0, failing = 0;
	int64_t oldest = clock_mono_ms();

	for (; (name = stub_hosts_at(nanny->names, count)) != NULL; count++) {
		resolved += name->known_count > 0;
		for (int i = 0; i < STUB_HOST_FAMILIES; i++) {
			failing += name->family[i].failures > 0;
			int64_t taken =
			    name->family[i].until_ms - (int64_t)name->family[i].ttl_s * 1000;
			if (name->family[i].answered && taken < oldest)
				oldest = taken;
		}
	}
	metrics_family(m, "nanny_names", METRIC_GAUGE, "Stub servers given by name.");
	metrics_value(m, (double)resolved, "state", "resolved", NULL);
	metrics_value(m, (double)(count - resolved), "state", "unresolved", NULL);
	one(m, "nanny_names_failing", METRIC_GAUGE,
	    "Pairs of a stub server's name and an address family whose last refresh failed.",
	    (double)failing);
	one(m, "nanny_names_oldest_answer_age_seconds", METRIC_GAUGE,
	    "Age of the oldest answer with addresses in use, in seconds.",
	    (double)(clock_mono_ms() - oldest) / 1000);
	metrics_family(m, "nanny_name_lookups_total", METRIC_COUNTER,
	    "Queries for the addresses of stub servers.");
	metrics_value(m, (double)stats.answers, "result", "answer", NULL);
	metrics_value(m, (double)stats.failures, "result", "failure", NULL);
}

static void
page_metrics(const struct http_request *request, struct http_response *response, void *arg)
{
	const struct nanny *nanny = arg;
	enum metrics_format format = metrics_negotiate(request->accept);
	struct metrics *m = metrics_new(format);

	put_reloads(m, nanny);
	put_config(m, nanny);
	put_child(m, nanny);
	put_names(m, nanny);
	nanny->engine->metrics(nanny, m);
	node_guard_metrics(&nanny->node_guard, m);
	one(m, "nanny_log_suppressed_total", METRIC_COUNTER,
	    "Log lines dropped because stderr was full or there were too many.",
	    (double)log_suppressed());
	sandbox_metrics(m, "nanny_sandbox");
	sandbox_metrics_of(m, "nanny_dnsmasq_sandbox", nanny->process.layers);
	metrics_process(m, "nanny_build_info");
	response->body = metrics_finish(m, &response->len);
	response->content_type = metrics_content_type(format);
}

static void
page_recovered(const struct http_request *request, struct http_response *response, void *arg)
{
	struct nanny *nanny = arg;

	if (request->method != HTTP_PUT) {
		http_text(response, 405, "use PUT\n");
		return;
	}
	if (nanny->engine->recovered != NULL && child_is_serving(&nanny->child))
		nanny->engine->recovered(nanny);
	http_text(response, 200, "ok\n");
}

const struct http_route nanny_changes[] = {
	{ "/recovered", page_recovered, true },
	{ NULL, NULL, false },
};

const struct http_route nanny_routes[] = {
	{ "/healthz", page_healthz, false },
	{ "/readiness", page_readiness, false },
	{ "/metrics", page_metrics, false },
	{ "/config", config_page, true },
	{ NULL, NULL, false },
};

/* --- /config: the nanny's configuration as JSON; the sidecar's page shows a part of this JSON --- */

/*
 * Size limits of the lists in /config. The sidecar reads at most 64 KiB of /config, and treats a nanny that sends more as down. `hosts` and
 * `records` may each have 10,000 names, and each name is also a domain of the servers file. The size of each list is therefore limited in
 * bytes. The *_FORM constants are the bytes that JSON adds to each item.
 */
enum {
	LOCAL_NAMES_SHOWN = 200,
	LOCAL_NAMES_BYTES = 7 * 1024, /* size limit of each list: hosts, records and rewrites */
	ITEM_FORM = 16,
	STUBS_BYTES = 14 * 1024,
	HOSTS_BYTES = 10 * 1024, /* size limit of the host names of stub servers */
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
	return s != NULL ? json_object_new_string(s) : NULL;
}

static object
number(int64_t n)
{
	return json_object_new_int64(n);
}

/* Returns an RFC 3339 time, or null if `unix_s` is 0. */
static object
time_json(int64_t unix_s)
{
	char buf[32];
	struct tm tm;
	time_t t = (time_t)unix_s;

	if (unix_s == 0 || gmtime_r(&t, &tm) == NULL)
		return NULL;
	strftime(buf, sizeof buf, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text(buf);
}

/* Converts a time of the monotonic clock to calendar time. */
static object
monotonic_json(int64_t ms)
{
	return time_json(time(NULL) + (ms - clock_mono_ms()) / 1000);
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

static object
upstream_key_json(const struct conf_upstreams *upstreams)
{
	char buf[CONF_SERVER_TEXT_MAX];
	object array = json_object_new_array();

	for (size_t i = 0; i < upstreams->count; i++)
		json_object_array_add(array, text(conf_server_format(&upstreams->servers[i], buf)));
	return array;
}

/* Returns the first stub domains that fit into STUBS_BYTES. The caller adds the total count. */
static object
stubs_json(const struct conf_stubs *stubs)
{
	object all = json_object_new_object();
	char buf[CONF_SERVER_TEXT_MAX];
	size_t bytes = 0;

	for (size_t i = 0; i < stubs->count; i++) {
		const struct conf_stub *stub = &stubs->items[i];

		bytes += strlen(stub->domain) + ITEM_FORM;
		for (size_t k = 0; k < stub->count; k++)
			bytes += strlen(stub->servers[k].host) + strlen(stub->servers[k].tls_name) +
				 FILE_SERVER_FORM;
		if (i > 0 && bytes > STUBS_BYTES)
			break;
		object array = json_object_new_array();
		for (size_t k = 0; k < stub->count; k++) {
			conf_server_format(&stub->servers[k], buf);
			json_object_array_add(array, text(buf));
		}
		put(all, stub->domain, array);
	}
	return all;
}

/* Returns the first domains that fit into LOCAL_NAMES_BYTES. The caller adds the total count. */
static object
domains_json(const struct operator_domains *domains)
{
	object array = json_object_new_array();
	size_t bytes = 0;

	for (size_t i = 0; i < domains->count && i < LOCAL_NAMES_SHOWN; i++) {
		bytes += strlen(domains->items[i]) + ITEM_FORM;
		if (bytes > LOCAL_NAMES_BYTES)
			break;
		json_object_array_add(array, text(domains->items[i]));
	}
	return array;
}

static void
add_refusal(object refused, const char *name, const struct conf_key *state)
{
	object refusal = json_object_new_object();

	put(refusal, "key", text(name));
	put(refusal, "reason", text(state->error));
	put(refusal, "since", time_json(state->error_since));
	put(refusal, "previousInForce", json_object_new_boolean(state->had_good));
	put(refusal, "partly", json_object_new_boolean(state->partly));
	put(refusal, "closed", json_object_new_boolean(state->closed));
	json_object_array_add(refused, refusal);
}

static void
put_keys(object o, const struct nanny *nanny)
{
	const struct config *config = &nanny->config;
	const char *name;
	const struct conf_key *file = file_key(nanny, &name);
	object keys = json_object_new_object(), refused = json_object_new_array();

	const struct operator_domains *const own[CONF_KEYS] = { [CONF_KEY_HOSTS] = &config->hosts,
		[CONF_KEY_RECORDS] = &config->records,
		[CONF_KEY_REWRITES] = &config->rewrites };
	for (enum conf_key_id i = 0; i < CONF_KEYS; i++) {
		if (!conf_keys_applies(&config->keys, i))
			continue;
		const struct conf_key *state = &config->keys.states[i];
		object key = json_object_new_object();
		put(key, "present", json_object_new_boolean(state->present));
		if (own[i] != NULL) {
			put(key, "inForce", domains_json(own[i]));
			put(key, "count", number((int64_t)own[i]->count));
		} else if (i == CONF_KEY_STUBS) {
			put(key, "inForce", stubs_json(&config->stubs));
			put(key, "count", number((int64_t)config->stubs.count));
		} else if (i == CONF_KEY_UPSTREAMS) {
			put(key, "inForce", upstream_key_json(&config->upstreams));
		}
		put(key, "error", text(state->error));
		put(keys, conf_key_rows[i].name, key);
		if (state->error != NULL)
			add_refusal(refused, conf_key_rows[i].name, state);
	}
	if (file != NULL && file->error != NULL)
		add_refusal(refused, name, file);
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
	put(o, "servers",
	    nanny->config.upstreams.count ? upstream_key_json(&nanny->config.upstreams)
					  : servers_json(servers, count));
	put(o, "refused", text(nanny->config.loop));
	return o;
}

static object
family_json(const struct stub_host_family *family)
{
	object o = json_object_new_object();

	put(o, "ttl", number(family->ttl_s));
	put(o, "until", family->answered ? monotonic_json(family->until_ms) : NULL);
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
			put(addr, "keptUntil", monotonic_json(name->known[i].keep_until_ms));
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

	while (stub_hosts_at(names, count) != NULL)
		count++;
	return (int64_t)count;
}

/* Adds host names until `bytes` reaches HOSTS_BYTES. If `resolved` is true, adds only names with addresses, otherwise only names without
 * addresses. */
static void
add_names(object array, const struct stub_hosts *names, bool resolved, size_t *bytes)
{
	const struct stub_host *name;

	for (size_t i = 0; (name = stub_hosts_at(names, i)) != NULL; i++) {
		if ((name->known_count > 0) != resolved)
			continue;
		*bytes += strlen(name->host) + HOST_FORM + name->known_count * HOST_ADDRESS_FORM;
		if (*bytes > HOSTS_BYTES)
			return;
		json_object_array_add(array, name_json(name));
	}
}

/* Returns the host names of stub servers. Unresolved names come first, because an operator looks for these names. The member "nameCount" is
 * the total number. */
static object
names_json(const struct stub_hosts *names)
{
	object array = json_object_new_array();
	size_t bytes = 0;

	add_names(array, names, false, &bytes);
	add_names(array, names, true, &bytes);
	return array;
}

/* Returns the first domains of the servers file, including padding lines and deleted domains. The member "fileDomains" is the total number. */
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

/* Number of queries of the nanny and its guard that dnsmasq has counted as cache hits. The sidecar
 * leaves them out of the hit ratio. */
static uint64_t
own_hits(const struct nanny *nanny)
{
	return child_probe_version_answers(nanny->child_probe) +
	       node_guard_dnsmasq_answers(&nanny->node_guard);
}

static object
dnsmasq_json(const struct nanny *nanny)
{
	object o = json_object_new_object(), args = json_object_new_array();

	for (size_t i = 0; i < nanny->args.argc; i++)
		json_object_array_add(args, text(nanny->args.argv[i]));
	put(o, "engine", text(nanny->engine->name));
	put(o, "version", text(nanny->process.version));
	put(o, "state", text(child_state_name(nanny->child.state)));
	put(o, "pid", number(nanny->process.pid));
	put(o, "deaths", number(nanny->child.deaths));
	put(o, "arguments", args);
	put(o, "portSharedWith", nanny->port.others > 0 ? text(nanny->port.holder) : NULL);
	if (nanny->engine->cache != NULL) {
		struct engine_cache cache = nanny->engine->cache(nanny);

		put(o, "cacheHits", number((int64_t)cache.hits));
		put(o, "cacheMisses", number((int64_t)cache.misses));
	}
	put(o, "ownHits", number((int64_t)own_hits(nanny)));
	put(o, "receiveDrops", number((int64_t)child_port_drops(nanny->args.port)));
	return o;
}

/* Returns the memory of the container, which dnsmasq and the nanny share. */
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
	put(o, "confirmedAt", time_json(nanny->confirmed_at));
	put(o, "generation", number(nanny->generation));
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->hash);
	put(o, "hash", text(hash));
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->confirmed_hash);
	put(o, "confirmedHash", nanny->confirmed_at ? text(hash) : NULL);
	put(o, "dnsmasq", dnsmasq_json(nanny));
	put(o, "nodeCacheRules", number(node_guard_node_cache_rules(&nanny->node_guard)));
	put(o, "memory", memory_json());
	put_keys(o, nanny);
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
