#include "nanny/node/alarm.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LASTED_MS = 1000, RENEW_MS = 5000 /* shorter than kubedns's idle timeout of 10 s */ };

int
node_alarm_open(
    struct node_alarm *alarm, const struct server *from, const struct server *to, int hops)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(from, &ss);
	bool v6 = to->addr.family == AF_INET6;

	*alarm = (struct node_alarm){ .to = *to };
	alarm->fd = socket(to->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (alarm->fd >= 0 &&
	    setsockopt(alarm->fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_UNICAST_HOPS : IP_TTL,
		&hops, sizeof hops) == 0 &&
	    bind(alarm->fd, (struct sockaddr *)&ss, len) == 0)
		return 0;
	int rc = -errno;
	node_alarm_close(alarm);
	return rc;
}

void
node_alarm_close(struct node_alarm *alarm)
{
	if (alarm->fd >= 0)
		close(alarm->fd);
	alarm->fd = -1;
	alarm->waiting = false;
}

int
node_alarm_fd(const struct node_alarm *alarm)
{
	return alarm->waiting ? alarm->fd : -1;
}

/* Disconnects the socket but leaves it bound. A connection that still exists is reset. */
static void
disconnect(struct node_alarm *alarm)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)connect(alarm->fd, &none, sizeof none);
	alarm->waiting = false;
}

static bool
is_connected(const struct node_alarm *alarm)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	return alarm->waiting && getpeername(alarm->fd, (struct sockaddr *)&ss, &len) == 0;
}

void
node_alarm_connect(struct node_alarm *alarm, int64_t now_ms)
{
	struct sockaddr_storage ss;
	socklen_t len = server_sockaddr(&alarm->to, &ss);

	if (alarm->fd < 0 || (is_connected(alarm) && now_ms - alarm->connected_ms < RENEW_MS))
		return;
	disconnect(alarm);
	alarm->connected_ms = now_ms;
	alarm->waiting =
	    connect(alarm->fd, (struct sockaddr *)&ss, len) == 0 || errno == EINPROGRESS;
}

void
node_alarm_ended(struct node_alarm *alarm, int64_t now_ms)
{
	disconnect(alarm);
	if (now_ms - alarm->connected_ms >= LASTED_MS)
		node_alarm_connect(alarm, now_ms);
}
