/*
 * The program in the test's client containers, linked once with glibc and once with musl (static).
 * It is a pause process, it looks names up with the C library's own stub resolver, and it is an
 * asker that counts every lost or wrong answer. It prints its results as JSON lines.
 *
 *	client pause                            wait for SIGTERM, reap children
 *	client lookup NAME...                   getaddrinfo
 *	client reverse ADDRESS...               getnameinfo
 *	client await SECONDS NAME EXPECT        look NAME up until EXPECT holds; print the time
 *	                                        of day when it did
 *	client ask SERVER RATE NAME=EXPECT...   UDP queries at RATE a second from fresh ports,
 *	                                        until standard input ends, or SIGTERM
 *	client ask-ports ...                    like ask, from one source port after the other
 *	client resolve RATE NAME=EXPECT...      the same with getaddrinfo, one after the other
 *
 * EXPECT is a comma list of addresses (exactly these), +ADDRESS (this one among others), `none` (no
 * such name) or `any` (at least one address).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* getaddrinfo's errors are negative, rcodes of replies are not. Some libcs do not declare
 * EAI_NODATA. */
enum { RCODE_NXDOMAIN = 3, EAI_NO_ADDRESS = -5 };

enum {
	ADDRESSES_MAX = 2048,
	IN_FLIGHT_MAX = 2000,
	MESSAGE_MAX = 4096,
	TIMEOUT_MS = 5000,
	NAMES_MAX = 16,
	SLOTS_MS = 60000
};

struct addresses {
	char text[ADDRESSES_MAX][INET6_ADDRSTRLEN];
	size_t count;
	int error; /* of getaddrinfo, or the rcode of a reply */
};

static volatile sig_atomic_t stopped;

static void
stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static void
stop_on_signals(void)
{
	struct sigaction sa = { .sa_handler = stop };

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
}

/* The caller closes standard input when it has seen enough, because `exec` of a container
 * engine does not forward signals. */
static void
stop_at_end_of_input(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char buf[64];

	if (poll(&in, 1, 0) == 1 && read(STDIN_FILENO, buf, sizeof buf) <= 0)
		stopped = 1;
}

static double
now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
now_ms(void)
{
	return now(CLOCK_MONOTONIC) * 1e3;
}

static void
addresses_add(struct addresses *a, int family, const void *addr)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(family, addr, text, sizeof text);
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->text[i], text) == 0)
			return;
	if (a->count < ADDRESSES_MAX)
		strcpy(a->text[a->count++], text);
}

static bool
addresses_has(const struct addresses *a, const char *text, size_t len)
{
	for (size_t i = 0; i < a->count; i++)
		if (strlen(a->text[i]) == len && strncmp(a->text[i], text, len) == 0)
			return true;
	return false;
}

/* Whether the addresses match EXPECT. */
static bool
expected(const struct addresses *a, const char *expect)
{
	if (strcmp(expect, "none") == 0)
		return a->count == 0 && (a->error == RCODE_NXDOMAIN || a->error == EAI_NONAME ||
					    a->error == EAI_NO_ADDRESS);
	if (strcmp(expect, "any") == 0)
		return a->count > 0;
	if (expect[0] == '+')
		return addresses_has(a, expect + 1, strlen(expect + 1));
	size_t wanted = 0;
	for (const char *p = expect; *p;) {
		size_t len = strcspn(p, ",");

		if (!addresses_has(a, p, len))
			return false;
		wanted++;
		p += len + (p[len] == ',');
	}
	return wanted == a->count;
}

static void
lookup(const char *name, struct addresses *a)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;

	a->count = 0;
	a->error = getaddrinfo(name, NULL, &hints, &list);
	if (a->error != 0)
		return;
	for (struct addrinfo *i = list; i != NULL; i = i->ai_next)
		addresses_add(a, i->ai_family,
		    i->ai_family == AF_INET
			? (void *)&((struct sockaddr_in *)(void *)i->ai_addr)->sin_addr
			: (void *)&((struct sockaddr_in6 *)(void *)i->ai_addr)->sin6_addr);
	freeaddrinfo(list);
}

static void
print_addresses(const struct addresses *a)
{
	printf("[");
	for (size_t i = 0; i < a->count; i++)
		printf("%s\"%s\"", i ? "," : "", a->text[i]);
	printf("]");
}

static int
run_pause(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int sig = 0; sigwait(&set, &sig) == 0 && sig == SIGCHLD;)
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	return 0;
}

static int
run_lookup(char **names)
{
	static struct addresses a;

	for (; *names != NULL; names++) {
		double start = now_ms();

		lookup(*names, &a);
		printf("{\"name\":\"%s\",\"error\":\"%s\",\"ms\":%.1f,\"addresses\":", *names,
		    a.error ? gai_strerror(a.error) : "", now_ms() - start);
		print_addresses(&a);
		printf("}\n");
	}
	return 0;
}

static int
run_reverse(char **addresses)
{
	for (; *addresses != NULL; addresses++) {
		struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *list = NULL;
		char host[NI_MAXHOST] = "";
		int err = getaddrinfo(*addresses, NULL, &hints, &list);

		if (err == 0)
			err = getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof host, NULL,
			    0, NI_NAMEREQD);
		if (list != NULL)
			freeaddrinfo(list);
		printf("{\"address\":\"%s\",\"error\":\"%s\",\"name\":\"%s\"}\n", *addresses,
		    err ? gai_strerror(err) : "", host);
	}
	return 0;
}

static int
run_await(double seconds, const char *name, const char *expect)
{
	static struct addresses a;
	double deadline = now_ms() + seconds * 1e3;
	unsigned tries = 0;
	bool held = false;

	do {
		lookup(name, &a);
		tries++;
		held = expected(&a, expect);
		if (!held)
			poll(NULL, 0, 5);
	} while (!held && now_ms() < deadline);
	printf("{\"held\":%s,\"at\":%.6f,\"tries\":%u,\"addresses\":", held ? "true" : "false",
	    now(CLOCK_REALTIME), tries);
	print_addresses(&a);
	printf("}\n");
	return held ? 0 : 1;
}

struct target {
	char *name, *expect;
	uint16_t type;
};

struct tally {
	unsigned long asked, right, wrong, lost;
	unsigned long slots[SLOTS_MS * 10]; /* latencies in tenths of a millisecond */
	double longest_bad_ms, bad_since;   /* longest time without a right answer */
};

static size_t
read_targets(char **argv, struct target *targets)
{
	size_t n = 0;

	for (; *argv != NULL && n < NAMES_MAX; argv++, n++) {
		char *equals = strchr(*argv, '=');

		if (equals == NULL) {
			fprintf(stderr, "client: %s: not NAME=EXPECT\n", *argv);
			exit(2);
		}
		*equals = '\0';
		targets[n] = (struct target){ .name = *argv,
			.expect = equals + 1,
			.type = strchr(equals + 1, ':') != NULL ? 28 : 1 };
	}
	return n;
}

static double
tally_percentile(const struct tally *t, double share)
{
	unsigned long total = 0, seen = 0;

	for (size_t i = 0; i < SLOTS_MS * 10; i++)
		total += t->slots[i];
	for (size_t i = 0; i < SLOTS_MS * 10; i++)
		if ((seen += t->slots[i]) > 0 && (double)seen >= share * (double)total)
			return (double)(i + 1) / 10;
	return 0;
}

static void
tally_note(struct tally *t, bool right, double latency_ms)
{
	double at = now_ms();

	if (right) {
		size_t slot = (size_t)(latency_ms * 10);

		t->slots[slot < SLOTS_MS * 10 ? slot : SLOTS_MS * 10 - 1]++;
		if (at - t->bad_since > t->longest_bad_ms)
			t->longest_bad_ms = at - t->bad_since;
		t->bad_since = at;
		t->right++;
	}
}

static void
tally_print(const struct tally *t)
{
	printf("{\"asked\":%lu,\"right\":%lu,\"wrong\":%lu,\"lost\":%lu,\"p50_ms\":%.1f,\"p99_ms\":"
	       "%.1f,\"max_ms\":%.1f,"
	       "\"longest_gap_ms\":%.0f}\n",
	    t->asked, t->right, t->wrong, t->lost, tally_percentile(t, .5),
	    tally_percentile(t, .99), tally_percentile(t, 1), t->longest_bad_ms);
}

/* Reports a failure immediately, so that a test can say what happened and when. */
static void
complain(const char *what, const struct target *target, const struct addresses *a, double sent)
{
	printf("{\"%s\":\"%s\",\"at\":%.3f,\"sent_ms_ago\":%.0f,\"rcode\":%d,\"addresses\":", what,
	    target->name, now(CLOCK_REALTIME), now_ms() - sent, a != NULL ? a->error : -1);
	static const struct addresses none;
	print_addresses(a != NULL ? a : &none);
	printf("}\n");
	fflush(stdout);
}

static size_t
write_query(uint8_t *out, uint16_t id, const struct target *target)
{
	memset(out, 0, 12);
	out[0] = (uint8_t)(id >> 8);
	out[1] = (uint8_t)id;
	out[2] = 1; /* RD */
	out[5] = 1;
	uint8_t *p = out + 12;
	for (const char *label = target->name; *label;) {
		size_t len = strcspn(label, ".");

		*p++ = (uint8_t)len;
		memcpy(p, label, len);
		p += len;
		label += len + (label[len] == '.');
	}
	*p++ = 0;
	*p++ = 0;
	*p++ = (uint8_t)target->type;
	*p++ = 0;
	*p++ = 1;
	return (size_t)(p - out);
}

static const uint8_t *
skip_name(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p != 0 && (*p & 0xc0) == 0)
		p += *p + 1;
	if (p >= end)
		return NULL;
	p += (*p & 0xc0) ? 2 : 1;
	return p <= end ? p : NULL;
}

/* The addresses in a reply's answer section. Returns -1 if this is not a reply to `id`. */
static int
read_reply(const uint8_t *in, size_t len, uint16_t id, struct addresses *a)
{
	const uint8_t *end = in + len, *p = in + 12;

	a->count = 0;
	if (len < 12 || (in[0] << 8 | in[1]) != id || !(in[2] & 0x80))
		return -1;
	a->error = in[3] & 15;
	unsigned answers = (unsigned)(in[6] << 8 | in[7]);
	if ((p = skip_name(p, end)) == NULL || end - p < 4)
		return -1;
	p += 4;
	while (answers--) {
		if ((p = skip_name(p, end)) == NULL || end - p < 10)
			return -1;
		unsigned type = (unsigned)(p[0] << 8 | p[1]);
		size_t size = (size_t)(p[8] << 8 | p[9]);
		p += 10;
		if ((size_t)(end - p) < size)
			return -1;
		if ((type == 1 && size == 4) || (type == 28 && size == 16))
			addresses_add(a, type == 1 ? AF_INET : AF_INET6, p);
		p += size;
	}
	return 0;
}

struct in_flight {
	double sent;
	const struct target *target;
	uint16_t id;
};

/* At 400 queries a second, a port is used again only after conntrack has forgotten it. */
enum { PORT_FIRST = 1100, PORT_LAST = 64999 };
static uint16_t next_port; /* 0: the kernel chooses */

static struct in_flight flights[IN_FLIGHT_MAX];
static struct pollfd fds[IN_FLIGHT_MAX];
static size_t flight_count;

static void
flight_end(size_t i)
{
	close(fds[i].fd);
	flight_count--;
	flights[i] = flights[flight_count];
	fds[i] = fds[flight_count];
}

static void
choose_port(int fd)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(next_port) };

	if (next_port == 0)
		return;
	bind(fd, (struct sockaddr *)&from, sizeof from);
	next_port = next_port == PORT_LAST ? PORT_FIRST : (uint16_t)(next_port + 1);
}

/* Connects the socket. A refused port then causes an error at once, as in a stub resolver. */
static void
flight_start(const struct sockaddr *server, socklen_t server_len, const struct target *target,
    struct tally *tally)
{
	uint8_t query[MESSAGE_MAX];
	struct in_flight f = { .sent = now_ms(), .target = target };

	if (flight_count == IN_FLIGHT_MAX)
		return;
	if (getrandom(&f.id, sizeof f.id, 0) != sizeof f.id)
		abort();
	int fd = socket(server->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	size_t len = write_query(query, f.id, target);
	choose_port(fd);
	tally->asked++;
	if (fd < 0 || connect(fd, server, server_len) != 0 ||
	    send(fd, query, len, 0) != (ssize_t)len) {
		tally->lost++;
		complain("lost", target, NULL, f.sent);
		if (fd >= 0)
			close(fd);
		return;
	}
	fds[flight_count] = (struct pollfd){ .fd = fd, .events = POLLIN };
	flights[flight_count++] = f;
}

static void
flight_ready(size_t i, struct tally *tally)
{
	static struct addresses a;
	uint8_t reply[MESSAGE_MAX];
	struct in_flight *f = &flights[i];
	ssize_t n = recv(fds[i].fd, reply, sizeof reply, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		tally->lost++;
		complain("refused", f->target, NULL, f->sent);
	} else if (read_reply(reply, (size_t)n, f->id, &a) != 0) {
		return; /* not this query's reply: keep waiting */
	} else if (expected(&a, f->target->expect)) {
		tally_note(tally, true, now_ms() - f->sent);
	} else {
		tally->wrong++;
		complain("wrong", f->target, &a, f->sent);
	}
	flight_end(i);
}

static void
flights_expire(struct tally *tally)
{
	for (size_t i = flight_count; i-- > 0;)
		if (now_ms() - flights[i].sent > TIMEOUT_MS) {
			tally->lost++;
			complain("lost", flights[i].target, NULL, flights[i].sent);
			flight_end(i);
		}
}

/* A test that breaks something waits for this line. Every query after it counts. */
static void
say_begun(void)
{
	printf("{\"begun\":true}\n");
	fflush(stdout);
}

static int
run_ask(const char *address, double rate, const struct target *targets, size_t count)
{
	static struct tally tally;
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_DGRAM },
			*server;

	if (getaddrinfo(address, "53", &hints, &server) != 0) {
		fprintf(stderr, "client: %s: not an address\n", address);
		return 2;
	}
	say_begun();
	double start = now_ms(), next = start;
	tally.bad_since = start;
	/* After the signal, queries in flight still get the time for an answer. */
	while (!stopped || flight_count > 0) {
		stop_at_end_of_input();
		for (; !stopped && now_ms() >= next; next += 1e3 / rate)
			flight_start(server->ai_addr, server->ai_addrlen,
			    &targets[tally.asked % count], &tally);
		double wait = stopped ? 50 : next - now_ms();
		int ready = poll(fds, flight_count, wait > 0 ? (int)wait + 1 : 0);
		for (size_t i = flight_count; ready > 0 && i-- > 0;)
			if (fds[i].revents)
				flight_ready(i, &tally);
		flights_expire(&tally);
	}
	tally_print(&tally);
	freeaddrinfo(server);
	return 0;
}

static int
run_resolve(double rate, const struct target *targets, size_t count)
{
	static struct tally tally;
	static struct addresses a;

	say_begun();
	double next = now_ms();
	tally.bad_since = next;
	while (!stopped) {
		stop_at_end_of_input();
		const struct target *target = &targets[tally.asked++ % count];
		double sent = now_ms();
		lookup(target->name, &a);
		if (expected(&a, target->expect)) {
			tally_note(&tally, true, now_ms() - sent);
		} else if (a.error == EAI_AGAIN) {
			tally.lost++;
			complain("lost", target, NULL, sent);
		} else {
			tally.wrong++;
			complain("wrong", target, &a, sent);
		}
		next = next + 1e3 / rate > now_ms() ? next + 1e3 / rate : now_ms();
		poll(NULL, 0, (int)(next - now_ms()) + 1);
	}
	tally_print(&tally);
	return 0;
}

int
main(int argc, char **argv)
{
	struct target targets[NAMES_MAX];
	const char *mode = argc > 1 ? argv[1] : "pause";

	if (strcmp(mode, "pause") == 0)
		return run_pause();
	stop_on_signals();
	if (strcmp(mode, "lookup") == 0 && argc > 2)
		return run_lookup(argv + 2);
	if (strcmp(mode, "reverse") == 0 && argc > 2)
		return run_reverse(argv + 2);
	if (strcmp(mode, "await") == 0 && argc == 5)
		return run_await(atof(argv[2]), argv[3], argv[4]);
	if (strcmp(mode, "ask") == 0 && argc > 4)
		return run_ask(argv[2], atof(argv[3]), targets, read_targets(argv + 4, targets));
	if (strcmp(mode, "ask-ports") == 0 && argc > 4) {
		/* Two runs do not meet at up to 200 queries a second. */
		next_port = (uint16_t)(PORT_FIRST +
				       (unsigned long)(now_ms() / 5) % (PORT_LAST - PORT_FIRST));
		return run_ask(argv[2], atof(argv[3]), targets, read_targets(argv + 4, targets));
	}
	if (strcmp(mode, "resolve") == 0 && argc > 3)
		return run_resolve(atof(argv[2]), targets, read_targets(argv + 3, targets));
	fprintf(stderr, "usage: client pause|lookup|reverse|await|ask|ask-ports|resolve ...\n");
	return 2;
}
