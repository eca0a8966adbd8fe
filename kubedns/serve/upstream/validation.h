/*
 * Finds out whether the resolver checks DNSSEC signatures. Its SERVFAIL may then be its verdict about
 * an answer, and kubedns must not replace it with an answer that nobody has checked. The same holds for
 * a resolver that makes AAAA records (DNS64), which the upstream servers do not have.
 *
 *	kubedns --TXT dnssec.nanny.invalid--> resolver: "validate", "dns64", "off", or no such record
 *
 * The nanny's engine answers this query itself, so the answer arrives before the answer to any query
 * that the engine forwards. Until there is an answer, the resolver counts as one that checks. A
 * resolver that replies to other queries, but not to this one within a second, does not check. The
 * same is true of a resolver without this record: only its administrator knows what it checks.
 */
#ifndef KUBEDNS_SERVE_UPSTREAM_VALIDATION_H
#define KUBEDNS_SERVE_UPSTREAM_VALIDATION_H

#include <stdbool.h>
#include <stdint.h>

#include "kubedns/serve/upstream/transport.h"

/* The name of the record. The nanny has it too (nanny/servers/servers_file.h). Its engine answers a
 * query for it at once. */
#define VALIDATION_NAME "dnssec.nanny.invalid."

struct validation;

/* `question` asks for the record, and must outlive it. Free with validation_free(); NULL is fine. */
struct validation *validation_new(
    struct worker_context *context, struct remote *resolver, const struct inflight *question);
void validation_free(struct validation *v);

/* Sends the query if its answer is not known: every 10 ms at most, or once a second if the resolver did
 * not answer it in time. Call it before each query to the resolver. */
void validation_ask(struct validation *v);

/* Returns whether the exchange is that of this query. */
bool validation_owns(const struct validation *v, const struct exchange *exchange);

/* Takes the answer, from remote_ops.reply(). */
void validation_answer(struct validation *v, const uint8_t *reply, size_t len);

/* Notes that the resolver has replied to another query. */
void validation_replied(struct validation *v);

/* Returns whether the resolver checks signatures or makes AAAA records, or may do so. */
bool validation_checks(const struct validation *v);

#endif
