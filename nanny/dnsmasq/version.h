/* The version of dnsmasq, on which the options that it knows depend. */
#ifndef NANNY_DNSMASQ_VERSION_H
#define NANNY_DNSMASQ_VERSION_H

#include <stddef.h>

/* Runs `exec --version`: 290 for 2.90; 0 if it does not say so within a second. */
unsigned dnsmasq_version(const char *exec);

/* Runs `exec option` and reads its output, for a second at most, into `text`; returns the number of
 * bytes, without the final NUL. */
size_t dnsmasq_say(const char *exec, const char *option, char *text, size_t size);

/* The number in "Dnsmasq version 2.90  Copyright ..."; 0 without one. Pure. */
unsigned dnsmasq_version_parse(const char *text);

#endif
