/* The flags of zones and namespaces, as understood. Part of the options. */
#ifndef KUBEDNS_CONFIG_ZONE_OPTIONS_H
#define KUBEDNS_CONFIG_ZONE_OPTIONS_H

#include <stdbool.h>

struct flags_common;
struct options;

/* --domain, --reverse-cidrs, --namespaces, --namespace-labels, --fallthrough, --external-*,
 * --clusterset-domain, --transfer-*; needs --dns-bind-address to be read. 0, or -EINVAL after a line
 * for each mistake. */
int zone_options_read(struct options *options, const struct flags_common *common);
void zone_options_free(struct options *options);

/* Whether it is an RFC 1123 label in lower case, as the API server demands of a namespace. */
bool zone_options_is_namespace(const char *name);

#endif
