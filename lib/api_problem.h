/* The problems with requests to the API server. kubedns reports their names in
 * /readiness?format=json, and the sidecar reads the names. The JSON also has a text for people. */
#ifndef LIB_API_PROBLEM_H
#define LIB_API_PROBLEM_H

#include <string.h>

enum api_problem {
	API_PROBLEM_NONE,
	API_PROBLEM_UNREACHABLE,       /* no connection, or the connection broke */
	API_PROBLEM_SILENT,            /* the server accepts requests but does not answer */
	API_PROBLEM_CERTIFICATE_EARLY, /* the server's certificate is not valid yet */
	API_PROBLEM_CERTIFICATE_EXPIRED,
	API_PROBLEM_CERTIFICATE,  /* the certificate cannot be verified for another reason */
	API_PROBLEM_NO_TOKEN,     /* the token file does not exist yet */
	API_PROBLEM_UNAUTHORIZED, /* 401 */
	API_PROBLEM_FORBIDDEN,    /* 403 */
	API_PROBLEM_OTHER,        /* another HTTP status, or a malformed response */
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

/* Returns API_PROBLEM_OTHER for an unknown name, because a newer kubedns may have more problems. */
static inline enum api_problem
api_problem_named(const char *name)
{
	for (unsigned i = 0; i < API_PROBLEM_COUNT; i++)
		if (strcmp(name, api_problem_name((enum api_problem)i)) == 0)
			return (enum api_problem)i;
	return API_PROBLEM_OTHER;
}

#endif
