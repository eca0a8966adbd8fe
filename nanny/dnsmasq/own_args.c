#include "nanny/dnsmasq/own_args.h"

#include "lib/xalloc.h"
#include "nanny/servers/servers_file.h"

void
own_args_add(struct args *args, const char *file, bool as_root)
{
	const struct {
		bool wanted;
		const char *text;
	} ours[] = {
		{ !args_has(args, "keep-in-foreground"), "-k" },
		{ !args_has(args, "conf-file"), "--conf-file=/dev/null" },
		{ !args_has(args, "pid-file"), "--pid-file=" },
		{ !args_has(args, "log-facility"), "--log-facility=-" },
		{ !args_has(args, "no-resolv"), "--no-resolv" },
		{ !args_has(args, "fast-dns-retry"), "--fast-dns-retry=200" },
		{ as_root && !args_has(args, "user"), "--user=root" },
		{ as_root && !args_has(args, "user") && !args_has(args, "group"), "--group=root" },
	};

	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (ours[i].wanted)
			args_push(args, xstrdup(ours[i].text));
	args_push(args, xasprintf("--servers-file=%s", file));
}

/* Returns how many items of `each` bytes fit into the fraction `share` of the memory limit. The
 * result is between `least` and `most`. If the limit is unknown, returns `most`. */
static unsigned
fit(double limit, double share, double each, unsigned least, unsigned most)
{
	double count = limit > 0 ? limit * share / each : most;

	return count < least ? least : count > most ? most : (unsigned)count;
}

void
own_args_add_limits(struct args *args, unsigned version, double memory_limit)
{
	unsigned forward_max = fit(
	    memory_limit, 0.1, OWN_ARGS_FORWARD_BYTES, OWN_ARGS_FORWARD_MIN, OWN_ARGS_FORWARD_MAX);

	if (!args_has(args, "dns-forward-max"))
		args_push(args, xasprintf("--dns-forward-max=%u", forward_max));
	if (args->tcp_max == 0 && version < OWN_ARGS_TCP_VERSION)
		args->tcp_max = OWN_ARGS_TCP_MIN;
	if (args->tcp_max > 0)
		return;
	args->tcp_max =
	    fit(memory_limit, 0.5, OWN_ARGS_TCP_BYTES, OWN_ARGS_TCP_MIN, OWN_ARGS_TCP_MAX);
	args_push(args, xasprintf("--max-tcp-connections=%u", args->tcp_max));
}

void
own_args_add_cache(struct args *args, double memory)
{
	if (!args_has(args, "cache-size"))
		args_push(args,
		    xasprintf("--cache-size=%u", fit(memory, 0.125, OWN_ARGS_CACHE_BYTES,
						     OWN_ARGS_CACHE_MIN, OWN_ARGS_CACHE_MAX)));
}

void
own_args_add_upstream(
    struct args *args, unsigned version, const char *domain, const struct server *kubedns)
{
	bool first = args_asked_first(args, domain, kubedns);

	if (!first)
		args_push(args, xasprintf("--txt-record=%s,%s", SERVERS_VALIDATION,
				    args_has(args, "dnssec") ? "validate" : "off"));
	if (first && !args_has(args, "all-servers") && !args_has(args, "strict-order"))
		args_push(args, xstrdup("--all-servers"));
	if (version < OWN_ARGS_STALE_VERSION)
		return;
	/* dnsmasq's option is for all names, so cluster names would have expired answers too */
	if (!first && !args_has(args, "use-stale-cache"))
		args_push(args, xasprintf("--use-stale-cache=%d", OWN_ARGS_STALE_S));
	/* With expired answers, dnsmasq caches a negative answer without SOA also if it has no TTL, and
	 * then does not set its type. Such an answer to an SRV query could answer an A query. */
	if ((!first || args_has(args, "use-stale-cache")) && !args_has(args, "neg-ttl"))
		args_push(args, xstrdup("--neg-ttl=1"));
	if (!args_has(args, "strip-subnet"))
		args_push(args, xstrdup("--strip-subnet"));
	if (!args_has(args, "strip-mac"))
		args_push(args, xstrdup("--strip-mac"));
}
