/*
 * The nanny's loop, its one place to wait, and the handling of each event. Changes of the
 * ConfigMap, resolv.conf and stub servers' addresses lead to a new servers file; events of dnsmasq
 * go through the table of dnsmasq/states.h, whose actions it does.
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
	FD_CONFIG,
	FD_RESOLV,
	FD_NAMES,
	FD_ANSWERS,
	FD_QUESTIONS,
	FD_HTTP,
	FD_GUARD,
	FD_COUNT
};

/* An input of the file may have changed: reloads dnsmasq only if the file would differ. */
static void
reconsider(struct nanny *nanny, bool names_only)
{
	enum child_state state = nanny->child.state;
	struct servers_file file = nanny_plan(nanny, false);
	bool same = servers_equal(&file, &nanny->written) && !nanny->write_failed;

	servers_free(&file);
	if (same) {
		nanny->child.changed =
		    false; /* and if it was to be changed, it has been changed back */
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

/* Updates the names to be resolved, and the servers that are asked: those of resolv.conf, or
 * without one the upstreams. */
static void
update_names(struct nanny *nanny)
{
	struct server servers[CONF_UPSTREAMS_MAX];
	const char *why;
	size_t count = 0, host_count;

	for (size_t i = 0; i < nanny->resolv.count && count < CONF_UPSTREAMS_MAX; i++)
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

/* Applies a set of the ConfigMap, or only logs that it changed: without -restartDnsmasq, as in
 * kube-dns's nanny, it is read once. */
static bool
take_config(struct nanny *nanny, const struct confdir_set *set)
{
	struct config_rules rules = { .path = nanny->options->config_dir,
		.domain = nanny->options->domain,
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
	    0) { /* read by nobody: no servers */
		if (!nanny->started)
			log_info("resolv.conf /dev/null: no upstream servers but those of the "
				 "ConfigMap");
		return false;
	}
	if (key == NULL || key->error != NULL) {
		log_warnx("resolv.conf %s: %s; keeping what was read last",
		    nanny->options->resolv_conf, key != NULL ? key->error : "missing");
		return false;
	}
	resolv_parse(key->value, key->len, &resolv);
	nanny->resolv = resolv;
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
	bool turn =
	    nanny->names_reload_ms == 0 || now_ms - nanny->names_reload_ms >= NANNY_REFRESH_GAP_MS;
	if (change == STUB_HOST_NOW || turn) {
		nanny->names_waiting = false;
		reconsider(nanny, true);
	}
}

/* dnsmasq has asked at the address of `generation`, so it has that file. */
static void
generation_seen(struct nanny *nanny, uint32_t generation)
{
	if (generation != nanny->generation || !nanny->asking)
		return;
	int64_t now_ms = clock_mono_ms();
	nanny->asking = false;
	if (nanny->reloading)
		stale_forks_reloaded(&nanny->stale_forks, nanny->process.pid, now_ms);
	nanny->reloading = false;
	nanny->confirmed_generation = generation;
	nanny->confirmed_hash = nanny->hash;
	nanny->confirmed_at = time(NULL);
	nanny->stats.reloads_confirmed++;
	nanny->stats.reloads_names += nanny->names_only;
	if (nanny->wanted_ms) {
		histogram_observe(&nanny->confirm_s, (double)(now_ms - nanny->wanted_ms) / 1000);
		log_info("dnsmasq: has configuration %016llx (generation %u) %lld ms after the "
			 "change was seen",
		    (unsigned long long)nanny->hash, generation,
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
		log_info("dnsmasq: answers %lld ms after its start",
		    (long long)(nanny->answered_ms - nanny->spawned_ms));
	nanny_step(nanny, CHILD_ANSWERED);
}

/*
 * Whether an answer came from the dnsmasq that was started. If another one has the port, ours exits
 * within NANNY_OWN_MS. Until then only the servers file tells them apart: a dnsmasq that asks us
 * for its generation has read our file.
 */
static bool
answer_is_its_own(const struct nanny *nanny)
{
	return nanny->child.state != CHILD_STARTING ||
	       clock_mono_ms() - nanny->spawned_ms >= NANNY_OWN_MS;
}

/* Whether dnsmasq refused an argument at its first start: it always will, until the operator
 * changes it. */
static bool
refuses_arguments(const struct nanny *nanny)
{
	return !nanny->child.was_ready && WIFEXITED(nanny->process.status) &&
	       WEXITSTATUS(nanny->process.status) == 1;
}

/* Whether another process is in the way of an address that dnsmasq listens on; and which. */
static bool
find_holder(const struct args *args, char *holder)
{
	struct server server = { .addr.family = AF_INET6, .port = args->port }; /* every address */
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

/* dnsmasq names no argument that it refuses: `words`, which is taken, and all of them. */
static char *
add_arguments(char *words, char *const *argv)
{
	char *text = xasprintf("%s; its arguments were", words);

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
	enum { EXIT_ARGUMENTS = 1, EXIT_NETWORK = 2 }; /* dnsmasq(8) */
	char *words = process_last_words(&nanny->process), holder[PORT_HOLDER_MAX];
	bool network =
	    WIFEXITED(nanny->process.status) && WEXITSTATUS(nanny->process.status) == EXIT_NETWORK;
	if (WIFEXITED(nanny->process.status) &&
	    WEXITSTATUS(nanny->process.status) == EXIT_ARGUMENTS)
		return add_arguments(words, nanny->args.argv);
	if (!network || !find_holder(&nanny->args, holder))
		return words;
	char *text = xasprintf("%s; port %u is held by %s: stop it, or give dnsmasq another --port",
	    words, nanny->args.port, holder);
	free(words);
	return text;
}

static void
child_died(struct nanny *nanny)
{
	process_read_log(&nanny->process);
	process_close(&nanny->process);
	stale_forks_forget(&nanny->stale_forks);
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

			log_info("%s: %s", strsignal(sig), again ? "at once" : "draining");
			node_guard_drain(&nanny->node_guard);
			nanny_step(nanny, CHILD_TERM);
		} else if (sig == SIGHUP)
			nanny->next_sync_ms = 0;
		else if (sig == SIGUSR1)
			process_signal(&nanny->process, SIGUSR1);
	}
}

/* Probes dnsmasq: often while an answer or a confirmation is awaited, else once a second. */
static void
run_probe(struct nanny *nanny, int64_t now_ms)
{
	if (nanny->process.pid == 0 || now_ms < nanny->next_probe_ms)
		return;
	/* A child that was started while draining is in no state of its own until it answers. */
	bool new = nanny->child.state == CHILD_STARTING || nanny->answered_ms < nanny->spawned_ms;
	bool awaited = nanny->asking || new;
	if (awaited)
		dnsmasq_probe_ask_generation(nanny->dnsmasq_probe);
	if (!nanny->asking)
		dnsmasq_probe_ask_version(nanny->dnsmasq_probe);
	nanny->next_probe_ms = now_ms + (awaited ? nanny->ask_gap_ms : NANNY_PROBE_MS);
	if (awaited && nanny->ask_gap_ms < NANNY_ASK_MAX_MS)
		nanny->ask_gap_ms *= 2;
}

static void
run_silence(struct nanny *nanny, int64_t now_ms)
{
	if (nanny->process.pid == 0 || now_ms - nanny->patient_ms < nanny->options->silence_ms)
		return;
	log_errorx(
	    "dnsmasq: no answer for %lld ms: killing it", (long long)(now_ms - nanny->patient_ms));
	nanny->patient_ms = now_ms; /* one kill each time */
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
	}
	if (o->log_interval_ms > 0 && now_ms >= nanny->next_log_ms) {
		if (nanny->next_log_ms && child_is_serving(&nanny->child))
			process_signal(&nanny->process, SIGUSR1);
		nanny->next_log_ms = now_ms + o->log_interval_ms;
	}
	run_names(nanny, now_ms);
	run_silence(nanny, now_ms);
	stale_forks_count(&nanny->stale_forks, nanny->process.pid, now_ms);
	stale_forks_run(&nanny->stale_forks, nanny->args.port, now_ms);
	dnsmasq_port_look(&nanny->port, &nanny->args,
	    child_is_serving(&nanny->child) ? nanny->process.pid : 0, now_ms);
	if (nanny->child.deadline_ms >= 0 && now_ms >= nanny->child.deadline_ms)
		nanny_step(nanny, CHILD_TIMEOUT);
	run_probe(nanny, now_ms);
}

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int
wait_ms(const struct nanny *nanny, int64_t now_ms)
{
	int64_t next = now_ms + NANNY_STATUS_MAX_MS;

	next = earlier(next, nanny->next_sync_ms);
	if (nanny->child.deadline_ms >= 0)
		next = earlier(next, nanny->child.deadline_ms);
	if (nanny->process.pid > 0)
		next = earlier(next, nanny->next_probe_ms);
	if (nanny->options->log_interval_ms > 0)
		next = earlier(next, nanny->next_log_ms);
	next = earlier(next, stub_hosts_next_ms(nanny->names, now_ms));
	next = earlier(next, stale_forks_next_ms(&nanny->stale_forks));
	if (nanny->http != NULL && http_timeout_ms(nanny->http) >= 0)
		next = earlier(next, now_ms + http_timeout_ms(nanny->http));
	return next > now_ms ? (int)(next - now_ms) : 0;
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
	if (fds[FD_ANSWERS].revents && dnsmasq_probe_read(nanny->dnsmasq_probe) &&
	    answer_is_its_own(nanny))
		child_answered(nanny);
	if (fds[FD_QUESTIONS].revents) {
		uint32_t generation = dnsmasq_probe_answer(nanny->dnsmasq_probe);

		if (generation && nanny->child.state == CHILD_STARTING)
			child_answered(nanny);
		if (generation)
			generation_seen(nanny, generation);
	}
	if (nanny->http != NULL)
		http_run(nanny->http);
	/* It cannot be started again, for this process has given up the right to. */
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
			[FD_CONFIG] = { .fd = confdir_fd(nanny->confdir) },
			[FD_RESOLV] = { .fd = confdir_fd(nanny->resolvdir) },
			[FD_NAMES] = { .fd = stub_hosts_fd(nanny->names) },
			[FD_ANSWERS] = { .fd = dnsmasq_probe_fd(nanny->dnsmasq_probe) },
			[FD_QUESTIONS] = { .fd = dnsmasq_probe_questions_fd(nanny->dnsmasq_probe) },
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

/* --- what the table of states says --- */

/* Does what the table of states and events (dnsmasq/states.c) decides: writes the servers file,
 * starts dnsmasq, makes it read the file, stops it. */

/* A generation that dnsmasq cannot have: the next one, wrapping after the last. */
static uint32_t
next_generation(uint32_t generation)
{
	return generation < SERVERS_GENERATION_MIN || generation >= SERVERS_GENERATION_MAX
		   ? SERVERS_GENERATION_MIN
		   : generation + 1;
}

/* Writes the file; a failed write is tried again when the child's deadline passes. */
static bool
write_servers_file(struct nanny *nanny, bool fresh)
{
	struct servers_file file = nanny_plan(nanny, fresh);
	uint32_t generation = next_generation(nanny->generation);
	size_t len;
	char *text =
	    servers_render(&file, generation, dnsmasq_probe_port(nanny->dnsmasq_probe), &len);
	int rc = servers_file_write(&nanny->file, text, len);

	free(text);
	if (rc < 0) {
		if (!nanny->write_failed)
			log_errorx("servers file %s: %s; dnsmasq keeps what it has",
			    nanny->file.path, strerror(-rc));
		nanny->write_failed = true;
		nanny->stats.write_failures++;
		servers_free(&file);
		return false;
	}
	if (nanny->write_failed)
		log_info("servers file %s: can be written again", nanny->file.path);
	nanny->write_failed = false;
	nanny->generation = generation;
	servers_free(&nanny->written);
	nanny->written = file;
	nanny->hash = servers_hash(&file);
	nanny->names_waiting = false;
	if (!fresh)
		confine_check_ports(nanny);
	return true;
}

/* Writes the last words to the termination log, where the kubelet looks for them, if there is
 * one. */
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
spawn_dnsmasq(struct nanny *nanny)
{
	nanny->spawned_ms = nanny->patient_ms = clock_mono_ms();
	nanny->child.changed = !write_servers_file(nanny, true);
	sandbox_free(nanny->confined);
	nanny->confined = confine_dnsmasq(nanny);
	int rc = process_spawn(&nanny->process, nanny->args.argv, nanny->confined, confine_keep());
	if (rc < 0) {
		char *text = xasprintf(
		    "dnsmasq: %s cannot be started: %s", nanny->args.argv[0], strerror(-rc));

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
	log_info("dnsmasq: started as process %d", (int)nanny->process.pid);
	if (nanny->sandbox == SANDBOX_ON)
		sandbox_say(nanny->confined, "dnsmasq: sandbox", nanny->process.layers);
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
		spawn_dnsmasq(nanny);
	if (actions & CHILD_DO_WRITE && !write_servers_file(nanny, false)) {
		nanny->child.changed = true;
		actions &= ~(unsigned)(CHILD_DO_HUP | CHILD_DO_ASK);
	}
	if (actions & CHILD_DO_HUP) {
		nanny->stats.hups++;
		nanny->reloading = true;
		process_signal(&nanny->process, SIGHUP);
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

/* Feeds the event to the table and does the resulting actions. */
void
nanny_step(struct nanny *nanny, enum child_event event)
{
	enum child_state before = nanny->child.state;
	unsigned actions = child_step(&nanny->child, event, clock_mono_ms());

	if (nanny->child.state != before)
		log_debug("dnsmasq: %s -> %s", child_state_name(before),
		    child_state_name(nanny->child.state));
	nanny_act(nanny, actions);
}
