/*
 * The nanny's HTTP pages: health, readiness and metrics.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "nanny/nanny.h"
#include "nanny/dnsmasq/port.h"

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
		http_text(response, 503, "dnsmasq has not answered for %lld s\n",
		    (long long)(silent_ms / 1000));
	else
		http_text(response, 200, "ok\n");
}

static void
page_readiness(const struct http_request *request, struct http_response *response, void *arg)
{
	const char *why;

	(void)request;
	if (nanny_is_ready(arg, &why))
		http_text(response, 200, "ok\n");
	else
		http_text(response, 503, "dnsmasq: %s\n", why);
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
	    "Servers files by what became of them: dnsmasq has it, did not have it in time (and "
	    "was told again), died first, or could not be written.");
	metrics_value(m, (double)s->reloads_confirmed, "result", "confirmed", NULL);
	metrics_value(m, nanny->child.unconfirmed, "result", "timeout", NULL);
	metrics_value(m, (double)s->reloads_lost, "result", "lost", NULL);
	metrics_value(m, (double)s->write_failures, "result", "unwritten", NULL);
	one(m, "nanny_name_reloads_total", METRIC_COUNTER,
	    "Reloads made only because a stub server's name moved; each empties dnsmasq's cache.",
	    (double)s->reloads_names);
	one(m, "nanny_sighups_total", METRIC_COUNTER, "SIGHUPs sent to dnsmasq.", (double)s->hups);
	one(m, "nanny_config_changes_total", METRIC_COUNTER,
	    "Changes of what dnsmasq should do, from the ConfigMap, resolv.conf or names.",
	    (double)s->changes);
	one(m, "nanny_config_changes_not_applied_total", METRIC_COUNTER,
	    "Changes of the ConfigMap ignored because -restartDnsmasq is false.",
	    (double)s->not_applied);
	metrics_family(m, "nanny_config_confirm_seconds", METRIC_HISTOGRAM,
	    "From a change seen to dnsmasq's confirmation.");
	metrics_histogram(m, &nanny->confirm_s, NULL);
}

static void
put_config(struct metrics *m, const struct nanny *nanny)
{
	char hash[32];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)nanny->confirmed_hash);
	metrics_family(m, "nanny_config_info", METRIC_GAUGE,
	    "1, labelled with the hash of the servers file that dnsmasq was last seen to have.");
	metrics_value(m, 1, "hash", hash, NULL);
	one(m, "nanny_config_generation", METRIC_GAUGE, "Number of the newest servers file.",
	    nanny->generation);
	one(m, "nanny_config_confirmed", METRIC_GAUGE, "1 if dnsmasq has the newest configuration.",
	    nanny_is_confirmed(nanny));
	one(m, "nanny_config_confirmed_timestamp_seconds", METRIC_GAUGE,
	    "When dnsmasq was last seen to have a new file; 0: never.",
	    (double)nanny->confirmed_at);
	metrics_family(m, "nanny_config_error", METRIC_GAUGE,
	    "1 if the present content of the key is refused and an older one is in force.");
	conf_keys_metrics(&nanny->config.keys, m);
	metrics_family(m, "nanny_config_errors_total", METRIC_COUNTER,
	    "Contents of the key that were refused.");
	for (enum conf_key_id id = 0; id < CONF_KEYS; id++)
		if (conf_keys_applies(&nanny->config.keys, id))
			metrics_value(m, (double)nanny->config.keys.states[id].refused, "key",
			    conf_key_rows[id].name, NULL);
	one(m, "nanny_upstream_loop", METRIC_GAUGE,
	    "1 if a server of resolv.conf is dnsmasq itself and therefore not asked.",
	    nanny->config.loop != NULL);
}

static void
put_child(struct metrics *m, const struct nanny *nanny)
{
	metrics_family(
	    m, "nanny_dnsmasq_state", METRIC_GAUGE, "1 for the state that dnsmasq is in.");
	for (int i = 0; i < CHILD_STATE_COUNT; i++)
		metrics_value(m, nanny->child.state == (enum child_state)i, "state",
		    child_state_name((enum child_state)i), NULL);
	metrics_family(m, "nanny_dnsmasq_info", METRIC_GAUGE,
	    "Always 1; dnsmasq's version as it says, and its package's where the image tells.");
	metrics_value(m, 1, "version", nanny->process.version, "package", nanny->package, NULL);
	one(m, "nanny_child_restarts_total", METRIC_COUNTER, "Times dnsmasq was started again.",
	    nanny->stats.spawns ? (double)nanny->stats.spawns - 1 : 0);
	one(m, "nanny_dnsmasq_deaths_total", METRIC_COUNTER,
	    "Times dnsmasq ended without having been told to.", nanny->child.deaths);
	one(m, "nanny_dnsmasq_silences_total", METRIC_COUNTER,
	    "Times dnsmasq was killed for answering nothing.", (double)nanny->stats.silences);
	one(m, "nanny_dnsmasq_last_answer_age_seconds", METRIC_GAUGE,
	    "Since dnsmasq last answered the nanny.",
	    (double)(clock_mono_ms() - nanny->answered_ms) / 1000);
	one(m, "nanny_tcp_connections_stale", METRIC_GAUGE,
	    "TCP connections to dnsmasq from before the last reload, which go on with the old "
	    "configuration until they are idle.",
	    (double)nanny->stale_forks.count);
	one(m, "nanny_tcp_connections_ended_total", METRIC_COUNTER,
	    "Idle TCP connections to dnsmasq ended because they were from before a reload.",
	    (double)nanny->stale_forks.ended);
	one(m, "nanny_tcp_connections", METRIC_GAUGE, "TCP connections to dnsmasq.",
	    (double)nanny->stale_forks.connections);
	one(m, "nanny_tcp_connections_max", METRIC_GAUGE,
	    "TCP connections that dnsmasq takes at a time.", (double)nanny->stale_forks.limit);
	one(m, "nanny_tcp_connections_crowd_ended_total", METRIC_COUNTER,
	    "Idle TCP connections to dnsmasq ended because there were near as many as it takes.",
	    (double)nanny->stale_forks.crowd_ended);
	one(m, "nanny_dnsmasq_port_others", METRIC_GAUGE,
	    "UDP sockets of other processes at dnsmasq's address and port: they can answer clients "
	    "in "
	    "its place.",
	    (double)nanny->port.others);
	one(m, "nanny_dnsmasq_udp_receive_drops", METRIC_GAUGE,
	    "Packets the kernel dropped because dnsmasq's socket buffer was full, of the present "
	    "sockets.",
	    (double)dnsmasq_port_drops(nanny->args.port));
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
	one(m, "nanny_names_failing", METRIC_GAUGE, "Names and families whose last refresh failed.",
	    (double)failing);
	one(m, "nanny_names_oldest_answer_age_seconds", METRIC_GAUGE,
	    "Age of the oldest answer in use.", (double)(clock_mono_ms() - oldest) / 1000);
	metrics_family(m, "nanny_name_lookups_total", METRIC_COUNTER,
	    "Questions asked for stub servers' names.");
	metrics_value(m, (double)stats.answers, "result", "answer", NULL);
	metrics_value(m, (double)stats.failures, "result", "failure", NULL);
}

static void
put_file(struct metrics *m, const struct nanny *nanny)
{
	size_t lines = 0, retired = 0;

	for (size_t i = 0; i < nanny->written.count; i++) {
		lines += nanny->written.items[i].count;
		retired += nanny->written.items[i].retired ? nanny->written.items[i].count : 0;
	}
	metrics_family(m, "nanny_servers_file_lines", METRIC_GAUGE,
	    "Lines of the servers file; retired ones are of domains that are gone.");
	metrics_value(m, (double)(lines - retired), "kind", "configured", NULL);
	metrics_value(m, (double)retired, "kind", "retired", NULL);
	one(m, "nanny_servers_file_dropped_lines_total", METRIC_COUNTER,
	    "Retired lines dropped because there were too many.",
	    (double)nanny->stats.dropped_lines);
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
	put_file(m, nanny);
	node_guard_metrics(&nanny->node_guard, m);
	one(m, "nanny_log_suppressed_total", METRIC_COUNTER,
	    "Log lines dropped because nobody read them or there were too many.",
	    (double)log_suppressed());
	sandbox_metrics(m, "nanny_sandbox");
	sandbox_metrics_of(m, "nanny_dnsmasq_sandbox", nanny->process.layers);
	metrics_process(m, "nanny_build_info");
	response->body = metrics_finish(m, &response->len);
	response->content_type = metrics_content_type(format);
}

const struct http_route nanny_routes[] = {
	{ "/healthz", page_healthz, false },
	{ "/readiness", page_readiness, false },
	{ "/metrics", page_metrics, false },
	{ "/config", config_page, true },
	{ NULL, NULL, false },
};

/* --- /config: the nanny's configuration as JSON, of which the sidecar's page shows a part --- */

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
	return s != NULL ? json_object_new_string(s) : NULL;
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
			put(key, "inForce",
			    servers_json(config->upstreams.servers, config->upstreams.count));
		}
		put(key, "error", text(state->error));
		put(keys, conf_key_rows[i].name, key);
		if (state->error == NULL)
			continue;
		object refusal = json_object_new_object();
		put(refusal, "key", text(conf_key_rows[i].name));
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

	while (stub_hosts_at(names, count) != NULL)
		count++;
	return (int64_t)count;
}

/* Adds those that have addresses, or those that have none, while `bytes` allows. */
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
	put(o, "receiveDrops", number((int64_t)dnsmasq_port_drops(nanny->args.port)));
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
