/*
 * The query log: an observer that writes a log line for each answer.
 *
 *	observers_drain() --each answer--> filter --> sample --each 200 ms--> log
 *
 * The log costs the workers nothing. It has at most `rate` lines a second. If there are more
 * answers, it has a random sample of them, and a line about the skipped answers. --log-queries
 * enables it permanently; PUT and DELETE on /log-queries enable and disable it while kubedns runs.
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

/* The answers to log. */
struct query_log_wish {
	struct recorded_filter filter;
	unsigned rate; /* lines per second */
};

/*
 * Parses text such as `client=10.1.0.0/16,rcode=NXDOMAIN,rate=100`; "" matches all answers. Returns
 * 0 or -EINVAL. After -EINVAL, `*part` is the invalid part, a copy that the caller frees, and
 * `*why` is its accepted form.
 */
int query_log_wish_parse(
    struct query_log_wish *wish, const char *text, char **part, const char **why);

struct query_log;

/* The query log's row in the table of observers. */
extern const struct observer query_log_observer;

/* Creates the query log, which is disabled if `wish` is NULL. `store` maps clients to pods.
 * `observers` is NULL with --recorder=off. */
struct query_log *query_log_new(
    struct observers *observers, const struct store *store, const struct query_log_wish *wish);

/* query_log_iteration() writes the lines that are due. query_log_due_ms() returns the time when the
 * next lines are due, or CLOCK_NEVER if the log is disabled. */
void query_log_iteration(struct query_log *log);
int64_t query_log_due_ms(const struct query_log *log);

/* Handles /log-queries: GET returns whether the log is enabled, PUT and DELETE change that. */
void query_log_respond(
    struct query_log *log, const struct http_request *request, struct http_response *response);

/* Writes the remaining lines and frees the log. NULL is fine. */
void query_log_free(struct query_log *log);

#endif
