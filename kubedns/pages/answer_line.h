/*
 * Selects recorded answers by client, name, type and rcode, and formats one as a line: for /queries
 * and the query log.
 */
#ifndef KUBEDNS_PAGES_ANSWER_LINE_H
#define KUBEDNS_PAGES_ANSWER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/pages/client_text.h"
#include "kubedns/serve/observe/ring.h"

/* What all answers shown have; {.rcode = -1} lets all through. */
struct recorded_filter {
	struct addr client; /* a prefix; family 0: any client */
	unsigned client_bits;
	struct dname name; /* the name or one below it; len 0: any */
	uint16_t type;     /* 0: any */
	int rcode;         /* -1: any */
};

/*
 * Sets one part from text: `client` (an address, or a prefix such as 10.1.0.0/16), `name`, `type`,
 * `rcode`. 0, or -EINVAL with `*why` what is accepted (static).
 */
int recorded_filter_set(
    struct recorded_filter *filter, const char *part, const char *text, const char **why);

/* The parts that recorded_filter_set() knows; ends with NULL. */
extern const char *const recorded_filter_parts[];

bool recorded_filter_matches(
    const struct recorded_filter *filter, const struct ring_record *record);

enum { ANSWER_LINE_MAX = 2304 };

/*
 * Writes what was asked and answered, without a time, as text or members of a JSON object, with the
 * pod that `store` says has the client's address; returns the length.
 */
size_t recorded_answer_line(const struct ring_record *record, const struct store *store, bool json,
    char line[ANSWER_LINE_MAX]);

#endif
