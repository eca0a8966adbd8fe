/* The flags of clients, as understood. Part of the options. */
#ifndef KUBEDNS_CONFIG_CLIENT_OPTIONS_H
#define KUBEDNS_CONFIG_CLIENT_OPTIONS_H

struct options;

/* --client-pods, --node-name, --visibility, --hosts-namespaces, --nearest, --zonal and --zone; needs
 * the zones and servers to be read. 0, or -EINVAL after a line for each mistake. */
int client_options_read(struct options *options);
void client_options_free(struct options *options);

#endif
