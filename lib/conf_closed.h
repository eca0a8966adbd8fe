/*
 * The value of a key whose text is refused although it asks for TLS, or seems to. The text has no usable
 * servers, but its names must not be sent unencrypted either. Without an earlier good value, they get
 * SERVFAIL:
 *
 *	upstreamNameservers  all external names
 *	stubDomains          the names of each domain that has a tls:// server. If the text is not
 *	                     JSON, the names of each domain in the text. If a domain cannot be read,
 *	                     all external names
 *
 * A text that cannot be read may ask for TLS, so all external names get SERVFAIL.
 *
 * Pure. `text` has `len` bytes and is untrusted. It is NULL if it cannot be read.
 */
#ifndef LIB_CONF_CLOSED_H
#define LIB_CONF_CLOSED_H

#include "lib/conf.h"

/*
 * Whether the text asks for TLS, or seems to. This is the case if it contains `//`, or `#` or `@` after an
 * address, or a word that begins with `tls:` or `tls/` in any case. JSON's escapes count as their
 * characters. So `tsl://` and `9.9.9.9#dns.quad9.net` ask for TLS.
 */
bool conf_asks_tls(const char *text, size_t len);

/* Joins the texts of two misspellings of one key. Then the names of both get SERVFAIL. Takes `text`, which may be
 * NULL, and sets `*len`. The result ends with a NUL. Caller frees. */
char *conf_closed_join(char *text, size_t *len, const char *other, size_t other_len);

/* Each returns false and an empty value if the text does not ask for TLS. Otherwise sets `closed` in the
 * value. The caller frees the stub domains with conf_stubs_free. */
bool conf_upstreams_close(const char *text, size_t len, struct conf_upstreams *upstreams);
bool conf_stubs_close(const char *text, size_t len, struct conf_stubs *stubs);

/* Returns which names get SERVFAIL, for messages, or NULL if there are none. Caller frees. */
char *conf_stubs_closed_names(const struct conf_stubs *stubs);

#endif
