/*
 * The page /queries: the recorded answers as lines, newest first.
 */
#ifndef KUBEDNS_PAGES_QUERIES_PAGE_H
#define KUBEDNS_PAGES_QUERIES_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "kubedns/serve/observe/ring.h"
#include "lib/http.h"

struct store;
struct workers;

/* Reads the rings of all workers as one, from the newest answer backwards. */
struct queries_reader;

/* Starts at the newest answer. The caller frees the result with free(). */
struct queries_reader *queries_reader_new(const struct workers *workers);

/* Gets the next older answer and its wall clock time. Returns false if there is none. */
bool queries_reader_next(
    struct queries_reader *reader, struct ring_record *record, int64_t *wall_ns);

enum { QUERIES_TIME_MAX = 32 };

/* "2026-11-22T10:32:16.123456Z" */
const char *queries_time(int64_t wall_ns, char text[QUERIES_TIME_MAX]);

/* Answers a request. Streams the answers that match the parameters client, name, type, rcode, last,
 * after, limit and format. If a parameter is invalid, explains that instead. */
void queries_respond(const struct workers *workers, const struct store *store,
    const struct http_request *request, struct http_response *response);

#endif
