/* A worker and what it owns; shared by worker.c, worker_report.c and worker_share.c. */
#ifndef KUBEDNS_SERVE_WORKER_INTERNAL_H
#define KUBEDNS_SERVE_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kubedns/serve/ended_transfers.h"
#include "kubedns/serve/worker.h"
#include "kubedns/serve/worker_context.h"

struct awaited;
struct fair_share;
struct forward_or_relay;
struct shared_port;
struct tcp;
struct udp;

/* A list of servers that the main thread hands to a worker, which frees it. */
struct server_list {
	size_t count;
	struct server servers[UPSTREAMS_MAX];
};

/* What a worker is to do with its TCP listeners: see shared_port.h. */
enum port_order { PORT_AS_IT_IS, PORT_JOIN, PORT_LEAVE };

/* One thread and what it owns; what other threads read has cache lines of its own. */
struct worker { /* NOLINT(clang-analyzer-optin.performance.Padding) */
	_Alignas(64) struct worker_context context;
	unsigned index;
	struct udp *udp;
	struct tcp *tcp;
	struct forward_or_relay *forwarding;
	struct awaited *awaited; /* NULL: no --hold-ms */
	struct fair_share *fair; /* NULL: --fair-share=off */
	int64_t due_ns;          /* when its timers must be looked at, whatever happens */
	pthread_t pthread;
	int heartbeat; /* timerfd */
	int wake;      /* eventfd: look at `stop` and `upstreams` */
	atomic_bool stop;
	_Atomic(struct server_list *) upstreams; /* new ones, not yet taken */
	struct ended_transfers streamed;
	_Atomic(enum port_order) port_order;     /* not yet obeyed */
	_Alignas(64) _Atomic(int64_t) passed_ns; /* when it last passed its loop */
	struct stats stats;
};

struct workers {
	bool started;
	uint16_t port;
	struct shared_port *shared; /* NULL: no --share-port */
	unsigned count;
	struct worker *workers[WORKERS_MAX];
};

/* In the worker's thread: obeys an order about its listeners. */
void worker_obey(struct tcp *tcp, enum port_order order);

/* Wakes a worker to look at its orders. */
void worker_wake(const struct worker *worker);

#endif
