#include "kubedns/run/handover.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/worker.h"
#include "lib/addr.h"
#include "lib/clock.h"
#include "lib/dname.h"
#include "lib/log.h"
#include "lib/sandbox.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum {
	LOOK_MS = 1000, /* interval between checks of the other kubedns */
	ASK_MS = 250,   /* the same interval, and the interval between queries, until the resolver
			 * has responded */
};

struct handover {
	struct workers *workers;
	struct server resolver;
	int fd;         /* UDP socket; -1: there is no resolver, or it has responded */
	bool connected; /* `fd` is connected to the resolver; connecting fails while there is no
			 * route */
	uint16_t id;
	bool synced, draining, said_waiting;
	int64_t next_ms; /* monotonic time of the next check */
};

static void
open_question(struct handover *h)
{
	if (getrandom(&h->id, sizeof h->id, 0) != sizeof h->id)
		log_fatal("getrandom");
	h->fd = socket(h->resolver.addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (h->fd < 0)
		log_fatal("dns: socket to the resolver");
}

struct handover *
handover_new(struct workers *workers, const struct server *resolver)
{
	struct handover *h = xcalloc(1, sizeof *h);

	h->workers = workers;
	h->fd = -1;
	if (resolver != NULL && workers_held(workers)) {
		h->resolver = *resolver;
		open_question(h);
	}
	return h;
}

static void
close_question(struct handover *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

void
handover_free(struct handover *h)
{
	if (h == NULL)
		return;
	close_question(h);
	free(h);
}

/* Reads a response, or sends the query again. A query that cannot be sent now is retried soon. */
static void
ask_resolver(struct handover *h)
{
	uint8_t wire[DNS_UDP_MIN];
	struct dname name;
	struct sockaddr_storage ss;
	socklen_t addr_len = server_sockaddr(&h->resolver, &ss);
	ssize_t n;

	if (!h->connected)
		h->connected = connect(h->fd, (struct sockaddr *)&ss, addr_len) == 0;
	if (!h->connected)
		return;
	/* A closed port causes one error for each query. */
	while ((n = recv(h->fd, wire, sizeof wire, 0)) >= 0)
		if (n >= DNS_HEADER && wire[0] == h->id >> 8 && wire[1] == (h->id & 0xff) &&
		    (wire[2] & FLAG_QR >> 8) != 0) {
			close_question(h);
			return;
		}
	dname_from_text(&name, "version.bind");
	size_t len = query_write(wire, sizeof wire, h->id, name.wire, TYPE_TXT, CLASS_CH, 0);
	n = send(h->fd, wire, len, MSG_NOSIGNAL);
	(void)n;
}

static int
join(struct handover *h, bool other)
{
	int rc = workers_join(h->workers);

	if (rc < 0)
		return rc;
	close_question(h);
	sandbox_low_ports_done();
	log_info("dns: serving port %u %s", workers_port(h->workers),
	    other ? "together with the other kubedns" : "alone: the other kubedns has stopped");
	return 0;
}

static void
leave(struct handover *h)
{
	if (workers_leave(h->workers) == 0)
		log_info("dns: port %u is left to the other kubedns", workers_port(h->workers));
}

static void
say_waiting(struct handover *h)
{
	char text[SERVER_TEXT_MAX];

	if (!h->said_waiting)
		log_info("dns: the other kubedns keeps port %u until the resolver %s answers",
		    workers_port(h->workers), server_format(&h->resolver, text));
	h->said_waiting = true;
}

/* Whether there is nothing to do, because the workers serve and there was no SIGTERM. The other
 * kubedns does not matter then. */
static bool
is_settled(const struct handover *h)
{
	return !h->draining && !workers_held(h->workers);
}

int
handover_iteration(struct handover *h, bool synced, bool draining, int64_t now_ms)
{
	if (h == NULL)
		return 0;
	const bool changed = synced != h->synced || draining != h->draining;

	h->synced = synced;
	h->draining = draining;
	if (is_settled(h) || (!changed && now_ms < h->next_ms))
		return 0;
	if (h->fd >= 0)
		ask_resolver(h);
	h->next_ms = now_ms + (h->fd >= 0 ? ASK_MS : LOOK_MS);
	bool other = workers_have_other(h->workers);
	if (!workers_held(h->workers)) {
		if (other)
			leave(h);
	} else if (!other || (synced && !draining && h->fd < 0)) {
		return join(h, other);
	} else if (synced && !draining) {
		say_waiting(h);
	}
	return 0;
}

int64_t
handover_due_ms(const struct handover *h)
{
	return h == NULL || is_settled(h) ? CLOCK_NEVER : h->next_ms;
}
