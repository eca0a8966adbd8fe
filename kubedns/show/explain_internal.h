/*
 * Declarations that the three files of explain.h share. explain_records.c has records as a client
 * gets them. explain_names.c has names that belong to a feature. explain.c has the stages in their
 * order, names of the cluster's zone, and short names.
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_INTERNAL_H
#define KUBEDNS_SHOW_EXPLAIN_INTERNAL_H

#include <stdio.h>

#include "kubedns/answer/stage.h"
#include "kubedns/show/explain.h"

struct explanation {
	FILE *out;
	const struct explain_config *config;
	/* The name to explain. `below` is the number of labels before the zone's name, or 0 if
	 * the name is outside the zone. */
	struct name name;
	unsigned below;
	char text[DNAME_TEXT_MAX];
	struct name_buf buf;
};

/* Writes a label as text and returns that text. The text is escaped, because a client may have
 * chosen the label. */
const char *explain_label(const uint8_t *label, char text[DNAME_TEXT_MAX]);

/* Answers a query of this type as if a client had sent it. Prints the records, and adds their
 * number to `*records`. Returns the rcode, or -1 if the name is not ours. */
int explain_query(
    const struct explanation *e, const uint8_t *qname, uint16_t type, unsigned *records);

/* Changes the name to explain. */
void explain_set_name(struct explanation *e, const struct dname *name);

/* Returns whether the explanation is brief, without names of objects. */
static inline bool
explain_is_brief(const struct explanation *e)
{
	return e->config->store == NULL;
}

/* The explanation functions of the stages, explain_<stage>(). Each function returns true if it
 * has explained e->name. Otherwise the next stage's function is called. A function is only
 * called for names that its stage matches. */
#define STAGE_EXPLAIN(id, text) bool explain_##id(struct explanation *e);
STAGES(STAGE_EXPLAIN)
#undef STAGE_EXPLAIN

/* With --visibility, prints which namespaces see the name. The name must exist. Prints nothing
 * for requests over DNS. */
void explain_visibility(const struct explanation *e);

/* With --nearest and --zonal, prints in which order a client gets the endpoints of the name. */
void explain_nearest(const struct explanation *e, const struct resolved *resolved);

#endif
