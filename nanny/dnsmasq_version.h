/* Which dnsmasq it is: what may be asked of it depends on that. */
#ifndef NANNY_DNSMASQ_VERSION_H
#define NANNY_DNSMASQ_VERSION_H

#include <stddef.h>

/* Runs `exec --version`: 290 for 2.90; 0 if it does not say so within a second. */
unsigned dnsmasq_version(const char *exec);

/* Runs `exec option` and reads what it writes, a second long at most, into `text`: how many bytes,
 * without the NUL behind them. */
size_t dnsmasq_say(const char *exec, const char *option, char *text, size_t size);

/* The number in "Dnsmasq version 2.90  Copyright ..."; 0 without one. Pure. */
unsigned dnsmasq_version_parse(const char *text);

#endif
