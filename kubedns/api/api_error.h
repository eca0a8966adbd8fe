/* Texts about failures of the API: what failed, where, and what to do. Private to
 * resource_watch.c. */
#ifndef KUBEDNS_API_API_ERROR_H
#define KUBEDNS_API_API_ERROR_H

#include <curl/curl.h>

#include "lib/api_problem.h"

struct resource_watch;

/* Returns, as text, why there was no response. The caller frees the text. */
char *api_error_transport(const struct resource_watch *s, CURLcode code);

/* Returns, as an enum, why there was no response. */
enum api_problem api_problem_of_transport(const struct resource_watch *s, CURLcode code);
enum api_problem api_problem_of_status(int status);

/* Returns the status and message of the error that the server returned instead of objects. The
 * caller frees the text. */
char *api_error_status(const struct resource_watch *s);

#endif
