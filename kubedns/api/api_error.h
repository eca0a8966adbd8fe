/* Failures of the API in words: what, where, and what to do. Private to resource_watch.c. */
#ifndef KUBEDNS_API_API_ERROR_H
#define KUBEDNS_API_API_ERROR_H

#include <curl/curl.h>

#include "lib/api_problem.h"

struct resource_watch;

/* Why there was no answer. Caller frees. */
char *api_error_transport(const struct resource_watch *s, CURLcode code);

/* The same for programs. */
enum api_problem api_problem_of_transport(const struct resource_watch *s, CURLcode code);
enum api_problem api_problem_of_status(int status);

/* What the server replied instead of the objects: status and message. Caller frees. */
char *api_error_status(const struct resource_watch *s);

#endif
