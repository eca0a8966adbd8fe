/*
 * Explains to people why a name is answered as it is: which object at which resourceVersion each
 * record comes from, or which label does not exist, why, what to do, and which existing label is
 * most like it.
 *
 *	--explain --HTTP--> /explain --.
 *	the sidecar's page, /ask ------+--> explain_text() --.
 *	dig TXT NAME._explain.ZONE ------> explain_brief() --+--> one explanation
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
	const struct store *store; /* NULL: for anybody who asks by DNS, briefly, with nothing that
				    * could not be found by asking */
	const struct external *external;     /* NULL without --external-zones, and as above */
	const struct clusterset *clusterset; /* NULL without --clusterset-domain, and as above */
	bool synced;
};

/* The explanation of `name` (text, final dot or not) as lines; length in `len`. Caller frees. */
char *explain_text(const struct explain_config *config, const char *name, size_t *len);

/* The same without a store, for answer_thread.explain: by any thread in a read section. */
char *explain_brief(
    const struct answer_config *answers, const struct tree *tree, const char *name, size_t *len);

/*
 * --explain: asks the kubedns that serves its health port there for the explanation of `name` and
 * prints it. 0, or -errno after an error was logged.
 */
int explain_ask(const char *name, const char *address, long port);

#endif
