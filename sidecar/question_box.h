/*
 * The page's question box: a name goes to dnsmasq
 * (what would a client get?) and to kubedns's /explain (why?).
 *
 * An HTTP handler cannot wait, so a question is started by one request and its answer picked up by
 * a later one: the page comes back at once with "asking", and looks again. Few questions are kept,
 * for a short time; only loopback peers get this far.
 */
#ifndef SIDECAR_QUESTION_BOX_H
#define SIDECAR_QUESTION_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "sidecar/fetch.h"
#include "sidecar/dns_exchange.h"

enum {
	ASK_MAX = 4, /* questions at a time; each has two descriptors */
	ASK_SLOTS = 2 * ASK_MAX,
	ASK_TEXT_MAX = 1100, /* of the name as typed */
	ASK_KEEP_MS = 3000,  /* an answer is shown to whoever asks the same again */
	ASK_RECORDS_MAX = 50,
	ASK_EXPLAIN_MAX = 32 * 1024,
};

struct ask_entry {
	bool used, done;
	char text[ASK_TEXT_MAX]; /* as typed */
	struct dname name;
	uint16_t type;
	int64_t asked_ns, done_ns;
	struct net net;
	struct fetch fetch;
	char *answer;  /* records as text; NULL until then */
	char *explain; /* kubedns's words, or NULL */
	char explain_error[FETCH_ERROR_MAX];
};

struct ask {
	struct server dns;         /* dnsmasq */
	const struct url *kubedns; /* or NULL */
	struct ask_entry entries[ASK_MAX];
};

/* What became of a request to ask. */
enum ask_result {
	ASK_STARTED,
	ASK_SAME /* under way or just answered */,
	ASK_BAD_NAME,
	ASK_BAD_TYPE,
	ASK_BUSY
};

void ask_init(struct ask *ask, const struct server *dns, const struct url *kubedns);

/*
 * Turns what was typed into a question: a name, or an address, which is asked for as PTR. `type`
 * may be NULL or "". ASK_STARTED, or what is wrong.
 */
enum ask_result ask_parse(const char *text, const char *type, struct dname *name, uint16_t *number);

/* Starts a question, or finds the same one;
 * `entry` is then valid until the next call of ask_run. */
enum ask_result ask_question(
    struct ask *ask, const char *text, const char *type, struct ask_entry **entry);

/* Goes on with every question; `revents` of ASK_SLOTS: DNS and HTTP of each entry in turn. */
void ask_run(struct ask *ask, const short *revents, int64_t now_ns);

int64_t ask_deadline(const struct ask *ask);
void ask_close(struct ask *ask);

#endif
