#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "nanny/dnsmasq/stale_forks.h"

enum {
	PATH_LEN = 64,
	TCP_ESTABLISHED_STATE = 1 /* TCP_ESTABLISHED in Linux's include/net/tcp_states.h */
};

/* Reads a file of /proc into `text`. Returns false if the process may not read it or the file does
 * not exist. */
__attribute__((format(printf, 3, 4))) static bool
read_proc(char *text, size_t max, const char *format, ...)
{
	char path[PATH_LEN];
	va_list ap;

	va_start(ap, format);
	vsnprintf(path, sizeof path, format, ap);
	va_end(ap);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, max - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static void
forget(struct stale_forks *tcp, size_t i)
{
	close(tcp->forks[i].pidfd);
	tcp->forks[i] = tcp->forks[--tcp->count];
}

void
stale_forks_forget(struct stale_forks *tcp)
{
	while (tcp->count > 0)
		forget(tcp, 0);
}

static void
watch_fork(struct stale_forks *tcp, pid_t pid, bool stale)
{
	for (size_t i = 0; i < tcp->count; i++)
		if (tcp->forks[i].pid == pid) {
			tcp->forks[i].stale |= stale;
			return;
		}
	if (tcp->count == STALE_FORKS_MAX)
		return;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd >= 0)
		tcp->forks[tcp->count++] =
		    (struct stale_fork){ .pid = pid, .pidfd = pidfd, .stale = stale };
}

/* Lists the processes that dnsmasq has forked, at most `max`. */
static size_t
list_forks(pid_t dnsmasq, pid_t *pids, size_t max)
{
	char text[STALE_FORKS_MAX * 12];
	size_t count = 0;
	int pid, len;

	if (!read_proc(text, sizeof text, "/proc/%d/task/%d/children", (int)dnsmasq, (int)dnsmasq))
		return 0;
	/* A space follows each complete number. A last number without a space was truncated. */
	for (const char *p = text;
	     count < max && sscanf(p, "%d%n", &pid, &len) == 1 && p[len] == ' '; p += len)
		pids[count++] = pid;
	return count;
}

void
stale_forks_reloaded(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms)
{
	pid_t pids[STALE_FORKS_MAX] = { 0 };
	size_t count = list_forks(dnsmasq, pids, STALE_FORKS_MAX);

	for (size_t i = 0; i < count; i++)
		watch_fork(tcp, pids[i], true);
	tcp->reloaded_ms = tcp->next_ms = now_ms;
}

/* Whether the connections have reached three quarters of the limit. */
static bool
is_near_limit(const struct stale_forks *tcp)
{
	return tcp->limit > 0 && tcp->connections * 4 >= (size_t)tcp->limit * 3;
}

void
stale_forks_count(struct stale_forks *tcp, pid_t dnsmasq, int64_t now_ms)
{
	pid_t pids[STALE_FORKS_MAX] = { 0 };

	if (now_ms < tcp->crowd_ms)
		return;
	tcp->connections = dnsmasq == 0 ? 0 : list_forks(dnsmasq, pids, STALE_FORKS_MAX);
	bool crowded = is_near_limit(tcp);
	for (size_t i = 0; crowded && i < tcp->connections; i++)
		watch_fork(tcp, pids[i], false);
	for (size_t i = tcp->count; !crowded && i-- > 0;)
		if (!tcp->forks[i].stale)
			forget(tcp, i);
	if (crowded && !tcp->crowded)
		log_neterr("dnsmasq: %zu of at most %u TCP connections: closing idle ones",
		    tcp->connections, tcp->limit);
	if (crowded)
		tcp->next_ms = now_ms;
	tcp->crowded = crowded;
	tcp->crowd_ms = now_ms + (crowded ? STALE_FORKS_CROWDED_MS : STALE_FORKS_CROWD_MS);
}

bool
stale_forks_waits(const char *text, int *fd)
{
	unsigned long descriptor, count;
	long number;

	/* the process is running, or blocked outside a system call ("-1 ...") */
	if (sscanf(text, "%ld %lx %*x %lx", &number, &descriptor, &count) != 3)
		return false;
	*fd = (int)descriptor;
	return number == SYS_read && count == 1;
}

/* Reads the number of voluntary context switches of the process. */
static bool
read_switches(pid_t pid, uint64_t *switches)
{
	static const char label[] = "\nvoluntary_ctxt_switches:";
	char text[4096];

	if (!read_proc(text, sizeof text, "/proc/%d/status", (int)pid))
		return false;
	const char *at = strstr(text, label);
	return at != NULL && sscanf(at + sizeof label - 1, "%" SCNu64, switches) == 1;
}

static bool
waits_on(pid_t pid, int *fd)
{
	char text[256];

	return read_proc(text, sizeof text, "/proc/%d/syscall", (int)pid) &&
	       stale_forks_waits(text, fd);
}

/* Whether the process has read any data yet. A fork of dnsmasq reads only queries. */
static bool
has_been_asked(pid_t pid)
{
	char text[512];
	uint64_t bytes;

	return read_proc(text, sizeof text, "/proc/%d/io", (int)pid) &&
	       sscanf(text, "rchar: %" SCNu64, &bytes) == 1 && bytes > 0;
}

/* Returns the inode of the socket at descriptor `fd` of the process, or 0 if the descriptor is not
 * a socket. */
static unsigned long
socket_of(pid_t pid, int fd)
{
	char path[PATH_LEN], link[PATH_LEN];
	unsigned long inode;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
	ssize_t n = readlink(path, link, sizeof link - 1);
	link[n > 0 ? n : 0] = '\0';
	return sscanf(link, "socket:[%lu]", &inode) == 1 ? inode : 0;
}

/* Whether the process has waited for its client's next query for long enough, without any other
 * activity. */
static bool
is_quiet(struct stale_fork *fork, int64_t now_ms)
{
	uint64_t before = fork->switches;
	unsigned long inode = 0;
	bool waits =
	    waits_on(fork->pid, &fork->fd) && (inode = socket_of(fork->pid, fork->fd)) != 0;

	if (inode != fork->inode)
		fork->whose = STALE_FORKS_UNKNOWN;
	bool same = read_switches(fork->pid, &fork->switches) && fork->switches == before &&
		    inode == fork->inode;
	fork->inode = inode;
	if (!waits || !same || fork->quiet_ms == 0) {
		fork->quiet_ms = waits ? now_ms : 0;
		return false;
	}
	int64_t quiet_ms = now_ms - fork->quiet_ms;
	int64_t fresh_ms = fork->stale ? STALE_FORKS_FRESH_MS : STALE_FORKS_CROWD_FRESH_MS;
	return quiet_ms >= fresh_ms ||
	       (quiet_ms >= STALE_FORKS_QUIET_MS && has_been_asked(fork->pid));
}

/* Notes that the socket is a client's connection to dnsmasq's port, for the fork that waits on this
 * socket. */
static void
take_client(struct stale_forks *tcp, unsigned long inode, const char *peer)
{
	for (size_t i = 0; i < tcp->count; i++)
		if (tcp->forks[i].inode == inode) {
			tcp->forks[i].whose = STALE_FORKS_CLIENT;
			snprintf(tcp->forks[i].peer, sizeof tcp->forks[i].peer, "%s", peer);
		}
}

/* Finds out whether each fork waits for a client or for a server. Reads the kernel's table only
 * once, because it may have thousands of connections. */
static void
find_whose(struct stale_forks *tcp, uint16_t port)
{
	static const char *const files[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	for (size_t i = 0; i < tcp->count; i++)
		tcp->forks[i].whose = STALE_FORKS_SERVER;
	for (size_t i = 0; i < 2; i++) {
		FILE *file = fopen(files[i], "re");
		char line[512];

		while (file != NULL && fgets(line, sizeof line, file) != NULL) {
			unsigned local, state;
			unsigned long inode;
			char peer[STALE_FORKS_PEER_MAX];

			if (sscanf(line,
				" %*u: %*[0-9A-F]:%4X %39[0-9A-F]:%*s %2X %*s %*s %*s %*s %*s %lu",
				&local, peer, &state, &inode) == 4 &&
			    local == port && state == TCP_ESTABLISHED_STATE)
				take_client(tcp, inode, peer);
		}
		if (file != NULL)
			fclose(file);
	}
}

/* Whether the fork may be ended. The last check is whether the fork still waits for a query,
 * because the other checks take time. */
static bool
is_over(const struct stale_fork *fork)
{
	int fd;

	return fork->quiet && fork->whose == STALE_FORKS_CLIENT && waits_on(fork->pid, &fd) &&
	       fd == fork->fd;
}

/* Ends the fork's process. Returns false if the process had already exited. */
static bool
end_fork(const struct stale_fork *fork, const char *why)
{
	if (syscall(SYS_pidfd_send_signal, fork->pidfd, SIGALRM, NULL, 0) < 0)
		return false;
	log_debug(
	    "dnsmasq: stopped process %d: its TCP connection was idle and %s", (int)fork->pid, why);
	return true;
}

static size_t
connections_of(const struct stale_forks *tcp, const char *peer)
{
	size_t count = 0;

	for (size_t i = 0; i < tcp->count; i++)
		count += strcmp(tcp->forks[i].peer, peer) == 0;
	return count;
}

/*
 * Chooses the idle connection to end first. Of all clients with an idle connection, takes the
 * client with the most connections. Returns the connection of this client that has been idle
 * longest.
 */
static struct stale_fork *
heaviest_idle(struct stale_forks *tcp)
{
	struct stale_fork *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < tcp->count; i++) {
		struct stale_fork *fork = &tcp->forks[i];

		if (!fork->quiet || fork->whose != STALE_FORKS_CLIENT)
			continue;
		size_t of = connections_of(tcp, fork->peer);
		if (best == NULL || of > most || (of == most && fork->quiet_ms < best->quiet_ms)) {
			best = fork;
			most = of;
		}
	}
	return best;
}

/* Ends idle connections until half of the limit is free or no connection is idle. */
static void
thin_out(struct stale_forks *tcp)
{
	struct stale_fork *fork;

	while (tcp->connections * 2 > tcp->limit && (fork = heaviest_idle(tcp)) != NULL) {
		bool over = is_over(fork);

		fork->quiet = false;
		if (!over)
			continue;
		tcp->crowd_ended += end_fork(fork, "there are near as many as it takes");
		tcp->connections--;
		forget(tcp, (size_t)(fork - tcp->forks));
	}
}

void
stale_forks_run(struct stale_forks *tcp, uint16_t port, int64_t now_ms)
{
	bool unknown = false;

	if (tcp->count == 0 || now_ms < tcp->next_ms)
		return;
	for (size_t i = 0; i < tcp->count; i++) {
		tcp->forks[i].quiet = is_quiet(&tcp->forks[i], now_ms);
		unknown |= tcp->forks[i].quiet && tcp->forks[i].whose == STALE_FORKS_UNKNOWN;
	}
	if (unknown)
		find_whose(tcp, port);
	if (tcp->crowded)
		thin_out(tcp);
	for (size_t i = tcp->count; i-- > 0;) {
		struct stale_fork *fork = &tcp->forks[i];
		bool over = fork->stale && is_over(fork);

		tcp->ended += over && end_fork(fork, "has an old configuration");
		if (over || syscall(SYS_pidfd_send_signal, fork->pidfd, 0, NULL, 0) < 0)
			forget(tcp, i);
	}
	tcp->next_ms =
	    now_ms + (now_ms - tcp->reloaded_ms < STALE_FORKS_OFTEN_MS ? STALE_FORKS_LOOK_MS
								       : STALE_FORKS_LOOK_LATER_MS);
}

int64_t
stale_forks_next_ms(const struct stale_forks *tcp)
{
	int64_t look_ms = tcp->count > 0 ? tcp->next_ms : CLOCK_NEVER;

	return tcp->crowded ? clock_earlier(tcp->crowd_ms, look_ms) : look_ms;
}
