/*
 * The question box of the page. The box sends a query to the server that clients use, to show what a client would get. The box also fetches
 * kubedns's /explain, to show why.
 *
 * An HTTP handler cannot wait. The first request therefore only starts a query, and its response is "asking". The page repeats the request
 * until the response contains the answer. The sidecar keeps a few queries for a short time. Only loopback peers may use the question box.
 */
#ifndef SIDECAR_PAGE_QUESTION_BOX_H
#define SIDECAR_PAGE_QUESTION_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "sidecar/containers/fetch.h"
#include "sidecar/probes/dns_exchange.h"

enum {
	/* maximum number of queries at the same time; each query has two descriptors */
	QUESTION_BOX_MAX = 4,
	QUESTION_BOX_SLOTS = 2 * QUESTION_BOX_MAX,
	QUESTION_BOX_TEXT_MAX = 1100, /* maximum length of the name in the request */
	QUESTION_BOX_KEEP_MS = 3000, /* how long the sidecar keeps an answer for the next request */
	QUESTION_BOX_RECORDS_MAX = 50,
	QUESTION_BOX_EXPLAIN_MAX = 32 * 1024,
};

struct boxed_question {
	bool used, done;
	struct server server; /* server to which the query was sent */
	struct dname name;
	uint16_t type;
	int64_t done_ns;
	struct dns_exchange exchange;
	struct fetch fetch;
	char *answer;  /* records as text; NULL if there is no answer yet */
	char *explain; /* text of kubedns's /explain, or NULL */
	char explain_error[FETCH_ERROR_MAX];
};

struct question_box {
	struct server dns;         /* the server that clients use */
	const struct url *kubedns; /* or NULL */
	struct boxed_question entries[QUESTION_BOX_MAX];
};

/* The result of a request. */
enum question_box_result {
	QUESTION_BOX_STARTED,
	QUESTION_BOX_SAME /* the same query is in flight, or was just answered */,
	QUESTION_BOX_BAD_NAME,
	QUESTION_BOX_BAD_TYPE,
	QUESTION_BOX_BUSY
};

void question_box_init(
    struct question_box *box, const struct server *dns, const struct url *kubedns);

/* Parses a request for a name, or for an address, which becomes a PTR query. `type` may be NULL or "". Returns QUESTION_BOX_STARTED, or a
 * value that says what is wrong. */
enum question_box_result question_box_parse(
    const char *text, const char *type, struct dname *name, uint16_t *number);

/* Starts a query, or finds the same query. `entry` is then valid until the next question_box_run. */
enum question_box_result question_box_ask(
    struct question_box *box, const char *text, const char *type, struct boxed_question **entry);

/* Continues all queries. `revents` has QUESTION_BOX_SLOTS items: for each entry the DNS socket, then the HTTP socket. */
void question_box_run(struct question_box *box, const short *revents, int64_t now_ns);

int64_t question_box_deadline(const struct question_box *box);
void question_box_close(struct question_box *box);

#endif
