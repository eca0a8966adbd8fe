/*
 * /top: the clients that ask most and the names that are asked for most, of all workers together.
 * The metrics have ten series of these; one for each client would be as many as there are pods.
 */
#ifndef KUBEDNS_PAGES_TOP_PAGE_H
#define KUBEDNS_PAGES_TOP_PAGE_H

#include "kubedns/cluster/store.h"
#include "lib/http.h"
#include "lib/metrics.h"

struct workers;

/* Answers a request, whose parameters are by=CLASS, limit=N and format=json. */
void top_respond(const struct workers *workers, const struct store *store,
    const struct http_request *request, struct http_response *response);

/* kubedns_top_client_ratio and kubedns_top_name_ratio: the part that the heaviest one has. */
void top_metrics(const struct workers *workers, struct metrics *m);

#endif
