/*
 * One query in flight. The query is sent over UDP first, and over TCP if the answer is truncated. The deadline covers both UDP and TCP.
 * A query to a tls:// server uses only TLS.
 *
 *	IDLE --dns_exchange_ask--> UDP --TC--> TCP_CONNECT --> TCP_SEND --> TCP_READ --> done (IDLE)
 *	                   `-- answer, error, deadline ------------------------^
 *	IDLE --dns_exchange_ask_tls--> TCP_CONNECT --> TLS --> TCP_SEND --> TCP_READ --> done (IDLE)
 *
 * Every query has its own socket, source port and ID, so that a late reply to an earlier query is not taken for the answer. These functions
 * never wait. The owner polls `fd` for `events` until `deadline_ns`.
 */
#ifndef SIDECAR_PROBES_DNS_EXCHANGE_H
#define SIDECAR_PROBES_DNS_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "sidecar/probes/reply_check.h"

struct tls;
struct tls_trust;

enum dns_exchange_phase {
	EXCHANGE_IDLE,
	EXCHANGE_UDP,
	EXCHANGE_TCP_CONNECT,
	EXCHANGE_TLS,
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
	/* why a packet that arrived was not the answer; CAUSE_TIMEOUT if no packet arrived */
	enum cause stray;
	/* For TLS, else NULL. They belong to the owner of the exchange. */
	const char *tls_name;
	struct tls_trust *trust;
	struct tls *tls; /* from the connection on */
	uint8_t *tcp;    /* length prefix and message while TCP is in use */
	size_t tcp_len, tcp_done;

	/* The result, valid until the next query starts. */
	struct dns_reply reply;
	int error;          /* errno for CAUSE_UNREACHABLE, else 0 */
	bool over_tcp;      /* the UDP answer had TC set, so TCP was tried */
	int64_t latency_ns; /* time from sending the query to the arrival of the answer */
	uint8_t *message;   /* the answer in wire format, or NULL */
	size_t message_len;
};

/* Initialises an idle exchange. */
void dns_exchange_init(struct dns_exchange *exchange);

/* Sends a query to `server`, and drops an earlier query that is still in flight. Returns true if the new query has already failed (no
 * process listens at the port, or no route), and false if it is in flight. */
bool dns_exchange_ask(struct dns_exchange *exchange, const struct server *server,
    const struct dname *name, uint16_t type, uint16_t class, int timeout_ms);

/* Sends a query over TLS to the server with this name in its certificate. Nothing is sent in plain text. Otherwise like dns_exchange_ask. */
bool dns_exchange_ask_tls(struct dns_exchange *exchange, const struct server *server,
    const char *tls_name, struct tls_trust *trust, const struct dname *name, uint16_t type,
    int timeout_ms);

/* Continues the query after poll() reported `revents` (0 if none). Returns true once the query has ended. */
bool dns_exchange_run(struct dns_exchange *exchange, short revents);

static inline bool
dns_exchange_busy(const struct dns_exchange *exchange)
{
	return exchange->phase != EXCHANGE_IDLE;
}

/* Closes the socket and frees the answer. */
void dns_exchange_close(struct dns_exchange *exchange);

#endif
