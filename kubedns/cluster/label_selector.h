/*
 * Kubernetes label selectors in the text form of `kubectl -l`:
 *
 *	env=prod  env==prod  env!=dev  env in (prod,test)  env notin (dev)  env  !env  rank>3  rank<9
 *
 * Requirements are joined by commas, and all of them must match. Syntax and meaning are the same as
 * in the API server. `!=` and `notin` also match an object without the label, and `()` is a list
 * with one empty value.
 */
#ifndef KUBEDNS_CLUSTER_LABEL_SELECTOR_H
#define KUBEDNS_CLUSTER_LABEL_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

struct object_key_value; /* kubedns/cluster/object.h */

struct label_selector;

/*
 * Returns 0 and sets `*selector`, which the caller frees with label_selector_free(). Returns
 * -EINVAL and sets `*why` (the caller frees it) to a description of the mistake and its position.
 */
int label_selector_parse(const char *text, struct label_selector **selector, char **why);

/* Whether an object with these labels is selected. Costs O(requirements × labels). */
bool label_selector_matches(
    const struct label_selector *selector, const struct object_key_value *labels, size_t count);

void label_selector_free(struct label_selector *selector);

#endif
