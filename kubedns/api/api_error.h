/* Failures of the API in words: what, where, and what to do. Private to resource_watch.c. */
#ifndef KUBEDNS_API_API_ERROR_H
#define KUBEDNS_API_API_ERROR_H

#include <curl/curl.h>

struct resource_watch;

/* Why there was no answer. Caller frees. */
char *api_error_transport(const struct resource_watch *s, CURLcode code);

/* What the server replied instead of the objects: status and message. Caller frees. */
char *api_error_status(const struct resource_watch *s);

#endif
