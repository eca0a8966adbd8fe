/* Does what the table of states and events (dnsmasq_states.c) decides: writes the servers file,
 * starts dnsmasq, makes it read the file, stops it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/confine.h"
#include "nanny/nanny.h"

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
