/* The version of dnsmasq's Debian package, from the image. */
#ifndef NANNY_DNSMASQ_PACKAGE_H
#define NANNY_DNSMASQ_PACKAGE_H

#include <stddef.h>
#include <stdio.h>

enum { PACKAGE_VERSION_MAX = 64 };

/*
 * The Version of dpkg's record of dnsmasq ("2.90-4~deb12u2": Debian's patch level is in it, which
 * dnsmasq's own "2.90" is not), or "" where there is none: only images keep one file a package.
 */
void dnsmasq_package_version(char version[PACKAGE_VERSION_MAX]);

/* The Version of such a record; "" if it has none or one that is too long. */
void dnsmasq_package_read(FILE *record, char version[PACKAGE_VERSION_MAX]);

#endif
