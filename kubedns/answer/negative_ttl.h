/*
 * The negative TTL of a name of our zone. A cache that holds a denial, dnsmasq in front or one on a
 * node, does not see the name appear meanwhile: the denial of a name that is about to exist is not
 * to be cached at all, that of a name which no object can create for minutes. Pure.
 */
#ifndef KUBEDNS_ANSWER_NEGATIVE_TTL_H
#define KUBEDNS_ANSWER_NEGATIVE_TTL_H

#include "kubedns/answer/zone_lookup.h"

enum denial {
	/* A Service that waits for a ready endpoint, or a name below a headless Service, where its
	 * pods' names come and go: 0 s. */
	DENIAL_SOON,
	DENIAL_USUAL, /* --negative-ttl */
	/* What search lists make of outside names (`example.com.default.svc`): an object could
	 * create such a name, but that is unlikely: 30 s, or --negative-ttl if that is more. */
	DENIAL_UNLIKELY,
	DENIAL_NEVER, /* no object can (`www.example.com.default.svc`): 300 s, or --negative-ttl */
};

/* The kind of denial of the first `below` labels of `name`, resolved to RESOLVED_NOTHING. */
enum denial denial_of(const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below, const struct resolved *resolved);

/*
 * Whether a name that is denied as DENIAL_SOON will probably exist in a moment: its headless
 * Service has no slice yet, or endpoints that are not ready. Looks at a bounded number of slices.
 */
bool denial_is_passing(const struct resolved *resolved);

enum { DENIAL_UNLIKELY_S = 30, DENIAL_NEVER_S = 300 };

/* The negative TTL of such a denial. Inline: because of search lists most queries end here. */
static inline uint32_t
denial_ttl_s(const struct answer_config *config, enum denial denial)
{
	uint32_t least_s = denial == DENIAL_NEVER      ? DENIAL_NEVER_S
			   : denial == DENIAL_UNLIKELY ? DENIAL_UNLIKELY_S
						       : 0;

	if (denial == DENIAL_SOON)
		return 0;
	return config->negative_ttl_s > least_s ? config->negative_ttl_s : least_s;
}

#endif
