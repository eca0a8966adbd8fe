/*
 * What is wrong with requests to the API server, as kubedns's /readiness?format=json names it and the
 * sidecar reads it. Words for people come beside it.
 */
#ifndef LIB_API_PROBLEM_H
#define LIB_API_PROBLEM_H

#include <string.h>

enum api_problem {
	API_PROBLEM_NONE,
	API_PROBLEM_UNREACHABLE,       /* no connection, or it broke */
	API_PROBLEM_SILENT,            /* the server takes requests and answers none */
	API_PROBLEM_CERTIFICATE_EARLY, /* the server's certificate is not valid yet */
	API_PROBLEM_CERTIFICATE_EXPIRED,
	API_PROBLEM_CERTIFICATE,  /* it cannot be verified for another reason */
	API_PROBLEM_NO_TOKEN,     /* the token's file is not there yet */
	API_PROBLEM_UNAUTHORIZED, /* 401 */
	API_PROBLEM_FORBIDDEN,    /* 403 */
	API_PROBLEM_OTHER,        /* another status, or an answer that is malformed */
	API_PROBLEM_COUNT,
};

/* "none", "unreachable", ... */
static inline const char *
api_problem_name(enum api_problem problem)
{
	static const char *const names[API_PROBLEM_COUNT] = {
		[API_PROBLEM_NONE] = "none",
		[API_PROBLEM_UNREACHABLE] = "unreachable",
		[API_PROBLEM_SILENT] = "silent",
		[API_PROBLEM_CERTIFICATE_EARLY] = "certificate_not_yet_valid",
		[API_PROBLEM_CERTIFICATE_EXPIRED] = "certificate_expired",
		[API_PROBLEM_CERTIFICATE] = "certificate",
		[API_PROBLEM_NO_TOKEN] = "no_token",
		[API_PROBLEM_UNAUTHORIZED] = "unauthorized",
		[API_PROBLEM_FORBIDDEN] = "forbidden",
		[API_PROBLEM_OTHER] = "other",
	};

	return names[problem];
}

/* API_PROBLEM_OTHER for a name that a newer kubedns may have. */
static inline enum api_problem
api_problem_named(const char *name)
{
	for (unsigned i = 0; i < API_PROBLEM_COUNT; i++)
		if (strcmp(name, api_problem_name((enum api_problem)i)) == 0)
			return (enum api_problem)i;
	return API_PROBLEM_OTHER;
}

#endif
