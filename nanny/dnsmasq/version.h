/*
 * Finds the version of dnsmasq and of its Debian package, and arguments that this dnsmasq does not
 * know. Either dnsmasq is too old, or the argument is misspelled. dnsmasq itself logs only "bad
 * command line options". The nanny therefore compares the arguments with the options that `dnsmasq
 * --help` lists.
 */
#ifndef NANNY_DNSMASQ_VERSION_H
#define NANNY_DNSMASQ_VERSION_H

#include <stdbool.h>
#include <stdio.h>

/* Runs `exec --version`. Returns 290 for version 2.90, or 0 if no version is printed within a
 * second. */
unsigned dnsmasq_version(const char *exec);

/* Parses the number in "Dnsmasq version 2.90 Copyright ...". Returns 0 if the text contains no
 * version. Pure. */
unsigned dnsmasq_version_parse(const char *text);

enum { PACKAGE_VERSION_MAX = 64 };

/*
 * Finds the version of the dnsmasq package in dpkg's database, such as "2.90-4~deb12u2". Unlike the
 * "2.90" that dnsmasq prints, this version shows Debian's patch level. Returns "" on a full Debian
 * system, because only container images have a separate status file for each package.
 */
void dnsmasq_package_version(char version[PACKAGE_VERSION_MAX]);

/* Reads the field Version of a package record from dpkg's database. Returns "" if the field is
 * missing or too long. */
void dnsmasq_package_read(FILE *record, char version[PACKAGE_VERSION_MAX]);

/* Logs a warning for each long option in argv (NULL-terminated) that `exec --help` does not list.
 * `version` comes from dnsmasq_version(). */
void dnsmasq_unknown_args_warn(const char *exec, unsigned version, char *const *argv);

/* Whether the text of `--help` lists the option "--name" or "--name=value". An abbreviation of a
 * listed option counts too, because dnsmasq accepts it. Pure. */
bool dnsmasq_unknown_args_lists(const char *help, const char *option);

/* Returns the first dnsmasq version (288 means 2.88) that has the option, or 0 if the table here
 * does not list the option. Pure. */
unsigned dnsmasq_unknown_args_since(const char *option);

#endif
