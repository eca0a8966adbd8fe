/*
 * The nanny's main loop and the handlers of its events. The nanny waits in this loop, except for at
 * most some seconds for another process: for a program that it asks for its version or tries out
 * (process.h), and at its end for the guard (node/guard.h). A change
 * of the ConfigMap, resolv.conf or a stub server's address leads to a new servers file. The state
 * machine in child_states.h handles events of dnsmasq, and this file performs its actions.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/port.h"
#include "lib/xalloc.h"
#include "nanny/confine.h"
#include "nanny/nanny.h"

enum slot {
	FD_SIGNAL,
	FD_CHILD,
	FD_LOG,
	FD_ENGINE,
	FD_CONFIG,
	FD_RESOLV,
	FD_NAMES,
	FD_ANSWERS,
	FD_QUESTIONS,
	FD_HTTP,
	FD_GUARD,
	FD_COUNT
};

/* Called when an input of the servers file may have changed. Reloads dnsmasq only if the file would
 * differ. */
static void
reconsider(struct nanny *nanny, bool names_only)
{
	enum child_state state = nanny->child.state;
	struct servers_file file = nanny_plan(nanny, false);
	bool same = servers_equal(&file, &nanny->written) && !nanny->write_failed;

	servers_free(&file);
	if (same) {
		nanny->child.changed = false; /* a pending change has been reverted */
		return;
	}
	if (nanny->wanted_ms == 0)
		nanny->wanted_ms = clock_mono_ms();
	nanny->names_only = names_only && (state == CHILD_READY || nanny->names_only);
	nanny->stats.changes++;
	if (names_only)
		nanny->names_reload_ms = clock_mono_ms();
	nanny_step(nanny, CHILD_CHANGED);
}

/* Updates the host names to resolve, and the servers that resolve them. The servers of resolv.conf resolve them, except dnsmasq itself. If
 * resolv.conf has no other server, the upstreams of the ConfigMap resolve the host names. If external names, or one of these
 * host names, must be encrypted, the child resolves all of them, because the nanny cannot encrypt its queries. */
static void
update_names(struct nanny *nanny)
{
	struct server servers[CONF_UPSTREAMS_MAX];
	const char *why;
	size_t count = 0, host_count;

	bool encrypted = config_encrypts_hosts(&nanny->config);
	if (encrypted)
		servers[count++] = args_probe_server(&nanny->args);
	for (size_t i = 0; !encrypted && i < nanny->resolv.count && count < CONF_UPSTREAMS_MAX; i++)
		if (!forwarding_loop_is(&nanny->forwarding_loop, &nanny->resolv.servers[i], &why))
			servers[count++] = nanny->resolv.servers[i];
	if (count == 0)
		count = config_upstreams(
		    &nanny->config, &nanny->resolv, &nanny->forwarding_loop, servers);
	stub_hosts_set_servers(nanny->names, servers, count);
	const char **hosts = config_hosts(&nanny->config, &host_count);
	stub_hosts_set(nanny->names, hosts, host_count);
	free(hosts);
}

/* Applies the ConfigMap. If -restartDnsmasq is false, the nanny applies the ConfigMap only at
 * startup, like kube-dns's nanny, and only logs a later change. */
static bool
take_config(struct nanny *nanny, const struct confdir_set *set)
{
	struct config_rules rules = { .path = nanny->options->config_dir,
		.domain = nanny->options->domain,
		.engine = nanny->engine,
		.args = &nanny->args,
		.guard = &nanny->forwarding_loop };

	if (nanny->started && !nanny->options->restart_dnsmasq) {
		log_warnx("conf %s: changed, but -restartDnsmasq is false: not applied",
		    nanny->options->config_dir);
		nanny->stats.not_applied++;
		return false;
	}
	return config_apply(&nanny->config, set, &rules);
}

static bool
take_resolv(struct nanny *nanny, const struct confdir_set *set)
{
	const struct confdir_key *key = set->count ? &set->keys[0] : NULL;
	struct resolv resolv = { .count = 0 };

	if (strcmp(nanny->options->resolv_conf, "/dev/null") ==
	    0) { /* the operator passed /dev/null to configure no servers */
		if (!nanny->started)
			log_info("resolv.conf /dev/null: no upstream servers except those in the "
				 "ConfigMap");
		return false;
	}
	if (key == NULL || key->error != NULL) {
		log_warnx("resolv.conf %s: %s; keeping the last good servers",
		    nanny->options->resolv_conf, key != NULL ? key->error : "missing");
		return false;
	}
	resolv_parse(key->value, key->len, &resolv);
	nanny->resolv = resolv;
	resolv_log_skipped(&resolv, nanny->options->resolv_conf);
	char list[RESOLV_SERVERS_MAX * (SERVER_TEXT_MAX + 1) + 1] = "", text[SERVER_TEXT_MAX];
	for (size_t i = 0; i < resolv.count; i++) {
		strcat(list, " ");
		strcat(list, server_format(&resolv.servers[i], text));
	}
	log_info("resolv.conf %s: servers%s", nanny->options->resolv_conf,
	    resolv.count ? list : ": none");
	return true;
}

void
nanny_read_config(struct nanny *nanny, bool force)
{
	struct confdir_set set;
	bool changed = false;

	if (force)
		forwarding_loop_refresh(&nanny->forwarding_loop);
	if (confdir_poll(nanny->resolvdir, force, &set)) {
		changed |= take_resolv(nanny, &set);
		confdir_set_free(&set);
	}
	if (confdir_poll(nanny->confdir, force, &set)) {
		forwarding_loop_refresh(&nanny->forwarding_loop);
		changed |= take_config(nanny, &set);
		confdir_set_free(&set);
	}
	if (changed && nanny->names != NULL)
		update_names(nanny);
	if (changed && nanny->started)
		reconsider(nanny, false);
	nanny->started = true;
}

static void
run_names(struct nanny *nanny, int64_t now_ms)
{
	enum stub_host_change change = stub_hosts_run(nanny->names, now_ms);

	if (change != STUB_HOST_SAME)
		nanny->names_waiting = true;
	if (!nanny->names_waiting)
		return;
	bool due =
	    nanny->names_reload_ms == 0 || now_ms - nanny->names_reload_ms >= NANNY_REFRESH_GAP_MS;
	if (change == STUB_HOST_NOW || due) {
		nanny->names_waiting = false;
		reconsider(nanny, true);
	}
}

/* Called when dnsmasq has sent a query to the address of `generation`. The query proves that dnsmasq uses the servers file of this
 * generation. */
static void
generation_seen(struct nanny *nanny, uint32_t generation)
{
	if (generation != nanny->generation || !nanny->asking)
		return;
	int64_t now_ms = clock_mono_ms();
	nanny->asking = false;
	nanny->engine->confirmed(nanny, now_ms);
	nanny->reloading = false;
	nanny->confirmed_generation = generation;
	nanny->confirmed_hash = nanny->hash;
	nanny->confirmed_at = time(NULL);
	nanny->stats.reloads_confirmed++;
	nanny->stats.reloads_names += nanny->names_only;
	if (nanny->written.waiting > 0)
		log_info("%s: has a part of the configuration; %zu lines follow",
		    nanny->engine->name, nanny->written.waiting);
	else if (nanny->wanted_ms) {
		histogram_observe(&nanny->confirm_s, (double)(now_ms - nanny->wanted_ms) / 1000);
		log_info("%s: has configuration %016llx (generation %u) %lld ms after the change",
		    nanny->engine->name, (unsigned long long)nanny->hash, generation,
		    (long long)(now_ms - nanny->wanted_ms));
	}
	nanny->wanted_ms = nanny->child.changed ? nanny->wanted_ms : 0;
	nanny->names_only = false;
	nanny_step(nanny, CHILD_CONFIRMED);
}

static void
child_answered(struct nanny *nanny)
{
	nanny->answered_ms = nanny->patient_ms = clock_mono_ms();
	if (nanny->child.state == CHILD_STARTING)
		log_info("%s: answers %lld ms after its start", nanny->engine->name,
		    (long long)(nanny->answered_ms - nanny->spawned_ms));
	nanny_step(nanny, CHILD_ANSWERED);
}

/*
 * Whether an answer came from the dnsmasq that the nanny started. If another process occupies the
 * port, our dnsmasq exits within NANNY_OWN_MS. Until then, only the generation query is proof,
 * because a dnsmasq that forwards this query to us has read our servers file.
 */
static bool
answer_is_its_own(const struct nanny *nanny)
{
	return nanny->child.state != CHILD_STARTING ||
	       clock_mono_ms() - nanny->spawned_ms >= NANNY_OWN_MS;
}

/* Whether the child rejected an argument at its first start. A restart cannot help then; the operator
 * must correct the argument. */
static bool
refuses_arguments(const struct nanny *nanny)
{
	return !nanny->child.was_ready &&
	       nanny->engine->exit_kind(&nanny->process) == ENGINE_EXIT_ARGUMENTS;
}

/* Finds a process that occupies an address on which the child must listen. Returns whether it found a
 * process, and writes a description of the process to `holder`. */
static bool
find_holder(const struct args *args, char *holder)
{
	struct server server = { .addr.family = AF_INET6, .port = args->port }; /* all addresses */
	size_t count = args->listen_count > 0 ? args->listen_count : 1;

	for (size_t i = 0; i < count; i++) {
		if (args->listen_count > 0)
			server.addr = args->listen[i];
		if (port_holder(SOCK_STREAM, &server, holder) != NULL ||
		    port_holder(SOCK_DGRAM, &server, holder) != NULL)
			return true;
	}
	return false;
}

/* Appends all arguments of the child to `words`, because dnsmasq does not log which argument it
 * rejected. Takes `words`. Caller frees the result. */
static char *
add_arguments(char *words, char *const *argv)
{
	char *text = xasprintf("%s; its arguments:", words);

	free(words);
	for (size_t i = 1; argv[i] != NULL; i++) {
		char *more = xasprintf("%s %s", text, argv[i]);

		free(text);
		text = more;
	}
	return text;
}

char *
nanny_last_words(const struct nanny *nanny)
{
	char *words = process_last_words(&nanny->process), holder[PORT_HOLDER_MAX];
	enum engine_exit kind = nanny->engine->exit_kind(&nanny->process);

	if (kind == ENGINE_EXIT_ARGUMENTS)
		return add_arguments(words, nanny->args.argv);
	if (kind != ENGINE_EXIT_NETWORK || !find_holder(&nanny->args, holder))
		return words;
	char *text = xasprintf("%s; port %u is used by %s: stop it, or set another --port", words,
	    nanny->args.port, holder);
	free(words);
	return text;
}

static void
child_died(struct nanny *nanny)
{
	process_read_log(&nanny->process);
	process_close(&nanny->process);
	nanny->engine->died(nanny);
	nanny->stats.reloads_lost += nanny->asking && nanny->wanted_ms != 0;
	nanny->asking = false;
	bool expected = nanny->child.state == CHILD_STOPPING;
	char *words = nanny_last_words(nanny);
	if (!expected && refuses_arguments(nanny)) {
		log_errorx("%s", words);
		nanny_write_termination_log(nanny, words);
		nanny->ended = true;
		nanny->exit_code = 2;
	} else {
		if (!expected)
			log_errorx("%s", words);
		nanny_step(nanny, CHILD_DIED);
	}
	free(words);
}

static void
take_signal(struct nanny *nanny)
{
	struct signalfd_siginfo info;

	while (read(nanny->signal_fd, &info, sizeof info) == sizeof info) {
		int sig = (int)info.ssi_signo;

		if (sig == SIGTERM || sig == SIGINT) {
			bool again = nanny->child.state == CHILD_DRAINING ||
				     nanny->child.state == CHILD_STOPPING;

			log_info(
			    "%s: %s", strsignal(sig), again ? "stopping immediately" : "draining");
			node_guard_drain(&nanny->node_guard);
			nanny_step(nanny, CHILD_TERM);
		} else if (sig == SIGHUP)
			nanny->next_sync_ms = 0;
		else if (sig == SIGUSR1)
			nanny->engine->log_statistics(nanny);
	}
}

/* Probes dnsmasq once a second, or more often while the nanny waits for an answer or a
 * confirmation. */
static void
run_probe(struct nanny *nanny, int64_t now_ms)
{
	if (nanny->process.pid == 0 || now_ms < nanny->next_probe_ms)
		return;
	/* If dnsmasq was started during the drain, the state is not CHILD_STARTING, so compare the
	 * times. */
	bool new = nanny->child.state == CHILD_STARTING || nanny->answered_ms < nanny->spawned_ms;
	bool awaited = nanny->asking || new;
	if (awaited)
		child_probe_ask_generation(nanny->child_probe);
	if (!nanny->asking)
		child_probe_ask_version(nanny->child_probe);
	nanny->next_probe_ms = now_ms + (awaited ? nanny->ask_gap_ms : NANNY_PROBE_MS);
	if (awaited && nanny->ask_gap_ms < NANNY_ASK_MAX_MS)
		nanny->ask_gap_ms *= 2;
}

static void
run_silence(struct nanny *nanny, int64_t now_ms)
{
	if (nanny->process.pid == 0 || now_ms - nanny->patient_ms < nanny->options->silence_ms)
		return;
	log_errorx("%s: no answer for %lld ms: killing it", nanny->engine->name,
	    (long long)(now_ms - nanny->patient_ms));
	/* wait for the full silence timeout again before the next kill */
	nanny->patient_ms = now_ms;
	nanny->stats.silences++;
	nanny_step(nanny, CHILD_SILENT);
}

static void
run_timers(struct nanny *nanny, int64_t now_ms)
{
	const struct options *o = nanny->options;

	if (now_ms >= nanny->next_sync_ms) {
		nanny->next_sync_ms = now_ms + (o->sync_ms > 0 ? o->sync_ms : INT32_MAX);
		nanny_read_config(nanny, true);
		if (nanny->engine->inputs_changed != NULL && nanny->engine->inputs_changed(nanny))
			reconsider(nanny, false);
	}
	if (o->log_interval_ms > 0 && now_ms >= nanny->next_log_ms) {
		if (nanny->next_log_ms && child_is_serving(&nanny->child))
			nanny->engine->log_statistics(nanny);
		nanny->next_log_ms = now_ms + o->log_interval_ms;
	}
	run_names(nanny, now_ms);
	run_silence(nanny, now_ms);
	nanny->engine->run(nanny, now_ms);
	child_port_look(&nanny->port, nanny->engine->name, &nanny->args,
	    child_is_serving(&nanny->child) ? nanny->process.pid : 0, now_ms);
	if (now_ms >= nanny->child.deadline_ms)
		nanny_step(nanny, CHILD_TIMEOUT);
	run_probe(nanny, now_ms);
}

static int
wait_ms(const struct nanny *nanny, int64_t now_ms)
{
	int64_t next = now_ms + NANNY_STATUS_MAX_MS;

	next = clock_earlier(next, nanny->next_sync_ms);
	next = clock_earlier(next, nanny->child.deadline_ms);
	if (nanny->process.pid > 0)
		next = clock_earlier(next, nanny->next_probe_ms);
	if (nanny->options->log_interval_ms > 0)
		next = clock_earlier(next, nanny->next_log_ms);
	next = clock_earlier(next, stub_hosts_next_ms(nanny->names, now_ms));
	next = clock_earlier(next, nanny->engine->next_ms(nanny));
	if (nanny->http != NULL)
		next = clock_earlier(next, http_due_ms(nanny->http));
	return clock_wait_ms(next, now_ms);
}

static void
run_ready(struct nanny *nanny, const struct pollfd *fds)
{
	if (fds[FD_SIGNAL].revents)
		take_signal(nanny);
	if (fds[FD_LOG].revents)
		process_read_log(&nanny->process);
	if (fds[FD_CONFIG].revents || fds[FD_RESOLV].revents)
		nanny_read_config(nanny, false);
	if (fds[FD_ANSWERS].revents && child_probe_read(nanny->child_probe) &&
	    answer_is_its_own(nanny))
		child_answered(nanny);
	if (fds[FD_QUESTIONS].revents) {
		uint32_t generation = child_probe_answer(nanny->child_probe);

		if (generation && nanny->child.state == CHILD_STARTING)
			child_answered(nanny);
		if (generation)
			generation_seen(nanny, generation);
	}
	if (nanny->http != NULL)
		http_run(nanny->http);
	/* The guard cannot be restarted, because this process has given up the capability that the
	 * guard needs. */
	if (fds[FD_GUARD].revents && node_guard_ended(&nanny->node_guard)) {
		nanny->exit_code = 1;
		nanny_step(nanny, CHILD_TERM);
	}
	if (process_reap(&nanny->process))
		child_died(nanny);
}

int
nanny_loop(struct nanny *nanny)
{
	nanny->answered_ms = clock_mono_ms();
	nanny->next_sync_ms = nanny->answered_ms + nanny->options->sync_ms;
	nanny_act(nanny, CHILD_DO_SPAWN);
	while (!nanny->ended) {
		struct pollfd fds[FD_COUNT] = {
			[FD_SIGNAL] = { .fd = nanny->signal_fd },
			[FD_CHILD] = { .fd = nanny->process.pid > 0 ? nanny->process.pidfd : -1 },
			[FD_LOG] = { .fd = nanny->process.log_fd },
			[FD_ENGINE] = { .fd = nanny->engine->fd(nanny) },
			[FD_CONFIG] = { .fd = confdir_fd(nanny->confdir) },
			[FD_RESOLV] = { .fd = confdir_fd(nanny->resolvdir) },
			[FD_NAMES] = { .fd = stub_hosts_fd(nanny->names) },
			[FD_ANSWERS] = { .fd = child_probe_fd(nanny->child_probe) },
			[FD_QUESTIONS] = { .fd = child_probe_questions_fd(nanny->child_probe) },
			[FD_HTTP] = { .fd = nanny->http != NULL ? http_fd(nanny->http) : -1 },
			[FD_GUARD] = { .fd = nanny->node_guard.pidfd },
		};

		for (int i = 0; i < FD_COUNT; i++)
			fds[i].events = POLLIN;
		if (poll(fds, FD_COUNT, wait_ms(nanny, clock_mono_ms())) < 0 && errno != EINTR)
			log_fatal("poll");
		run_ready(nanny, fds);
		if (!nanny->ended)
			run_timers(nanny, clock_mono_ms());
	}
	process_kill(&nanny->process);
	return nanny->exit_code;
}

bool
nanny_is_ready(const struct nanny *nanny, const char **why)
{
	*why = child_state_name(nanny->child.state);
	if (!child_is_serving(&nanny->child))
		return false;
	*why = "it has not answered for 5 s";
	if (clock_mono_ms() - nanny->answered_ms >= NANNY_READY_MS)
		return false;
	*why = "the node's rules are not in force: the log says why";
	return node_guard_is_up(&nanny->node_guard);
}

/* --- actions of the state machine --- */

/* These functions perform the actions that child_states.c returns. The actions are: write the servers file, and start, reload and stop
 * dnsmasq. */

/* Returns the next generation, which dnsmasq cannot have seen yet. Wraps around after the maximum. */
static uint32_t
next_generation(uint32_t generation)
{
	return generation < SERVERS_GENERATION_MIN || generation >= SERVERS_GENERATION_MAX
		   ? SERVERS_GENERATION_MIN
		   : generation + 1;
}

/* Writes the servers file. If that fails, the nanny tries again when the child's deadline
 * passes. */
static bool
write_servers_file(struct nanny *nanny, bool fresh)
{
	struct servers_file file = nanny_plan(nanny, fresh);
	uint32_t generation = next_generation(nanny->generation);
	size_t len;
	char *text = nanny->engine->render(
	    nanny, &file, generation, child_probe_port(nanny->child_probe), &len);
	int rc = servers_file_write(&nanny->file, text, len);

	free(text);
	if (rc < 0) {
		if (!nanny->write_failed)
			log_errorx("servers file %s: %s; %s keeps its current servers",
			    nanny->file.path, strerror(-rc), nanny->engine->name);
		nanny->write_failed = true;
		nanny->stats.write_failures++;
		servers_free(&file);
		return false;
	}
	if (nanny->write_failed)
		log_info("servers file %s: can be written again", nanny->file.path);
	nanny->write_failed = false;
	nanny->stats.dropped_lines += file.dropped;
	if (file.dropped > 0)
		log_warnx("servers file: dropped %zu lines of domains that were removed earlier",
		    file.dropped);
	nanny->generation = generation;
	servers_free(&nanny->written);
	nanny->written = file;
	nanny->hash = servers_hash(&file);
	nanny->names_waiting = false;
	if (!fresh)
		confine_check_ports(nanny);
	return true;
}

void
nanny_write_termination_log(const struct nanny *nanny, const char *text)
{
	int fd = open(nanny->options->termination_log,
	    O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return;
	ssize_t ignored = write(fd, text, strlen(text));
	(void)ignored;
	close(fd);
}

static void
spawn_child(struct nanny *nanny)
{
	nanny->spawned_ms = nanny->patient_ms = clock_mono_ms();
	nanny->child.changed = !write_servers_file(nanny, true);
	sandbox_free(nanny->confined);
	nanny->confined = confine_child(nanny);
	const struct process_plan plan = { .argv = nanny->args.argv,
		.sandbox = nanny->confined,
		.keep = confine_keep(nanny->engine),
		.files = nanny->engine->files != NULL ? nanny->engine->files(nanny) : 0 };
	int rc = process_spawn(&nanny->process, &plan);
	if (rc < 0) {
		char *text = xasprintf("%s: %s cannot be started: %s", nanny->engine->name,
		    nanny->args.argv[0], strerror(-rc));

		log_errorx("%s", text);
		nanny_write_termination_log(nanny, text);
		free(text);
		nanny->ended = true;
		nanny->exit_code =
		    rc == -EAGAIN || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ? 1 : 2;
		return;
	}
	nanny->stats.spawns++;
	nanny->reloading = false;
	nanny->ask_gap_ms = NANNY_ASK_MIN_MS;
	nanny->next_probe_ms = nanny->spawned_ms;
	nanny->asking = false;
	log_info("%s: started as process %d", nanny->engine->name, (int)nanny->process.pid);
	if (nanny->sandbox == SANDBOX_ON) {
		char who[64];

		snprintf(who, sizeof who, "%s: sandbox", nanny->engine->name);
		sandbox_say(who, nanny->process.layers);
	}
}

static void
start_asking(struct nanny *nanny)
{
	nanny->asking = true;
	nanny->ask_gap_ms = NANNY_ASK_MIN_MS;
	nanny->next_probe_ms = clock_mono_ms();
}

static void
give_up(struct nanny *nanny)
{
	char *words = nanny_last_words(nanny);
	char *text = xasprintf("%s; died %u times, %d of them within a minute: giving up", words,
	    nanny->child.deaths, CHILD_DEATHS_MAX);

	log_errorx("%s", text);
	nanny_write_termination_log(nanny, text);
	free(text);
	free(words);
	nanny->ended = true;
	nanny->exit_code = 1;
}

void
nanny_act(struct nanny *nanny, unsigned actions)
{
	if (actions & CHILD_DO_SPAWN)
		spawn_child(nanny);
	if (actions & CHILD_DO_WRITE && !write_servers_file(nanny, false)) {
		nanny->child.changed = true;
		actions &= ~(unsigned)(CHILD_DO_APPLY | CHILD_DO_ASK);
	} else if (actions & CHILD_DO_WRITE && nanny->written.waiting > 0)
		nanny->child.changed = true; /* another reload adds the other lines */
	if (actions & CHILD_DO_APPLY) {
		nanny->reloading = true;
		nanny->engine->apply(nanny);
	}
	if (actions & CHILD_DO_ASK)
		start_asking(nanny);
	if (actions & CHILD_DO_TERM)
		process_signal(&nanny->process, SIGTERM);
	if (actions & CHILD_DO_KILL)
		process_kill(&nanny->process);
	if (actions & CHILD_DO_FAIL)
		give_up(nanny);
	if (actions & CHILD_DO_END)
		nanny->ended = true;
}

void
nanny_step(struct nanny *nanny, enum child_event event)
{
	enum child_state before = nanny->child.state;
	unsigned actions = child_step(&nanny->child, event, clock_mono_ms());

	if (nanny->child.state != before)
		log_debug("%s: %s -> %s", nanny->engine->name, child_state_name(before),
		    child_state_name(nanny->child.state));
	nanny_act(nanny, actions);
}
