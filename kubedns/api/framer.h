/*
 * Cuts a response of the Kubernetes API into its objects while it arrives, in pieces of any size.
 *
 *	list:   {"kind":"ServiceList","metadata":{...},"items":[ {...} , {...} ]}
 *	                 `-> head()           `-> head()         `-> item()
 *	        of custom resources the items come first, then kind and metadata
 *	events: {"type":"ADDED","object":{...}}  {...}
 *	        `-> item()                       `-> item()
 *
 * It buffers one item at most, and none where an item lies within one piece; the caller sets the
 * limit of an item's size. Items are cut at matching brackets; json_prune and json-c validate them.
 */
#ifndef KUBEDNS_API_FRAMER_H
#define KUBEDNS_API_FRAMER_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/api/json_skip.h"

enum framer_form { FRAMER_LIST, FRAMER_EVENTS };

/*
 * The bytes live for the call. A negative result ends the framing and is what framer_feed returns.
 */
struct framer_sink {
	int (*item)(void *arg, const char *bytes, size_t len);
	int (*head)(void *arg, const char *key, const char *bytes,
	    size_t len); /* lists: "kind" and "metadata" */
	void *arg;
};

enum framer_state {
	FRAMER_START, /* before the list's opening bracket; between events */
	FRAMER_FIRST_KEY,
	FRAMER_KEY,
	FRAMER_COLON,
	FRAMER_VALUE,
	FRAMER_AFTER_VALUE,
	FRAMER_FIRST_ITEM,
	FRAMER_ITEM,
	FRAMER_AFTER_ITEM,
	FRAMER_END, /* the list is whole */
	FRAMER_BROKEN,
	FRAMER_STATE_COUNT,
};

struct framer {
	enum framer_form form;
	enum framer_state state;
	struct framer_sink sink;
	const char *why;       /* of the last error, static */
	struct json_skip scan; /* of the value being read */
	char *held;            /* the part of a value that came in earlier pieces */
	size_t held_len, held_max, item_max;
	char opener;  /* first byte of the value being read; 0: none */
	bool discard; /* the value is of no use: neither kind, metadata nor items */
	char key[16]; /* of the list's member being read, cut off */
};

/*
 * Prepares for one response; objects larger than `item_max` bytes are an error. framer_clear
 * releases it.
 */
void framer_init(
    struct framer *f, enum framer_form form, size_t item_max, const struct framer_sink *sink);

/*
 * Reads a piece; 0, -EBADMSG or -EMSGSIZE with f->why, or what the sink returned. After an error
 * every call fails.
 */
int framer_feed(struct framer *f, const char *bytes, size_t len);

/*
 * The response has ended: 0 if the list is whole or no event is half read, else -EBADMSG with
 * f->why.
 */
int framer_end(struct framer *f);

void framer_clear(struct framer *f);

#endif
