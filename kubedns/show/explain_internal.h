/*
 * What the files of explain.h share: explain_records.c (records, as a client gets them), explain_names.c (names of one
 * feature each) and explain.c (the stages in their order; names of the cluster's zone, short names).
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_INTERNAL_H
#define KUBEDNS_SHOW_EXPLAIN_INTERNAL_H

#include <stdio.h>

#include "kubedns/answer/stage.h"
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

/* Briefly: the objects are not named. */
static inline bool
explain_is_brief(const struct explanation *e)
{
	return e->config->store == NULL;
}

/* The explanation of each stage, explain_<stage>: true if it says what becomes of e->name, else the next stage's
 * follows. Called only for names that the stage matches. */
#define STAGE_EXPLAIN(id, text) bool explain_##id(struct explanation *e);
STAGES(STAGE_EXPLAIN)
#undef STAGE_EXPLAIN

/* With --visibility, who sees the name, which exists; not for those who ask by DNS. */
void explain_visibility(const struct explanation *e);

/* With --nearest and --zonal, in which order a client gets the endpoints of such a name. */
void explain_nearest(const struct explanation *e, const struct resolved *resolved);

#endif
