#include "kubedns/pages/digest_page.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/records_digest.h"
#include "kubedns/config/options.h"
#include "lib/hash.h"
#include "lib/metrics.h"
#include "lib/version.h"
#include "lib/xalloc.h"

struct digest {
	uint64_t sum; /* of the published tree */
	uint32_t scope;
	struct api_source_version versions[API_SOURCE_VERSIONS_MAX];
	size_t count;
};

/* --- the scope --- */

static uint64_t
scope_of_text(uint64_t hash, const char *text)
{
	return hash64(hash, text, strlen(text) + 1);
}

/* Any option that decides which records the tree has must be here. Otherwise replicas would seem to
 * differ while a rollout changes that option. */
static uint32_t
scope_of(const struct options *o)
{
	const uint64_t ttl = htole64((uint64_t)o->answers.ttl_s);
	const bool flags[] = { o->reverse.all_endpoints, o->zone.endpoint_pod_names,
		o->clients.view.visibility, o->source.node_role, o->zone.ignore_empty_service,
		o->clusterset.wanted };
	uint64_t hash = hash64(hash64(HASH_START, &ttl, sizeof ttl), flags, sizeof flags);

	hash = scope_of_text(hash, suite_version);
	hash = scope_of_text(hash, o->zone.domain);
	hash = scope_of_text(hash, o->source.endpointslice_selector);
	hash = scope_of_text(hash, o->source.namespace_labels);
	const struct namespace_label *label = &o->modules.wants.namespace_label;
	if (label->key != NULL)
		hash = scope_of_text(scope_of_text(hash, label->key), label->value);
	for (char *const *name = o->source.wanted_namespaces; name != NULL && *name != NULL; name++)
		hash = scope_of_text(hash, *name);
	return hash_fold(hash);
}

struct digest *
digest_new(const struct options *options)
{
	struct digest *digest = xcalloc(1, sizeof *digest);

	digest->scope = scope_of(options);
	return digest;
}

void
digest_free(struct digest *digest)
{
	free(digest);
}

void
digest_change(struct digest *digest, const struct treecache *cache)
{
	digest->sum += records_digest_change(tree_current(cache), treecache_next(cache));
}

void
digest_versions(struct digest *digest, const struct api_source_version *versions, size_t count)
{
	assert(count <= API_SOURCE_VERSIONS_MAX);
	memcpy(digest->versions, versions, count * sizeof *versions);
	digest->count = count;
}

char *
digest_text(const struct digest *digest, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (out == NULL)
		abort(); /* fails only if memory runs out */
	fprintf(out, "digest=%016" PRIx64 "\nscope=%08" PRIx32 "\n", digest->sum, digest->scope);
	for (size_t i = 0; i < digest->count; i++)
		fprintf(out, "%s=%" PRIu64 "-%" PRIu64 "\n", digest->versions[i].resource,
		    digest->versions[i].first, digest->versions[i].last);
	fclose(out);
	return text;
}

void
digest_metrics(const struct digest *digest, struct metrics *m)
{
	/* A float can hold 53 bits. */
	const double number = (double)(digest->sum >> 16);
	char scope[12];

	snprintf(scope, sizeof scope, "%08" PRIx32, digest->scope);
	metrics_family(m, "kubedns_records_digest", METRIC_GAUGE,
	    "The first 48 bits of the digest of the records, as a number to compare.");
	metrics_value(m, number, "scope", scope, NULL);
	metrics_family(m, "kubedns_records_version", METRIC_GAUGE,
	    "First and last resource version for which the records are current; 0: unknown.");
	for (size_t i = 0; i < digest->count; i++) {
		const struct api_source_version *version = &digest->versions[i];

		metrics_value(m, (double)version->first, "scope", scope, "resource",
		    version->resource, "bound", "first", NULL);
		metrics_value(m, (double)version->last, "scope", scope, "resource",
		    version->resource, "bound", "last", NULL);
	}
}
