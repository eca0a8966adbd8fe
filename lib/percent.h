/* Percent-encoding of a URL's parts (RFC 3986 section 2.1). */
#ifndef LIB_PERCENT_H
#define LIB_PERCENT_H

/* Encodes every byte of `text` outside the unreserved set, for a path segment or the value of a
 * query parameter. Caller frees. */
char *percent_encode(const char *text);

#endif
