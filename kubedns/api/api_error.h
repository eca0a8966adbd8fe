/* Failures of the API in words: what, where, and what to do. Private to api_stream.c. */
#ifndef KUBEDNS_API_API_ERROR_H
#define KUBEDNS_API_API_ERROR_H

#include <curl/curl.h>

struct api_stream;

/* Why there was no answer. Caller frees. */
char *api_error_transport(const struct api_stream *s, CURLcode code);

/* What the server said instead of the objects. Caller frees. */
char *api_error_status(const struct api_stream *s);

#endif
