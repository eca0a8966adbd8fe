#include "nanny/node/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "nanny/node/rules.h"
#include "nanny/node/watch.h"
#include "nanny/options.h"

enum {
	WORD_BEGIN = 'b',
	WORD_DRAIN = 'd',
	END_MS = 1000, /* time to wait for the guard to exit, before and after SIGKILL */
};

/* Runs the guard, a child process. The guard opens all files and sockets before it reads the first
 * message. The guard exits when the pipe is closed. */
_Noreturn static void
run_child(int words, const struct options *options, enum sandbox_mode mode,
    struct node_report *report, pid_t parent)
{
	struct server dnsmasq;
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* The container's SIGTERM is meant for the nanny, which then sends WORD_DRAIN to the
	 * guard. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	struct node_watch *watch = node_watch_new(options, mode, report);
	if (watch == NULL)
		_exit(1);
	if (read(words, &word, 1) != 1 ||
	    read(words, &dnsmasq, sizeof dnsmasq) != (ssize_t)sizeof dnsmasq)
		_exit(0);
	node_watch_run(watch, &dnsmasq, words);
	node_watch_free(watch);
	_exit(0);
}

int
node_guard_start(struct node_guard *guard, const struct options *options, enum sandbox_mode mode)
{
	int ends[2];

	*guard = (struct node_guard){ .pidfd = -1, .pipe = -1 };
	if (options->node_address_count == 0)
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		log_error("node: pipe");
		return -errno;
	}
	guard->report = mmap(
	    NULL, sizeof *guard->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guard->report == MAP_FAILED)
		log_fatal("node: shared memory");
	pid_t parent = getpid();
	guard->pid = fork();
	if (guard->pid == 0) {
		close(ends[1]);
		run_child(ends[0], options, mode, guard->report, parent);
	}
	int rc = guard->pid < 0 ? -errno : 0;
	close(ends[0]);
	guard->pipe = ends[1];
	if (rc == 0 && (guard->pidfd = (int)syscall(SYS_pidfd_open, guard->pid, 0)) < 0)
		rc = -errno;
	if (rc < 0)
		log_errorx("node: the process that manages the rules: %s", strerror(-rc));
	return rc;
}

/* Sends a message to the guard. A failure is only logged: if the guard has died, its pidfd reports
 * the death. */
static void
send_words(struct node_guard *guard, const void *words, size_t len)
{
	if (guard->pid > 0 && write(guard->pipe, words, len) != (ssize_t)len)
		log_warn("node: the process that manages the rules");
}

void
node_guard_begin(struct node_guard *guard, const struct server *dnsmasq)
{
	char words[1 + sizeof *dnsmasq] = { WORD_BEGIN };

	memcpy(words + 1, dnsmasq, sizeof *dnsmasq);
	send_words(guard, words, sizeof words);
}

void
node_guard_drain(struct node_guard *guard)
{
	send_words(guard, &(char){ WORD_DRAIN }, 1);
}

static void
forget(struct node_guard *guard)
{
	if (guard->pipe >= 0)
		close(guard->pipe);
	if (guard->pidfd >= 0)
		close(guard->pidfd);
	if (guard->report != NULL)
		guard->report->up = false; /* the kernel removed the rules when the guard died */
	*guard = (struct node_guard){ .pidfd = -1, .pipe = -1, .report = guard->report };
}

/* If the guard is stopped (SIGSTOP), its last report stays in the shared memory, but the kernel
 * expires the rules. A report is therefore valid only for as long as the kernel keeps the rules. */
bool
node_guard_is_up(const struct node_guard *guard)
{
	return guard->report == NULL ||
	       (guard->report->up &&
		   clock_mono_ms() - guard->report->seen_ms < NODE_RULES_ALIVE_S * 1000);
}

void
node_guard_metrics(const struct node_guard *guard, struct metrics *m)
{
	static const char *const families[] = { [NODE_IPV4] = "ipv4", [NODE_IPV6] = "ipv6" };
	if (guard->report == NULL)
		return;
	metrics_family(m, "nanny_node_rules", METRIC_GAUGE,
	    "1 while the rules send packets for the node's DNS addresses to the node's own "
	    "kubedns.");
	metrics_value(m, node_guard_is_up(guard), NULL);
	metrics_family(m, "nanny_node_rules_changes_total", METRIC_COUNTER,
	    "Times that the rules took effect (to=up) and were removed (to=down).");
	metrics_value(m, (double)guard->report->ups, "to", "up", NULL);
	metrics_value(m, (double)guard->report->downs, "to", "down", NULL);
	metrics_family(m, "nanny_node_tcp_connections", METRIC_GAUGE,
	    "TCP connections that the rules track, including connections that closed in the last "
	    "seconds.");
	for (int i = 0; i < NODE_FAMILIES; i++)
		metrics_value(m, guard->report->connections[i], "family", families[i], NULL);
	metrics_family(m, "nanny_node_tcp_connections_max", METRIC_GAUGE,
	    "Maximum of TCP connections that the rules can track, for each address family.");
	metrics_value(m, NODE_RULES_TCP_MAX, NULL);
	metrics_family(m, "nanny_node_tcp_dropped_total", METRIC_COUNTER,
	    "Dropped packets that begin a TCP connection, because one client opened too many in a "
	    "second (rate) or all clients reached the maximum (full).");
	metrics_value(m, (double)guard->report->crowd, "reason", "rate", NULL);
	metrics_value(m, (double)guard->report->full, "reason", "full", NULL);
	metrics_family(m, "nanny_node_cache_rules", METRIC_GAUGE,
	    "NOTRACK rules of NodeLocal DNSCache on this node. With these rules, pods get no "
	    "answers while kubedns is down.");
	metrics_value(m, guard->report->node_cache_rules, NULL);
	/* Uses node-cache's metric name and labels, so that existing dashboards and alerts work. */
	metrics_family(m, "coredns_nodecache_setup_errors_total", METRIC_COUNTER,
	    "Failures to create the interface or the rules, by the error types of node-cache.");
	metrics_value(m, (double)guard->report->link_errors, "errortype", "interface_add", NULL);
	metrics_value(m, (double)guard->report->rule_errors, "errortype", "iptables", NULL);
}

uint64_t
node_guard_dnsmasq_answers(const struct node_guard *guard)
{
	return guard->report == NULL ? 0 : guard->report->dnsmasq_answers;
}

int
node_guard_node_cache_rules(const struct node_guard *guard)
{
	return guard->report == NULL ? 0 : guard->report->node_cache_rules;
}

/* Waits for the guard to exit, with a timeout, because the guard may be stopped (SIGSTOP). */
static bool
has_ended(const struct node_guard *guard)
{
	struct pollfd fd = { .fd = guard->pidfd, .events = POLLIN };

	return poll(&fd, 1, END_MS) > 0;
}

void
node_guard_stop(struct node_guard *guard)
{
	if (guard->pipe >= 0)
		close(guard->pipe);
	guard->pipe = -1;
	if (guard->pid > 0 && !has_ended(guard)) {
		log_warnx(
		    "node: the process that manages the rules (pid %d) did not exit within %d s: "
		    "killed, and the rules are gone",
		    (int)guard->pid, END_MS / 1000);
		kill(guard->pid, SIGKILL);
		has_ended(guard);
	}
	if (guard->pid > 0)
		waitpid(guard->pid, NULL, WNOHANG);
	forget(guard);
}

bool
node_guard_ended(struct node_guard *guard)
{
	int status = 0;
	pid_t got = guard->pid <= 0 ? 0 : waitpid(guard->pid, &status, WNOHANG);

	if (got == 0)
		return false;
	/* waitpid() returns -1 if the guard was already reaped together with dnsmasq's orphans. */
	log_errorx("node: the process that manages the rules ended with %s %d: the rules are gone",
	    WIFSIGNALED(status) ? "signal" : "status",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	forget(guard);
	return true;
}
