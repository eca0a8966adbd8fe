/*
 * What the files of explain.h share: explain.c (any name: short ones, those that exist and those that do not) and
 * explain_names.c (names of one feature each).
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_INTERNAL_H
#define KUBEDNS_SHOW_EXPLAIN_INTERNAL_H

#include <stdio.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/show/explain.h"

struct explanation {
	FILE *out;
	const struct explain_config *config;
	struct name name; /* what is explained; below: labels of it before the zone, 0 outside */
	unsigned below;
	char text[DNAME_TEXT_MAX];
	struct name_buf buf;
};

/* A label as text, escaped: it may come from a stranger. */
const char *explain_label(const uint8_t *label, char text[DNAME_TEXT_MAX]);

/* Answers a query of this type as for a client, prints the records, and adds how many. Returns the
 * rcode, -1 for a name that is not ours. */
int explain_query(
    const struct explanation *e, const uint8_t *qname, uint16_t type, unsigned *records);

/* Makes this the name that is explained. */
void explain_set_name(struct explanation *e, const struct dname *name);

/* Explains a name of our zone, which is e->name. */
void explain_ours(struct explanation *e, const uint8_t *qname);

/*
 * A name outside of our zones that a pod's search list may complete to one of ours: "web.prod",
 * "web.prod.svc". Explains the first completion that exists, which is what a pod gets, or that is
 * probably meant (meant_suffix()). False: the name is explained as it is.
 */
bool explain_short(struct explanation *e, const struct dname *asked);

/* A name of the zones for the world outside; false: it is none. */
bool explain_external(struct explanation *e, const uint8_t *qname);

/* A name of the zone of a cluster set, which is synced. */
void explain_clusterset(struct explanation *e, const uint8_t *qname, const struct dname *zone);

/* Which label of a name of our zone does not exist, why, and what to do. */
void explain_missing(const struct explanation *e, const struct resolved *resolved);

/* With --visibility, who sees the name, which exists; not for those who ask by DNS. */
void explain_visibility(const struct explanation *e);

/* A name of the operator's own, which comes before all others; false: it is none. */
bool explain_own(struct explanation *e);

/* With --nearest and --zonal, in which order a client gets the endpoints of such a name. */
void explain_nearest(const struct explanation *e, const struct resolved *resolved);

/* If the name is rewritten (ConfigMap key rewrites), says so and replaces `*name` by the result. */
void explain_rewrite(const struct explanation *e, struct dname *name);

/*
 * Explains what search completion does for a name that the tree does not have, with `below` labels
 * before our zone; false: nothing was printed, the name does not exist.
 */
bool explain_search(FILE *out, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below);

#endif
