/* The workers' part in sharing their port with another kubedns (shared_port.h). */
#include "kubedns/serve/shared_port.h"
#include "kubedns/serve/tcp.h"
#include "kubedns/serve/worker_internal.h"

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

void
worker_obey(struct tcp *tcp, enum port_order order)
{
	if (order == PORT_JOIN)
		tcp_listen(tcp);
	else if (order == PORT_LEAVE)
		tcp_leave(tcp);
}
