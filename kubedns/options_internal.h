/*
 * What the files of options.h share.
 */
#ifndef KUBEDNS_OPTIONS_INTERNAL_H
#define KUBEDNS_OPTIONS_INTERNAL_H

#include "kubedns/options.h"

/* Logs the flag, the value and what is accepted; returns -EINVAL. */
int options_refuse(const char *flag, const char *value, const char *why);

/* --filter-aaaa, --filter-a, --filter-except; 0 or -EINVAL after a line for each mistake. */
int options_read_filter(struct options *options);

#endif
