/*
 * Messages that a module answers instead of the stages (kubedns/module.h), such as a zone transfer.
 *
 *	worker --query--> answer(): takes()? --ANSWER_MODULE--> worker --struct module_message--> answer() of the handler
 *	                                                          ^                                  |
 *	                                                          '-- the reply, or over TCP: the module has the connection
 *
 * The stages answer a query with one message, and refuse some queries regardless of their name. For these queries, and for queries
 * with a TSIG, answer() asks the handlers of the enabled modules. The first handler that takes the query answers it.
 *
 * Over TCP, a handler may take over the connection, to send many messages from a thread of its own. Until the module returns the
 * connection, the worker neither reads nor writes it, and the client's next queries wait.
 */
#ifndef KUBEDNS_ANSWER_MESSAGE_H
#define KUBEDNS_ANSWER_MESSAGE_H

#include "kubedns/answer/answer.h"

/* How a module returns a connection. Any thread may call returned(). If `usable` is true, the connection continues with the client's next
 * query. Otherwise the worker closes it. */
struct connection_return {
	void (*returned)(void *arg, uint32_t slot, uint32_t generation, bool usable);
	void *arg;
	uint32_t slot, generation;
};

/* A query for which answer() returned ANSWER_MODULE. */
struct module_message {
	/* configuration of the address to which the query was sent */
	const struct answer_config *answers;
	const struct sockaddr *peer;
	const struct query *question;
	const uint8_t *query; /* the message as it was received */
	size_t query_len;
	/* The published tree, within a read section. It has the records of all namespaces, whatever the client may see. */
	const struct tree *tree;
	uint8_t *out; /* buffer of `max` bytes, at least 512 */
	size_t max;
	/* The connection, or -1 for UDP. All earlier replies on the connection have been sent. */
	int fd;
	struct connection_return end; /* for a module that takes over the connection */
};

/* The functions of a module. Workers call both, and several at the same time. Neither may block. */
struct message_handler {
	/* Whether the module answers the query instead of the stages. Only queries that the stages refuse with REFUSED, as AXFR, and queries
	 * with a TSIG are offered. Other opcodes, as NOTIFY, never are. */
	bool (*takes)(const void *state, const struct answer_config *answers,
	    const struct query *query, bool has_tsig);
	/*
	 * Returns the length of the reply in `out`. Over TCP only, returns 0 if the module has taken over the connection. The module then
	 * sends on a duplicate of the descriptor, and calls end.returned() once. Until then, the worker does not close the connection, not
	 * even when it is idle. After its hook stop(), the module need not call it.
	 */
	size_t (*answer)(void *state, const struct module_message *message);
	void *state; /* the core sets the module's state */
};

/* Answers the message with the handler that has taken it. */
static inline size_t
message_answer(const struct message_handler *handler, const struct module_message *message)
{
	return handler->answer(handler->state, message);
}

#endif
