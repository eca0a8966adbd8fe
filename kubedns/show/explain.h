/*
 * Explains why a name has its answer, in text for people. Prints the object and resourceVersion
 * from which each record comes. For a missing name, prints the label that does not exist, the
 * reason, advice, and the most similar existing label.
 *
 *	--explain --HTTP--> /explain --.
 *	the sidecar's page, /ask ------+--> explain_text() --.
 *	dig TXT NAME._explain.ZONE -> the explanation stage -+--> one explanation
 *
 * The text is made from the reason that the answer itself carries (answer/reason.h), so it cannot
 * contradict the answer.
 *
 * A short name ("web", "web.prod") is explained as a pod's search list completes it.
 */
#ifndef KUBEDNS_SHOW_EXPLAIN_H
#define KUBEDNS_SHOW_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "kubedns/cluster/store.h"

struct answer_config;
struct clusterset;
struct external;

struct explain_config {
	const struct answer_config *answers;
	const struct tree *tree;
	/* NULL for requests over DNS. Such requests get a brief explanation, which only contains
	 * facts that DNS queries can find out. */
	const struct store *store;
	/* NULL without --external-zones, and for requests over DNS. */
	const struct external *external;
	/* NULL without --clusterset-domain, and for requests over DNS. */
	const struct clusterset *clusterset;
	bool stubs_refused; /* the ConfigMap key stubDomains is refused, at least in part */
};

/* Returns the explanation of `name` (text, with or without a final dot) as lines of text. Sets
 * `*len` to its length. The caller frees it. */
char *explain_text(const struct explain_config *config, const char *name, size_t *len);

/* --explain-by-dns: adds the explanation stage to the stages. The stage makes brief explanations. Call
 * it once, before the threads start. */
void explain_by_dns(struct answer_config *answers);

/*
 * --explain: requests the explanation of `name` from the kubedns that serves its health port at
 * this address, and prints it. Returns 0, or -errno after an error was logged.
 */
int explain_ask(const char *name, const char *address, long port);

#endif
