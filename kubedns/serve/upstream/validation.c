#include "kubedns/serve/upstream/validation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/log.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

static const char *const checking[] = { "\10validate", "\5dns64" };
static const int64_t again_ns = 10 * INT64_C(1000000);
/* A resolver that replies to other queries, but not to this one for this time, does not check. Then the
 * query is sent only once in this time. */
static const int64_t late_ns = NS_PER_S;

enum validation_state { VALIDATION_UNKNOWN, VALIDATION_OFF, VALIDATION_ON };

struct validation {
	struct worker_context *context;
	struct server resolver;
	uint64_t key;
	enum validation_state state;
	int fd; /* -1 if there is no query in flight */
	uint16_t id;
	struct dname name;
	int64_t again_ns; /* when the query may be sent again */
	int64_t alive_ns; /* the resolver's first reply to another query after this one; 0: none */
};

struct validation *
validation_new(struct worker_context *context, const struct server *resolver, uint64_t key)
{
	struct validation *v = xcalloc(1, sizeof *v);

	v->context = context;
	v->resolver = *resolver;
	v->key = key;
	v->fd = -1;
	dname_from_text(&v->name, VALIDATION_NAME);
	return v;
}

static void
end(struct validation *v)
{
	if (v->fd >= 0)
		close(v->fd);
	v->fd = -1;
}

void
validation_free(struct validation *v)
{
	if (v != NULL)
		end(v);
	free(v);
}

static bool
open_socket(struct validation *v)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&v->resolver, &ss);

	v->fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (v->fd < 0)
		return false;
	if (connect(v->fd, (struct sockaddr *)&ss, len) == 0 &&
	    worker_epoll_ctl(v->context, EPOLL_CTL_ADD, v->fd, EPOLLIN, v->key) == 0)
		return true;
	end(v);
	return false;
}

bool
validation_checks(const struct validation *v)
{
	if (v->state != VALIDATION_UNKNOWN)
		return v->state == VALIDATION_ON;
	return v->alive_ns == 0 || v->context->now_ns < v->alive_ns + late_ns;
}

void
validation_ask(struct validation *v)
{
	uint8_t query[DNS_UDP_QUERY_MAX];

	if (v->state != VALIDATION_UNKNOWN || v->context->now_ns < v->again_ns)
		return;
	v->again_ns = v->context->now_ns + (validation_checks(v) ? again_ns : late_ns);
	if (v->fd < 0) {
		if (getrandom(&v->id, sizeof v->id, 0) != sizeof v->id)
			log_fatal("getrandom");
		if (!open_socket(v))
			return; /* the next query tries again */
	}
	/* The same message again: a reply to either counts. A failure belongs to an earlier message. */
	size_t len = query_write(
	    query, sizeof query, v->id, v->name.wire, TYPE_TXT, CLASS_IN, DNS_UDP_PAYLOAD);
	if (send(v->fd, query, len, MSG_DONTWAIT) < 0)
		log_neterr("relay: send: %s", strerror(errno));
}

void
validation_event(struct validation *v)
{
	uint8_t reply[DNS_UDP_PAYLOAD];
	ssize_t n = recv(v->fd, reply, sizeof reply, MSG_DONTWAIT);
	size_t len = n < 0 ? 0 : (size_t)n;

	if (len < DNS_HEADER || wire_get16(reply) != v->id ||
	    !wire_replies_to(reply, len, v->name.wire, TYPE_TXT, CLASS_IN))
		return; /* such as ECONNREFUSED while the resolver restarts */
	bool on = false;
	for (size_t i = 0; i < sizeof checking / sizeof *checking && wire_get16(reply + 6) > 0; i++)
		on |= memmem(reply + DNS_HEADER + v->name.len, len - DNS_HEADER - v->name.len,
			  checking[i], strlen(checking[i])) != NULL;

	v->state = on ? VALIDATION_ON : VALIDATION_OFF;
	end(v);
}

void
validation_replied(struct validation *v)
{
	if (v->alive_ns == 0 && v->fd >= 0)
		v->alive_ns = v->context->now_ns;
}
