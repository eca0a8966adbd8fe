#include "kubedns/serve/worker.h"

#include <ares.h>
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kubedns/serve/forward.h"
#include "kubedns/serve/worker_context.h"
#include "kubedns/serve/inflight.h"
#include "kubedns/serve/relay.h"
#include "kubedns/serve/sockets.h"
#include "kubedns/serve/tcp.h"
#include "kubedns/serve/udp.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/rcu.h"
#include "lib/xalloc.h"

enum {
	EVENTS_MAX = 64,
	HEARTBEAT_MS = 1000,
	TCP_MEMORY = 16 * 1024 * 1024, /* of all workers' connections */
	SPARE_DESCRIPTORS = 256,       /* beside TCP clients: API, HTTP, upstreams */
};

/* A list of servers on its way to a worker, which frees it. */
struct server_list {
	size_t count;
	struct server servers[UPSTREAMS_MAX];
};

struct thread {
	_Alignas(64) struct worker worker;
	struct workers *workers;
	pthread_t pthread;
	int wake; /* eventfd: look at `stop` and `next` */
	atomic_bool stop;
	_Atomic(struct server_list *) next;      /* not yet taken */
	_Alignas(64) _Atomic(int64_t) passed_ns; /* when it last passed its loop */
	_Alignas(64) struct stats stats;
};

struct workers {
	uint16_t port;
	unsigned count;
	struct thread *threads[WORKERS_MAX];
};

/* --- in the worker's thread --- */

static void
take_orders(struct thread *thread)
{
	uint64_t count;
	if (read(thread->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
	struct server_list *list = atomic_exchange(&thread->next, NULL);
	if (list != NULL && thread->worker.forward != NULL)
		forward_servers(thread->worker.forward, list->servers, list->count);
	free(list);
}

static void
dispatch(struct thread *thread, uint64_t key, uint32_t events)
{
	struct worker *worker = &thread->worker;
	uint32_t slot = loop_key_slot(key), tag = loop_key_tag(key);
	switch (loop_key_part(key)) {
	case LOOP_WAKE:
		take_orders(thread);
		break;
	case LOOP_TCP_LISTENER:
		tcp_accept(worker->tcp, slot);
		break;
	case LOOP_TCP:
		tcp_event(worker->tcp, slot, tag, events);
		break;
	case LOOP_FORWARD:
		forward_event(worker->forward, slot, (int)tag, events);
		break;
	case LOOP_RELAY_UDP:
		relay_udp_event(worker->relay, slot, tag, events);
		break;
	case LOOP_RELAY_TCP:
		relay_tcp_event(worker->relay, slot, tag, events);
		break;
	}
}

/* What is due or was gathered; returns the milliseconds that the loop may wait. */
static int
finish_turn(struct worker *worker)
{
	int64_t due_ns = sooner(inflight_turn(worker), tcp_turn(worker->tcp));
	due_ns = sooner(due_ns,
	    worker->relay != NULL ? relay_turn(worker->relay) : forward_turn(worker->forward));
	udp_flush(worker->udp);
	if (due_ns == 0 || due_ns - worker->now_ns > HEARTBEAT_MS * INT64_C(1000000))
		return HEARTBEAT_MS;
	return due_ns <= worker->now_ns ? 0 : (int)((due_ns - worker->now_ns + 999999) / 1000000);
}

/* What has happened to everything but the UDP sockets. */
static void
take_events(struct thread *thread)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(thread->worker.epoll, events, EVENTS_MAX, 0);
	if (n < 0 && errno != EINTR)
		log_fatal("epoll_wait");
	for (int i = 0; i < n; i++)
		dispatch(thread, events[i].data.u64, events[i].events);
}

static void
loop(struct thread *thread)
{
	struct worker *worker = &thread->worker;
	struct pollfd fds[UDP_SOCKETS_MAX + 1];
	unsigned sockets = (unsigned)udp_fds(worker->udp, fds);
	int wait_ms = 0;
	fds[sockets] = (struct pollfd){ .fd = worker->epoll, .events = POLLIN };
	while (!atomic_load_explicit(&thread->stop, memory_order_acquire)) {
		if (poll(fds, sockets + 1, wait_ms) < 0 && errno != EINTR)
			log_fatal("poll");
		worker_time(worker);
		if (fds[sockets].revents != 0)
			take_events(thread);
		for (unsigned i = 0; i < sockets; i++)
			if (fds[i].revents != 0)
				udp_readable(worker->udp, i);
		wait_ms = finish_turn(worker);
		atomic_store_explicit(&thread->passed_ns, worker->now_ns, memory_order_relaxed);
	}
}

/* The last turn: what has arrived is answered, nobody who waits is left without a reply. */
static void
wind_up(struct worker *worker)
{
	worker_time(worker);
	udp_poll(worker->udp);
	inflight_finish_all(worker);
	udp_flush(worker->udp);
}

static void *
run(void *arg)
{
	struct thread *thread = arg;
	rcu_join();
	loop(thread);
	wind_up(&thread->worker);
	rcu_part();
	return NULL;
}

/* --- in the main thread --- */

static unsigned
or_default(unsigned value, unsigned fallback)
{
	return value != 0 ? value : fallback;
}

/* An even share of a total, rounded up. */
static unsigned
share(unsigned total, unsigned threads)
{
	return (total + threads - 1) / threads;
}

/*
 * TCP clients may not take the descriptors that everything else needs: first the limit is
 * raised, then they are fewer.
 */
static unsigned
connections_allowed(unsigned wanted)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return wanted;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
			return wanted;
	}
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)wanted + SPARE_DESCRIPTORS)
		return wanted;
	unsigned fewer = limit.rlim_cur > (rlim_t)2 * SPARE_DESCRIPTORS
			     ? (unsigned)limit.rlim_cur - SPARE_DESCRIPTORS
			     : SPARE_DESCRIPTORS;
	log_warnx("dns: %u TCP connections instead of %u: the limit of open files is %llu", fewer,
	    wanted, (unsigned long long)limit.rlim_cur);
	return fewer < wanted ? fewer : wanted;
}

static void
set_up_tcp(struct worker *worker, const struct workers_config *config, struct sockets *sockets,
    unsigned index, unsigned connections)
{
	const struct tcp_config tcp = {
		.connections = share(connections, sockets->threads),
		.memory = TCP_MEMORY / sockets->threads,
		.idle_ns = (int64_t)or_default(config->tcp_idle_ms, TCP_IDLE_MS) * 1000000,
	};
	worker->tcp = tcp_new(worker, sockets->tcp[index], sockets->families, &tcp);
	sockets->tcp[index][0] = sockets->tcp[index][1] = -1;
}

static void
set_up_udp(struct worker *worker, struct sockets *sockets, unsigned index)
{
	struct udp_socket udp[SOCKETS_FAMILIES];
	for (size_t f = 0; f < sockets->families; f++)
		udp[f] = (struct udp_socket){ sockets->udp[index][f],
			sockets->servers[f].addr.family, sockets->wildcard };
	worker->udp = udp_new(worker, udp, sockets->families);
	sockets->udp[index][0] = sockets->udp[index][1] = -1;
}

static void
set_up_pending(struct worker *worker, const struct workers_config *config, unsigned threads)
{
	worker->inflight =
	    inflight_new(worker, share(or_default(config->forward_max, FORWARD_MAX), threads),
		share(or_default(config->forward_client_max, FORWARD_CLIENT_MAX), threads));
	if (config->resolver != NULL)
		worker->relay = relay_new(worker, config->resolver);
	else
		worker->forward = forward_new(worker, config->upstreams, config->upstream_count);
}

static struct thread *
thread_new(struct workers *workers, const struct workers_config *config, struct sockets *sockets,
    unsigned index, unsigned connections)
{
	struct thread *thread = NULL;
	if (posix_memalign((void **)&thread, 64, sizeof(*thread)) != 0)
		log_fatalx("out of memory");
	memset(thread, 0, sizeof(*thread));
	struct worker *worker = &thread->worker;
	thread->workers = workers;
	worker->index = index;
	worker->stats = &thread->stats;
	worker->tree = config->tree;
	worker->answers = config->answers;
	worker->epoll = epoll_create1(EPOLL_CLOEXEC);
	thread->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (worker->epoll < 0 || thread->wake < 0 ||
	    loop_control(worker, EPOLL_CTL_ADD, thread->wake, EPOLLIN, loop_key(LOOP_WAKE, 0, 0)) !=
		0)
		log_fatal("epoll");
	if (getrandom(&worker->hash_key, sizeof(worker->hash_key), 0) != sizeof(worker->hash_key))
		log_fatal("getrandom");
	worker->rotation = (uint32_t)worker->hash_key;
	atomic_store(&thread->passed_ns, worker_time(worker));
	set_up_udp(worker, sockets, index);
	set_up_tcp(worker, config, sockets, index, connections);
	set_up_pending(worker, config, sockets->threads);
	return thread;
}

static void
thread_free(struct thread *thread)
{
	struct worker *worker = &thread->worker;
	inflight_free(worker->inflight);
	forward_free(worker->forward);
	relay_free(worker->relay);
	tcp_free(worker->tcp);
	udp_free(worker->udp);
	free(atomic_load(&thread->next));
	close(thread->wake);
	close(worker->epoll);
	free(thread);
}

/* Signals are the main thread's, through its signalfd. */
static void
start_thread(struct thread *thread)
{
	sigset_t all, before;
	char name[16] = "worker";
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&thread->pthread, NULL, run, thread);
	if (errno != 0)
		log_fatal("pthread_create");
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (thread->worker.index < 100) {
		name[6] = (char)('0' + thread->worker.index / 10);
		name[7] = (char)('0' + thread->worker.index % 10);
	}
	pthread_setname_np(thread->pthread, name);
}

int
workers_start(struct workers **out, const struct workers_config *config)
{
	struct sockets sockets;
	unsigned threads = config->threads != 0 ? config->threads : workers_automatic();
	if (threads > WORKERS_MAX)
		threads = WORKERS_MAX;
	unsigned connections =
	    connections_allowed(or_default(config->tcp_connections, TCP_CONNECTIONS));
	int rc = sockets_open(&sockets, config->address, config->port, threads);
	if (rc != 0)
		return rc;
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		log_fatalx("c-ares cannot be initialised");
	struct workers *workers = xcalloc(1, sizeof(*workers));
	workers->port = sockets.servers[0].port;
	workers->count = threads;
	for (unsigned i = 0; i < threads; i++)
		workers->threads[i] = thread_new(workers, config, &sockets, i, connections);
	sockets_close(&sockets);
	for (unsigned i = 0; i < threads; i++)
		start_thread(workers->threads[i]);
	*out = workers;
	return 0;
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

static void
wake(const struct thread *thread)
{
	uint64_t one = 1;
	if (write(thread->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_fatal("eventfd");
}

void
workers_upstreams(struct workers *workers, const struct server *servers, size_t count)
{
	if (count > UPSTREAMS_MAX)
		count = UPSTREAMS_MAX;
	for (unsigned i = 0; i < workers->count; i++) {
		struct server_list *list = xcalloc(1, sizeof(*list));
		list->count = count;
		if (count > 0)
			memcpy(list->servers, servers, count * sizeof(*servers));
		free(atomic_exchange(
		    &workers->threads[i]->next, list)); /* one that was never taken */
		wake(workers->threads[i]);
	}
}

int64_t
workers_stalled_ms(const struct workers *workers)
{
	int64_t now_ns = clock_mono_ns(), oldest_ns = now_ns;
	for (unsigned i = 0; i < workers->count; i++) {
		int64_t passed_ns =
		    atomic_load_explicit(&workers->threads[i]->passed_ns, memory_order_relaxed);
		oldest_ns = passed_ns < oldest_ns ? passed_ns : oldest_ns;
	}
	return (now_ns - oldest_ns) / 1000000;
}

uint64_t
workers_stats(const struct workers *workers, struct stats *sum)
{
	uint64_t drops = 0;
	for (unsigned i = 0; i < workers->count; i++) {
		stats_sum(sum, &workers->threads[i]->stats);
		drops += udp_queue_drops(workers->threads[i]->worker.udp);
	}
	return drops;
}

void
workers_stop(struct workers *workers)
{
	if (workers == NULL)
		return;
	for (unsigned i = 0; i < workers->count; i++) {
		atomic_store_explicit(&workers->threads[i]->stop, true, memory_order_release);
		wake(workers->threads[i]);
	}
	for (unsigned i = 0; i < workers->count; i++) {
		pthread_join(workers->threads[i]->pthread, NULL);
		thread_free(workers->threads[i]);
	}
	free(workers);
	ares_library_cleanup();
}
