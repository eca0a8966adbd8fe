/*
 * The query log: an observer that writes a log line for each answer.
 *
 *	observers_drain() --each answer--> filter --> sample --each 200 ms--> log
 *
 * Workers do nothing for it. It writes at most `rate` lines a second: of more answers it writes an
 * even random sample, and a line that says so. --log-queries switches it on for good, PUT and DELETE
 * /log-queries while kubedns runs.
 */
#ifndef KUBEDNS_PAGES_QUERY_LOG_H
#define KUBEDNS_PAGES_QUERY_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kubedns/pages/answer_line.h"
#include "lib/http.h"

struct observer;
struct observers;
struct store;

enum { QUERY_LOG_RATE = 1000, QUERY_LOG_RATE_MAX = 100000 };

/* What is written. */
struct query_log_wish {
	struct recorded_filter filter;
	unsigned rate; /* lines a second */
};

/* `client=10.1.0.0/16,rcode=NXDOMAIN,rate=100`; "" lets all through. 0, or -EINVAL with `*part`, a
 * copy that the caller frees, and what is accepted for it in `*why`. */
int query_log_wish_parse(
    struct query_log_wish *wish, const char *text, char **part, const char **why);

struct query_log;

/* Its row in the table of observers. */
extern const struct observer query_log_observer;

/* Switched off if `wish` is NULL; `store` says which pods the clients are. `observers` is NULL with
 * --recorder=off. */
struct query_log *query_log_new(
    struct observers *observers, const struct store *store, const struct query_log_wish *wish);

/* The first writes what is due, the second is the milliseconds until something is; -1: it is
 * off. */
void query_log_turn(struct query_log *log);
int64_t query_log_wait_ms(const struct query_log *log);

/* /log-queries: GET says whether it is on, PUT and DELETE change it. */
void query_log_respond(
    struct query_log *log, const struct http_request *request, struct http_response *response);

/* Writes the rest first; NULL is fine. */
void query_log_free(struct query_log *log);

#endif
