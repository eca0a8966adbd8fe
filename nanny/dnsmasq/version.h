/* The version of dnsmasq, on which the options that it knows depend; and that of its Debian package. */
#ifndef NANNY_DNSMASQ_VERSION_H
#define NANNY_DNSMASQ_VERSION_H

#include <stddef.h>
#include <stdio.h>

/* Runs `exec --version`: 290 for 2.90; 0 if it does not say so within a second. */
unsigned dnsmasq_version(const char *exec);

/* Runs `exec option` and reads its output, for a second at most, into `text`; returns the number of
 * bytes, without the final NUL. */
size_t dnsmasq_say(const char *exec, const char *option, char *text, size_t size);

/* The number in "Dnsmasq version 2.90  Copyright ..."; 0 without one. Pure. */
unsigned dnsmasq_version_parse(const char *text);

enum { PACKAGE_VERSION_MAX = 64 };

/*
 * The Version in dpkg's record of dnsmasq, such as "2.90-4~deb12u2": it has Debian's patch level, which
 * dnsmasq's own "2.90" does not. "" where there is no record: only images keep one file for each package.
 */
void dnsmasq_package_version(char version[PACKAGE_VERSION_MAX]);

/* The Version in such a record; "" if it has none, or one that is too long. */
void dnsmasq_package_read(FILE *record, char version[PACKAGE_VERSION_MAX]);

#endif
