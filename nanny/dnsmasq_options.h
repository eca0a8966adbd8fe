/*
 * Which of the arguments this dnsmasq does not know. It says "bad command line options" itself, and not
 * which: an image with an older dnsmasq, or a slip of the pen, are found by what `--help` lists.
 */
#ifndef NANNY_DNSMASQ_OPTIONS_H
#define NANNY_DNSMASQ_OPTIONS_H

#include <stdbool.h>

/* Logs a warning for each long option among the arguments (argv, NULL ends) that `exec --help` does not
 * list: `version` is dnsmasq_version()'s. */
void dnsmasq_options_check(const char *exec, unsigned version, char *const *argv);

/* Whether the text of `--help` lists the option "--name" or "--name=value", or one that it is the
 * beginning of, which dnsmasq takes for the same. Pure. */
bool dnsmasq_options_lists(const char *help, const char *option);

/* The version (288 is 2.88) that an option came with, 0: not known here. Pure. */
unsigned dnsmasq_options_since(const char *option);

#endif
