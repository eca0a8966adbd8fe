/*
 * The names of the ConfigMap's stub domains, only for explanations: dnsmasq asks their servers, and
 * the nanny validates the key.
 */
#ifndef KUBEDNS_CONFIG_STUB_NAMES_H
#define KUBEDNS_CONFIG_STUB_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conf_stubs; /* lib/conf.h */

struct stub_names {
	uint8_t *wires; /* in wire form, one after the other; from malloc, or NULL */
	size_t len;
	char *empty; /* what is wrong with a domain that has no server; NULL: each has one */
};

/* Takes the key stubDomains as parsed. True if the names have changed. The caller frees `wires` and
 * `empty`. */
bool stub_names_take(struct stub_names *names, const struct conf_stubs *stubs);

#endif
