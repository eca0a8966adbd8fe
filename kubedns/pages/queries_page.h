/*
 * /queries: the recorded answers, the newest first, as lines.
 */
#ifndef KUBEDNS_PAGES_QUERIES_PAGE_H
#define KUBEDNS_PAGES_QUERIES_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/observe/ring.h"
#include "lib/http.h"

struct store;
struct workers;

/* The rings of all workers as one, from the newest answer backwards. */
struct queries_reader;

/* Begins at the newest; caller frees with free(). */
struct queries_reader *queries_reader_new(const struct workers *workers);

/* The next older answer, with its time of the wall clock; false if there is none. */
bool queries_reader_next(
    struct queries_reader *reader, struct ring_record *record, int64_t *wall_ns);

enum { QUERIES_TIME_MAX = 32 };

/* "2026-11-22T10:32:16.123456Z" */
const char *queries_time(int64_t wall_ns, char text[QUERIES_TIME_MAX]);

/*
 * Answers a request: a stream of what its parameters ask for (client, name, type, rcode, last, after,
 * limit, format), or an explanation of the one that was not understood.
 */
void queries_respond(const struct workers *workers, const struct store *store,
    const struct http_request *request, struct http_response *response);

#endif
