#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/xalloc.h"
#include "nanny/args.h"

enum takes { TAKES_NOTHING, TAKES_VALUE, TAKES_OPTIONAL };

enum known {
	OPT_OTHER,
	OPT_PORT,
	OPT_LISTEN,
	OPT_SERVER,
	OPT_SERVERS_FILE,
	OPT_DEBUG,
	OPT_CONF_FILE,
	OPT_PID_FILE,
	OPT_LOG_FACILITY,
	OPT_MAX_TCP,
	OPT_READS,
	OPT_WRITES,
};

/* The dnsmasq options that the nanny or one of its engines interprets. Only an option that requires a
 * value may take the next argument as its value. */
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
	{ "keep-in-foreground", 'k', TAKES_NOTHING, OPT_OTHER },
	{ "conf-file", 'C', TAKES_OPTIONAL, OPT_CONF_FILE },
	{ "pid-file", 'x', TAKES_OPTIONAL, OPT_PID_FILE },
	{ "log-facility", '8', TAKES_VALUE, OPT_LOG_FACILITY },
	{ "no-resolv", 'R', TAKES_NOTHING, OPT_OTHER },
	{ "fast-dns-retry", '\0', TAKES_OPTIONAL, OPT_OTHER },
	{ "user", 'u', TAKES_OPTIONAL, OPT_OTHER },
	{ "group", 'g', TAKES_OPTIONAL, OPT_OTHER },
	{ "strict-order", 'o', TAKES_NOTHING, OPT_OTHER },
	{ "all-servers", '\0', TAKES_NOTHING, OPT_OTHER },
	{ "use-stale-cache", '\0', TAKES_OPTIONAL, OPT_OTHER },
	{ "dnssec", '\0', TAKES_NOTHING, OPT_OTHER },
	{ "strip-subnet", '\0', TAKES_NOTHING, OPT_OTHER },
	{ "strip-mac", '\0', TAKES_NOTHING, OPT_OTHER },
	{ "dns-forward-max", '0', TAKES_VALUE, OPT_OTHER },
	{ "cache-size", 'c', TAKES_VALUE, OPT_OTHER },
	{ "max-tcp-connections", '\0', TAKES_VALUE, OPT_MAX_TCP },
	{ "addn-hosts", 'H', TAKES_VALUE, OPT_READS },
	{ "hostsdir", '\0', TAKES_VALUE, OPT_READS },
	{ "resolv-file", 'r', TAKES_VALUE, OPT_READS },
	{ "conf-dir", '7', TAKES_VALUE, OPT_READS },
	{ "dumpfile", '\0', TAKES_VALUE, OPT_WRITES },
	{ "no-negcache", 'N', TAKES_NOTHING, OPT_OTHER },
	{ "neg-ttl", '\0', TAKES_VALUE, OPT_OTHER },
	{ "min-cache-ttl", '\0', TAKES_VALUE, OPT_OTHER },
	{ "max-cache-ttl", '\0', TAKES_VALUE, OPT_OTHER },
	{ "interface", 'i', TAKES_VALUE, OPT_OTHER },
	{ "log-queries", 'q', TAKES_OPTIONAL, OPT_OTHER },
	{ "bogus-priv", 'b', TAKES_NOTHING, OPT_OTHER },
	{ "no-hosts", 'h', TAKES_NOTHING, OPT_OTHER },
	{ "no-poll", 'n', TAKES_NOTHING, OPT_OTHER },
	{ "domain-needed", 'D', TAKES_NOTHING, OPT_OTHER },
};

/* The letters of dnsmasq(8) that take a value. Such a letter ends a bundle of letters. */
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
	push(&args->warnings, &args->warning_count, xasprintf("%s: ignored: %s", what, reason));
}

/* Parses `ip` or `ip#port` and ignores `@...` after it. Returns false for anything else. */
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

/* Notes the servers of `--server=ip` and `--server=/a/b/ip`. The servers file must not repeat these
 * servers. Names of deleted domains fall back to these servers. */
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

/* Whether the nanny drops the option `known` with `value` from dnsmasq's command line. */
static bool
left_out(struct args *args, enum known known, const char *value)
{
	if (known == OPT_DEBUG)
		warn(args, "dnsmasq argument -d (--no-daemon)",
		    "with it, dnsmasq answers TCP in its only thread and dumps its cache on "
		    "SIGUSR1");
	else if (known == OPT_SERVERS_FILE)
		warn(args, "dnsmasq argument --servers-file", "the nanny writes that file");
	else if (known == OPT_LOG_FACILITY && strcmp(value, "-") != 0)
		warn(args, "dnsmasq argument --log-facility",
		    "the nanny reads dnsmasq's log and passes it on");
	else
		return false;
	return true;
}

/* Adds an argument that the engine gets: a known option by its long name, another option by the name
 * or letter that the operator wrote. */
static void
add_engine_argument(struct args *args, const char *name, size_t len, const char *value)
{
	args->given = xreallocarray(args->given, args->given_count + 1, sizeof *args->given);
	args->given[args->given_count++] =
	    (struct arg){ .name = xstrndup(name, len), .value = xstrdup(value) };
}

static int
understand(struct args *args, enum known known, const char *value, char **why)
{
	if (known == OPT_PORT)
		return read_port(args, value, why);
	if (known == OPT_MAX_TCP) /* dnsmasq itself reports an invalid value */
		args->tcp_max = (unsigned)strtoul(value, NULL, 10);
	if (known == OPT_LISTEN)
		read_listen(args, value);
	if (known == OPT_SERVER)
		read_server(args, value);
	/* --conf-dir=DIR,*.conf: the text after the comma is not a path. */
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

/* Takes one `--name[=value]` or `--name value`. Returns the number of arguments used, or
 * -EINVAL. */
static int
take_long(struct args *args, char *const *given, size_t left, char **why)
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
		add_engine_argument(args, name, len, value);
		for (int i = 0; i <= second; i++)
			push(&args->argv, &args->argc, xstrdup(given[i]));
	}
	int rc = understand(args, known, value, why);
	return rc < 0 ? rc : 1 + second;
}

/* Takes a bundle of letters. The last letter may have a value, in the same argument or in the next
 * argument. Returns the number of arguments used, or -EINVAL. */
static int
take_letters(struct args *args, char *const *given, size_t left, char **why)
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
			add_engine_argument(args, option != NULL ? option->name : p,
			    option != NULL ? strlen(option->name) : 1, value);
			kept[kept_len++] = *p;
			if (has_value && p[1])
				strcpy(kept + kept_len, p + 1);
		} else if (has_value)
			left = 1; /* drop the value too if it is the next argument */
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

int
args_parse(struct args *args, const char *exec, char *const *given, size_t count, char **why)
{
	*args = (struct args){ .port = 53 };
	push(&args->argv, &args->argc, xstrdup(exec));
	for (size_t i = 0; i < count;) {
		int used = 1;

		if (strncmp(given[i], "--", 2) == 0 && given[i][2])
			used = take_long(args, given + i, count - i, why);
		else if (given[i][0] == '-' && given[i][1] && given[i][1] != '-')
			used = take_letters(args, given + i, count - i, why);
		else
			push(&args->argv, &args->argc, xstrdup(given[i]));
		if (used < 0) {
			args_free(args);
			return used;
		}
		i += (size_t)used;
	}
	return 0;
}

bool
args_has(const struct args *args, const char *name)
{
	for (size_t i = 0; i < args->given_count; i++)
		if (strcmp(args->given[i].name, name) == 0)
			return true;
	return false;
}

void
args_push(struct args *args, char *taken)
{
	push(&args->argv, &args->argc, taken);
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

static void
free_list(char **list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

void
args_replace_argv(struct args *args, const char *exec)
{
	free_list(args->argv);
	args->argv = NULL;
	args->argc = 0;
	args_push(args, xstrdup(exec));
}

void
args_free(struct args *args)
{
	free_list(args->argv);
	for (size_t i = 0; i < args->given_count; i++) {
		free(args->given[i].name);
		free(args->given[i].value);
	}
	free(args->given);
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
