/*
 * One query in flight: UDP first, again over TCP when the answer is truncated, one deadline for
 * both.
 *
 *	IDLE --dns_exchange_ask--> UDP --TC--> TCP_CONNECT --> TCP_SEND --> TCP_READ --> done (IDLE)
 *	                   `-- answer, error, deadline ------------------------^
 *
 * Every query has a socket, a source port and an ID of its own, so that a late reply to an earlier
 * one cannot be taken for its answer. Nothing here waits: the owner polls `fd` for `events` until
 * `deadline_ns`.
 */
#ifndef SIDECAR_PROBES_DNS_EXCHANGE_H
#define SIDECAR_PROBES_DNS_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "sidecar/probes/dns_reply.h"

enum dns_exchange_phase {
	EXCHANGE_IDLE,
	EXCHANGE_UDP,
	EXCHANGE_TCP_CONNECT,
	EXCHANGE_TCP_SEND,
	EXCHANGE_TCP_READ
};

struct dns_exchange {
	enum dns_exchange_phase phase;
	int fd;       /* -1 when idle */
	short events; /* for poll() */
	int64_t sent_ns, deadline_ns;
	struct server server;
	struct question question;
	enum cause stray; /* what arrived that was not the answer; CAUSE_TIMEOUT if nothing did */
	uint8_t *tcp;     /* length prefix and message, while in TCP */
	size_t tcp_len, tcp_done;

	/* The outcome, valid from the end of one question to the start of the next. */
	struct dns_reply reply;
	int error;          /* errno for CAUSE_UNREACHABLE, else 0 */
	bool over_tcp;      /* TC was set, TCP was tried */
	int64_t latency_ns; /* from sending to the arrival of the answer */
	uint8_t *message;   /* the answer as it came, or NULL */
	size_t message_len;
};

/* An idle one. */
void dns_exchange_init(struct dns_exchange *exchange);

/*
 * Sends a question of `name`, `type` and `class` to `server`. True if it ended at once
 * (nothing listens there, no route), false if it is under way. An earlier question that
 * is still under way is dropped.
 */
bool dns_exchange_ask(struct dns_exchange *exchange, const struct server *server,
    const struct dname *name, uint16_t type, uint16_t class, int timeout_ms);

/* Goes on after poll() reported `revents` (0 for none); true when the question has ended. */
bool dns_exchange_run(struct dns_exchange *exchange, short revents);

static inline bool
dns_exchange_busy(const struct dns_exchange *exchange)
{
	return exchange->phase != EXCHANGE_IDLE;
}

/* Closes and frees everything it holds. */
void dns_exchange_close(struct dns_exchange *exchange);

#endif
