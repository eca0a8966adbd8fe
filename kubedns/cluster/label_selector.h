/*
 * Kubernetes label selectors in their text form, as `kubectl -l` takes them:
 *
 *	env=prod  env==prod  env!=dev  env in (prod,test)  env notin (dev)  env  !env  rank>3  rank<9
 *
 * joined by commas, all of which must hold. Grammar and meaning are those of the API server: `!=`
 * and `notin` also match an object without the label, and `()` is a list of one empty value.
 */
#ifndef KUBEDNS_CLUSTER_LABEL_SELECTOR_H
#define KUBEDNS_CLUSTER_LABEL_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

struct object_key_value; /* kubedns/cluster/object.h */

struct label_selector;

/*
 * 0, and `*selector` is to be freed with label_selector_free; -EINVAL, and `*why` (caller frees) is
 * what is wrong and where.
 */
int label_selector_parse(const char *text, struct label_selector **selector, char **why);

/* Whether an object with these labels is selected. Linear in requirements times labels. */
bool label_selector_matches(
    const struct label_selector *selector, const struct object_key_value *labels, size_t count);

void label_selector_free(struct label_selector *selector);

#endif
