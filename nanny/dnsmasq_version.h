/* Which dnsmasq it is: what may be asked of it depends on that. */
#ifndef NANNY_DNSMASQ_VERSION_H
#define NANNY_DNSMASQ_VERSION_H

/* Runs `exec --version`: 290 for 2.90; 0 if it does not say so within a second. */
unsigned dnsmasq_version(const char *exec);

/* The number in "Dnsmasq version 2.90  Copyright ..."; 0 without one. Pure. */
unsigned dnsmasq_version_parse(const char *text);

#endif
