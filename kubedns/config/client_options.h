/* The values of the flags about clients. Part of the options. */
#ifndef KUBEDNS_CONFIG_CLIENT_OPTIONS_H
#define KUBEDNS_CONFIG_CLIENT_OPTIONS_H

struct options;

/* Reads --client-pods, --node-name, --visibility, --hosts-namespaces, --nearest, --zonal and
 * --zone. The zones and servers must have been read before. Returns 0, or -EINVAL after a line for
 * each mistake. */
int client_options_read(struct options *options);
void client_options_free(struct options *options);

#endif
