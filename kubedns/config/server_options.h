/* The flags of servers that are asked for other names, as understood. Part of the options. */
#ifndef KUBEDNS_CONFIG_SERVER_OPTIONS_H
#define KUBEDNS_CONFIG_SERVER_OPTIONS_H

struct options;

/* --nameservers, --resolver, --until-synced, --search-*, --filter-*; needs the zones and
 * --dns-bind-address to be read. 0, or -EINVAL after a line for each mistake. */
int server_options_read(struct options *options);

#endif
