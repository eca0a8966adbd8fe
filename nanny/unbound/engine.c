/*
 * unbound as the nanny's engine. It gets changes by the command fast_reload, which keeps the cache,
 * the clients' connections and the queries in flight. Afterwards the nanny flushes the cache of the
 * domains whose servers have changed.
 *
 * unbound sends few queries to a server that does not answer, so a server that answers again may wait
 * long for one of them. The sidecar probes the servers. When a server answers again, the sidecar sends
 * PUT /recovered to the nanny, and the nanny sends `flush_infra all`, several times. All servers are then
 * equal, and unbound measures each of them. `flush_infra ADDRESS` is not enough: it finds only servers
 * at port 53.
 */
#include "nanny/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/hash.h"
#include "lib/xalloc.h"
#include "nanny/nanny.h"
#include "nanny/unbound/ca_bundle.h"
#include "nanny/unbound/conf.h"
#include "nanny/unbound/control.h"
#include "nanny/unbound/statistics.h"

enum {
	MEMORY_PART = 4, /* unbound gets a quarter of -memory, kubedns gets the rest */
	/* 1.26.1 fixes nine vulnerabilities. fast_reload exists since 1.23; since 1.25 it also reads
	 * the CA bundle again */
	VERSION_MIN = 12601,
	THREADS_MAX = 2,
	/* if more domains have changed, the whole cache is flushed */
	FLUSH_MAX = 64,
	STATISTICS_MS = 10 * 1000,
	RECOVERY_GAP_MS = 1000, /* minimum time between reports that a server answers again */
	/* The commands for one report. After each, the first query goes to any of the servers. If its
	 * answer comes at once, this server gets the next queries, so one command may not be enough. */
	RECOVERY_COMMANDS = 8,
	RECOVERY_COMMAND_MS = 250,
	CA_CHECK_MS = 5000, /* a start takes 0.1 s */
	EXIT_MISTAKE = 2,
};

#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"

struct unbound {
	struct control *control;
	char version[PROCESS_VERSION_MAX];
	char *conf_path, *control_path;
	/* Only the control socket is here, because unbound may remove what is in its directory. */
	char *control_dir;
	char *check_text; /* the text of unbound.conf, for --check */
	bool validate;
	struct ca_bundle bundle; /* the CA certificates, while there are tls:// servers */
	bool has_tls;
	struct server nobody;        /* answers REFUSED */
	struct servers_file applied; /* the servers that unbound last was told to use */
	uint32_t applied_generation, flushed_generation;
	/* domains whose servers changed since the last confirmation; `all` if there are too many */
	char *dirty[FLUSH_MAX];
	size_t dirty_count;
	bool all_dirty;
	uint64_t reload_failures, flushes, recoveries;
	bool recovered;         /* a server answers again, and unbound does not know it yet */
	int64_t recovery_ms;    /* when unbound may next be told; the time limits the rate */
	unsigned commands_left; /* of RECOVERY_COMMANDS, and when the next one is due */
	int64_t command_ms;
	double values[FIGURE_COUNT];
	int64_t statistics_ms; /* when they are due */
};

static struct unbound *
state(const struct nanny *nanny)
{
	return nanny->engine_state;
}

static const char *
exec_of(const struct options *options)
{
	return options->unbound_exec;
}

/* --- start --- */

static int
check_version(struct unbound *unbound, const char *exec)
{
	char text[4096], found[32];
	size_t len = process_say(exec, "-V", text, sizeof text);
	unsigned version = unbound_version_parse(text);

	if (len == 0 && access(exec, X_OK) < 0)
		return 0; /* the failed start is logged later, as for dnsmasq */
	snprintf(
	    found, sizeof found, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
	if (version >= VERSION_MIN) {
		snprintf(unbound->version, sizeof unbound->version, "%s", found);
		return 0;
	}
	log_errorx("unbound %s: %s%s: --engine=unbound needs version 1.26.1 or newer, because "
		   "older versions have known vulnerabilities: install a newer unbound, or use "
		   "--engine=dnsmasq",
	    exec, version != 0 ? "version " : "unknown version", version != 0 ? found : "");
	return EXIT_MISTAKE;
}

static unsigned
processors(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

	return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (unsigned)count;
}

/* Returns the part of UNBOUND_RECEIVE_BUFFER that the kernel permits (net.core.rmem_max). unbound would
 * log a warning if it asked for more. */
static int
receive_buffer(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = UNBOUND_RECEIVE_BUFFER;
	socklen_t len = sizeof size;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len) < 0)
		size = 0;
	if (fd >= 0)
		close(fd);
	return size / 2; /* the kernel has doubled it */
}

static int
write_file(const char *path, const char *text, size_t len)
{
	FILE *out = fopen(path, "we");
	bool good = out != NULL && fwrite(text, 1, len, out) == len;

	if (out != NULL && fclose(out) != 0)
		good = false;
	if (!good)
		log_error("unbound: %s", path);
	return good ? 0 : 1;
}

/* Renders unbound.conf. Replaces argv, which has the operator's arguments for dnsmasq. */
static int
prepare(struct nanny *nanny, const char *file)
{
	const struct options *o = nanny->options;
	struct unbound *unbound = nanny->engine_state = xcalloc(1, sizeof *unbound);
	int rc = check_version(unbound, o->unbound_exec);

	unbound->bundle =
	    (struct ca_bundle){ .source = o->upstream_ca[0] != '\0' ? o->upstream_ca : SYSTEM_CA,
		    .exec = o->unbound_exec,
		    .check_ms = CA_CHECK_MS,
		    .dir = nanny->file.dir };
	unbound->validate = o->dnssec == DNSSEC_VALIDATE;
	if (rc == 0 && unbound->validate && access(UNBOUND_TRUST_ANCHOR, R_OK) < 0) {
		log_errorx("--dnssec=validate: %s: %s: install package dns-root-data",
		    UNBOUND_TRUST_ANCHOR, strerror(errno));
		return EXIT_MISTAKE;
	}

	if (rc != 0)
		return rc;
	if (o->dns64[0] != '\0' && args_asked_first(&nanny->args, o->domain, &o->kubedns)) {
		log_errorx(
		    "--dns64=%s: in the classic topology, unbound would make AAAA records for "
		    "cluster names too: use the front topology",
		    o->dns64_text);
		return EXIT_MISTAKE;
	}
	const char *dir = nanny->file.dir != NULL ? nanny->file.dir : "/run/nanny";
	struct unbound_conf conf = { .args = &nanny->args,
		.dir = dir,
		.threads = processors(),
		.receive_buffer = receive_buffer(),
		.validate = unbound->validate,
		.dns64 = o->dns64[0] != '\0' ? o->dns64 : NULL };
	double used, limit;
	char **warnings;
	size_t warning_count, len;

	(void)file;
	process_container_memory(&used, &limit);
	conf.memory = o->memory > 0 ? (double)o->memory / MEMORY_PART : limit / 2;
	unbound->conf_path = xasprintf("%s/unbound.conf", dir);
	unbound->control_dir = xasprintf("%s/" UNBOUND_CONTROL_DIR, dir);
	unbound->control_path = xasprintf("%s/control", unbound->control_dir);
	unbound->control = control_new(unbound->control_path, nanny);
	unbound->check_text = unbound_conf_render(&conf, &warnings, &warning_count, &len);
	for (size_t i = 0; i < warning_count; i++) {
		log_warnx("%s", warnings[i]);
		free(warnings[i]);
	}
	free(warnings);
	args_replace_argv(&nanny->args, o->unbound_exec);
	args_push(&nanny->args, xstrdup("-d"));
	args_push(&nanny->args, xstrdup("-c"));
	args_push(&nanny->args, xstrdup(unbound->conf_path));
	if (nanny->file.dir == NULL)
		return 0;
	ca_bundle_sweep(nanny->file.dir);
	if (mkdir(unbound->control_dir, 0755) < 0 && errno != EEXIST) {
		log_error("unbound: %s", unbound->control_dir);
		return 1;
	}
	return write_file(unbound->conf_path, unbound->check_text, len);
}

/* --- servers --- */

static bool
inputs_changed(struct nanny *nanny)
{
	return state(nanny)->has_tls && ca_bundle_take(&state(nanny)->bundle);
}

/* The state belongs to no configuration if no server has tls://. */
static const struct conf_key *
file_key(const struct nanny *nanny, const char **name)
{
	*name = CA_BUNDLE_KEY;
	return state(nanny)->has_tls ? &state(nanny)->bundle.key : NULL;
}

static struct servers_file
plan(
    struct nanny *nanny, const struct domain_table *wanted, const struct server *nobody, bool fresh)
{
	struct unbound *unbound = state(nanny);
	size_t merged;
	struct servers_file file = unbound_plan(wanted, &nanny->args.fixed, &merged);
	bool has_tls = unbound_has_tls(&file);

	(void)fresh;
	unbound->nobody = *nobody;
	if (has_tls && !unbound->has_tls)
		ca_bundle_take(&unbound->bundle);
	unbound->has_tls = has_tls;
	file.settings = has_tls ? unbound->bundle.hash : 0;
	return file;
}

static char *
render(const struct nanny *nanny, const struct servers_file *file, uint32_t generation,
    uint16_t port, size_t *len)
{
	struct unbound *unbound = state(nanny);
	const struct unbound_servers_conf conf = {
		.bundle = file->settings != 0 ? unbound->bundle.path : NULL,
		.validate = unbound->validate,
		.nobody = unbound->nobody,
		.generation = generation,
		.port = port,
	};
	char *servers = unbound_servers_render(file, &conf, len);

	if (port != 0)
		return servers;
	char *both = xasprintf("%s%s", unbound->check_text, servers); /* for --check */
	free(servers);
	*len = strlen(both);
	return both;
}

static void
flushed(void *arg, const char *command, const char *reply, const char *why)
{
	(void)arg;
	if (reply == NULL || strncmp(reply, "ok", 2) != 0)
		log_errorx("unbound: %s: %s", command, reply != NULL ? reply : why);
}

static struct servers_file
copy_of(const struct servers_file *file)
{
	struct servers_file copy = { .items = xcalloc(file->count + 1, sizeof *copy.items),
		.count = file->count };

	for (size_t i = 0; i < file->count; i++) {
		const struct servers_domain *from = &file->items[i];

		copy.items[i] = *from;
		copy.items[i].domain = xstrdup(from->domain);
		copy.items[i].lines = xcalloc(from->count + 1, sizeof *from->lines);
		if (from->count > 0)
			memcpy(copy.items[i].lines, from->lines, from->count * sizeof *from->lines);
		if (from->tls_names == NULL)
			continue;
		copy.items[i].tls_names = xcalloc(from->count, sizeof *copy.items[i].tls_names);
		for (size_t k = 0; k < from->count; k++)
			copy.items[i].tls_names[k] = xstrdup(from->tls_names[k]);
	}
	return copy;
}

static void
flush(struct nanny *nanny, const char *domain)
{
	char command[1024];

	snprintf(command, sizeof command, "flush_zone %s.", domain);
	state(nanny)->flushes++;
	if (!control_send(state(nanny)->control, command, flushed))
		log_errorx("unbound: %s: too many commands wait", command);
}

static void
clear_dirty(struct unbound *unbound)
{
	for (size_t i = 0; i < unbound->dirty_count; i++)
		free(unbound->dirty[i]);
	unbound->dirty_count = 0;
	unbound->all_dirty = false;
}

/* Removes from the cache what the former servers of a domain answered. */
static void
flush_dirty(struct nanny *nanny)
{
	struct unbound *unbound = state(nanny);

	if (unbound->all_dirty)
		flush(nanny, "");
	for (size_t i = 0; i < unbound->dirty_count && !unbound->all_dirty; i++)
		flush(nanny, unbound->dirty[i]);
	/* what unbound knows of servers that failed: a new one may have the address of an old one */
	control_send(unbound->control, "flush_infra all", flushed);
	unbound->flushed_generation = nanny->generation;
}

/* Notes the domains that the newest file changes. */
static void
note_changes(struct nanny *nanny)
{
	struct unbound *unbound = state(nanny);
	size_t count;
	const char **domains = unbound_changed(&unbound->applied, &nanny->written, &count);

	for (size_t i = 0; i < count && !unbound->all_dirty; i++) {
		unbound->all_dirty = unbound->dirty_count == FLUSH_MAX;
		if (!unbound->all_dirty)
			unbound->dirty[unbound->dirty_count++] = xstrdup(domains[i]);
	}
	free(domains);
}

static void
take_applied(struct nanny *nanny)
{
	servers_free(&state(nanny)->applied);
	state(nanny)->applied = copy_of(&nanny->written);
	state(nanny)->applied_generation = nanny->generation;
}

/* The cache is flushed as soon as the new servers are in force, because until then clients get
 * answers of the former ones. */
static void
reloaded(void *arg, const char *command, const char *reply, const char *why)
{
	struct nanny *nanny = arg;
	struct unbound *unbound = state(nanny);

	if (reply != NULL && strncmp(reply, "ok", 2) == 0) {
		if (unbound->applied_generation == nanny->generation)
			flush_dirty(nanny);
		return;
	}
	unbound->reload_failures++;
	log_errorx("unbound: %s: %s", command, reply != NULL ? reply : why);
}

static void
apply(struct nanny *nanny)
{
	nanny->stats.hups++;
	if (state(nanny)->applied_generation != nanny->generation) {
		note_changes(nanny);
		take_applied(nanny);
	}
	control_send(state(nanny)->control, "fast_reload", reloaded);
}

/* The reply to fast_reload may have been lost although unbound has the file. */
static void
confirmed(struct nanny *nanny, int64_t now_ms)
{
	(void)now_ms;
	if (!nanny->reloading)
		take_applied(nanny);
	else if (state(nanny)->flushed_generation != nanny->generation)
		flush_dirty(nanny);
	clear_dirty(state(nanny));
	ca_bundle_confirmed(&state(nanny)->bundle);
}

/* run() sends the commands. */
static void
recovered(struct nanny *nanny)
{
	state(nanny)->recovered = true;
}

static void
died(struct nanny *nanny)
{
	control_forget(state(nanny)->control);
	state(nanny)->recovered = false; /* a new process avoids no server */
	state(nanny)->commands_left = 0;
	servers_free(&state(nanny)->applied);
	clear_dirty(state(nanny));
	memset(state(nanny)->values, 0, sizeof state(nanny)->values);
}

/* --- statistics --- */

static void
take_statistics(void *arg, const char *command, const char *reply, const char *why)
{
	(void)command;
	(void)why;
	if (reply != NULL)
		unbound_statistics_read(state(arg)->values, reply);
}

static void
log_them(void *arg, const char *command, const char *reply, const char *why)
{
	const struct unbound *unbound = state(arg);
	const double *v = unbound->values;

	take_statistics(arg, command, reply, why);
	if (reply == NULL)
		log_warnx("unbound: %s: %s", command, why);
	else
		log_info("unbound: queries %.0f, cache hits %.0f, prefetches %.0f, stale answers "
			 "%.0f, waiting %.0f, TCP connections %.0f, cache %.0f bytes",
		    v[FIGURE_QUERIES], v[FIGURE_CACHE_HITS], v[FIGURE_PREFETCHES], v[FIGURE_STALE],
		    v[FIGURE_IN_FLIGHT], v[FIGURE_TCP],
		    v[FIGURE_MEMORY_RRSETS] + v[FIGURE_MEMORY_MESSAGES]);
}

static void
log_statistics(struct nanny *nanny)
{
	control_send(state(nanny)->control, "stats_noreset", log_them);
}

static void
run(struct nanny *nanny, int64_t now_ms)
{
	struct unbound *unbound = state(nanny);

	if (child_is_serving(&nanny->child) && now_ms >= unbound->statistics_ms) {
		unbound->statistics_ms = now_ms + STATISTICS_MS;
		control_send(unbound->control, "stats_noreset", take_statistics);
	}
	if (unbound->recovered && now_ms >= unbound->recovery_ms) {
		unbound->recovered = false;
		unbound->recovery_ms = now_ms + RECOVERY_GAP_MS;
		unbound->recoveries++;
		unbound->commands_left = RECOVERY_COMMANDS;
		log_info("unbound: a server answers again: forgetting which servers it avoids");
	}
	if (unbound->commands_left > 0 && now_ms >= unbound->command_ms) {
		unbound->commands_left--;
		unbound->command_ms = now_ms + RECOVERY_COMMAND_MS;
		control_send(unbound->control, "flush_infra all", flushed);
	}
	control_run(unbound->control, now_ms);
}

static int64_t
next_ms(const struct nanny *nanny)
{
	const struct unbound *unbound = state(nanny);
	int64_t next = control_next_ms(unbound->control);

	if (unbound->commands_left > 0)
		next = clock_earlier(next, unbound->command_ms);
	return unbound->recovered ? clock_earlier(next, unbound->recovery_ms) : next;
}

static int
fd(const struct nanny *nanny)
{
	return control_fd(state(nanny)->control);
}

static struct engine_cache
cache(const struct nanny *nanny)
{
	const double *values = state(nanny)->values;

	return (struct engine_cache){ .hits = values[FIGURE_CACHE_HITS],
		.misses = values[FIGURE_CACHE_MISSES] };
}

static void
metrics(const struct nanny *nanny, struct metrics *m)
{
	const struct unbound *unbound = state(nanny);

	for (int i = 0; i < FIGURE_COUNT; i++) {
		metrics_family(
		    m, unbound_metrics[i].metric, unbound_metrics[i].type, unbound_metrics[i].help);
		metrics_value(m, unbound->values[i], NULL);
	}
	metrics_family(m, "nanny_engine_reload_failures_total", METRIC_COUNTER,
	    "Commands fast_reload that unbound refused.");
	metrics_value(m, (double)unbound->reload_failures, NULL);
	metrics_family(m, "nanny_engine_flushes_total", METRIC_COUNTER,
	    "Domains whose cached answers were removed because their servers changed.");
	metrics_value(m, (double)unbound->flushes, NULL);
	metrics_family(m, "nanny_engine_recoveries_total", METRIC_COUNTER,
	    "Times that unbound forgot which servers it avoids, because one of them answers "
	    "again.");
	metrics_value(m, (double)unbound->recoveries, NULL);
}

static void
sandbox(const struct nanny *nanny, struct sandbox *s, bool child)
{
	/* unbound queries tls:// servers only over TCP, so a server at any port must work without a restart. */
	if (child) {
		sandbox_connect_any(s);
	} else {
		sandbox_read_replaced(s, state(nanny)->bundle.source);
		sandbox_remove_dirs(s, nanny->file.dir);
	}
	sandbox_make_socket(s, state(nanny)->control_dir);
	sandbox_read(s, "/usr/share/dns");
}

/* --- log and exit --- */

/* A line is "[1795624329] unbound[2504:0] notice: text". */
static const char *
log_line(struct process *process, const char *line, enum log_level *level)
{
	static const char begin[] = "info: start of service (unbound ";
	const char *at = strstr(line, "] unbound["), *text = line;

	if (*line == '[' && at != NULL && (at = strstr(at + 2, "] ")) != NULL)
		text = at + 2;
	*level = strncmp(text, "info: server stats", 18) == 0 ||
			 strncmp(text, "info: average recursion", 23) == 0 ||
			 strncmp(text, "info: histogram", 15) == 0 ||
			 strncmp(text, "info: [25%]", 11) == 0 ||
			 strncmp(text, "info: lower(secs)", 17) == 0 ||
			 strncmp(text, "info:    ", 9) == 0
		     ? LOG_LEVEL_DEBUG
		     : LOG_LEVEL_INFO;
	if (strncmp(text, "error: ", 7) == 0 || strncmp(text, "warning: ", 9) == 0 ||
	    strncmp(text, "fatal error: ", 13) == 0 || strstr(line, "error:") != NULL)
		*level = LOG_LEVEL_WARN;
	else if (strncmp(text, "debug: ", 7) == 0 || strncmp(text, "notice: ", 8) == 0)
		*level = LOG_LEVEL_DEBUG;
	if (strncmp(text, begin, sizeof begin - 1) == 0)
		snprintf(process->version, sizeof process->version, "%.*s",
		    (int)strcspn(text + sizeof begin - 1, ")"), text + sizeof begin - 1);
	return strncmp(text, "info: ", 6) == 0 ? text + 6 : text;
}

/* Whether one of the last lines of the log has the text. unbound exits with status 1 for every
 * reason. */
static bool
last_lines_have(const struct process *process, const char *text)
{
	unsigned from =
	    process->lines > PROCESS_LAST_LINES ? process->lines - PROCESS_LAST_LINES : 0;

	for (unsigned i = from; i < process->lines; i++)
		if (strstr(process->last[i % PROCESS_LAST_LINES], text) != NULL)
			return true;
	return false;
}

static enum engine_exit
exit_kind(const struct process *process)
{
	if (!WIFEXITED(process->status) || WEXITSTATUS(process->status) != 1)
		return ENGINE_EXIT_OTHER;
	if (last_lines_have(process, "could not open ports") ||
	    last_lines_have(process, "can't bind socket"))
		return ENGINE_EXIT_NETWORK;
	return last_lines_have(process, "Could not read config file") ? ENGINE_EXIT_ARGUMENTS
								      : ENGINE_EXIT_OTHER;
}

static const char *
exit_meaning(const struct process *process)
{
	if (WEXITSTATUS(process->status) == 0)
		return "although nobody stopped it";
	switch (exit_kind(process)) {
	case ENGINE_EXIT_NETWORK:
		return "network: the address is in use, not of this machine, or the port is not "
		       "permitted";
	case ENGINE_EXIT_ARGUMENTS:
		return "it refuses its configuration";
	default:
		return "its log says why";
	}
}

static void
finish(struct nanny *nanny)
{
	struct unbound *unbound = state(nanny);

	if (unbound == NULL)
		return;
	if (nanny->file.dir != NULL && unbound->conf_path != NULL) {
		unlink(unbound->conf_path);
		unlink(unbound->control_path);
		rmdir(unbound->control_dir);
	}
	ca_bundle_clear(&unbound->bundle);
	control_free(unbound->control);
	servers_free(&unbound->applied);
	clear_dirty(unbound);
	free(unbound->conf_path);
	free(unbound->control_path);
	free(unbound->control_dir);
	free(unbound->check_text);
	free(unbound);
	nanny->engine_state = NULL;
}

const struct engine unbound_engine = {
	.name = "unbound",
	.package = "unbound",
	.exec_flag = "-unboundExec",
	.has_tls = true,
	.keep = SANDBOX_KEEP_UNIX,
	.exec = exec_of,
	.prepare = prepare,
	.inputs_changed = inputs_changed,
	.file_key = file_key,
	.plan = plan,
	.render = render,
	.apply = apply,
	.confirmed = confirmed,
	.recovered = recovered,
	.died = died,
	.run = run,
	.next_ms = next_ms,
	.fd = fd,
	.log_statistics = log_statistics,
	.cache = cache,
	.metrics = metrics,
	.sandbox = sandbox,
	.log_line = log_line,
	.exit_kind = exit_kind,
	.exit_meaning = exit_meaning,
	.finish = finish,
};
