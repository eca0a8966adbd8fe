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
	 * A burst waits here while a worker is busy. With 768 bytes of kernel memory for a small packet, the buffer has space for about
	 * 5,000 packets: 25 ms at the full rate of a core. A larger buffer would only delay answers until the clients have given up.
	 */
	UDP_RECEIVE_BUFFER = 2 * 1024 * 1024,
	UDP_SEND_BUFFER = 1024 * 1024,
	/*
	 * Kernel memory of one TCP client. The kernel doubles these values. The memory counts
	 * against the pod's limit, and there can be a thousand clients. tcp.c stores replies that
	 * do not fit into the send buffer, within its own limits.
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

/* Opens a socket for `server`, which the caller binds. With `shared`, the socket has SO_REUSEPORT. Returns the socket, or -errno. */
static int
open_unbound(const struct server *server, int type, bool shared, bool free_bind)
{
	int fd = socket(server->addr.family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	int rc = 0;
	if (server->addr.family == AF_INET6)
		rc = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	/* SO_REUSEADDR allows the bind although there are connections in TIME_WAIT. */
	if (rc == 0 && type == SOCK_STREAM)
		rc = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
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

/* Opens and binds a socket. The parameters are as in open_unbound(). */
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
	/* The kernel limits the receive buffer to net.core.rmem_max. */
	set(fd, SOL_SOCKET, SO_RCVBUF, UDP_RECEIVE_BUFFER);
	set(fd, SOL_SOCKET, SO_SNDBUF, UDP_SEND_BUFFER);
	/* Ignores ICMP "fragmentation needed". Such messages can be forged, and no reply is long enough to need them. */
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
	/* Connections inherit these three options. */
	set(fd, SOL_SOCKET, SO_SNDBUF, TCP_SEND_BUFFER);
	set(fd, SOL_SOCKET, SO_RCVBUF, TCP_RECEIVE_BUFFER);
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (sockets->held || listen(fd, SOCKETS_BACKLOG) == 0)
		return fd;
	int rc = -errno;
	close(fd);
	return rc;
}

/* Binds a socket without SO_REUSEPORT and closes it. Fails if the port is in use. If the port is 0, sets it to the port that the kernel
 * has chosen. */
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
 * By default, the kernel selects a packet's socket by a hash of addresses and ports. If a dnsmasq is the only client, the result is uneven:
 * its 20 ports were distributed as 4, 7, 2 and 7 over four sockets. This BPF program selects at random instead. The program is not used if
 * another process may share the port. The program applies to the whole group of sockets, and it numbers them in the order of their binds.
 * The first numbers would be sockets of the other process.
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

/* Opens the sockets for one address. Sets `*type` to the type of the last socket. After an error, the last socket is the socket that
 * failed. */
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

/* Parses one address and adds it to `sockets`. Returns 0 or -EINVAL. */
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
 * Checks that the port is free for every socket, or logs which process uses it. If the port is 0, the first bind chooses the port for all
 * sockets.
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
				/* without IPv6, only the IPv4 address remains */
				sockets->count = 1;
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
