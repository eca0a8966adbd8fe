/* The values of the flags about zones and namespaces. Part of the options. */
#ifndef KUBEDNS_CONFIG_ZONE_OPTIONS_H
#define KUBEDNS_CONFIG_ZONE_OPTIONS_H

#include <stdbool.h>

struct flags_common;
struct options;

/* Reads --domain, --reverse-cidrs, --namespaces, --namespace-labels, --fallthrough, --external-*
 * and --clusterset-domain. --dns-bind-address must have been read before. Returns 0,
 * or -EINVAL after a line for each mistake. */
int zone_options_read(struct options *options, const struct flags_common *common);
void zone_options_free(struct options *options);

/* Whether the name is an RFC 1123 label in lower case, which the API server requires for a
 * namespace. */
bool zone_options_is_namespace(const char *name);

#endif
