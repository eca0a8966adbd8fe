#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/sandbox.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/probes/server_checks.h"
#include "sidecar/probes/tls.h"
#include "sidecar/containers/nanny_config.h"

/* The delay between the first queries of new checks. */
#define CHECK_STAGGER_NS (20 * NS_PER_MS)

const char *
check_kind_name(enum check_kind kind)
{
	static const char *const names[CHECK_KIND_COUNT] = {
		[CHECK_CLUSTER] = "cluster",
		[CHECK_OUTSIDE] = "outside",
		[CHECK_UPSTREAM] = "upstream",
		[CHECK_STUB] = "stub",
	};

	return names[kind];
}

static void
free_check(struct check *check)
{
	if (check != NULL)
		dns_exchange_close(&check->exchange);
	free(check);
}

static bool
is_same_server(const struct check *a, const struct check *b)
{
	return server_equal(&a->server, &b->server) && strcmp(a->tls_name, b->tls_name) == 0;
}

/* Whether the sandbox allows a query to the server. Logs each port that it does not allow, once. */
static bool
may_connect(struct server_checks *checks, const struct check *check)
{
	uint16_t port = check->server.port;

	if (check->tls_name[0] == '\0' || sandbox_may_connect(port))
		return true;
	if (checks->closed_ports == NULL)
		checks->closed_ports = xcalloc(1, UINT16_MAX / 8 + 1);
	if ((checks->closed_ports[port / 8] & 1u << port % 8) == 0)
		log_warnx("tls:// servers at port %u are not checked: the sandbox does not allow "
			  "the port: add --upstream-port=%u",
		    port, port);
	checks->closed_ports[port / 8] |= (uint8_t)(1u << port % 8);
	return false;
}

/* Appends a check. If `before` contains the same check, moves that check with its state. */
static void
add_check(struct server_checks *checks, struct server_checks *before, const struct check *wanted,
    int64_t now_ns)
{
	for (size_t i = 0; i < checks->count; i++)
		if (checks->items[i]->kind == wanted->kind &&
		    is_same_server(checks->items[i], wanted))
			return;
	if (!may_connect(checks, wanted) || checks->count == CHECKS_MAX) {
		checks->skipped++;
		return;
	}
	for (size_t i = 0; before != NULL && i < before->count; i++) {
		struct check *old = before->items[i];

		if (old == NULL || old->kind != wanted->kind || !is_same_server(old, wanted) ||
		    !dname_equal(old->name.wire, wanted->name.wire))
			continue;
		before->items[i] = NULL;
		checks->items[checks->count++] = old;
		return;
	}
	struct check *check = xmalloc(sizeof *check);
	*check = *wanted;
	dns_exchange_init(&check->exchange);
	check->since_ns = now_ns;
	check->due_ns = now_ns + (int64_t)checks->count * CHECK_STAGGER_NS;
	checks->items[checks->count++] = check;
}

void
server_checks_init(struct server_checks *checks, const struct server *dnsmasq,
    const struct dname *outside, const struct dname *cluster, const char *ca, int64_t now_ns)
{
	struct check check = { .server = *dnsmasq };

	*checks = (struct server_checks){
		.dnsmasq = *dnsmasq, .has_outside = outside != NULL, .trust = tls_trust_new(ca)
	};
	if (cluster != NULL) {
		check.kind = CHECK_CLUSTER;
		check.name = *cluster;
		add_check(checks, NULL, &check, now_ns);
	}
	if (outside != NULL) {
		checks->outside = *outside;
		check.kind = CHECK_OUTSIDE;
		check.name = *outside;
		add_check(checks, NULL, &check, now_ns);
	}
}

void
server_checks_close(struct server_checks *checks)
{
	for (size_t i = 0; i < checks->count; i++)
		free_check(checks->items[i]);
	checks->count = 0;
	tls_trust_free(checks->trust);
	checks->trust = NULL;
	free(checks->closed_ports);
	checks->closed_ports = NULL;
}

/* Reads a server that is given by address. Returns false if it is not. */
static bool
read_server(const char *text, struct check *check)
{
	struct conf_server server;
	const char *why;

	if (conf_server_parse(text, &server, &why) < 0 || server.host[0] != '\0')
		return false;
	check->server = server.server;
	strcpy(check->tls_name, server.tls_name);
	return true;
}

static void
add_upstreams(struct server_checks *checks, struct server_checks *before,
    struct json_object *config, int64_t now_ns)
{
	struct json_object *upstreams = config_member(config, "upstreams", json_type_object);

	for (size_t i = 0; checks->has_outside && i < config_count(upstreams, "servers"); i++) {
		struct check check = { .kind = CHECK_UPSTREAM, .name = checks->outside };
		struct json_object *text = config_item(upstreams, "servers", i, json_type_string);

		if (text != NULL && read_server(json_object_get_string(text), &check))
			add_check(checks, before, &check, now_ns);
	}
}

/* Adds a server of a stub domain: an address, or "name:port" with the addresses to which the nanny resolved it. */
static void
add_stub_server(struct server_checks *checks, struct server_checks *before,
    struct json_object *config, const char *text, struct check *check, int64_t now_ns)
{
	const char *port = strrchr(text, ':');

	if (read_server(text, check)) {
		add_check(checks, before, check, now_ns);
		return;
	}
	check->tls_name[0] = '\0';
	for (size_t i = 0; port != NULL && i < config_count(config, "names"); i++) {
		struct json_object *name = config_item(config, "names", i, json_type_object);
		const char *host = config_string(name, "name");

		if (strlen(host) != (size_t)(port - text) || strncmp(host, text, strlen(host)) != 0)
			continue;
		for (size_t k = 0; k < config_count(name, "addresses"); k++) {
			struct json_object *item =
			    config_item(name, "addresses", k, json_type_object);
			struct json_object *now = config_member(item, "current", json_type_boolean);

			if (now == NULL || !json_object_get_boolean(now) ||
			    addr_parse(config_string(item, "address"), &check->server.addr) < 0)
				continue;
			check->server.port = (uint16_t)strtoul(port + 1, NULL, 10);
			add_check(checks, before, check, now_ns);
		}
	}
}

static void
add_stubs(struct server_checks *checks, struct server_checks *before, struct json_object *config,
    int64_t now_ns)
{
	struct json_object *keys = config_member(config, "keys", json_type_object);
	struct json_object *key = config_member(keys, "stubDomains", json_type_object);
	struct json_object *in_force = config_member(key, "inForce", json_type_object);

	if (in_force == NULL)
		return;
	double count = config_number(key, "count"), listed = json_object_object_length(in_force);
	/* the nanny lists only the first domains; each further domain has at least one server */
	if (count > listed)
		checks->skipped += (size_t)(count - listed);
	json_object_object_foreach(in_force, domain, list)
	{
		struct check check = { .kind = CHECK_STUB };

		if (!json_object_is_type(list, json_type_array) ||
		    strlen(domain) >= sizeof check.domain ||
		    dname_from_text(&check.name, domain) < 0)
			continue;
		strcpy(check.domain, domain);
		for (size_t i = 0; i < json_object_array_length(list); i++) {
			struct json_object *text = json_object_array_get_idx(list, i);

			if (json_object_is_type(text, json_type_string))
				add_stub_server(checks, before, config,
				    json_object_get_string(text), &check, now_ns);
		}
	}
}

void
server_checks_configure(struct server_checks *checks, struct json_object *config, int64_t now_ns)
{
	struct server_checks before = *checks;

	checks->count = checks->skipped = 0;
	for (size_t i = 0; i < before.count; i++)
		if (before.items[i]->kind == CHECK_CLUSTER ||
		    before.items[i]->kind == CHECK_OUTSIDE) {
			checks->items[checks->count++] = before.items[i];
			before.items[i] = NULL;
		}
	add_upstreams(checks, &before, config, now_ns);
	add_stubs(checks, &before, config, now_ns);
	for (size_t i = 0; i < before.count; i++)
		free_check(before.items[i]);
}

static bool
is_failure(enum cause cause)
{
	switch (cause) {
	case CAUSE_TIMEOUT:
	case CAUSE_CONNECTION_REFUSED:
	case CAUSE_UNREACHABLE:
	case CAUSE_MALFORMED:
	case CAUSE_WRONG_ID:
	case CAUSE_SERVFAIL:
		return true;
	default:
		return cause >= CAUSE_PLAIN_COUNT;
	}
}

/* Whether dnsmasq refused the external name. The reason is that dnsmasq has no server for the name, or that too many queries are waiting. */
static bool
is_refused(const struct check *check)
{
	return check->kind == CHECK_OUTSIDE && check->cause == CAUSE_REFUSED;
}

static void
log_check(const struct check *check, bool was)
{
	char server[SERVER_TEXT_MAX], text[CAUSE_TEXT_MAX];

	if (was == check_failing(check))
		return;
	server_format(&check->server, server);
	if (was)
		log_info("check %s%s%s: %s: answers again", check_kind_name(check->kind),
		    check->domain[0] != '\0' ? " " : "", check->domain, server);
	else
		log_warnx("check %s%s%s: %s: %s", check_kind_name(check->kind),
		    check->domain[0] != '\0' ? " " : "", check->domain, server,
		    cause_text(check->cause, 0, text));
}

/* Whether the server, which has replied, was slow before and is not any more. */
static bool
became_fast(struct check *check)
{
	bool was = check->slow;
	int64_t latency_ms = check->exchange.latency_ns / NS_PER_MS;

	check->slow = latency_ms >= (was ? CHECK_FAST_MS : CHECK_SLOW_MS);
	return was && !check->slow;
}

static void
take_result(struct server_checks *checks, struct check *check, int64_t now_ns)
{
	bool was = check_failing(check);
	bool recovered = false;

	check->asked = true;
	check->cause = check->exchange.reply.cause;
	if (is_failure(check->cause) || is_refused(check)) {
		check->failed++;
		if (check->failures < CHECK_FAILURES)
			check->failures++;
	} else {
		check->answered++;
		recovered = became_fast(check) || check->failures > 0;
		check->failures = 0;
	}
	if (was != check_failing(check))
		check->since_ns = now_ns;
	bool is_server = check->kind == CHECK_UPSTREAM || check->kind == CHECK_STUB;
	checks->recovered |= recovered && is_server;
	/* A server is queried every second until it answers again, and while it is slow. dnsmasq is not, because the check counts as a query
	 * of its clients. */
	bool suspect = is_server ? check->failures > 0 || check->slow
				 : check->failures > 0 && !check_failing(check);
	check->due_ns = suspect ? check->exchange.sent_ns + CHECK_RETRY_MS * NS_PER_MS
				: now_ns + CHECK_INTERVAL_MS * NS_PER_MS;
	log_check(check, was);
	dns_exchange_close(&check->exchange);
}

void
server_checks_run(struct server_checks *checks, size_t i, short revents, int64_t now_ns)
{
	struct check *check = checks->items[i];
	bool ended;

	if (dns_exchange_busy(&check->exchange)) {
		ended = dns_exchange_run(&check->exchange, revents);
	} else {
		if (now_ns < check->due_ns)
			return;
		checks->forwarded += check->kind == CHECK_CLUSTER || check->kind == CHECK_OUTSIDE;
		uint16_t type = check->kind == CHECK_STUB ? TYPE_SOA : TYPE_NS;
		ended =
		    check->tls_name[0] != '\0'
			? dns_exchange_ask_tls(&check->exchange, &check->server, check->tls_name,
			      checks->trust, &check->name, type, CHECK_TIMEOUT_MS)
			: dns_exchange_ask(&check->exchange, &check->server, &check->name, type,
			      CLASS_IN, CHECK_TIMEOUT_MS);
	}
	if (ended)
		take_result(checks, check, now_ns);
}

int64_t
server_checks_deadline(const struct server_checks *checks)
{
	int64_t deadline = CLOCK_NEVER;

	for (size_t i = 0; i < checks->count; i++) {
		const struct check *check = checks->items[i];
		int64_t at = dns_exchange_busy(&check->exchange) ? check->exchange.deadline_ns
								 : check->due_ns;

		if (at < deadline)
			deadline = at;
	}
	return deadline;
}

const struct check *
server_checks_find(const struct server_checks *checks, enum check_kind kind)
{
	for (size_t i = 0; i < checks->count; i++)
		if (checks->items[i]->kind == kind)
			return checks->items[i];
	return NULL;
}

void
server_checks_count(
    const struct server_checks *checks, enum check_kind kind, size_t *count, size_t *failing)
{
	*count = *failing = 0;
	for (size_t i = 0; i < checks->count; i++) {
		if (checks->items[i]->kind != kind)
			continue;
		++*count;
		*failing += check_failing(checks->items[i]);
	}
}
