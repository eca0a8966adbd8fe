#include "nanny/child_port.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/log.h"

enum { CHILDREN_TEXT_MAX = 8192 };

/* Whether a child of this process has the socket open. The child may be dnsmasq, or a process that
 * an earlier dnsmasq forked for a TCP connection and that inherited its sockets. */
static bool
is_of_a_child(unsigned long inode)
{
	char path[64], text[CHILDREN_TEXT_MAX], *save = NULL;

	snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return false;
	size_t len = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[len] = '\0';
	for (char *pid = strtok_r(text, " ", &save); pid != NULL; pid = strtok_r(NULL, " ", &save))
		if (port_process_has(pid, inode))
			return true;
	return false;
}

static bool
was_seen(const struct child_port *port, unsigned long inode)
{
	for (size_t i = 0; i < port->seen_count; i++)
		if (port->seen[i].inode == inode)
			return true;
	return false;
}

/*
 * Finds at most CHILD_PORT_MAX sockets at dnsmasq's addresses that dnsmasq does not own. If it
 * does not even find dnsmasq's own sockets, this process may not read dnsmasq's descriptors. The
 * result is 0 in that case.
 */
static size_t
find_others(const struct args *args, const char *child, struct port_socket *others)
{
	struct port_socket sockets[CHILD_PORT_MAX];
	size_t found = 0, own = 0;

	for (size_t i = 0; i < args->listen_count; i++) {
		struct server server = { .addr = args->listen[i], .port = args->port };
		size_t count = port_udp_sockets(&server, sockets, CHILD_PORT_MAX);

		for (size_t k = 0; k < count && found < CHILD_PORT_MAX; k++)
			if (port_process_has(child, sockets[k].inode))
				own++;
			else if (!is_of_a_child(sockets[k].inode))
				others[found++] = sockets[k];
	}
	return own > 0 ? found : 0;
}

/* Counts a socket only when two consecutive checks see it. A single check reads the kernel's socket
 * list first and dnsmasq's descriptors afterwards. dnsmasq may restart between these two steps. */
static void
judge(struct child_port *port, const char *name, const struct port_socket *found, size_t count,
    uint16_t number)
{
	size_t before = port->others;

	port->others = 0;
	for (size_t i = 0; i < count; i++) {
		if (!was_seen(port, found[i].inode))
			continue;
		if (port->others == 0 && before == 0)
			port_socket_holder(&found[i], port->holder);
		port->others++;
	}
	if (port->others > 0 && before == 0)
		log_errorx("%s: port %u is open in %s too, which can answer clients instead of %s: "
			   "stop that process",
		    name, number, port->holder, name);
	else if (port->others == 0 && before > 0)
		log_info("%s: port %u: no other process uses it any more", name, number);
}

void
child_port_look(
    struct child_port *port, const char *name, const struct args *args, pid_t child, int64_t now_ms)
{
	struct port_socket found[CHILD_PORT_MAX];
	char pid[16];

	if (child == 0 || now_ms < port->next_ms)
		return;
	port->next_ms = now_ms + CHILD_PORT_LOOK_MS;
	snprintf(pid, sizeof pid, "%d", (int)child);
	size_t count = find_others(args, pid, found);
	judge(port, name, found, count, args->port);
	memcpy(port->seen, found, count * sizeof *found);
	port->seen_count = count;
}

uint64_t
child_port_drops(uint16_t port)
{
	static const char *const files[] = { "/proc/net/udp", "/proc/net/udp6" };
	uint64_t total = 0;
	for (size_t i = 0; i < 2; i++) {
		FILE *file = fopen(files[i], "re");
		char line[512];

		while (file != NULL && fgets(line, sizeof line, file) != NULL) {
			unsigned local;
			char *end = line + strcspn(line, "\n"); /* lines are padded with blanks */

			while (end > line && end[-1] == ' ')
				*--end = '\0';
			const char *last = strrchr(line, ' ');
			uint64_t drops;
			if (last != NULL && sscanf(line, " %*u: %*[0-9A-F]:%4X", &local) == 1 &&
			    local == port && sscanf(last, "%" SCNu64, &drops) == 1)
				total += drops;
		}
		if (file != NULL)
			fclose(file);
	}
	return total;
}
