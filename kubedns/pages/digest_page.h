/*
 * Comparing replicas: the digest of the records that are served (records_digest.h), together with
 * the resource versions that these records are made from.
 *
 *	publish --change--> digest --.
 *	API ----versions-------------+--> /digest   for kubectl dns
 *	options --scope--------------'--> metrics   for an alert
 *
 * A replica reports a range of versions for each resource: its records are the same for all
 * versions in the range. Replicas can be compared if they have the same scope, the same resources,
 * and ranges that overlap. Their digests are then equal, or one of them serves wrong records. No
 * clock is involved, so it does not matter when each replica was asked.
 *
 * No pod may read it over DNS: the versions show the moment of each change of any object.
 * Only the main thread uses it.
 */
#ifndef KUBEDNS_PAGES_DIGEST_PAGE_H
#define KUBEDNS_PAGES_DIGEST_PAGE_H

#include <stddef.h>

#include "kubedns/api/api_source.h"

struct digest;
struct metrics;
struct options;
struct treecache;

/* The scope is made from the options that decide which records there are, and from the program's
 * version. Free with digest_free(); NULL is fine. */
struct digest *digest_new(const struct options *options);
void digest_free(struct digest *digest);

/* Adds the changes that the next publish of the tree will show. Call it before each publish. */
void digest_change(struct digest *digest, const struct treecache *cache);

/* Sets the present versions. Call it after each publish, and when only versions have changed.
 * Before the first sync there are no versions. The names of the resources must live as long as the
 * digest. */
void digest_versions(
    struct digest *digest, const struct api_source_version *versions, size_t count);

/*
 * Returns the digest as lines of text, from malloc(): "digest=...", "scope=...", then
 * "RESOURCE=FIRST-LAST" for each resource. Sets `*len` to the length.
 */
char *digest_text(const struct digest *digest, size_t *len);

/* Writes the metric families kubedns_records_*. */
void digest_metrics(const struct digest *digest, struct metrics *m);

#endif
