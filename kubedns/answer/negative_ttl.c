#include <string.h>

#include "kubedns/answer/negative_ttl.h"

enum {
	SERVICE_LABELS = 3, /* <service>.<namespace>.svc */
	ENDPOINT_LABELS =
	    4,           /* and one before it: an endpoint, a protocol, a federation's Service */
	PORT_LABELS = 5, /* _http._tcp.<service>.<namespace>.svc */
	SLICES_MAX = 64,
	POD_LABELS = 3, /* <address>.<namespace>.pod */
};

/* "web-0", as a StatefulSet names its pods. */
static bool
is_ordinal(const uint8_t *label)
{
	unsigned i = label[0];

	while (i > 1 && label[i] >= '0' && label[i] <= '9')
		i--;
	return i > 1 && i < label[0] && label[i] == '-';
}

/* A name below `svc`. */
static enum denial
below_svc(const struct answer_config *config, const struct name *name, unsigned below,
    const struct resolved *resolved)
{
	const uint8_t *first = name->wire + name->offsets[0];
	const struct node *service = resolved->service;

	if (below > PORT_LABELS)
		return DENIAL_NEVER;
	if (below == PORT_LABELS && (first[1] != '_' || name->wire[name->offsets[1] + 1] != '_'))
		return DENIAL_NEVER;
	if (service != NULL &&
	    (service->flags & NODE_HEADLESS || service_without_ready_endpoints(config, service)))
		return DENIAL_SOON;
	/* A member of a StatefulSet may be looked for before its Service is there. */
	if (below == ENDPOINT_LABELS && service == NULL && !is_ordinal(first))
		return DENIAL_UNLIKELY;
	return DENIAL_USUAL;
}

enum denial
denial_of(const struct answer_config *config, const struct tree *tree, const struct name *name,
    unsigned below, const struct resolved *resolved)
{
	const uint8_t *top = name->wire + name->offsets[below - 1];

	/* The zone's own names: svc, pod, dns, dns-version. */
	if (memcmp(top, "\3svc", 4) == 0)
		return below_svc(config, name, below, resolved);
	if (memcmp(top, "\3pod", 4) == 0)
		return below > POD_LABELS ? DENIAL_NEVER : DENIAL_USUAL;
	return resolved->node == tree->root ? DENIAL_UNLIKELY : DENIAL_NEVER;
}

bool
denial_is_passing(const struct resolved *resolved)
{
	const struct endpoint_set *set =
	    resolved->service == NULL ? NULL : resolved->service->endpoints;

	if (set == NULL)
		return false;
	for (uint32_t i = 0; i < set->count && i < SLICES_MAX; i++)
		if (set->slices[i].slice->count > set->slices[i].slice->published)
			return true;
	return set->count == 0;
}
