/*
 * Lookups like those of glibc, for tests/bench/node_conntrack.py. Each lookup has its own socket,
 * and sends the A and the AAAA query of a name at the same time. Two threads on two CPUs send the
 * two queries. The second packet therefore passes through conntrack before the first packet has an
 * entry. If a kernel does not resolve this race, it loses one of the packets.
 *
 * `node_lookups CLIENTS RATE SECONDS ADDRESS` makes RATE lookups a second in total. CLIENTS clients
 * with the addresses from 10.244.1.16 on take turns. The clients send queries for
 * web.default.svc.cluster.local to ADDRESS. This name has the addresses 10.96.0.80 and fd00::a1. A
 * query without a right answer is repeated after AGAIN_NS, and a lookup is lost after LOST_NS.
 * Every millisecond, the program sends the lookups that are due.
 *
 * It prints a JSON object with:
 *
 *	the number of lookups
 *	the seconds in which all lookups were first sent
 *	the number of lookups for which both threads were ready at the same time
 *	the number of repeated lookups
 *	the number of lost lookups
 *	the number of wrong answers
 *	the number of right answers by TTL
 *	the microseconds until a lookup had both answers
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/dname.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

static const int64_t AGAIN_NS = 1000000000, LOST_NS = 5000000000;
static const int64_t MEET_NS = 200000; /* longer than a thread needs to wake up */

enum {
	EVENTS = 256,
	FIRST_CLIENT = 16,
	CLIENTS_MAX = 64,
	BATCH = 64, /* maximum number of lookups sent at once if the client is late */
	WIRE_MAX = 512,
	TTLS = 256,
	TYPES = 2,
};

struct lookup {
	TAILQ_ENTRY(lookup) by_due; /* used while in flight */
	int64_t begun_ns, due_ns;
	int32_t took_us; /* -1: not answered */
	uint16_t id;     /* ID of the A query; the AAAA query has the next ID */
	bool answered[TYPES], again;
	int fd;
};

static const struct {
	uint16_t type;
	uint16_t len;
	const uint8_t *rdata;
} wanted[TYPES] = {
	{ TYPE_A, 4, (const uint8_t[]){ 10, 96, 0, 80 } },
	{ TYPE_AAAA, 16, (const uint8_t[16]){ [0] = 0xfd, [15] = 0xa1 } },
};

static struct lookup *lookups;
static size_t lookup_count, lookups_sent, together, lost, wrong, right_by_ttl[TTLS];
/* lookups in flight, sorted by due_ns */
static TAILQ_HEAD(, lookup) asked = TAILQ_HEAD_INITIALIZER(asked);
static struct sockaddr_in server;
static struct dname name;
static unsigned clients;
static int epoll_fd;

/*
 * Counters that the two threads share. Lookups below `opened` are open. The first thread has
 * reached lookups below `first_at`, and the second thread lookups below `second_at`. The second
 * thread has sent lookups below `second_sent`.
 */
static atomic_size_t opened, first_at, second_at, second_sent;
static sem_t more; /* a batch is open */

static void
send_question(const struct lookup *l, unsigned which)
{
	uint8_t wire[WIRE_MAX];
	size_t len = query_write(wire, sizeof wire, (uint16_t)(l->id + which), name.wire,
	    wanted[which].type, CLASS_IN, 0);

	send(l->fd, wire, len, MSG_NOSIGNAL); /* a query that cannot be sent is repeated */
}

/* Waits briefly for the other thread to reach lookup n. Returns whether the other thread has
 * reached it. */
static bool
meet(atomic_size_t *other, size_t n)
{
	const int64_t give_up = clock_mono_ns() + MEET_NS;

	while (atomic_load(other) <= n)
		if (clock_mono_ns() > give_up)
			return false;
	return true;
}

/* The second thread, which sends the AAAA queries. If the first thread does not arrive in time, the
 * second thread does not wait again in the same batch. */
static void *
send_second(void *unused)
{
	(void)unused;
	for (size_t n = 0; n < lookup_count;) {
		bool waits = true;

		sem_wait(&more);
		for (const size_t end = atomic_load(&opened); n < end; n++) {
			atomic_store(&second_at, n + 1);
			waits = waits && meet(&first_at, n);
			send_question(&lookups[n], 1);
			atomic_store(&second_sent, n + 1);
		}
	}
	return NULL;
}

static void
send_first(size_t end)
{
	bool waits = true;

	atomic_store(&opened, end);
	sem_post(&more);
	for (size_t n = lookups_sent; n < end; n++) {
		atomic_store(&first_at, n + 1);
		waits = waits && meet(&second_at, n);
		together += waits && atomic_load(&second_at) == n + 1;
		send_question(&lookups[n], 0);
	}
	lookups_sent = end;
}

static void
open_lookup(struct lookup *l, size_t n, int64_t now)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x0af40100U + FIRST_CLIENT + (unsigned)(n % clients)) };
	const int yes = 1;

	*l = (struct lookup){ .begun_ns = now, .due_ns = now + AGAIN_NS, .took_us = -1 };
	l->id = (uint16_t)(n * 2654435761U >> 8);
	l->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct epoll_event event = { EPOLLIN, { .ptr = l } };
	if (l->fd < 0 ||
	    setsockopt(l->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes) < 0 ||
	    bind(l->fd, (const struct sockaddr *)&from, sizeof from) < 0 ||
	    connect(l->fd, (const struct sockaddr *)&server, sizeof server) < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, l->fd, &event) < 0)
		err(1, "a socket of client %zu", n % clients);
	TAILQ_INSERT_TAIL(&asked, l, by_due);
}

/* Waits until the second thread no longer needs the lookup's socket. */
static void
wait_for_second(const struct lookup *l)
{
	while (atomic_load(&second_sent) <= (size_t)(l - lookups))
		sched_yield();
}

static void
finish(struct lookup *l)
{
	wait_for_second(l);
	TAILQ_REMOVE(&asked, l, by_due);
	close(l->fd);
	l->fd = -1;
}

static void
judge(struct lookup *l, const uint8_t *wire, size_t len)
{
	const unsigned which = (uint16_t)(wire_get16(wire) - l->id);

	if (which >= TYPES || (wire[2] & 0x80) == 0 || l->answered[which])
		return;
	const size_t rdata = wanted[which].len;
	if ((wire[3] & 0xf) != 0 || wire_get16(wire + 6) != 1 || len < DNS_HEADER + 10 + rdata ||
	    memcmp(wire + len - rdata, wanted[which].rdata, rdata) != 0) {
		wrong++;
		return;
	}
	right_by_ttl[wire_get16(wire + len - rdata - 4) % TTLS]++;
	l->answered[which] = true;
	if (!l->answered[1 - which])
		return;
	l->took_us = (int32_t)((clock_mono_ns() - l->begun_ns) / 1000);
	finish(l);
}

static void
take_events(int wait_ms)
{
	struct epoll_event events[EVENTS];
	uint8_t wire[WIRE_MAX];
	ssize_t len;
	int n = EVENTS;

	for (; n == EVENTS; wait_ms = 0) {
		n = epoll_wait(epoll_fd, events, EVENTS, wait_ms);
		for (int i = 0; i < n; i++) {
			struct lookup *l = events[i].data.ptr;

			while (l->fd >= 0 && (len = recv(l->fd, wire, sizeof wire, 0)) >= 0)
				if (len >= DNS_HEADER)
					judge(l, wire, (size_t)len);
		}
	}
}

static void
ask_again(int64_t now)
{
	struct lookup *l;

	while ((l = TAILQ_FIRST(&asked)) != NULL && l->due_ns <= now) {
		if (now - l->begun_ns >= LOST_NS) {
			lost++;
			finish(l);
			continue;
		}
		wait_for_second(l);
		l->again = true;
		for (unsigned which = 0; which < TYPES; which++)
			if (!l->answered[which])
				send_question(l, which);
		l->due_ns = now + AGAIN_NS;
		TAILQ_REMOVE(&asked, l, by_due);
		TAILQ_INSERT_TAIL(&asked, l, by_due);
	}
}

/* Returns the seconds in which all lookups were first sent. */
static double
run(double rate)
{
	const int64_t begun = clock_mono_ns();
	double seconds = 0;

	while (lookups_sent < lookup_count || !TAILQ_EMPTY(&asked)) {
		const int64_t now = clock_mono_ns();
		size_t end = (size_t)((double)(now - begun) / 1e9 * rate);

		if (end > lookup_count)
			end = lookup_count;
		if (end > lookups_sent + BATCH)
			end = lookups_sent + BATCH;
		for (size_t n = lookups_sent; n < end; n++)
			open_lookup(&lookups[n], n, now);
		if (end > lookups_sent) {
			send_first(end);
			seconds = (double)(clock_mono_ns() - begun) / 1e9;
		}
		take_events(1);
		ask_again(now);
	}
	return seconds;
}

static int
by_size(const void *a, const void *b)
{
	const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static void
print_all(double seconds)
{
	int32_t *took = xcalloc(lookup_count, sizeof *took);
	size_t count = 0, again = 0;

	for (size_t n = 0; n < lookup_count; n++) {
		again += lookups[n].again;
		if (lookups[n].took_us >= 0)
			took[count++] = lookups[n].took_us;
	}
	qsort(took, count, sizeof *took, by_size);
	printf("{\"lookups\": %zu, \"seconds\": %.3f, \"together\": %zu, \"again\": %zu, \"lost\": "
	       "%zu, "
	       "\"wrong\": %zu, \"ttls\": {",
	    lookup_count, seconds, together, again, lost, wrong);
	const char *comma = "";
	for (unsigned ttl = 0; ttl < TTLS; ttl++)
		if (right_by_ttl[ttl] > 0) {
			printf("%s\"%u\": %zu", comma, ttl, right_by_ttl[ttl]);
			comma = ", ";
		}
	printf("}, \"p50_us\": %d, \"p99_us\": %d, \"max_us\": %d}\n",
	    count > 0 ? took[count / 2] : -1, count > 0 ? took[count * 99 / 100] : -1,
	    count > 0 ? took[count - 1] : -1);
	free(took);
}

/* Pins the thread to the first (`which` is 0) or second CPU that the program may use. */
static void
pin(pthread_t thread, int which)
{
	cpu_set_t all, one;
	unsigned cpu = 0;

	if (sched_getaffinity(0, sizeof all, &all) < 0)
		err(1, "sched_getaffinity");
	for (int seen = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && seen++ == which)
			break;
	if (cpu == CPU_SETSIZE)
		errx(1, "needs two CPUs");
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (pthread_setaffinity_np(thread, sizeof one, &one) != 0)
		errx(1, "CPU %u: cannot pin a thread to it", cpu);
}

int
main(int argc, char **argv)
{
	struct rlimit many;
	pthread_t second;

	if (argc != 5)
		errx(2, "usage: node_lookups CLIENTS RATE SECONDS ADDRESS");
	clients = (unsigned)atoi(argv[1]);
	lookup_count = (size_t)(atof(argv[2]) * atof(argv[3]));
	server = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(53) };
	if (clients < 1 || clients > CLIENTS_MAX || lookup_count < 1 ||
	    inet_pton(AF_INET, argv[4], &server.sin_addr) != 1)
		errx(2, "CLIENTS: 1 to %d; RATE * SECONDS: at least 1; ADDRESS: an IPv4 address",
		    CLIENTS_MAX);
	dname_from_text(&name, "web.default.svc.cluster.local");
	lookups = xcalloc(lookup_count, sizeof *lookups);
	if (getrlimit(RLIMIT_NOFILE, &many) < 0)
		err(1, "getrlimit");
	many.rlim_cur = many.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &many) < 0)
		err(1, "setrlimit");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	sem_init(&more, 0, 0);
	if (epoll_fd < 0 || pthread_create(&second, NULL, send_second, NULL) != 0)
		err(1, "start");
	pin(second, 1);
	pin(pthread_self(), 0);
	double seconds = run(atof(argv[2]));
	pthread_join(second, NULL);
	print_all(seconds);
	return 0;
}
