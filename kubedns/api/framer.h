/*
 * Splits a response of the Kubernetes API into its objects while the response arrives, in pieces of
 * any size.
 *
 *	list:   {"kind":"ServiceList","metadata":{...},"items":[ {...} , {...} ]}
 *	                 `-> head()           `-> head()         `-> item()
 *	        for custom resources, the items come first, then kind and metadata
 *	events: {"type":"ADDED","object":{...}}  {...}
 *	        `-> item()                       `-> item()
 *
 * The framer buffers at most one item, and only an item that continues in the next piece. The
 * caller sets the maximum size of an item. The end of an item is found by matching brackets;
 * json_prune and json-c validate its content.
 */
#ifndef KUBEDNS_API_FRAMER_H
#define KUBEDNS_API_FRAMER_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/api/json_skip.h"

enum framer_form { FRAMER_LIST, FRAMER_EVENTS };

/*
 * Callbacks. The bytes are valid during the call. A negative result ends the framing, and
 * framer_feed() returns it.
 */
struct framer_sink {
	int (*item)(void *arg, const char *bytes, size_t len);
	int (*head)(void *arg, const char *key, const char *bytes,
	    size_t len); /* only for lists: "kind" and "metadata" */
	void *arg;
};

enum framer_state {
	FRAMER_START, /* before the list's opening bracket, or between events */
	FRAMER_FIRST_KEY,
	FRAMER_KEY,
	FRAMER_COLON,
	FRAMER_VALUE,
	FRAMER_AFTER_VALUE,
	FRAMER_FIRST_ITEM,
	FRAMER_ITEM,
	FRAMER_AFTER_ITEM,
	FRAMER_END, /* the list is complete */
	FRAMER_BROKEN,
	FRAMER_STATE_COUNT,
};

struct framer {
	enum framer_form form;
	enum framer_state state;
	struct framer_sink sink;
	const char *why;       /* reason for the last error; a static string */
	struct json_skip scan; /* state of the scan of the current value */
	char *held;            /* the part of a value that was in earlier pieces */
	size_t held_len, held_max, item_max;
	char opener;  /* first byte of the current value; 0: none */
	bool discard; /* the value is not used, because it is neither kind, metadata nor items */
	char key[16]; /* key of the list's current member, truncated */
};

/*
 * Prepares for one response. An object larger than `item_max` bytes is an error. Release it with
 * framer_clear().
 */
void framer_init(
    struct framer *f, enum framer_form form, size_t item_max, const struct framer_sink *sink);

/*
 * Reads a piece. Returns 0, or -EBADMSG or -EMSGSIZE with f->why set, or the negative result of a
 * callback. After an error, every further call fails.
 */
int framer_feed(struct framer *f, const char *bytes, size_t len);

/*
 * Call it at the end of the response. Returns 0 if the list is complete, or if there is no partial
 * event. Otherwise returns -EBADMSG and sets f->why.
 */
int framer_end(struct framer *f);

void framer_clear(struct framer *f);

#endif
