/* Percent-encoding of a URL's parts (RFC 3986 section 2.1). */
#ifndef LIB_PERCENT_H
#define LIB_PERCENT_H

/* `text` with every byte outside the unreserved set encoded, fit for a path segment or the value of
 * a query parameter. Caller frees. */
char *percent_encode(const char *text);

#endif
