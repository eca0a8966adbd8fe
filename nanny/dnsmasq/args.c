#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/xalloc.h"
#include "nanny/dnsmasq/args.h"

enum takes { TAKES_NOTHING, TAKES_VALUE, TAKES_OPTIONAL };

enum known {
	OPT_OTHER,
	OPT_PORT,
	OPT_LISTEN,
	OPT_SERVER,
	OPT_SERVERS_FILE,
	OPT_DEBUG,
	OPT_FOREGROUND,
	OPT_CONF_FILE,
	OPT_PID_FILE,
	OPT_LOG_FACILITY,
	OPT_NO_RESOLV,
	OPT_FAST_RETRY,
	OPT_USER,
	OPT_GROUP,
	OPT_STRICT_ORDER,
	OPT_ALL_SERVERS,
	OPT_STALE_CACHE,
	OPT_STRIP_SUBNET,
	OPT_STRIP_MAC,
	OPT_FORWARD_MAX,
	OPT_CACHE_SIZE,
	OPT_MAX_TCP,
	OPT_READS,
	OPT_WRITES,
	OPT_COUNT,
};

/* The options of dnsmasq that matter here. A value may be the next argument only for an option that
 * must have one. */
static const struct option {
	const char *name;
	char letter;
	enum takes takes;
	enum known known;
} options[] = {
	{ "port", 'p', TAKES_VALUE, OPT_PORT },
	{ "listen-address", 'a', TAKES_VALUE, OPT_LISTEN },
	{ "server", 'S', TAKES_VALUE, OPT_SERVER },
	{ "local", '\0', TAKES_VALUE, OPT_SERVER },
	{ "servers-file", '\0', TAKES_VALUE, OPT_SERVERS_FILE },
	{ "no-daemon", 'd', TAKES_NOTHING, OPT_DEBUG },
	{ "keep-in-foreground", 'k', TAKES_NOTHING, OPT_FOREGROUND },
	{ "conf-file", 'C', TAKES_OPTIONAL, OPT_CONF_FILE },
	{ "pid-file", 'x', TAKES_OPTIONAL, OPT_PID_FILE },
	{ "log-facility", '8', TAKES_VALUE, OPT_LOG_FACILITY },
	{ "no-resolv", 'R', TAKES_NOTHING, OPT_NO_RESOLV },
	{ "fast-dns-retry", '\0', TAKES_OPTIONAL, OPT_FAST_RETRY },
	{ "user", 'u', TAKES_OPTIONAL, OPT_USER },
	{ "group", 'g', TAKES_OPTIONAL, OPT_GROUP },
	{ "strict-order", 'o', TAKES_NOTHING, OPT_STRICT_ORDER },
	{ "all-servers", '\0', TAKES_NOTHING, OPT_ALL_SERVERS },
	{ "use-stale-cache", '\0', TAKES_OPTIONAL, OPT_STALE_CACHE },
	{ "strip-subnet", '\0', TAKES_NOTHING, OPT_STRIP_SUBNET },
	{ "strip-mac", '\0', TAKES_NOTHING, OPT_STRIP_MAC },
	{ "dns-forward-max", '0', TAKES_VALUE, OPT_FORWARD_MAX },
	{ "cache-size", 'c', TAKES_VALUE, OPT_CACHE_SIZE },
	{ "max-tcp-connections", '\0', TAKES_VALUE, OPT_MAX_TCP },
	{ "addn-hosts", 'H', TAKES_VALUE, OPT_READS },
	{ "hostsdir", '\0', TAKES_VALUE, OPT_READS },
	{ "resolv-file", 'r', TAKES_VALUE, OPT_READS },
	{ "conf-dir", '7', TAKES_VALUE, OPT_READS },
	{ "dumpfile", '\0', TAKES_VALUE, OPT_WRITES },
};

/* Letters that are followed by a value, as in dnsmasq(8): needed to find where a bundle of letters
 * ends. */
static const char letters_with_value[] = "rmpclsituagxSCATHQIBFGOMXVUjPJWY2467803";

static void
push(char ***list, size_t *count, char *taken)
{
	*list = xreallocarray(*list, *count + 2, sizeof **list);
	(*list)[(*count)++] = taken;
	(*list)[*count] = NULL;
}

static void
warn(struct args *args, const char *what, const char *reason)
{
	push(&args->warnings, &args->warning_count, xasprintf("%s: left out, %s", what, reason));
}

/* `ip`, `ip#port`, with `@...` cut off; false if it is anything else. */
static bool
parse_target(const char *text, struct server *server)
{
	char *copy = xstrdup(text), *port = NULL;

	copy[strcspn(copy, "@")] = '\0';
	size_t hash = strcspn(copy, "#");
	if (copy[hash]) {
		copy[hash] = '\0';
		port = copy + hash + 1;
	}
	bool ok = addr_parse(copy, &server->addr) == 0;
	char *end = NULL;
	unsigned long n = port != NULL ? strtoul(port, &end, 10) : 53;
	ok = ok && n >= 1 && n <= 65535 && (port == NULL || (*port && *end == '\0'));
	server->port = (uint16_t)n;
	free(copy);
	return ok;
}

static void
fix_domain(struct args *args, const char *domain, const char *target)
{
	char name[CONF_HOST_MAX];
	const char *why;
	struct server server;

	if (*domain && conf_name_parse(domain, name, &why) < 0)
		return;
	struct domain_servers *entry = domain_table_add(&args->fixed, *domain ? name : "");
	if (parse_target(target, &server))
		domain_servers_add_server(entry, &server);
}

/* `--server=ip`, `--server=/a/b/ip`: servers that the file must not repeat, and to which names fall
 * back. */
static void
read_server(struct args *args, const char *value)
{
	if (*value != '/') {
		fix_domain(args, "", value);
		return;
	}
	char *copy = xstrdup(value + 1), *target = strrchr(copy, '/');
	if (target != NULL) {
		*target++ = '\0';
		char *rest = copy;
		for (char *domain; (domain = strsep(&rest, "/")) != NULL;)
			if (*domain)
				fix_domain(args, domain, target);
	}
	free(copy);
}

static void
read_listen(struct args *args, const char *value)
{
	char *copy = xstrdup(value), *rest = copy;

	for (char *one; (one = strsep(&rest, ",")) != NULL;)
		if (args->listen_count < ARGS_LISTEN_MAX &&
		    addr_parse(one, &args->listen[args->listen_count]) == 0)
			args->listen_count++;
	free(copy);
}

static int
read_port(struct args *args, const char *value, char **why)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || n < 1 || n > 65535) {
		*why = xasprintf("dnsmasq argument --port=%s: must be 1 to 65535", value);
		return -EINVAL;
	}
	args->port = (uint16_t)n;
	return 0;
}

/* Whether `known` with `value` must not reach dnsmasq. */
static bool
left_out(struct args *args, enum known known, const char *value)
{
	if (known == OPT_DEBUG)
		warn(args, "dnsmasq argument -d (--no-daemon)",
		    "it answers TCP in the only thread and dumps the cache on SIGUSR1");
	else if (known == OPT_SERVERS_FILE)
		warn(args, "dnsmasq argument --servers-file", "the nanny writes that file");
	else if (known == OPT_LOG_FACILITY && strcmp(value, "-") != 0)
		warn(args, "dnsmasq argument --log-facility",
		    "the nanny reads dnsmasq's log and passes it on");
	else
		return false;
	return true;
}

static int
understand(struct args *args, enum known known, const char *value, char **why)
{
	if (known == OPT_PORT)
		return read_port(args, value, why);
	if (known == OPT_STRICT_ORDER)
		args->strict_order = true;
	if (known == OPT_ALL_SERVERS)
		args->all_servers = true;
	if (known == OPT_STALE_CACHE)
		args->stale_cache = true;
	if (known == OPT_STRIP_SUBNET)
		args->strip_subnet = true;
	if (known == OPT_STRIP_MAC)
		args->strip_mac = true;
	if (known == OPT_FORWARD_MAX)
		args->forward_max = true;
	if (known == OPT_CACHE_SIZE)
		args->cache_size = true;
	if (known == OPT_MAX_TCP) /* what dnsmasq refuses, it says itself */
		args->tcp_max = (unsigned)strtoul(value, NULL, 10);
	if (known == OPT_LISTEN)
		read_listen(args, value);
	if (known == OPT_SERVER)
		read_server(args, value);
	/* --conf-dir=DIR,*.conf: what follows the comma are no names. */
	if ((known == OPT_READS || known == OPT_CONF_FILE) && *value == '/')
		push(&args->reads, &args->read_count, xstrndup(value, strcspn(value, ",")));
	if ((known == OPT_WRITES || known == OPT_PID_FILE) && *value == '/')
		push(&args->writes, &args->write_count, xstrdup(value));
	return 0;
}

static const struct option *
find_long(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
			return &options[i];
	return NULL;
}

static const struct option *
find_letter(char letter)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (options[i].letter == letter)
			return &options[i];
	return NULL;
}

/* One `--name[=value]`, or `--name value`; returns the arguments used up, or -EINVAL. */
static int
take_long(struct args *args, char *const *given, size_t left, bool *seen, char **why)
{
	const char *name = given[0] + 2;
	size_t len = strcspn(name, "=");
	const struct option *option = find_long(name, len);
	enum known known = option != NULL ? option->known : OPT_OTHER;
	const char *value = name[len] ? name + len + 1 : "";
	bool second = option != NULL && option->takes == TAKES_VALUE && !name[len] && left > 1;

	if (second)
		value = given[1];
	if (!left_out(args, known, value)) {
		seen[known] = true;
		for (int i = 0; i <= second; i++)
			push(&args->argv, &args->argc, xstrdup(given[i]));
	}
	int rc = understand(args, known, value, why);
	return rc < 0 ? rc : 1 + second;
}

/* A bundle of letters, the last of which may have a value, here or in the next argument; returns as
 * take_long. */
static int
take_letters(struct args *args, char *const *given, size_t left, bool *seen, char **why)
{
	const char *p = given[0] + 1;
	char *kept = xcalloc(strlen(given[0]) + 2, 1);
	size_t kept_len = 0, used = 1;
	int rc = 0;

	kept[kept_len++] = '-';
	for (; *p && rc == 0; p++) {
		const struct option *option = find_letter(*p);
		enum known known = option != NULL ? option->known : OPT_OTHER;
		bool has_value = strchr(letters_with_value, *p) != NULL;
		const char *value = "";

		if (has_value && p[1])
			value = p + 1;
		else if (has_value && left > 1) {
			value = given[1];
			used = 2;
		}
		rc = understand(args, known, value, why);
		if (!left_out(args, known, value)) {
			seen[known] = true;
			kept[kept_len++] = *p;
			if (has_value && p[1])
				strcpy(kept + kept_len, p + 1);
		} else if (has_value)
			left = 1; /* its value, if it is the next argument, goes with it */
		if (has_value)
			break;
	}
	if (kept[1])
		push(&args->argv, &args->argc, xstrdup(kept));
	if (used == 2 && left > 1)
		push(&args->argv, &args->argc, xstrdup(given[1]));
	free(kept);
	return rc < 0 ? rc : (int)used;
}

/* Adds what supervision needs and the operator's arguments lack. */
static void
add_ours(struct args *args, const bool *seen, const char *file, bool as_root)
{
	const struct {
		bool wanted;
		const char *text;
	} ours[] = {
		{ !seen[OPT_FOREGROUND], "-k" },
		{ !seen[OPT_CONF_FILE], "--conf-file=/dev/null" },
		{ !seen[OPT_PID_FILE], "--pid-file=" },
		{ !seen[OPT_LOG_FACILITY], "--log-facility=-" },
		{ !seen[OPT_NO_RESOLV], "--no-resolv" },
		{ !seen[OPT_FAST_RETRY], "--fast-dns-retry=200" },
		{ as_root && !seen[OPT_USER], "--user=root" },
		{ as_root && !seen[OPT_USER] && !seen[OPT_GROUP], "--group=root" },
	};

	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (ours[i].wanted)
			push(&args->argv, &args->argc, xstrdup(ours[i].text));
	push(&args->argv, &args->argc, xasprintf("--servers-file=%s", file));
}

int
args_build(struct args *args, const char *exec, char *const *given, size_t count, const char *file,
    bool as_root, char **why)
{
	*args = (struct args){ .port = 53 };
	bool seen[OPT_COUNT] = { false };
	push(&args->argv, &args->argc, xstrdup(exec));
	for (size_t i = 0; i < count;) {
		int used = 1;

		if (strncmp(given[i], "--", 2) == 0 && given[i][2])
			used = take_long(args, given + i, count - i, seen, why);
		else if (given[i][0] == '-' && given[i][1] && given[i][1] != '-')
			used = take_letters(args, given + i, count - i, seen, why);
		else
			push(&args->argv, &args->argc, xstrdup(given[i]));
		if (used < 0) {
			args_free(args);
			return used;
		}
		i += (size_t)used;
	}
	add_ours(args, seen, file, as_root);
	return 0;
}

/* A share of the memory limit for `each` bytes of something, within bounds; the upper one where no
 * limit is known. */
static unsigned
fit(double limit, double share, double each, unsigned least, unsigned most)
{
	double count = limit > 0 ? limit * share / each : most;

	return count < least ? least : count > most ? most : (unsigned)count;
}

void
args_add_limits(struct args *args, unsigned version, double memory_limit)
{
	unsigned forward_max =
	    fit(memory_limit, 0.1, ARGS_FORWARD_BYTES, ARGS_FORWARD_MIN, ARGS_FORWARD_MAX);

	if (!args->forward_max)
		push(&args->argv, &args->argc, xasprintf("--dns-forward-max=%u", forward_max));
	if (args->tcp_max == 0 && version < ARGS_TCP_VERSION)
		args->tcp_max = ARGS_TCP_MIN;
	if (args->tcp_max > 0)
		return;
	args->tcp_max = fit(memory_limit, 0.5, ARGS_TCP_BYTES, ARGS_TCP_MIN, ARGS_TCP_MAX);
	push(&args->argv, &args->argc, xasprintf("--max-tcp-connections=%u", args->tcp_max));
}

void
args_add_cache(struct args *args, double memory)
{
	if (!args->cache_size)
		push(&args->argv, &args->argc,
		    xasprintf("--cache-size=%u",
			fit(memory, 0.125, ARGS_CACHE_BYTES, ARGS_CACHE_MIN, ARGS_CACHE_MAX)));
}

bool
args_asked_first(const struct args *args, const char *domain, const struct server *kubedns)
{
	bool first = domain_table_get(&args->fixed, domain) != NULL;

	for (size_t i = 0; i < args->fixed.count && !first; i++)
		for (size_t k = 0; k < args->fixed.items[i].count && !first; k++)
			first = args->fixed.items[i].domain[0] != '\0' &&
				server_equal(&args->fixed.items[i].servers[k], kubedns);
	return first;
}

void
args_add_upstream(
    struct args *args, unsigned version, const char *domain, const struct server *kubedns)
{
	bool first = args_asked_first(args, domain, kubedns);

	if (first && !args->all_servers && !args->strict_order)
		push(&args->argv, &args->argc, xstrdup("--all-servers"));
	if (version < ARGS_STALE_VERSION)
		return;
	if (!args->stale_cache)
		push(&args->argv, &args->argc,
		    xasprintf("--use-stale-cache=%d", first ? ARGS_STALE_FIRST_S : ARGS_STALE_S));
	if (!args->strip_subnet)
		push(&args->argv, &args->argc, xstrdup("--strip-subnet"));
	if (!args->strip_mac)
		push(&args->argv, &args->argc, xstrdup("--strip-mac"));
}

static void
free_list(char **list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

void
args_free(struct args *args)
{
	free_list(args->argv);
	free_list(args->warnings);
	free_list(args->reads);
	free_list(args->writes);
	domain_table_free(&args->fixed);
	*args = (struct args){ 0 };
}

struct server
args_probe_server(const struct args *args)
{
	struct server server = { .addr = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		.port = args->port };

	if (args->listen_count == 0)
		return server;
	for (size_t i = 0; i < args->listen_count; i++)
		if (addr_equal(&args->listen[i], &server.addr))
			return server;
	server.addr = args->listen[0];
	return server;
}
