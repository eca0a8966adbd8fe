/*
 * Filters recorded answers by client, name, type and rcode, and formats an answer as a line, for
 * /queries and the query log. Adds the name of the client's pod.
 */
#ifndef KUBEDNS_PAGES_ANSWER_LINE_H
#define KUBEDNS_PAGES_ANSWER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/observe/ring.h"
#include "lib/addr.h"

struct store;

/* A filter. {.rcode = -1} matches all answers. */
struct recorded_filter {
	struct addr client; /* an address prefix; family 0: any client */
	unsigned client_bits;
	struct dname name; /* matches this name and all names below it; len 0: any */
	uint16_t type;     /* 0: any */
	int rcode;         /* -1: any */
};

/*
 * Sets one part of the filter from text: `client` (an address, or a prefix such as 10.1.0.0/16),
 * `name`, `type` or `rcode`. Returns 0, or -EINVAL and sets `*why` to the accepted form (static).
 */
int recorded_filter_set(
    struct recorded_filter *filter, const char *part, const char *text, const char **why);

/* The parts that recorded_filter_set() accepts; NULL-terminated. */
extern const char *const recorded_filter_parts[];

bool recorded_filter_matches(
    const struct recorded_filter *filter, const struct ring_record *record);

enum { ANSWER_LINE_MAX = 2304 };

/*
 * Writes the query and its answer, without a time, as text or as members of a JSON object. Adds the
 * pod that has the client's address according to `store`. Returns the length.
 */
size_t recorded_answer_line(const struct ring_record *record, const struct store *store, bool json,
    char line[ANSWER_LINE_MAX]);

enum { CLIENT_TEXT_MAX = 704 }; /* space for a namespace, a pod and a node */

/*
 * Writes the client's pod. The pod is looked up when somebody reads the line, never when a query is
 * answered. The text is ` pod prod/web-1 on node-a`. If the node is unknown, it is ` pod
 * prod/web-1`. If the pod's name is unknown, it is ` namespace prod`. With `json`, it is a list of
 * members of a JSON object, each after a comma. It is "" if no pod is known to have the address.
 */
void client_text(
    const struct store *store, const struct addr *addr, bool json, char text[CLIENT_TEXT_MAX]);

#endif
