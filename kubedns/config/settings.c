#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/answer/zones.h"
#include "kubedns/cluster/object.h"
#include "kubedns/config/settings.h"
#include "kubedns/config/settings_names.h"
#include "lib/conf_closed.h"
#include "lib/conf_keys.h"
#include "lib/confdir.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/resolv.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

/* How long the API server may be unreachable before answers are marked as stale. The time is long
 * enough for the server to restart and the watch to resume. */
enum { STALE_MS = 5000 };

static const char *const resolv_names[] = { "resolv.conf", NULL };

struct settings {
	const struct options *options;
	struct confdir *dir, *resolv_dir;
	struct conf_upstreams upstreams; /* from the ConfigMap */
	/* Those of `upstreams` that kubedns may query itself. Only the nanny's engine queries a tls://
	 * server. */
	struct server plain[CONF_UPSTREAMS_MAX];
	size_t plain_count;
	struct conf_federations federations; /* the active federations */
	struct settings_names names;         /* the active names */
	struct resolv resolv;
	struct server in_force[CONF_UPSTREAMS_MAX];
	size_t in_force_count;
	char zone[DNAME_LABEL_MAX + 1], region[DNAME_LABEL_MAX + 1];
	bool filter_a, filter_aaaa; /* whether the filters are active */
	struct conf_keys keys;
	struct conf_stubs stub_domains;      /* in force */
	struct stub_names stubs;             /* the names of these domains */
	char *loops;                         /* why some servers are not used, as last logged */
	char *subject;                       /* origin of the keys, for messages */
	bool has_config_map, missing_logged; /* the ConfigMap of --config-map exists; its absence
					      * has been logged */
	/* It is not known yet whether the ConfigMap of --config-map exists. It may ask for TLS, so
	 * kubedns queries no upstream server. */
	bool unread;
	char *misspelt;      /* the text that was logged about a misspelt key, or NULL */
	const char *foreign; /* the text that was logged about a key of another program */
	uint64_t reads;
	time_t changed_s;
	int64_t stale_since_ms; /* 0: the data is up to date */
};

/* Whether kubedns itself is at this address. Sets `why` to the reason. */
static bool
is_self(const struct options *options, const struct server *server, const char **why)
{
	if (forwarding_loop_is(&options->listen.loop, server, why))
		return true;
	*why = "is one of --ns-addresses, where kubedns itself answers: a forwarding loop";
	for (size_t i = 0; server->port == options->listen.port && i < options->zone.ns_addr_count;
	     i++)
		if (addr_equal(&options->zone.ns_addrs[i], &server->addr))
			return true;
	return false;
}

/* Logs why some servers are not used, if the text has changed. Takes `loops`. */
static void
note_loops(struct settings *s, char *loops)
{
	if (*loops != '\0' && (s->loops == NULL || strcmp(s->loops, loops) != 0))
		log_warnx("%s", loops);
	free(s->loops);
	s->loops = loops;
}

/* Adds a server to the text about servers that are not used. */
static void
add_loop(char **loops, const char *origin, const struct server *server, const char *why)
{
	char text[SERVER_TEXT_MAX];
	char *more = **loops == '\0'
			 ? xasprintf("%s: ignored: %s %s", origin, server_format(server, text), why)
			 : xasprintf("%s; %s %s", *loops, server_format(server, text), why);

	free(*loops);
	*loops = more;
}

/* Whether all external names get SERVFAIL (lib/conf_closed.h). */
static bool
is_closed(const struct settings *s)
{
	return s->upstreams.closed || s->stubs.closed_all;
}

static void
choose_upstreams(
    const struct settings *s, const struct server **servers, size_t *count, const char **origin)
{
	if (is_closed(s) || s->unread) {
		*servers = NULL;
		*count = 0;
		*origin = "none"; /* not used */
	} else if (s->upstreams.count > 0) {
		*servers = s->plain;
		*count = s->plain_count;
		*origin = "upstreamNameservers";
	} else if (s->options->upstream.nameservers.count > 0) {
		*servers = s->options->upstream.nameservers.servers;
		*count = s->options->upstream.nameservers.count;
		*origin = "--nameservers";
	} else {
		*servers = s->resolv.servers;
		*count = s->resolv.count;
		*origin = "resolv.conf";
	}
}

/* Selects the active upstream servers. Returns true if they have changed. */
static bool
settle_upstreams(struct settings *s)
{
	struct server before[CONF_UPSTREAMS_MAX];
	size_t before_count = s->in_force_count, count;
	const struct server *servers;
	const char *origin, *why;
	char text[SERVER_TEXT_MAX], *loops = xstrdup("");

	memcpy(before, s->in_force, sizeof before);
	choose_upstreams(s, &servers, &count, &origin);
	s->in_force_count = 0;
	for (size_t i = 0; i < count && s->in_force_count < CONF_UPSTREAMS_MAX; i++) {
		if (is_self(s->options, &servers[i], &why))
			add_loop(&loops, origin, &servers[i], why);
		else
			s->in_force[s->in_force_count++] = servers[i];
	}
	note_loops(s, loops);
	bool changed = s->in_force_count != before_count;
	for (size_t i = 0; !changed && i < before_count; i++)
		changed = !server_equal(&before[i], &s->in_force[i]);
	if (!changed)
		return false;
	for (size_t i = 0; i < s->in_force_count; i++)
		log_info("upstream %s (%s)", server_format(&s->in_force[i], text), origin);
	if (s->in_force_count == 0 && s->upstreams.count > s->plain_count)
		log_info(
		    "upstreamNameservers: tls:// servers: only the nanny's engine queries them");
	else if (s->in_force_count == 0 && !is_closed(s) && !s->unread &&
		 !s->options->upstream.has_resolver)
		log_warnx("no upstream server: queries for names outside %s get REFUSED",
		    s->options->zone.domain);
	return true;
}

/* --- the keys --- */

static bool
same_upstreams(const struct conf_upstreams *a, const struct conf_upstreams *b)
{
	if (a->count != b->count || a->closed != b->closed)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!conf_server_equal(&a->servers[i], &b->servers[i]))
			return false;
	return true;
}

/* Each function activates the value of a key, as lib/conf_keys.h requires. */

/* The nanny's engine queries the servers of this key. */
static char *
apply_stubs(void *arg, struct conf_content *content)
{
	struct settings *s = arg;
	struct conf_stubs *stubs = content->value;

	if (!stubs->closed) {
		conf_stubs_settle(stubs, &s->stub_domains);
		content->closed = conf_stubs_closed_names(stubs);
	}
	content->changed = stub_names_take(&s->stubs, stubs, content->refusal);
	conf_stubs_free(&s->stub_domains);
	s->stub_domains = *stubs;
	*stubs = (struct conf_stubs){ 0 };
	return NULL;
}

static char *
apply_upstreams(void *arg, struct conf_content *content)
{
	struct settings *s = arg;
	const struct conf_upstreams *upstreams = content->value;

	if (!s->options->upstream.has_resolver && !s->options->upstream.has_search_resolver) {
		char *why = conf_servers_no_tls(upstreams->servers, upstreams->count, "kubedns");

		if (why != NULL)
			return why;
	}
	content->changed = !same_upstreams(&s->upstreams, upstreams);
	char *warning =
	    content->changed ? conf_servers_tls_port(upstreams->servers, upstreams->count) : NULL;
	if (warning != NULL)
		log_warnx("conf %s: upstreamNameservers: %s", s->subject, warning);
	free(warning);
	s->upstreams = *upstreams;
	s->plain_count = 0;
	for (size_t i = 0; i < upstreams->count; i++)
		if (upstreams->servers[i].tls_name[0] == '\0')
			s->plain[s->plain_count++] = upstreams->servers[i].server;
	return NULL;
}

static char *
apply_federations(void *arg, struct conf_content *content)
{
	struct settings *s = arg;
	const struct conf_federations *federations =
	    content->present ? content->value : &s->options->zone.federations;

	content->changed = memcmp(&s->federations, federations, sizeof *federations) != 0;
	s->federations = *federations;
	return NULL;
}

static char *
apply_hosts(void *arg, struct conf_content *content)
{
	struct settings *s = arg;

	content->changed =
	    settings_names_hosts(&s->names, content->value, s->options->answers.ttl_s, s->subject);
	return NULL;
}

static char *
apply_records(void *arg, struct conf_content *content)
{
	struct settings *s = arg;

	content->changed =
	    settings_names_records(&s->names, content->value, s->options, s->subject);
	return NULL;
}

static char *
apply_rewrites(void *arg, struct conf_content *content)
{
	struct settings *s = arg;
	char *why = NULL;

	content->changed = settings_names_rewrites(&s->names, content->value, &why);
	return why;
}

static conf_key_apply *const apply[CONF_KEYS] = { [CONF_KEY_STUBS] = apply_stubs,
	[CONF_KEY_UPSTREAMS] = apply_upstreams,
	[CONF_KEY_FEDERATIONS] = apply_federations,
	[CONF_KEY_HOSTS] = apply_hosts,
	[CONF_KEY_RECORDS] = apply_records,
	[CONF_KEY_REWRITES] = apply_rewrites };

static void
read_resolv(struct settings *s, const struct confdir_set *set)
{
	const struct confdir_key *key = confdir_get(set, resolv_names[0]);

	/* While resolv.conf is unreadable or missing, its last servers stay active. */
	if (key == NULL || key->error != NULL)
		return;
	s->reads++;
	resolv_parse(key->value, key->len, &s->resolv);
	resolv_log_skipped(&s->resolv, "/etc/resolv.conf");
}

bool
settings_poll(struct settings *s, bool force)
{
	struct confdir_set set;
	bool changed = false;

	if (force)
		settings_names_period(&s->names);
	if (s->dir != NULL && confdir_poll(s->dir, force, &set)) {
		s->reads++;
		changed |= conf_keys_take_set(&s->keys, &set);
		confdir_set_free(&set);
	}
	if (confdir_poll(s->resolv_dir, force, &set)) {
		read_resolv(s, &set);
		confdir_set_free(&set);
	}
	changed |= settle_upstreams(s);
	if (changed)
		s->changed_s = time(NULL);
	return changed;
}

/* Returns the ConfigMap's entry of this key, or NULL. */
static const struct object_key_value *
find_key(const struct object *config_map, const char *name)
{
	for (size_t i = 0; config_map != NULL && i < config_map->data_count; i++)
		if (strcmp(config_map->data[i].key, name) == 0)
			return &config_map->data[i];
	return NULL;
}

/* Logs a warning if our ConfigMap contains a key of another program. */
static void
note_foreign(struct settings *s, const struct object *config_map)
{
	const char *what =
	    find_key(config_map, "Corefile") == NULL ? "" : confdir_foreign("Corefile");

	if (*what != '\0' && s->foreign == NULL)
		log_warnx("conf %s: %s", s->subject, what);
	s->foreign = *what != '\0' ? what : NULL;
}

bool
settings_config_map_listed(struct settings *s)
{
	bool changed = s->unread;

	if (!s->has_config_map && !s->missing_logged)
		log_warnx(
		    "conf %s: no such ConfigMap; its keys have their defaults until it exists",
		    s->subject);
	s->missing_logged = !s->has_config_map;
	s->unread = false;
	return settle_upstreams(s) || changed;
}

/* Returns the key of which the unknown key `entry` is probably a misspelling, or CONF_KEYS. */
static enum conf_key_id
key_meant(const char *entry)
{
	struct spelling near = spelling_of(entry, strlen(entry));
	enum conf_key_id id;

	for (id = 0; id < CONF_KEYS; id++) {
		if (strcmp(entry, conf_key_rows[id].name) == 0)
			return CONF_KEYS;
		spelling_try(&near, conf_key_rows[id].name);
	}
	for (id = 0; id < CONF_KEYS && conf_key_rows[id].name != near.word; id++)
		;
	return id;
}

/* Misspellings of a key. */
struct misspelt {
	const char *entry; /* the first one that asks for TLS, or the first one, or NULL */
	char *text;        /* the contents of those that ask for TLS, or NULL */
	size_t len;
};

static void
find_misspelt(const struct object *config_map, struct misspelt found[CONF_KEYS])
{
	for (size_t i = 0; config_map != NULL && i < config_map->data_count; i++) {
		const struct object_key_value *data = &config_map->data[i];
		enum conf_key_id id = key_meant(data->key);

		if (id == CONF_KEYS)
			continue;
		bool asks_tls = conf_asks_tls(data->value, data->len);
		if (found[id].entry == NULL || (asks_tls && found[id].text == NULL))
			found[id].entry = data->key;
		if (asks_tls)
			found[id].text = conf_closed_join(
			    found[id].text, &found[id].len, data->value, data->len);
	}
}

/* Logs a misspelt key, if the text has changed. Takes `text`, or NULL if there is none. */
static void
note_misspelt(struct settings *s, char *text)
{
	if (text != NULL && (s->misspelt == NULL || strcmp(s->misspelt, text) != 0))
		log_warnx("conf %s: %s", s->subject, text);
	free(s->misspelt);
	s->misspelt = text;
}

bool
settings_config_map(struct settings *s, const struct object *config_map)
{
	struct misspelt misspelt[CONF_KEYS] = { 0 };
	char *unknown = NULL;

	s->has_config_map = config_map != NULL;
	note_foreign(s, config_map);
	find_misspelt(config_map, misspelt);
	bool changed = s->unread;
	s->unread = false;
	for (enum conf_key_id id = 0; id < CONF_KEYS; id++) {
		const char *name = conf_key_rows[id].name;
		const struct object_key_value *found = find_key(config_map, name);
		const struct misspelt *near = &misspelt[id];

		if (found == NULL && near->entry != NULL && unknown == NULL)
			unknown = xasprintf("%s: unknown key; did you mean %s?", near->entry, name);
		if (found != NULL)
			changed |= conf_keys_take(&s->keys, id, found->value, found->len, NULL);
		else if (near->text != NULL)
			changed |= conf_keys_take_misspelt(
			    &s->keys, id, near->entry, near->text, near->len);
		else
			changed |= conf_keys_take(&s->keys, id, NULL, 0, NULL);
		free(near->text);
	}
	note_misspelt(s, unknown);
	s->reads++;
	changed |= settle_upstreams(s);
	if (changed)
		s->changed_s = time(NULL);
	return changed;
}

/*
 * Replaces the active label, which has space for DNAME_LABEL_MAX bytes and a NUL. Returns true if
 * the label was different. A value that is not a DNS label cannot be part of a name, and counts as
 * unknown.
 */
static bool
take_label(char *label, const char *value)
{
	const char *usable = dname_label_ok(value, strlen(value)) ? value : "";

	if (strcmp(label, usable) == 0)
		return false;
	strcpy(label, usable);
	return true;
}

bool
settings_location(struct settings *s, const char *zone, const char *region)
{
	bool changed = take_label(s->zone, zone);

	return take_label(s->region, region) || changed;
}

/* Whether the address is in 127/8, or ::1. */
static bool
is_loopback(const struct addr *addr)
{
	static const uint8_t v6[16] = { [15] = 1 };

	return addr->family == AF_INET ? addr->bytes[0] == 127
				       : memcmp(addr->bytes, v6, sizeof v6) == 0;
}

/* Whether a filter with this mode is active. `absent` is true if nothing has an address of the
 * filter's family. */
static bool
filter_in_force(enum filter_mode mode, bool absent, const char *flag, bool was)
{
	bool is = mode == FILTER_ON || (mode == FILTER_AUTO && absent);

	if (is != was)
		log_info("--%s: queries of this family for external names are %s", flag,
		    is ? "answered NODATA at once" : "forwarded again");
	return is;
}

bool
settings_families(struct settings *s, bool v4, bool v6)
{
	const struct options *o = s->options;
	bool a = s->filter_a, aaaa = s->filter_aaaa;

	/* While no object has an address, nothing is known about the cluster, and no filter is active. */
	bool known = v4 || v6;
	for (size_t i = 0; i < o->zone.ns_addr_count; i++) {
		v4 |= o->zone.ns_addrs[i].family == AF_INET && !is_loopback(&o->zone.ns_addrs[i]);
		v6 |= o->zone.ns_addrs[i].family == AF_INET6 && !is_loopback(&o->zone.ns_addrs[i]);
	}
	s->filter_a = filter_in_force(o->upstream.filter_a, known && !v4, "filter-a", a);
	s->filter_aaaa =
	    filter_in_force(o->upstream.filter_aaaa, known && !v6, "filter-aaaa", aaaa);
	return s->filter_a != a || s->filter_aaaa != aaaa;
}

bool
settings_failing(struct settings *s, int64_t since_ms, int64_t now_ms)
{
	int64_t stale_ms = since_ms != 0 && now_ms - since_ms >= STALE_MS ? since_ms : 0;
	bool changed = stale_ms != s->stale_since_ms;

	s->stale_since_ms = stale_ms;
	return changed;
}

uint64_t
settings_reads(const struct settings *s)
{
	return s->reads;
}

const struct server *
settings_upstreams(const struct settings *s, size_t *count)
{
	*count = s->in_force_count;
	return s->in_force;
}

bool
settings_has_federations(const struct settings *s)
{
	return s->federations.count > 0;
}

bool
settings_settle(struct settings *s, struct hosts_maps *maps, int64_t now_ms)
{
	return settings_names_settle(&s->names, s->stubs.wires, s->stubs.len, maps, now_ms);
}

/* Whether a stub domain is inside one of our zones or among the reverse names. */
static bool
has_stub_inside(const struct settings *s)
{
	static const uint8_t v4[] = "\7in-addr\4arpa", v6[] = "\3ip6\4arpa";
	const struct answer_config *config = &s->options->answers;

	for (size_t i = 0; i < s->stubs.count; i++) {
		const uint8_t *stub = s->stubs.wires + s->stubs.order[i];

		if (dname_in_zone(stub, v4) >= 0 || dname_in_zone(stub, v6) >= 0)
			return true;
		for (size_t z = 0; z < zone_count(config); z++)
			if (dname_in_zone(stub, zone_name(config, z)->wire) >= 0)
				return true;
	}
	return false;
}

bool
settings_refuses(const struct settings *s, enum conf_key_id key)
{
	return s->keys.states[key].error != NULL || s->keys.states[key].partly;
}

struct answer_context *
settings_context(const struct settings *s)
{
	size_t fixed =
	    sizeof(struct answer_context) + s->federations.count * sizeof(struct federation);
	size_t order_size = s->stubs.count * sizeof *s->stubs.order;
	fixed += -fixed % sizeof *s->stubs.order;
	size_t refusals_size = s->stubs.closed_count * sizeof *s->stubs.refusals;
	struct answer_context *context = settings_names_context(
	    &s->names, fixed + order_size + refusals_size + s->stubs.len + s->stubs.texts_len);

	uint32_t *order = (uint32_t *)(void *)((uint8_t *)context + fixed);
	void *refusals = (uint8_t *)context + fixed + order_size;
	uint8_t *stubs = (uint8_t *)refusals + refusals_size;
	uint8_t *texts = stubs + s->stubs.len;
	if (refusals_size > 0) {
		memcpy(refusals, s->stubs.refusals, refusals_size);
		memcpy(texts, s->stubs.texts, s->stubs.texts_len);
	}
	context->stub_refusals = refusals;
	context->stub_refusal_count = s->stubs.closed_count;
	context->stub_refusal_texts = (const char *)texts;
	context->stub_order = order;
	context->stub_count = s->stubs.count;
	context->stubs = stubs;
	context->stubs_len = s->stubs.len;
	if (s->stubs.len > 0) {
		memcpy(order, s->stubs.order, order_size);
		memcpy(stubs, s->stubs.wires, s->stubs.len);
	}
	context->front = s->options->upstream.has_resolver;
	context->stubs_inside = context->front && has_stub_inside(s);
	context->own |= context->stubs_inside;
	context->stubs_encrypted_len = s->stubs.encrypted_len;
	context->stubs_closed_len = s->stubs.closed_len;
	context->unread = s->unread && !s->options->upstream.has_resolver;
	context->closed = is_closed(s) || context->unread;
	context->forwarding =
	    s->in_force_count > 0 || s->options->upstream.has_resolver || context->closed;
	context->filter_a = s->filter_a;
	context->filter_aaaa = s->filter_aaaa;
	context->stale_since_ns = s->stale_since_ms * 1000000;
	strcpy(context->zone, s->zone);
	strcpy(context->region, s->region);
	for (size_t i = 0; i < s->federations.count; i++) {
		struct federation *to = &context->federations[context->federation_count];
		const struct conf_federation *from = &s->federations.items[i];
		size_t len = strlen(from->name);

		if (dname_from_text(&to->domain, from->domain) < 0)
			continue; /* this cannot happen, because lib/conf has checked the domain */
		to->label[0] = (uint8_t)len;
		memcpy(to->label + 1, from->name, len);
		context->federation_count++;
	}
	return context;
}

unsigned
settings_mistakes(const struct settings *s)
{
	unsigned count = conf_keys_mistakes(&s->keys);

	if (s->stubs.empty != NULL) {
		log_errorx("conf %s: stubDomains: %s", s->subject, s->stubs.empty);
		count++;
	}
	return count;
}

void
settings_metrics(const struct settings *s, struct metrics *m)
{
	metrics_family(m, "kubedns_config_error", METRIC_GAUGE,
	    "1 while the content of this key is refused and its previous value is in force.");
	conf_keys_metrics(&s->keys, m);
	metrics_family(m, "kubedns_config_last_change_timestamp_seconds", METRIC_GAUGE,
	    "When upstream servers or federations last changed, in Unix time.");
	metrics_value(m, (double)s->changed_s, NULL);
	settings_names_metrics(&s->names, m);
	metrics_family(m, "kubedns_upstreams", METRIC_GAUGE, "Upstream servers in force.");
	metrics_value(m, (double)s->in_force_count, NULL);
}

int
settings_fd(const struct settings *s)
{
	return s->dir == NULL ? -1 : confdir_fd(s->dir);
}

int
settings_resolv_fd(const struct settings *s)
{
	return confdir_fd(s->resolv_dir);
}

struct settings *
settings_new(const struct options *options)
{
	struct settings *s = xcalloc(1, sizeof *s);
	const char *names[CONF_KEYS + 1];

	s->options = options;
	s->federations = options->zone.federations;
	settings_names_init(&s->names);
	s->filter_a = options->upstream.filter_a == FILTER_ON;
	s->filter_aaaa = options->upstream.filter_aaaa == FILTER_ON;
	conf_key_names(CONF_KUBEDNS, names);
	if (*options->configmap.dir != '\0')
		s->dir = confdir_new(options->configmap.dir, names);
	s->unread = *options->configmap.name != '\0' && *options->source.objects_dir == '\0';
	s->subject = s->dir != NULL ? xstrdup(options->configmap.dir)
				    : xasprintf("ConfigMap %s/%s", options->configmap.namespace,
					  options->configmap.name);
	s->keys = (struct conf_keys){ .program = CONF_KUBEDNS,
		.subject = s->subject,
		.domain = options->zone.domain,
		.apply = apply,
		.arg = s };
	s->resolv_dir = confdir_new("/etc", resolv_names);
	return s;
}

void
settings_free(struct settings *s)
{
	if (s == NULL)
		return;
	confdir_free(s->dir);
	confdir_free(s->resolv_dir);
	conf_keys_clear(&s->keys);
	free(s->subject);
	free(s->misspelt);
	conf_stubs_free(&s->stub_domains);
	stub_names_free(&s->stubs);
	free(s->loops);
	settings_names_free(&s->names);
	free(s);
}
