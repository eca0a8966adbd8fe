/*
 * dnsmasq as the nanny's engine. It gets changes by SIGHUP, which makes it read its servers file
 * again. It forks a process for each TCP connection, and such a process keeps the old configuration.
 */
#include "nanny/engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "nanny/dnsmasq/own_args.h"
#include "nanny/dnsmasq/servers_plan.h"
#include "nanny/dnsmasq/stale_forks.h"
#include "nanny/dnsmasq/version.h"
#include "nanny/nanny.h"
#include "nanny/privileges.h"

enum {
	MEMORY_PART = 4, /* dnsmasq gets a quarter of -memory, kubedns gets the rest */
	/* dnsmasq opens a socket for each query in flight, and handles each packet in a time that grows
	 * with the number of open sockets. With 3,000 sockets, 1,000 names a second that nobody answers
	 * took the whole processor. When dnsmasq has about this many sockets, queries to servers of the
	 * same address family share them. */
	UPSTREAM_SOCKETS = 256,
	FILES_MAX = 1 << 20,
};

struct dnsmasq {
	struct stale_forks stale_forks;
	char package[PACKAGE_VERSION_MAX]; /* version of the dnsmasq package; "" if unknown */
	uint64_t plans;
};

static struct dnsmasq *
state(const struct nanny *nanny)
{
	return nanny->engine_state;
}

static const char *
exec_of(const struct options *options)
{
	return options->dnsmasq_exec;
}

static int
prepare(struct nanny *nanny, const char *file)
{
	const struct options *o = nanny->options;
	struct dnsmasq *dnsmasq = nanny->engine_state = xcalloc(1, sizeof *dnsmasq);
	double used, limit;

	dnsmasq_package_version(dnsmasq->package);
	own_args_add(&nanny->args, file, privileges_stay_root());
	process_container_memory(&used, &limit);
	unsigned version = dnsmasq_version(o->dnsmasq_exec);
	if (o->memory > 0) {
		limit = (double)o->memory / MEMORY_PART;
		own_args_add_cache(&nanny->args, limit);
	}
	own_args_add_limits(&nanny->args, version, limit);
	own_args_add_upstream(&nanny->args, version, o->domain, &o->kubedns);
	dnsmasq_unknown_args_warn(o->dnsmasq_exec, version, nanny->args.argv);
	dnsmasq->stale_forks.limit = nanny->args.tcp_max;
	return 0;
}

/* dnsmasq uses a third of the limit for these sockets. Two thirds remain for a pipe for each TCP
 * connection and for everything else. */
static unsigned
files(const struct nanny *nanny)
{
	unsigned pipes = nanny->args.tcp_max < FILES_MAX ? nanny->args.tcp_max : FILES_MAX;

	return 3 * (UPSTREAM_SOCKETS + pipes / 2);
}

static struct servers_file
plan(
    struct nanny *nanny, const struct domain_table *wanted, const struct server *nobody, bool fresh)
{
	static const struct servers_file nothing;
	struct servers_input input = { .wanted = wanted,
		.fixed = &nanny->args.fixed,
		.nobody = *nobody,
		.before = fresh ? &nothing : &nanny->written,
		.fresh = fresh,
		.strict_order = args_has(&nanny->args, "strict-order"),
		.now = ++state(nanny)->plans };

	return servers_plan(&input);
}

static char *
render(const struct nanny *nanny, const struct servers_file *file, uint32_t generation,
    uint16_t port, size_t *len)
{
	(void)nanny;
	return servers_render(file, generation, port, len);
}

static void
apply(struct nanny *nanny)
{
	nanny->stats.hups++;
	process_signal(&nanny->process, SIGHUP);
}

static void
confirmed(struct nanny *nanny, int64_t now_ms)
{
	if (nanny->reloading)
		stale_forks_reloaded(&state(nanny)->stale_forks, nanny->process.pid, now_ms);
}

static void
died(struct nanny *nanny)
{
	stale_forks_forget(&state(nanny)->stale_forks);
}

static void
run(struct nanny *nanny, int64_t now_ms)
{
	stale_forks_count(&state(nanny)->stale_forks, nanny->process.pid, now_ms);
	stale_forks_run(&state(nanny)->stale_forks, nanny->args.port, now_ms);
}

static int64_t
next_ms(const struct nanny *nanny)
{
	return stale_forks_next_ms(&state(nanny)->stale_forks);
}

static int
fd(const struct nanny *nanny)
{
	(void)nanny;
	return -1;
}

static void
log_statistics(struct nanny *nanny)
{
	process_signal(&nanny->process, SIGUSR1);
}

static void
metrics(const struct nanny *nanny, struct metrics *m)
{
	const struct stale_forks *tcp = &state(nanny)->stale_forks;
	size_t lines = 0, retired = 0;

	metrics_family(m, "nanny_dnsmasq_info", METRIC_GAUGE,
	    "Always 1; dnsmasq's version, and the version of its package if the image has it.");
	metrics_value(
	    m, 1, "version", nanny->process.version, "package", state(nanny)->package, NULL);
	metrics_family(m, "nanny_tcp_connections_stale", METRIC_GAUGE,
	    "TCP connections to dnsmasq from before the last reload: they use the old "
	    "configuration until they are idle.");
	metrics_value(m, (double)tcp->count, NULL);
	metrics_family(m, "nanny_tcp_connections_ended_total", METRIC_COUNTER,
	    "Idle TCP connections to dnsmasq closed because they were from before a reload.");
	metrics_value(m, (double)tcp->ended, NULL);
	metrics_family(m, "nanny_tcp_connections", METRIC_GAUGE, "TCP connections to dnsmasq.");
	metrics_value(m, (double)tcp->connections, NULL);
	metrics_family(
	    m, "nanny_tcp_connections_max", METRIC_GAUGE, "Maximum of TCP connections to dnsmasq.");
	metrics_value(m, (double)tcp->limit, NULL);
	metrics_family(m, "nanny_tcp_connections_crowd_ended_total", METRIC_COUNTER,
	    "Idle TCP connections to dnsmasq closed because the maximum was near.");
	metrics_value(m, (double)tcp->crowd_ended, NULL);
	for (size_t i = 0; i < nanny->written.count; i++) {
		lines += nanny->written.items[i].count;
		retired += nanny->written.items[i].retired ? nanny->written.items[i].count : 0;
	}
	metrics_family(m, "nanny_servers_file_lines", METRIC_GAUGE,
	    "Lines of the servers file; retired lines are for domains that were removed.");
	metrics_value(m, (double)(lines - retired), "kind", "configured", NULL);
	metrics_value(m, (double)retired, "kind", "retired", NULL);
	metrics_family(m, "nanny_servers_file_dropped_lines_total", METRIC_COUNTER,
	    "Retired lines dropped because there were too many.");
	metrics_value(m, (double)nanny->stats.dropped_lines, NULL);
}

/* `trouble` lists words in dnsmasq's log that indicate a problem. `detail` lists prefixes of the
 * lines that dnsmasq logs at every reload or query. */
static enum log_level
level_of(const char *line)
{
	static const char *const trouble[] = { "fail", "cannot", "can't", "error", "bad ",
		"illegal", "warning", "WARNING", "not known", "unknown", "junk", "missing",
		"ignoring", "Maximum", "reducing", "refused", "dropping", "overflow", "LOUD",
		"invalid" };
	static const char *const detail[] = { "using ", "read ", "query", "forwarded", "reply",
		"cached", "config", "compile time", "more servers", "cleared cache", "validation",
		"DNS service limited", "stopped ", "warning: no upstream servers configured" };
	for (size_t i = 0; i < sizeof detail / sizeof *detail; i++)
		if (strncmp(line, detail[i], strlen(detail[i])) == 0)
			return LOG_LEVEL_DEBUG;
	for (size_t i = 0; i < sizeof trouble / sizeof *trouble; i++)
		if (strstr(line, trouble[i]) != NULL)
			return LOG_LEVEL_WARN;
	return LOG_LEVEL_INFO;
}

/* Takes the version from "started, version 2.90 cachesize 1000". */
static void
note_version(struct process *process, const char *text)
{
	static const char begin[] = "started, version ";

	if (strncmp(text, begin, sizeof begin - 1) != 0)
		return;
	text += sizeof begin - 1;
	snprintf(process->version, sizeof process->version, "%.*s", (int)strcspn(text, " "), text);
}

static const char *
log_line(struct process *process, const char *line, enum log_level *level)
{
	if (strncmp(line, "dnsmasq: ", 9) == 0)
		line += 9;
	else if (strncmp(line, "dnsmasq[", 8) == 0 && strstr(line, "]: ") != NULL)
		line = strstr(line, "]: ") + 3;
	note_version(process, line);
	*level = level_of(line);
	return line;
}

/* Explains the exit codes of dnsmasq(8), and advises what to check. */
static const char *
exit_meaning(const struct process *process)
{
	switch (WEXITSTATUS(process->status)) {
	case 0:
		return "although nobody stopped it";
	case 1:
		return "it refuses its arguments";
	case 2:
		return "network: the address is in use, not of this machine, or the port is not "
		       "permitted";
	case 3:
		return "a file or directory is missing or not permitted";
	case 4:
		return "out of memory";
	case 5:
		return "a user, a capability or something else is missing";
	default:
		return "unknown";
	}
}

static enum engine_exit
exit_kind(const struct process *process)
{
	enum { EXIT_ARGUMENTS = 1, EXIT_NETWORK = 2 }; /* exit codes of dnsmasq(8) */

	if (!WIFEXITED(process->status))
		return ENGINE_EXIT_OTHER;
	return WEXITSTATUS(process->status) == EXIT_ARGUMENTS ? ENGINE_EXIT_ARGUMENTS
	       : WEXITSTATUS(process->status) == EXIT_NETWORK ? ENGINE_EXIT_NETWORK
							      : ENGINE_EXIT_OTHER;
}

static void
finish(struct nanny *nanny)
{
	if (state(nanny) != NULL)
		stale_forks_forget(&state(nanny)->stale_forks);
	free(nanny->engine_state);
	nanny->engine_state = NULL;
}

const struct engine dnsmasq_engine = {
	.name = "dnsmasq",
	.package = "dnsmasq-base",
	.exec_flag = "-dnsmasqExec",
	.exec = exec_of,
	.files = files,
	.prepare = prepare,
	.plan = plan,
	.render = render,
	.apply = apply,
	.confirmed = confirmed,
	.died = died,
	.run = run,
	.next_ms = next_ms,
	.fd = fd,
	.log_statistics = log_statistics,
	.metrics = metrics,
	.log_line = log_line,
	.exit_kind = exit_kind,
	.exit_meaning = exit_meaning,
	.finish = finish,
};
