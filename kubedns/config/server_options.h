/* The values of the flags about other servers. Part of the options. */
#ifndef KUBEDNS_CONFIG_SERVER_OPTIONS_H
#define KUBEDNS_CONFIG_SERVER_OPTIONS_H

struct options;

/* Reads --nameservers, --resolver, --until-synced, --search-resolver and --filter-*. The zones and
 * --dns-bind-address must have been read before. Returns 0, or -EINVAL after a line for each
 * mistake. */
int server_options_read(struct options *options);

#endif
