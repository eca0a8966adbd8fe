#include "kubedns/serve/net/sockets.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/net/shared_port.h"
#include "lib/log.h"
#include "lib/port.h"
#include "lib/xalloc.h"

enum {
	/*
	 * A burst waits here while a worker is busy: at 768 bytes of kernel memory for a small
	 * packet about 5,000 of them, 25 ms at the full rate of a core. More would only make
	 * clients wait for answers that they no longer want.
	 */
	UDP_RECEIVE_BUFFER = 2 * 1024 * 1024,
	UDP_SEND_BUFFER = 1024 * 1024,
	/*
	 * Kernel memory of one TCP client, which the kernel doubles: it counts against the pod's
	 * limit, and there can be a thousand of them. What does not fit into the send buffer is
	 * kept by tcp.c, within its own bounds.
	 */
	TCP_SEND_BUFFER = 16 * 1024,
	TCP_RECEIVE_BUFFER = 8 * 1024,
	PORT_TRIES = 64,
};

static int
set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : -errno;
}

/* A socket to be bound to `server`, shared by SO_REUSEPORT or alone; or -errno. */
static int
open_unbound(const struct server *server, int type, bool shared, bool free_bind)
{
	int fd = socket(server->addr.family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	int rc = 0;
	if (server->addr.family == AF_INET6)
		rc = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (rc == 0 && type == SOCK_STREAM)
		rc = set(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* despite connections in TIME_WAIT */
	if (rc == 0 && shared)
		rc = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (rc == 0 && free_bind)
		rc = server->addr.family == AF_INET6 ? set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1)
						     : set(fd, IPPROTO_IP, IP_FREEBIND, 1);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* The same, bound. */
static int
open_bound(const struct server *server, int type, bool shared, bool free_bind)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(server, &ss);
	int fd = open_unbound(server, type, shared, free_bind);

	if (fd < 0 || bind(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	int rc = -errno;
	close(fd);
	return rc;
}

static int
open_udp(const struct server *server, const struct sockets *sockets)
{
	const bool wildcard = sockets->wildcard;
	int fd = sockets->held ? open_unbound(server, SOCK_DGRAM, true, true)
			       : open_bound(server, SOCK_DGRAM, true, sockets->share);

	if (fd < 0)
		return fd;
	/* As much of it as net.core.rmem_max allows. */
	set(fd, SOL_SOCKET, SO_RCVBUF, UDP_RECEIVE_BUFFER);
	set(fd, SOL_SOCKET, SO_SNDBUF, UDP_SEND_BUFFER);
	/* ICMP "fragmentation needed" can be forged, and no reply is long enough to need it. */
	if (server->addr.family == AF_INET) {
		set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_OMIT);
		set(fd, IPPROTO_IP, IP_PKTINFO, wildcard);
	} else {
		set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_OMIT);
		set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, wildcard);
	}
	return fd;
}

static int
open_tcp(const struct server *server, const struct sockets *sockets)
{
	int fd = open_bound(server, SOCK_STREAM, true, sockets->share);

	if (fd < 0)
		return fd;
	set(fd, SOL_SOCKET, SO_SNDBUF, TCP_SEND_BUFFER); /* connections inherit all three */
	set(fd, SOL_SOCKET, SO_RCVBUF, TCP_RECEIVE_BUFFER);
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (sockets->held || listen(fd, SOCKETS_BACKLOG) == 0)
		return fd;
	int rc = -errno;
	close(fd);
	return rc;
}

/* Binds without SO_REUSEPORT and closes: fails if the port is in use. Sets the port if it was 0. */
static int
probe_port(struct server *server, int type)
{
	int fd = open_bound(server, type, false, false);

	if (fd < 0)
		return fd;
	if (server->port == 0)
		server->port = port_bound(fd);
	close(fd);
	return 0;
}

/*
 * By default the kernel chooses a packet's socket by a hash of addresses and ports. If a dnsmasq is
 * the only client, that is uneven: its 20 ports came out as 4, 7, 2 and 7 over four sockets. A
 * random number chooses instead. Not where another process may have the port too: the program is the whole
 * group's, and its numbers are those of the sockets that were bound first, which are the other's.
 */
static void
spread_randomly(int fd, unsigned threads)
{
	struct sock_filter code[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM) },
		{ BPF_ALU | BPF_MOD | BPF_K, 0, 0, threads },
		{ BPF_RET | BPF_A, 0, 0, 0 },
	};
	struct sock_fprog program = { .len = sizeof code / sizeof code[0], .filter = code };

	if (threads > 1 &&
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) != 0)
		log_debug("dns: SO_ATTACH_REUSEPORT_CBPF: %s; workers are chosen by hash",
		    strerror(errno));
}

/* `*type`: of the socket that was opened last, or failed to. */
static int
open_family(struct sockets *sockets, size_t f, int *type)
{
	const struct server *server = &sockets->servers[f];

	for (unsigned t = 0; t < sockets->threads; t++) {
		*type = SOCK_DGRAM;
		int fd = open_udp(server, sockets);
		if (fd < 0)
			return fd;
		sockets->udp[t][f] = fd;
		*type = SOCK_STREAM;
		fd = open_tcp(server, sockets);
		if (fd < 0)
			return fd;
		sockets->tcp[t][f] = fd;
	}
	if (!sockets->share)
		spread_randomly(sockets->udp[0][f], sockets->threads);
	return 0;
}

/* Reads one of the addresses; 0 or -EINVAL. */
static int
read_address(struct sockets *sockets, const char *address, uint16_t port)
{
	static const char any[] = "0.0.0.0";
	struct server server;

	if (sockets->count == SOCKETS_MAX || sockets->wildcard ||
	    server_parse(address[0] != '\0' ? address : any, 53, &server, NULL) != 0)
		return -EINVAL;
	server.port = port;
	const struct addr none = { .family = server.addr.family };
	sockets->wildcard = addr_equal(&server.addr, &none);
	if (sockets->wildcard && sockets->count > 0)
		return -EINVAL;
	sockets->servers[sockets->count++] = server;
	if (sockets->wildcard) {
		sockets->servers[0].addr = (struct addr){ .family = AF_INET };
		sockets->servers[1] = (struct server){ .addr.family = AF_INET6, .port = port };
		sockets->count = 2;
	}
	return 0;
}

static int
read_addresses(struct sockets *sockets, const char *addresses, uint16_t port)
{
	char *copy = xstrdup(addresses), *rest = copy, *address;
	int rc = 0;

	while (rc == 0 && (address = strsep(&rest, ",")) != NULL)
		rc = read_address(sockets, address, port);
	free(copy);
	return rc;
}

/*
 * Checks that the port is free for every socket, or logs who has it; with port 0 the first bind
 * chooses the port of the others.
 */
static int
probe_all(struct sockets *sockets, bool quiet)
{
	static const int protos[] = { SOCK_DGRAM, SOCK_STREAM };

	for (size_t f = 0; f < sockets->count; f++) {
		if (f > 0)
			sockets->servers[f].port = sockets->servers[0].port;
		for (size_t p = 0; p < 2; p++) {
			int rc = probe_port(&sockets->servers[f], protos[p]);

			if (f == 1 && sockets->wildcard &&
			    (rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL)) {
				sockets->count = 1; /* no IPv6 here */
				return 0;
			}
			if (rc != 0 && !quiet)
				port_log_failure("dns", protos[p], &sockets->servers[f], -rc);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

static int
choose_port(struct sockets *sockets, uint16_t port)
{
	int rc = -EADDRINUSE;

	if (port != 0)
		return sockets->share ? 0 : probe_all(sockets, false);
	for (unsigned i = 0; i < PORT_TRIES && rc == -EADDRINUSE; i++) {
		sockets->servers[0].port = 0;
		rc = probe_all(sockets, i < PORT_TRIES - 1);
	}
	return rc;
}

static int (*new_fds(unsigned threads))[SOCKETS_MAX]
{
	int(*fds)[SOCKETS_MAX] = xcalloc(threads, sizeof *fds);
	for (unsigned t = 0; t < threads; t++)
		memset(fds[t], -1, sizeof *fds);
	return fds;
}

int
sockets_open(
    struct sockets *sockets, const char *address, uint16_t port, bool share, unsigned threads)
{
	memset(sockets, 0, sizeof *sockets);
	sockets->share = share;
	int rc = read_addresses(sockets, address, port);
	if (rc != 0) {
		log_errorx("dns: %s: not an address", address);
		return rc;
	}
	rc = choose_port(sockets, port);
	if (rc != 0)
		return rc;
	sockets->threads = threads;
	sockets->held = share && shared_port_is_taken(&sockets->servers[0]);
	sockets->udp = new_fds(threads);
	sockets->tcp = new_fds(threads);
	for (size_t f = 0; f < sockets->count; f++) {
		int type = SOCK_DGRAM;

		rc = open_family(sockets, f, &type);
		if (rc != 0) {
			port_log_failure("dns", type, &sockets->servers[f], -rc);
			sockets_close(sockets);
			return rc;
		}
	}
	return 0;
}

void
sockets_close(struct sockets *sockets)
{
	for (unsigned t = 0; t < sockets->threads; t++)
		for (size_t f = 0; f < SOCKETS_MAX; f++) {
			if (sockets->udp[t][f] >= 0)
				close(sockets->udp[t][f]);
			if (sockets->tcp[t][f] >= 0)
				close(sockets->tcp[t][f]);
		}
	free(sockets->udp);
	free(sockets->tcp);
	memset(sockets, 0, sizeof *sockets);
}
