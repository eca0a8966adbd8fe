/*
 * The page's question box: asks the server that clients ask for a name (what would a client get?)
 * and kubedns's /explain (why?).
 *
 * An HTTP handler cannot wait, so a question is started by one request and its answer picked up by
 * a later one: the page comes back at once with "asking", and looks again. Few questions are kept,
 * for a short time; only loopback peers get this far.
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
	QUESTION_BOX_MAX = 4, /* questions at a time; each has two descriptors */
	QUESTION_BOX_SLOTS = 2 * QUESTION_BOX_MAX,
	QUESTION_BOX_TEXT_MAX = 1100, /* of the name as typed */
	QUESTION_BOX_KEEP_MS = 3000,  /* an answer is shown to whoever asks the same again */
	QUESTION_BOX_RECORDS_MAX = 50,
	QUESTION_BOX_EXPLAIN_MAX = 32 * 1024,
};

struct boxed_question {
	bool used, done;
	char text[QUESTION_BOX_TEXT_MAX]; /* as typed */
	struct server server;             /* that was asked */
	struct dname name;
	uint16_t type;
	int64_t asked_ns, done_ns;
	struct dns_exchange exchange;
	struct fetch fetch;
	char *answer;  /* records as text; NULL until then */
	char *explain; /* kubedns's words, or NULL */
	char explain_error[FETCH_ERROR_MAX];
};

struct question_box {
	struct server dns;         /* whom clients ask */
	const struct url *kubedns; /* or NULL */
	struct boxed_question entries[QUESTION_BOX_MAX];
};

/* What became of a request to ask. */
enum question_box_result {
	QUESTION_BOX_STARTED,
	QUESTION_BOX_SAME /* under way or just answered */,
	QUESTION_BOX_BAD_NAME,
	QUESTION_BOX_BAD_TYPE,
	QUESTION_BOX_BUSY
};

void question_box_init(
    struct question_box *box, const struct server *dns, const struct url *kubedns);

/*
 * Turns what was typed into a question: a name, or an address, which is asked for as PTR. `type`
 * may be NULL or "". QUESTION_BOX_STARTED, or what is wrong.
 */
enum question_box_result question_box_parse(
    const char *text, const char *type, struct dname *name, uint16_t *number);

/* Starts a question, or finds the same one; `entry` is then valid until the next call of
 * question_box_run. */
enum question_box_result question_box_ask(
    struct question_box *box, const char *text, const char *type, struct boxed_question **entry);

/* Goes on with every question; `revents` of QUESTION_BOX_SLOTS: DNS and HTTP of each entry in
 * turn. */
void question_box_run(struct question_box *box, const short *revents, int64_t now_ns);

int64_t question_box_deadline(const struct question_box *box);
void question_box_close(struct question_box *box);

#endif
