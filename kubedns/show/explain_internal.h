/*
 * Declarations that the three files of explain.h share. explain_records.c has answers as a client
 * gets them. explain_names.c has names that belong to a feature. explain.c has names of the
 * cluster's zone, addresses, names of other servers, and short names.
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_INTERNAL_H
#define KUBEDNS_SHOW_EXPLAIN_INTERNAL_H

#include <stdio.h>

#include "kubedns/answer/stage.h"
#include "kubedns/show/explain.h"

/* The answer to a query of this type, as if a client had sent it, and its reason. */
struct explained {
	uint16_t type;
	enum answer_outcome outcome;
	struct answer_info info;
	struct answer_reason reason;
	uint8_t wire[]; /* not with ANSWER_FORWARD */
};

struct explanation {
	FILE *out;
	const struct explain_config *config;
	const struct dname *qname; /* the name to explain */
	/* The answer to A. If that is only filtered (--filter-a), the answer to another type. */
	const struct explained *answer;
	const struct answer_reason *reason; /* the reason of `answer` */
	unsigned below;      /* number of labels of reason->name before the zone's name, or 0 */
	const uint8_t *stub; /* the stub domain that contains reason->name, or NULL */
	/* The text of `qname`, and of reason->name, which differs if the name was rewritten. */
	char asked[DNAME_TEXT_MAX], text[DNAME_TEXT_MAX];
};

/* Writes a label as text and returns that text. The text is escaped, because a client may have
 * chosen the label. */
const char *explain_label(const uint8_t *label, char text[DNAME_TEXT_MAX]);

/* Gets the answer to a query. The caller frees it with free(). */
struct explained *explain_query(
    const struct explain_config *config, const uint8_t *qname, uint16_t type);

/* Returns whether the name of this answer exists in the cluster's zone, or is a local name. */
bool explain_exists(const struct explained *answer);

/* Prints the records of all types, why A and AAAA have none, and which servers get the query for
 * the target of an alias. If no type has records, prints `empty` or the reason. */
void explain_records(const struct explanation *e, const char *empty);

/* Prints which queries are filtered, for a name that other servers have (--filter-a, --filter-aaaa). */
void explain_filtered(const struct explanation *e);

/* Returns the rcode for a missing name: NXDOMAIN, or SERVFAIL if --fallthrough applies to the name, but kubedns must not send it to
 * other servers. */
const char *explain_missing_rcode(const struct explanation *e);

/* For a missing name: prints which servers get the query because of --fallthrough, or why none gets it. */
void explain_fallthrough(const struct explanation *e);

/* Prints which servers get the query for this name (wire format), as the end of a sentence. If
 * `direct`, the query is not sent to dnsmasq or unbound. */
void explain_sent(const struct explanation *e, const uint8_t *name, bool direct);

/* Returns whether the answer depends on other servers, which are queried for a candidate. */
bool explain_waits(const struct explained *answer);

/* For such an answer: gets the answer if other servers have none of the candidates. */
void explain_query_denied(const struct explanation *e, struct explained *answer);

/* Returns whether the explanation is brief, without names of objects. */
static inline bool
explain_is_brief(const struct explanation *e)
{
	return e->config->store == NULL;
}

/* Returns how many records or endpoints are printed. */
static inline unsigned
explain_shown_max(const struct explanation *e)
{
	return explain_is_brief(e) ? 4 : 20;
}

/* Prints the resourceVersion of an object, unless it is 0. */
static inline void
explain_version(const struct explanation *e, uint64_t version)
{
	if (version != 0)
		fprintf(e->out, " (resourceVersion %llu)", (unsigned long long)version);
}

/* Explain the answers of one stage. */
void explain_local_names(const struct explanation *e);
void explain_external(const struct explanation *e);
void explain_clusterset(const struct explanation *e);
void explain_module(const struct explanation *e);

/* If a stage of a module has left the query to other stages, prints why. */
void explain_unclaimed(const struct explanation *e);

/* With --visibility, prints which namespaces see the name. The name must exist. Prints nothing
 * for requests over DNS. */
void explain_visibility(const struct explanation *e);

/* With --nearest and --zonal, prints in which order a client gets the endpoints of the name. */
void explain_nearest(const struct explanation *e, const struct resolved *resolved);

#endif
