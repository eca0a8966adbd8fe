/*
 * Which recorded answers somebody wants to see, and how one is written: for /queries and the query
 * log.
 */
#ifndef KUBEDNS_ANSWER_FILTER_H
#define KUBEDNS_ANSWER_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/recorder.h"

/* What all answers shown have; {.rcode = -1} lets all through. */
struct answer_filter {
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
int answer_filter_set(
    struct answer_filter *filter, const char *part, const char *text, const char **why);

/* The parts that answer_filter_set() knows; ends with NULL. */
extern const char *const answer_filter_parts[];

bool answer_filter_matches(const struct answer_filter *filter, const struct answer_record *record);

enum { ANSWER_LINE_MAX = 1536 };

/*
 * Writes what was asked and answered, without a time, as text or members of a JSON object; returns
 * the length.
 */
size_t answer_line(const struct answer_record *record, bool json, char line[ANSWER_LINE_MAX]);

#endif
