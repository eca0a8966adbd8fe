/*
 * Finds the arguments that this dnsmasq does not know: too new for it, or misspelled. dnsmasq
 * itself says only "bad command line options", so they are looked up in what its `--help` lists.
 */
#ifndef NANNY_DNSMASQ_UNKNOWN_ARGS_H
#define NANNY_DNSMASQ_UNKNOWN_ARGS_H

#include <stdbool.h>

/* Logs a warning for each long option among the arguments (argv, NULL ends) that `exec --help` does
 * not list: `version` is dnsmasq_version()'s. */
void dnsmasq_unknown_args_warn(const char *exec, unsigned version, char *const *argv);

/* Whether the text of `--help` lists the option "--name" or "--name=value", or one of which it is
 * an abbreviation, as dnsmasq accepts. Pure. */
bool dnsmasq_unknown_args_lists(const char *help, const char *option);

/* The version (288 is 2.88) that an option came with, 0: not known here. Pure. */
unsigned dnsmasq_unknown_args_since(const char *option);

#endif
