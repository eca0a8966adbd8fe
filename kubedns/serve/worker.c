#include "kubedns/serve/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kubedns/serve/net/batch_io.h"
#include "kubedns/serve/fair_share.h"
#include "kubedns/serve/upstream/upstream.h"
#include "kubedns/serve/net/shared_port.h"
#include "kubedns/serve/net/sockets.h"
#include "kubedns/serve/net/tcp.h"
#include "kubedns/serve/net/udp.h"
#include "kubedns/serve/observe/ring.h"
#include "kubedns/serve/worker_context.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/rcu.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

/* A list of servers that the main thread passes to a worker. The worker frees it. */
struct server_list {
	size_t count;
	struct server servers[UPSTREAMS_MAX];
};

/* An order to a worker about its TCP listeners (see shared_port.h). */
enum port_order { PORT_AS_IT_IS, PORT_JOIN, PORT_LEAVE };

/* Connections that modules have returned (message.h). The modules' threads add them to this list. The worker that has the connection takes
 * them from the list. */
struct returned {
	struct returned *next;
	uint32_t slot, generation;
	bool usable;
};

struct returned_list {
	_Atomic(struct returned *) newest; /* NULL if the list is empty */
	/* Eventfd of the worker, written after each addition. */
	int wake;
};

/* The function of a struct connection_return. Any thread may call it. `arg` is the struct returned_list. */
static void
returned_add(void *arg, uint32_t slot, uint32_t generation, bool usable)
{
	struct returned_list *list = arg;
	struct returned *item = xmalloc(sizeof *item);
	uint64_t one = 1;

	*item = (struct returned){ atomic_load(&list->newest), slot, generation, usable };
	while (!atomic_compare_exchange_weak(&list->newest, &item->next, item))
		;
	if (write(list->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

/* Continues with the returned connections. If `tcp` is NULL, there are no connections any more. */
static void
returned_take(struct returned_list *list, struct tcp *tcp)
{
	struct returned *item = atomic_exchange(&list->newest, NULL), *next;

	for (; item != NULL; item = next) {
		next = item->next;
		if (tcp != NULL)
			tcp_returned(tcp, item->slot, item->generation, item->usable);
		free(item);
	}
}

/* A thread and its data. Members that other threads read are in separate cache lines. */
struct worker { /* NOLINT(clang-analyzer-optin.performance.Padding) */
	_Alignas(64) struct worker_context context;
	unsigned index;
	struct udp *udp;
	struct tcp *tcp;
	struct upstream *forwarding;
	struct fair_share *fair; /* NULL with --fair-share=off */
	int64_t due_ns;          /* when the next timer expires, or CLOCK_NEVER */
	pthread_t pthread;
	int heartbeat; /* timerfd */
	int wake;      /* eventfd that tells the worker to look at `stop` and `upstreams` */
	atomic_bool stop;
	_Atomic(struct server_list *) upstreams; /* a new list that the worker has not taken yet */
	struct returned_list returned;
	_Atomic(enum port_order) port_order;     /* an order that the worker has not executed yet */
	_Alignas(64) _Atomic(int64_t) passed_ns; /* when the worker last completed an iteration */
	struct stats stats; /* the last member, because the counters of modules follow */
};

struct workers {
	bool started;
	bool recorder; /* false with --recorder=off */
	uint16_t port;
	struct shared_port *shared; /* NULL without --share-port */
	unsigned count;
	struct worker *workers[WORKERS_MAX];
};

/* Executes an order about the listeners, in the worker's thread. */
static void worker_apply(struct tcp *tcp, enum port_order order);

/* Wakes a worker so that it looks at its orders. */
static void worker_wake(const struct worker *worker);

enum {
	/* Maximum size of a UDP reply at the second address. Attackers with forged source addresses can reach that address. The limit is
	 * the same as for a client without EDNS, so the amplification factor is 8 instead of 20. Longer answers need TCP. */
	SECOND_REPLY_MAX = DNS_UDP_MIN,
	/* Events per call. All events are dispatched, because some are edge-triggered. */
	EVENTS_MAX = 16,
	EVENT_ROUNDS = 4,
	TCP_MEMORY = 16 * 1024 * 1024, /* bytes for all workers' connections */
};
/* A worker completes an iteration at least this often. */
static const int64_t heartbeat_ns = NS_PER_S;

/* --- in the worker's thread --- */

static void
take_orders(struct worker *worker)
{
	uint64_t count;

	if (read(worker->wake, &count, sizeof count) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
	struct server_list *list = atomic_exchange(&worker->upstreams, NULL);
	if (list != NULL)
		upstream_servers(worker->forwarding, list->servers, list->count);
	free(list);
	worker_apply(worker->tcp, atomic_exchange(&worker->port_order, PORT_AS_IT_IS));
	returned_take(&worker->returned, worker->tcp);
}

/* Reads the heartbeat timer, because an unread timer stays readable. The timer's only purpose is to wake the worker. */
static void
take_heartbeat(const struct worker *worker)
{
	uint64_t count;

	if (read(worker->heartbeat, &count, sizeof count) < 0 && errno != EAGAIN)
		log_fatal("timerfd");
}

static void
dispatch(struct worker *worker, uint64_t key, uint32_t events)
{
	uint32_t slot = worker_key_slot(key), tag = worker_key_tag(key);

	switch (worker_key_part(key)) {
	case PART_WAKE:
		take_orders(worker);
		break;
	case PART_HEARTBEAT:
		take_heartbeat(worker);
		break;
	case PART_TCP_LISTENER:
		tcp_accept(worker->tcp, slot);
		break;
	case PART_TCP:
		tcp_event(worker->tcp, slot, tag, events);
		break;
	case PART_TRANSPORT_UDP:
	case PART_TRANSPORT_TCP:
		upstream_event(worker->forwarding, key, events);
		break;
	}
}

/* Runs the timers and sends the replies that the iteration has gathered. */
static void
run_timers(struct worker *worker)
{
	worker->context.stirred = false;
	int64_t due_ns = upstream_iteration(worker->forwarding);
	due_ns = clock_earlier(due_ns, tcp_iteration(worker->tcp));
	if (worker->context.measuring)
		due_ns = clock_earlier(due_ns, fair_share_iteration(worker->fair));
	udp_flush(worker->udp);
	worker->due_ns = due_ns;
}

/*
 * Returns how many milliseconds the loop may wait, or -1 if no timer is due before the heartbeat. An iteration that only answered UDP
 * queries has changed no timer.
 *
 * A poll() with a timeout sets and cancels a kernel timer, which is a considerable part of the cost
 * of a single packet. The usual wait therefore has no timeout.
 */
static int
finish_iteration(struct worker *worker)
{
	const struct worker_context *now = &worker->context;

	if (now->stirred || now->measuring || worker->due_ns <= now->now_ns)
		run_timers(worker);
	if (worker->due_ns - now->now_ns > heartbeat_ns)
		return -1;
	return clock_wait_ns(worker->due_ns, now->now_ns);
}

/* Handles the events of all descriptors except the UDP sockets. */
static void
take_events(struct worker *worker)
{
	struct epoll_event events[EVENTS_MAX];
	int64_t end_ns = worker->context.now_ns + WORKER_BUDGET_NS;
	int n = EVENTS_MAX;

	worker->context.stirred = true;
	worker->context.iteration++;
	for (unsigned r = 0; r < EVENT_ROUNDS && n == EVENTS_MAX; r++) {
		if (r > 0 && worker_time(&worker->context) >= end_ns)
			break;
		n = epoll_wait(worker->context.epoll, events, EVENTS_MAX, 0);
		if (n < 0 && errno != EINTR)
			log_fatal("epoll_wait");
		for (int i = 0; i < n; i++)
			dispatch(worker, events[i].data.u64, events[i].events);
	}
	worker->context.loaded = worker->context.now_ns >= end_ns;
}

static void
loop(struct worker *worker)
{
	struct pollfd fds[UDP_SOCKETS_MAX + 1];
	unsigned sockets = (unsigned)udp_fds(worker->udp, fds);
	int wait_ms = 0;

	fds[sockets] = (struct pollfd){ .fd = worker->context.epoll, .events = POLLIN };
	while (!atomic_load_explicit(&worker->stop, memory_order_acquire)) {
		int64_t before_ns = worker->context.now_ns;

		if (sockets_poll(fds, sockets + 1, wait_ms) < 0 && errno != EINTR)
			log_fatal("poll");
		worker_time(&worker->context);
		if (worker->context.measuring)
			fair_share_idle(worker->fair, worker->context.now_ns - before_ns);
		if (fds[sockets].revents != 0)
			take_events(worker);
		for (unsigned i = 0; i < sockets; i++)
			if (fds[i].revents != 0)
				udp_readable(worker->udp, i);
		wait_ms = finish_iteration(worker);
		atomic_store_explicit(
		    &worker->passed_ns, worker->context.now_ns, memory_order_relaxed);
	}
}

/* Runs the last iteration. Answers the queries that have arrived, and answers SERVFAIL to queries in flight. */
static void
last_iteration(struct worker *worker)
{
	worker_time(&worker->context);
	udp_poll(worker->udp);
	upstream_finish_all(worker->forwarding);
	udp_flush(worker->udp);
}

/* Each thread sets its own name, because naming another thread needs a write to /proc. */
static void
take_name(unsigned index)
{
	char name[16];

	snprintf(name, sizeof name, "worker%02u", index % 100);
	pthread_setname_np(pthread_self(), name);
}

static void *
run(void *arg)
{
	struct worker *worker = arg;

	take_name(worker->index);
	sandbox_low_ports_done();
	rcu_join();
	loop(worker);
	last_iteration(worker);
	rcu_part();
	return NULL;
}

/* --- replies to clients, for inflight.c --- */

static void
client_defer(void *arg, const struct client *client)
{
	struct worker *worker = arg;

	if (client->proto == PROTO_TCP)
		tcp_defer(worker->tcp, &client->peer.tcp);
}

static uint8_t *
client_reserve(void *arg, const struct client *client, size_t *max)
{
	struct worker *worker = arg;
	bool tcp = client->proto == PROTO_TCP;

	*max = tcp ? DNS_TCP_MAX : DNS_UDP_PAYLOAD;
	return tcp ? tcp_reply_reserve(worker->tcp)
		   : udp_reply_reserve(worker->udp, &client->peer.udp);
}

static void
client_done(void *arg, const struct client *client, size_t len)
{
	struct worker *worker = arg;

	if (client->proto == PROTO_TCP)
		tcp_reply_done(worker->tcp, &client->peer.tcp, len);
	else if (len > 0)
		udp_reply_done(worker->udp, len);
}

/* --- in the main thread --- */

/* The sockets of a worker. `second` has the sockets of the second address, and `own` all other sockets. */
struct all_sockets {
	struct sockets own, second; /* `second.count` is 0 if there is no second address */
};

/* `wanted`, but at most `most`. 0 means `most`. */
static size_t
at_most(size_t wanted, size_t most)
{
	return wanted == 0 || wanted > most ? most : wanted;
}

static void
make_tcp(struct worker *worker, const struct workers_config *config, struct all_sockets *sockets,
    unsigned connections)
{
	const struct tcp_config tcp = {
		.connections = worker_share(connections, sockets->own.threads),
		.memory = at_most(config->tcp_memory, TCP_MEMORY) / sockets->own.threads,
		.idle_ns = (int64_t)setting_or(config->tcp_idle_ms, TCP_IDLE_MS) * 1000000,
		.second = sockets->second.count,
	};
	int fds[TCP_LISTENERS_MAX];
	size_t count = 0;

	struct sockets *const both[] = { &sockets->own, &sockets->second };
	for (size_t i = 0; i < 2; i++)
		for (size_t f = 0; f < both[i]->count; f++) {
			fds[count++] = both[i]->tcp[worker->index][f];
			both[i]->tcp[worker->index][f] = -1;
		}
	worker->tcp =
	    tcp_new(&worker->context, upstream_inflight(worker->forwarding), fds, count, &tcp);
	if (!sockets->own.held)
		tcp_listen(worker->tcp);
}

static void
make_udp(struct worker *worker, const struct workers_config *config, struct all_sockets *sockets)
{
	struct udp_socket udp[UDP_SOCKETS_MAX];
	size_t count = 0;

	struct sockets *const both[] = { &sockets->own, &sockets->second };
	for (size_t i = 0; i < 2; i++)
		for (size_t f = 0; f < both[i]->count; f++) {
			struct sockets *s = both[i];

			udp[count++] = (struct udp_socket){ s->udp[worker->index][f],
				s->servers[f].addr.family, s->wildcard,
				s == &sockets->own ? config->answers : config->second_answers,
				s == &sockets->own ? DNS_UDP_PAYLOAD : SECOND_REPLY_MAX };
			s->udp[worker->index][f] = -1;
		}
	worker->udp = udp_new(&worker->context, upstream_inflight(worker->forwarding), udp, count);
	if (config->fair_share)
		worker->fair = fair_share_new(&worker->context, udp, count);
	udp_fair_share(worker->udp, worker->fair);
}

static void
make_forwarding(struct worker *worker, const struct workers_config *config, unsigned threads)
{
	const struct client_ops clients = { worker, client_defer, client_reserve, client_done };

	worker->forwarding = upstream_new(&worker->context, &clients, config, threads);
}

/* Creates the heartbeat, a periodic timer. */
static void
make_heartbeat(struct worker *worker)
{
	const struct timespec every = { heartbeat_ns / NS_PER_S, heartbeat_ns % NS_PER_S };
	const struct itimerspec timer = { every, every };

	worker->heartbeat = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (worker->heartbeat < 0 || timerfd_settime(worker->heartbeat, 0, &timer, NULL) != 0 ||
	    worker_epoll_ctl(&worker->context, EPOLL_CTL_ADD, worker->heartbeat, EPOLLIN,
		worker_key(PART_HEARTBEAT, 0, 0)) != 0)
		log_fatal("timerfd");
}

static void
make_context(struct worker *worker, const struct workers_config *config)
{
	struct worker_context *context = &worker->context;

	context->stats = &worker->stats;
	context->tree = config->tree;
	context->answers = config->answers;
	context->second = config->second_answers;
	worker_thread_init(context);
	context->connections =
	    (struct connection_return){ .returned = returned_add, .arg = &worker->returned };
	context->epoll = epoll_create1(EPOLL_CLOEXEC);
	worker->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	worker->returned.wake = worker->wake;
	if (context->epoll < 0 || worker->wake < 0 ||
	    worker_epoll_ctl(
		context, EPOLL_CTL_ADD, worker->wake, EPOLLIN, worker_key(PART_WAKE, 0, 0)) != 0)
		log_fatal("epoll");
	make_heartbeat(worker);
	uint64_t random[2];
	if (getrandom(random, sizeof random, 0) != sizeof random)
		log_fatal("getrandom");
	context->hash_key = random[0];
	context->random = random[1];
	atomic_store(&worker->passed_ns, worker_time(context));
}

static void
make_ring(struct worker *worker, const struct workers_config *config, unsigned threads)
{
	const struct ring_config ring = {
		.bytes = ring_bytes(config->recorder_bytes, config->whole_messages, threads),
		.whole = config->whole_messages,
		.listener = config->listener,
		.wake = config->recorder_bytes > 0 ? config->wake_observers : -1,
		.seed = worker->context.random,
	};

	if (ring.bytes > 0)
		worker->context.ring = ring_new(&ring);
}

static struct worker *
worker_new(const struct workers_config *config, struct all_sockets *sockets, unsigned index,
    unsigned connections)
{
	struct worker *worker = NULL;
	size_t size = sizeof *worker + config->module_counters * sizeof *worker->stats.modules;

	if (posix_memalign((void **)&worker, 64, size) != 0)
		log_fatalx("out of memory");
	memset(worker, 0, size);
	worker->index = index;
	make_context(worker, config);
	make_ring(worker, config, sockets->own.threads);
	make_forwarding(worker, config, sockets->own.threads);
	make_udp(worker, config, sockets);
	make_tcp(worker, config, sockets, connections);
	return worker;
}

static void
worker_free(struct worker *worker)
{
	upstream_free(worker->forwarding);
	tcp_free(worker->tcp);
	fair_share_free(worker->fair);
	udp_free(worker->udp);
	ring_free(worker->context.ring);
	free(worker->context.view);
	free(atomic_load(&worker->upstreams));
	returned_take(&worker->returned, NULL);
	close(worker->wake);
	close(worker->heartbeat);
	close(worker->context.epoll);
	free(worker);
}

/* Blocks all signals in the thread, because the main thread reads them through its signalfd. */
static void
worker_start(struct worker *worker)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&worker->pthread, NULL, run, worker);
	if (errno != 0)
		log_fatal("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void
worker_wake(const struct worker *worker)
{
	uint64_t one = 1;

	if (write(worker->wake, &one, sizeof one) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

int
workers_open(struct workers **out, const struct workers_config *config)
{
	struct all_sockets sockets = { 0 };
	unsigned threads = config->threads != 0 ? config->threads : workers_automatic();

	if (threads > WORKERS_MAX)
		threads = WORKERS_MAX;
	unsigned connections =
	    tcp_connections_allowed(setting_or(config->tcp_connections, TCP_CONNECTIONS));
	int rc =
	    sockets_open(&sockets.own, config->address, config->port, config->share_port, threads);
	if (rc == 0 && config->second_address != NULL &&
	    (rc = sockets_open(&sockets.second, config->second_address, config->second_port, false,
		 threads)) != 0)
		sockets_close(&sockets.own);
	if (rc != 0)
		return rc;
	struct workers *workers = xcalloc(1, sizeof *workers);
	workers->port = sockets.own.servers[0].port;
	workers->count = threads;
	workers->recorder = config->recorder_bytes > 0;
	workers->shared = config->share_port ? shared_port_new(&sockets.own) : NULL;
	for (unsigned i = 0; i < threads; i++)
		workers->workers[i] = worker_new(config, &sockets, i, connections);
	sockets_close(&sockets.own);
	sockets_close(&sockets.second);
	*out = workers;
	return 0;
}

void
workers_start(struct workers *workers)
{
	for (unsigned i = 0; i < workers->count; i++)
		worker_start(workers->workers[i]);
	workers->started = true;
}

uint16_t
workers_port(const struct workers *workers)
{
	return workers->port;
}

unsigned
workers_count(const struct workers *workers)
{
	return workers->count;
}

void
workers_upstreams(struct workers *workers, const struct server *servers, size_t count)
{
	if (count > UPSTREAMS_MAX)
		count = UPSTREAMS_MAX;
	for (unsigned i = 0; i < workers->count; i++) {
		struct server_list *list = xcalloc(1, sizeof *list);

		list->count = count;
		if (count > 0)
			memcpy(list->servers, servers, count * sizeof *servers);
		/* Frees a list that the worker had not taken. */
		free(atomic_exchange(&workers->workers[i]->upstreams, list));
		worker_wake(workers->workers[i]);
	}
}

void
workers_stop(struct workers *workers)
{
	if (workers == NULL || !workers->started)
		return;
	for (unsigned i = 0; i < workers->count; i++) {
		atomic_store_explicit(&workers->workers[i]->stop, true, memory_order_release);
		worker_wake(workers->workers[i]);
	}
	for (unsigned i = 0; i < workers->count; i++)
		pthread_join(workers->workers[i]->pthread, NULL);
	workers->started = false;
}

void
workers_free(struct workers *workers)
{
	if (workers == NULL)
		return;
	workers_stop(workers);
	for (unsigned i = 0; i < workers->count; i++)
		worker_free(workers->workers[i]);
	shared_port_free(workers->shared);
	free(workers);
}

/* --- sharing the port with another kubedns (shared_port.h) --- */

bool
workers_held(const struct workers *workers)
{
	return workers->shared != NULL && shared_port_held(workers->shared);
}

bool
workers_have_other(const struct workers *workers)
{
	return workers->shared != NULL && shared_port_has_other(workers->shared);
}

static void
order(struct workers *workers, enum port_order order)
{
	for (unsigned i = 0; i < workers->count; i++) {
		atomic_store(&workers->workers[i]->port_order, order);
		worker_wake(workers->workers[i]);
	}
}

int
workers_join(struct workers *workers)
{
	if (!workers_held(workers))
		return 0;
	int rc = shared_port_enter(workers->shared);
	if (rc == 0)
		order(workers, PORT_JOIN);
	return rc;
}

int
workers_leave(struct workers *workers)
{
	int rc = shared_port_leave(workers->shared);

	if (rc == 0)
		order(workers, PORT_LEAVE);
	return rc;
}

static void
worker_apply(struct tcp *tcp, enum port_order order)
{
	if (order == PORT_JOIN)
		tcp_listen(tcp);
	else if (order == PORT_LEAVE)
		tcp_leave(tcp);
}

/* --- data that other threads read from the workers --- */

int64_t
workers_stalled_ms(const struct workers *workers)
{
	int64_t now_ns = clock_mono_ns(), oldest_ns = now_ns;

	for (unsigned i = 0; i < workers->count; i++) {
		int64_t passed_ns =
		    atomic_load_explicit(&workers->workers[i]->passed_ns, memory_order_relaxed);

		oldest_ns = passed_ns < oldest_ns ? passed_ns : oldest_ns;
	}
	return (now_ns - oldest_ns) / 1000000;
}

uint64_t
workers_stats(const struct workers *workers, struct stats *sum, size_t modules)
{
	uint64_t drops = 0;

	for (unsigned i = 0; i < workers->count; i++) {
		stats_sum(sum, &workers->workers[i]->stats, modules);
		drops += udp_queue_drops(workers->workers[i]->udp);
	}
	return drops > sum->client_shed ? drops - sum->client_shed : 0;
}

const struct ring *
workers_ring(const struct workers *workers, unsigned index)
{
	return workers->workers[index]->context.ring;
}

const struct ring *
workers_recorder(const struct workers *workers, unsigned index)
{
	return workers->recorder ? workers_ring(workers, index) : NULL;
}

char *
workers_notes(const struct workers *workers, bool addresses)
{
	char *notes = xstrdup("");

	for (unsigned w = 0; w < workers->count; w++)
		if (workers->workers[w]->fair != NULL)
			notes = fair_share_notes(workers->workers[w]->fair, w, addresses, notes);
	return notes;
}
