/*
 * The names of the ConfigMap's stub domains, only for explanations: dnsmasq asks their servers, and
 * the nanny validates the key.
 */
#ifndef KUBEDNS_CONFIG_STUB_NAMES_H
#define KUBEDNS_CONFIG_STUB_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stub_names {
	uint8_t *wires; /* in wire form, one after the other; from malloc, or NULL */
	size_t len;
	char *mistake; /* what is wrong with the key as it is now; NULL: nothing */
};

/*
 * Reads the key stubDomains (NULL: it is gone) of a cluster of this domain. True if the names have
 * changed; what cannot be read changes nothing, and is the mistake. The caller frees `wires` and
 * `mistake`.
 */
bool stub_names_read(
    struct stub_names *names, const char *value, size_t len, const char *cluster_domain);

#endif
