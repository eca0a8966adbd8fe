/*
 * A DNS client that measures time. Unlike dnsperf, it shows latency percentiles at a fixed rate,
 * and the time when a changed answer first appears. The asker uses UDP only. PORT is a port of
 * 127.0.0.1, or ADDRESS#PORT.
 *
 * `asker load PORT FILE RATE SECONDS SOCKETS` sends RATE queries a second. The asker sends each
 * query on time, whether or not answers arrive (an open loop). A server that stalls therefore does
 * not get fewer queries. The output is one JSON object: sent, answered, lost, rcodes, and
 * percentiles of the latency in microseconds. FILE has dnsperf's format, with `NAME TYPE` on each
 * line.
 *
 * `asker flood PORT FILE SECONDS SOCKETS FLIGHT` keeps FLIGHT queries in flight. The asker sends
 * queries in batches and never waits, so that the server is the bottleneck. With a lower load, a
 * fast server would sleep between small batches, and the result would include these sleeps. The
 * output is the numbers of queries sent, answered and lost, and the rcodes.
 *
 * `asker follow PORT FILE PID` handles the lines `NAME TYPE there|gone|ADDRESS` of FILE one after
 * the other. For each line, the asker queries NAME until it gets an answer, an NXDOMAIN, or an
 * answer that ends in this IPv4 address. The output is the CLOCK_MONOTONIC time of that reply in
 * nanoseconds, or 0 if no such reply arrived within FOLLOW_NS. The line begins with `FROM:TO:NS`
 * for each time span with waits. In this span, the asker and the threads of process PID waited NS
 * nanoseconds for a busy CPU. These waits are the delay that other work on the machine caused.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/dname.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

static const int64_t FOLLOW_NS = 10000000000; /* after this time a change counts as missed */

enum {
	QUERY_MAX = 300,
	IDS = 65536, /* maximum number of queries in flight per socket */
	LOST_NS = 2000000000,
	/* a query counts as lost after this time, which is thousands of times the usual latency */
	FLOOD_LOST_NS = 500000000,
	/* Longer gaps between two reads count as this long. In such a gap this program got no
	 * processor, and neither may the server. */
	FLOOD_STEP_NS = 100000000,
	PER_OCTAVE = 64, /* histogram buckets per octave, so the error is at most 1 % */
	BUCKETS = 40 * PER_OCTAVE,
	REPLY_MAX = 4096,
	FLOOD_BATCH = 32,
};

struct question {
	uint8_t wire[QUERY_MAX];
	uint16_t len;
};

static struct question *questions;
static size_t question_count;

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct question
parse(const char *name, const char *type)
{
	struct dname dname;
	struct question q;

	if (dname_from_text(&dname, name) != 0 || type_number(type) == 0)
		errx(2, "no valid name and type: %s %s", name, type);
	q.len =
	    (uint16_t)query_write(q.wire, sizeof q.wire, 0, dname.wire, type_number(type), 1, 0);
	return q;
}

static void
read_questions(const char *path)
{
	char name[1100], type[20];
	FILE *in = fopen(path, "r");

	if (in == NULL)
		err(2, "%s", path);
	while (fscanf(in, "%1099s %19s", name, type) == 2) {
		if ((question_count & (question_count - 1)) == 0)
			questions = xreallocarray(questions,
			    question_count > 0 ? 2 * question_count : 1, sizeof *questions);
		questions[question_count++] = parse(name, type);
	}
	fclose(in);
	if (question_count == 0)
		errx(2, "%s: no queries", path);
}

static int
connect_to(const char *where)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), size = 4 << 20;
	const char *hash = strchr(where, '#');
	char address[INET_ADDRSTRLEN] = "127.0.0.1";
	struct sockaddr_in sin = { .sin_family = AF_INET };

	if (hash != NULL)
		snprintf(address, sizeof address, "%.*s", (int)(hash - where), where);
	sin.sin_port = htons((uint16_t)atoi(hash != NULL ? hash + 1 : where));
	if (inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		errx(2, "%s: not an address", address);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof sin) < 0)
		err(1, "port %s", where);
	return fd;
}

static struct {
	uint64_t sent, answered, late, rcodes[16], buckets[BUCKETS];
	int64_t max_ns;
} load;

/* Returns the index of the bucket for a value. Buckets of higher values are wider. The index is the
 * octave times PER_OCTAVE, plus the position in the octave. */
static size_t
bucket_of(int64_t ns)
{
	uint64_t v = ns > PER_OCTAVE ? (uint64_t)ns : PER_OCTAVE;
	unsigned octave = 63U - (unsigned)__builtin_clzll(v);
	size_t place = (size_t)(v >> (octave - 6)) & (PER_OCTAVE - 1);
	size_t bucket = (size_t)(octave - 6) * PER_OCTAVE + place;

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double
bucket_us(size_t bucket)
{
	unsigned octave = (unsigned)(bucket / PER_OCTAVE) + 6;
	uint64_t low = (PER_OCTAVE + bucket % PER_OCTAVE) << (octave - 6);

	return (double)low / 1000;
}

static double
percentile(double share)
{
	uint64_t wanted = (uint64_t)(share * (double)load.answered), seen = 0;

	for (size_t i = 0; i < BUCKETS; i++) {
		seen += load.buckets[i];
		if (seen > wanted || seen == load.answered)
			return bucket_us(i);
	}
	return 0;
}

struct client {
	int fd;
	uint16_t next_id;
	int64_t *sent_ns; /* time of sending, by ID; 0 if not in flight */
};

/* Sends a query. `due` is the planned time. If the client itself is late, the latency must include
 * the client's delay. */
static void
send_one(struct client *c, struct question *q, int64_t due)
{
	uint16_t id = c->next_id++;

	wire_put16(q->wire, id);
	c->sent_ns[id] = due;
	load.sent++;
	if (send(c->fd, q->wire, q->len, 0) < 0)
		c->sent_ns[id] = 0; /* a query without an answer counts as lost */
}

static void
receive(struct client *c)
{
	uint8_t reply[REPLY_MAX];
	ssize_t len;

	while ((len = recv(c->fd, reply, sizeof reply, 0)) >= 12) {
		uint16_t id = wire_get16(reply);
		int64_t took = now_ns() - c->sent_ns[id];

		if (c->sent_ns[id] == 0 || took > LOST_NS) {
			load.late++;
			continue;
		}
		c->sent_ns[id] = 0;
		load.answered++;
		load.rcodes[reply[3] & 15]++;
		load.buckets[bucket_of(took)]++;
		if (took > load.max_ns)
			load.max_ns = took;
	}
}

/* Prints the JSON object except its end. */
static void
print_counts(double seconds)
{
	printf("{\"sent\": %" PRIu64 ", \"answered\": %" PRIu64 ", \"lost\": %" PRIu64
	       ", \"seconds\": %.3f, \"rcodes\": {",
	    load.sent, load.answered, load.sent - load.answered, seconds);
	const char *comma = "";
	for (unsigned i = 0; i < 16; i++) {
		char text[12];

		if (load.rcodes[i] == 0)
			continue;
		printf("%s\"%s\": %" PRIu64, comma, rcode_name(i, text), load.rcodes[i]);
		comma = ", ";
	}
	printf("}");
}

static void
print_load(double seconds)
{
	static const struct {
		const char *name;
		double share;
	} points[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 },
		{ "p99.99", 0.9999 } };

	print_counts(seconds);
	printf(", \"latency_us\": {");
	for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
		printf("\"%s\": %.1f, ", points[i].name, percentile(points[i].share));
	printf("\"max\": %.1f}}\n", (double)load.max_ns / 1000);
}

static int
run_load(char **argv)
{
	double rate = atof(argv[2]), seconds = atof(argv[3]);
	size_t count = (size_t)atoi(argv[4]);
	static struct client *clients; /* reachable until the program ends */
	static struct pollfd *fds;

	clients = xcalloc(count, sizeof *clients);
	fds = xcalloc(count, sizeof *fds);

	read_questions(argv[1]);
	for (size_t i = 0; i < count; i++) {
		clients[i] =
		    (struct client){ connect_to(argv[0]), 0, xcalloc(IDS, sizeof(int64_t)) };
		fds[i] = (struct pollfd){ .fd = clients[i].fd, .events = POLLIN };
	}
	int64_t begun = now_ns(), end = begun + (int64_t)(seconds * 1e9);
	uint64_t total = (uint64_t)(rate * seconds);
	/* If the client got no CPU for a while, it sends the overdue queries now. The latency of
	 * these queries counts from the planned time. */
	for (int64_t now = begun;
	     load.sent < total || (load.answered < load.sent && now < end + LOST_NS);
	     now = now_ns()) {
		uint64_t due = (uint64_t)((double)(now - begun) / 1e9 * rate);

		for (unsigned burst = 0; burst < 64 && load.sent < due && load.sent < total;
		     burst++) {
			int64_t when = begun + (int64_t)((double)load.sent / rate * 1e9);

			send_one(&clients[load.sent % count],
			    &questions[load.sent % question_count], when);
		}
		for (size_t i = 0; i < count; i++)
			receive(&clients[i]);
		if (load.sent >= due || load.sent >= total) {
			struct timespec wait = { 0, 50000 };

			ppoll(fds, count, &wait, NULL);
		}
	}
	print_load(seconds);
	return 0;
}

/* A client of a flood, with its socket and the number of its queries in flight. */
struct flooder {
	int fd;
	uint16_t next_id;
	unsigned in_flight;
	int64_t read_ns;   /* time of the last read */
	int64_t silent_ns; /* time without a reply, since the last reply or since it gave up */
};

/* Reads the replies that have arrived. If no reply arrives for FLOOD_LOST_NS, the queries in flight
 * count as lost. */
static void
flood_receive(struct flooder *f, int64_t now)
{
	static uint8_t replies[FLOOD_BATCH][DNS_HEADER]; /* the program keeps only the headers */
	static struct iovec iov[FLOOD_BATCH];
	static struct mmsghdr in[FLOOD_BATCH];

	for (size_t i = 0; i < FLOOD_BATCH; i++) {
		iov[i] = (struct iovec){ replies[i], DNS_HEADER };
		in[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	int n = recvmmsg(f->fd, in, FLOOD_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		if (f->in_flight == 0 || in[i].msg_len < DNS_HEADER) {
			load.late++;
			continue;
		}
		f->in_flight--;
		load.answered++;
		load.rcodes[replies[i][3] & 15]++;
	}
	int64_t step = now - f->read_ns;
	f->read_ns = now;
	f->silent_ns = n > 0 ? 0 : f->silent_ns + (step < FLOOD_STEP_NS ? step : FLOOD_STEP_NS);
	if (f->silent_ns > FLOOD_LOST_NS) {
		f->in_flight = 0;
		f->silent_ns = 0;
	}
}

static void
flood_send(struct flooder *f, unsigned count)
{
	static struct iovec iov[FLOOD_BATCH];
	static struct mmsghdr out[FLOOD_BATCH];

	for (unsigned i = 0; i < count; i++) {
		struct question *q = &questions[(load.sent + i) % question_count];

		wire_put16(q->wire, f->next_id++);
		iov[i] = (struct iovec){ q->wire, q->len };
		out[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	int n = sendmmsg(f->fd, out, count, MSG_DONTWAIT);
	if (n > 0) {
		load.sent += (unsigned)n;
		f->in_flight += (unsigned)n;
	}
}

static int
run_flood(char **argv)
{
	double seconds = atof(argv[2]);
	size_t count = (size_t)atoi(argv[3]);
	unsigned each = (unsigned)atoi(argv[4]) / (unsigned)(count > 0 ? count : 1);
	static struct flooder *flooders; /* reachable until the program ends */

	flooders = xcalloc(count, sizeof *flooders);

	if (each == 0 || each > FLOOD_BATCH)
		errx(2, "FLIGHT: 1 to %d a socket", FLOOD_BATCH);
	read_questions(argv[1]);
	int64_t begun = now_ns(), end = begun + (int64_t)(seconds * 1e9), now;
	for (size_t i = 0; i < count; i++)
		flooders[i] = (struct flooder){ .fd = connect_to(argv[0]), .read_ns = begun };
	while ((now = now_ns()) < end)
		for (size_t i = 0; i < count; i++) {
			struct flooder *f = &flooders[i];

			if (f->in_flight > 0)
				flood_receive(f, now);
			if (f->in_flight <= each / 2) /* send the next queries in batches */
				flood_send(f, each - f->in_flight);
		}
	/* Wait for the queries in flight. A query is lost only if no reply arrives for
	 * FLOOD_LOST_NS. */
	for (size_t i = 0; i < count; i++)
		while (flooders[i].in_flight > 0)
			flood_receive(&flooders[i], now_ns());
	print_counts((double)(now - begun) / 1e9);
	printf("}\n");
	return 0;
}

/* Whether the reply matches the word in the file: `there`, `gone`, or an address. */
static bool
says(const uint8_t *reply, size_t len, const char *hoped)
{
	struct in_addr address;

	if (len < DNS_HEADER)
		return false;
	if (strcmp(hoped, "gone") == 0)
		return (reply[3] & 15) == 3;
	if ((reply[3] & 15) != 0 || wire_get16(reply + 6) == 0)
		return false;
	return strcmp(hoped, "there") == 0 ||
	       (inet_pton(AF_INET, hoped, &address) == 1 &&
		   memcmp(reply + len - sizeof address, &address, sizeof address) == 0);
}

enum { THREADS_MAX = 16 };

static struct {
	int fds[THREADS_MAX];
	size_t count;
	int64_t looked_ns;
	uint64_t waited_ns;
} threads;

static void
add_thread(const char *path)
{
	if (threads.count == THREADS_MAX)
		errx(1, "%s: more than %d threads", path, THREADS_MAX);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", path);
	threads.fds[threads.count++] = fd;
}

/* Adds this thread, and all current threads of the process `pid`. */
static void
find_threads(const char *pid)
{
	char path[300];

	snprintf(path, sizeof path, "/proc/%s/task", pid);
	DIR *dir = opendir(path);

	if (dir == NULL)
		err(1, "%s", path);
	for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		snprintf(path, sizeof path, "/proc/%s/task/%s/schedstat", pid, e->d_name);
		if (e->d_name[0] != '.')
			add_thread(path);
	}
	closedir(dir);
	add_thread("/proc/thread-self/schedstat");
}

/* Prints how long these threads have waited for a CPU since the last call, if they did. */
static void
look(void)
{
	uint64_t waited = 0;

	for (size_t i = 0; i < threads.count; i++) {
		char text[100];
		uint64_t ran, delay;
		ssize_t len = pread(threads.fds[i], text, sizeof text - 1, 0);

		text[len > 0 ? len : 0] = '\0';
		if (sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &delay) == 2)
			waited += delay;
	}
	int64_t now = now_ns();
	if (waited > threads.waited_ns && threads.looked_ns > 0)
		printf(" %" PRId64 ":%" PRId64 ":%" PRIu64, threads.looked_ns, now,
		    waited - threads.waited_ns);
	threads.looked_ns = now;
	threads.waited_ns = waited;
}

static int64_t
follow_one(int fd, struct question *q, const char *hoped)
{
	static uint16_t id;
	uint8_t reply[REPLY_MAX];

	int64_t give_up = now_ns() + FOLLOW_NS;
	look();
	while (now_ns() < give_up) {
		wire_put16(q->wire, ++id);
		if (send(fd, q->wire, q->len, 0) < 0) {
			usleep(100);
			continue;
		}
		struct pollfd p = { .fd = fd, .events = POLLIN };
		while (poll(&p, 1, 100) > 0) {
			ssize_t len = recv(fd, reply, sizeof reply, 0);

			if (len < 12 || wire_get16(reply) != id)
				continue;
			int64_t now = now_ns();
			look();
			if (says(reply, (size_t)len, hoped))
				return now;
			break;
		}
		struct timespec pause = { 0, 50000 };
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int
run_follow(char **argv)
{
	char name[1100], type[20], hoped[INET_ADDRSTRLEN];
	int fd = connect_to(argv[0]);
	FILE *in = fopen(argv[1], "r");

	if (in == NULL)
		err(2, "%s", argv[1]);
	find_threads(argv[2]);
	while (fscanf(in, "%1099s %19s %15s", name, type, hoped) == 3) {
		struct question q = parse(name, type);

		printf(" %" PRId64 "\n", follow_one(fd, &q, hoped));
		fflush(stdout);
	}
	fclose(in);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 7 && strcmp(argv[1], "load") == 0)
		return run_load(argv + 2);
	if (argc == 7 && strcmp(argv[1], "flood") == 0)
		return run_flood(argv + 2);
	if (argc == 5 && strcmp(argv[1], "follow") == 0)
		return run_follow(argv + 2);
	errx(2, "usage: asker load PORT FILE RATE SECONDS SOCKETS | asker flood PORT FILE SECONDS "
		"SOCKETS FLIGHT | asker follow PORT FILE PID");
}
