#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/log.h"
#include "lib/port.h"

/*
 * The kernel returns a long table in pieces, and continues at a row number. If a socket opens or
 * closes between two pieces, the kernel may skip or repeat a row. A row therefore counts as missing
 * only after FIND_READINGS readings without it. A count is repeated until COUNT_AGREE consecutive
 * readings agree, at most COUNT_READINGS times.
 */
enum { FIND_READINGS = 3, COUNT_AGREE = 3, COUNT_READINGS = 12 };

static bool
is_any(const struct addr *addr)
{
	static const uint8_t zeros[16];

	return memcmp(addr->bytes, zeros, addr_len(addr)) == 0;
}

/* Parses an address as in /proc/net: 32-bit words in hexadecimal and host byte order. */
static bool
read_local_address(const char *hex, struct addr *addr)
{
	size_t len = strlen(hex);

	*addr = (struct addr){ .family = len == 8 ? AF_INET : AF_INET6 };
	if (len != 8 && len != 32)
		return false;
	for (size_t i = 0; i < len / 8; i++) {
		uint32_t word = 0;

		if (sscanf(hex + 8 * i, "%8" SCNx32, &word) != 1)
			return false;
		memcpy(addr->bytes + 4 * i, &word, 4);
	}
	return true;
}

/* Whether sockets at both addresses conflict. [::] conflicts with addresses of both families. */
static bool
conflicts(const struct addr *a, const struct addr *b)
{
	if (is_any(a) && (a->family == AF_INET6 || b->family == AF_INET))
		return true;
	if (is_any(b) && (b->family == AF_INET6 || a->family == AF_INET))
		return true;
	return addr_equal(a, b);
}

/*
 * Whether a line of /proc/net/{tcp,udp}{,6} is a socket at this port whose address conflicts with
 * the address of `server`. Columns of proc(5): sl local_address rem_address st tx:rx tr:when
 * retrnsmt uid timeout inode.
 */
static bool
line_conflicts(
    const char *line, const struct server *server, unsigned *state, struct port_socket *found)
{
	unsigned local_port = 0;
	char hex[33];
	struct addr local;

	return sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %u %*d %lu", hex,
		   &local_port, state, &found->uid, &found->inode) == 5 &&
	       local_port == server->port && read_local_address(hex, &local) &&
	       conflicts(&local, &server->addr);
}

static bool
table_search(
    const char *path, const struct server *server, bool listening, struct port_socket *found)
{
	enum { TCP_LISTEN = 10 };
	char line[512];
	bool hit = false;
	unsigned state = 0;
	FILE *f = fopen(path, "re");

	if (f == NULL)
		return false;
	while (!hit && fgets(line, sizeof line, f) != NULL)
		hit = line_conflicts(line, server, &state, found) &&
		      (!listening || state == TCP_LISTEN);
	fclose(f);
	return hit;
}

static bool
is_among(const struct port_socket *sockets, size_t count, unsigned long inode)
{
	for (size_t i = 0; i < count; i++)
		if (sockets[i].inode == inode)
			return true;
	return false;
}

size_t
port_udp_sockets(const struct server *server, struct port_socket *sockets, size_t max)
{
	static const char *const paths[] = { "/proc/net/udp", "/proc/net/udp6" };
	size_t count = 0;

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		char line[512];
		FILE *f = fopen(paths[i], "re");

		while (f != NULL && count < max && fgets(line, sizeof line, f) != NULL) {
			struct port_socket found;
			unsigned state;

			if (line_conflicts(line, server, &state, &found) &&
			    !is_among(sockets, count, found.inode))
				sockets[count++] = found;
		}
		if (f != NULL)
			fclose(f);
	}
	return count;
}

/* Reads the table once and counts. */
static unsigned
count_udp_servers(FILE *table, const struct server *server, uint16_t peer)
{
	char line[512];
	unsigned count = 0;

	rewind(table);
	while (fgets(line, sizeof line, table) != NULL) {
		unsigned local_port = 0, peer_port = 0;
		char hex[33];
		struct addr local;

		count += sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%x", hex, &local_port,
			     &peer_port) == 3 &&
			 peer_port == peer && local_port == server->port &&
			 read_local_address(hex, &local) && addr_equal(&local, &server->addr);
	}
	return count;
}

unsigned
port_udp_servers(FILE *table, const struct server *server, uint16_t peer)
{
	unsigned count = count_udp_servers(table, server, peer), agree = 1;

	for (unsigned i = 1; i < COUNT_READINGS && agree < COUNT_AGREE; i++) {
		unsigned again = count_udp_servers(table, server, peer);

		agree = again == count ? agree + 1 : 1;
		count = again;
	}
	return count;
}

bool
port_process_has(const char *pid, unsigned long inode)
{
	char fd_dir[PATH_MAX], name[64], target[64];
	bool hit = false;

	snprintf(fd_dir, sizeof fd_dir, "/proc/%s/fd", pid);
	snprintf(name, sizeof name, "socket:[%lu]", inode);
	DIR *dir = opendir(fd_dir);
	if (dir == NULL)
		return false;
	for (struct dirent *entry = NULL; !hit && (entry = readdir(dir)) != NULL;) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

		target[n < 0 ? 0 : n] = '\0';
		hit = strcmp(target, name) == 0;
	}
	closedir(dir);
	return hit;
}

static void
process_name(const char *pid, char *text)
{
	char path[PATH_MAX], name[32] = "a process";

	snprintf(path, sizeof path, "/proc/%s/comm", pid);
	FILE *f = fopen(path, "re");

	if (f != NULL) {
		if (fgets(name, sizeof name, f) != NULL)
			name[strcspn(name, "\n")] = '\0';
		fclose(f);
	}
	snprintf(text, PORT_HOLDER_MAX, "%s (pid %.10s)", name, pid);
}

void
port_socket_holder(const struct port_socket *socket, char *text)
{
	snprintf(text, PORT_HOLDER_MAX, "a process of uid %u", socket->uid);
	DIR *proc = opendir("/proc");
	if (proc == NULL)
		return;
	for (struct dirent *entry = NULL; (entry = readdir(proc)) != NULL;)
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    port_process_has(entry->d_name, socket->inode)) {
			process_name(entry->d_name, text);
			break;
		}
	closedir(proc);
}

const char *
port_holder(int type, const struct server *server, char *text)
{
	bool tcp = type == SOCK_STREAM;
	struct port_socket found = { 0 };

	bool hit = false;
	for (unsigned i = 0; i < FIND_READINGS && !hit; i++)
		hit = table_search(tcp ? "/proc/net/tcp" : "/proc/net/udp", server, tcp, &found) ||
		      table_search(tcp ? "/proc/net/tcp6" : "/proc/net/udp6", server, tcp, &found);
	if (!hit)
		return NULL;
	port_socket_holder(&found, text);
	return text;
}

static bool
have_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int
port_address(const char *text, struct addr *addr, int *dual)
{
	struct server server;

	/* server_parse handles brackets; a port is not allowed here. */
	if (server_parse(text, 0, &server, NULL) < 0 || server.port != 0)
		return -EINVAL;
	*addr = server.addr;
	*dual = is_any(addr);
	if (*dual) {
		addr->family = have_ipv6() ? AF_INET6 : AF_INET;
		memset(addr->bytes, 0, sizeof addr->bytes);
	}
	return 0;
}

void
port_log_failure(const char *what, int type, const struct server *server, int err)
{
	char where[SERVER_TEXT_MAX], holder[PORT_HOLDER_MAX];
	const char *proto = type == SOCK_STREAM ? "tcp" : "udp";
	const char *hint = "";
	const char *who = err == EADDRINUSE ? port_holder(type, server, holder) : NULL;

	server_format(server, where);
	if (who != NULL) {
		log_errorx("%s: cannot listen on %s %s: port %u is in use by %s: stop it, or use "
			   "another port",
		    what, proto, where, server->port, who);
		return;
	}
	if (err == EACCES && server->port < IPPORT_RESERVED)
		hint = " (ports below 1024 need root, NET_BIND_SERVICE or "
		       "net.ipv4.ip_unprivileged_port_start=0)";
	else if (err == EADDRNOTAVAIL)
		hint = " (no interface here has this address)";
	errno = err;
	log_errorx("%s: cannot listen on %s %s: %m%s", what, proto, where, hint);
}

static int
listener(const struct server *server, int dual, bool share, int backlog)
{
	struct sockaddr_storage ss;
	const int yes = 1, shared = share, v6only = !dual;
	socklen_t len = server_sockaddr(server, &ss);

	int fd = socket(server->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, sizeof shared) < 0 ||
	    (server->addr.family == AF_INET6 &&
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) < 0) ||
	    bind(fd, (const struct sockaddr *)&ss, len) < 0 || listen(fd, backlog) < 0) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

int
port_listen(const char *what, const char *address, uint16_t port, bool share, int backlog)
{
	struct server server = { .port = port };
	int dual = 0;

	if (port_address(address, &server.addr, &dual) < 0) {
		log_errorx("%s: cannot listen on \"%s\": not an address", what, address);
		return -EINVAL;
	}
	int fd = listener(&server, dual, share, backlog);
	if (fd < 0)
		port_log_failure(what, SOCK_STREAM, &server, -fd);
	return fd;
}

uint16_t
port_bound(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct server server = { .port = 0 };

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		server_from_sockaddr((const struct sockaddr *)&ss, &server);
	return server.port;
}
