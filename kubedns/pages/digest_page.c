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

/* What readers see. All members are words, so each can be loaded and stored in one piece. */
struct shown {
	uint64_t digest, count;
	struct {
		uint64_t resource; /* a const char * */
		uint64_t first, last;
	} versions[API_SOURCE_VERSIONS_MAX];
};

enum { SHOWN_WORDS = sizeof(struct shown) / sizeof(uint64_t), TRIES = 1000 };

struct digest {
	uint64_t sum; /* of the published tree; for the main thread only */
	uint32_t scope;
	struct shown now; /* the main thread's copy of `words` */
	/* A sequence lock. The number is odd while the main thread changes the words. */
	uint32_t sequence;
	uint64_t words[SHOWN_WORDS];
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

/* --- the main thread's side --- */

void
digest_change(struct digest *digest, const struct treecache *cache)
{
	digest->sum += records_digest_change(tree_current(cache), treecache_next(cache));
}

void
digest_show(struct digest *digest, const struct api_source_version *versions, size_t count)
{
	struct shown now = { .digest = digest->sum, .count = count };
	uint64_t words[SHOWN_WORDS];

	assert(count <= API_SOURCE_VERSIONS_MAX);
	for (size_t i = 0; i < count; i++) {
		now.versions[i].resource = (uintptr_t)versions[i].resource;
		now.versions[i].first = versions[i].first;
		now.versions[i].last = versions[i].last;
	}
	if (memcmp(&now, &digest->now, sizeof now) == 0)
		return;
	digest->now = now;
	memcpy(words, &now, sizeof words);
	uint32_t sequence = digest->sequence;
	__atomic_store_n(&digest->sequence, sequence + 1, __ATOMIC_RELAXED);
	/* Each store is a release, so a reader that loads one of these words also sees the odd
	 * number. */
	for (size_t i = 0; i < SHOWN_WORDS; i++)
		__atomic_store_n(&digest->words[i], words[i], __ATOMIC_RELEASE);
	__atomic_store_n(&digest->sequence, sequence + 2, __ATOMIC_RELEASE);
}

/* --- readers --- */

/* Returns false if the main thread was changing the words at each try. */
static bool
read_shown(const struct digest *digest, struct shown *shown)
{
	uint64_t words[SHOWN_WORDS];

	for (unsigned try = 0; try < TRIES; try++) {
		uint32_t sequence = __atomic_load_n(&digest->sequence, __ATOMIC_ACQUIRE);

		for (size_t i = 0; i < SHOWN_WORDS; i++)
			words[i] = __atomic_load_n(&digest->words[i], __ATOMIC_ACQUIRE);
		if (sequence % 2 != 0 ||
		    __atomic_load_n(&digest->sequence, __ATOMIC_RELAXED) != sequence)
			continue;
		memcpy(shown, words, sizeof *shown);
		return true;
	}
	return false;
}

char *
digest_text(const void *arg, size_t *len)
{
	const struct digest *digest = arg;
	struct shown shown;
	char *text = NULL;

	if (!read_shown(digest, &shown))
		return NULL;
	FILE *out = open_memstream(&text, len);
	if (out == NULL)
		abort(); /* fails only if memory runs out */
	fprintf(out, "digest=%016" PRIx64 "\nscope=%08" PRIx32 "\n", shown.digest, digest->scope);
	for (size_t i = 0; i < shown.count; i++)
		fprintf(out, "%s=%" PRIu64 "-%" PRIu64 "\n",
		    (const char *)(uintptr_t)shown.versions[i].resource, shown.versions[i].first,
		    shown.versions[i].last);
	fclose(out);
	return text;
}

void
digest_metrics(const struct digest *digest, struct metrics *m)
{
	/* A float can hold 53 bits. */
	const double number = (double)(digest->now.digest >> 16);
	char scope[12];

	snprintf(scope, sizeof scope, "%08" PRIx32, digest->scope);
	metrics_family(m, "kubedns_records_digest", METRIC_GAUGE,
	    "The first 48 bits of the digest of the records, as a number to compare.");
	metrics_value(m, number, "scope", scope, NULL);
	metrics_family(m, "kubedns_records_version", METRIC_GAUGE,
	    "First and last resource version for which the records are current; 0: unknown.");
	for (size_t i = 0; i < digest->now.count; i++) {
		const char *resource = (const char *)(uintptr_t)digest->now.versions[i].resource;

		metrics_value(m, (double)digest->now.versions[i].first, "scope", scope, "resource",
		    resource, "bound", "first", NULL);
		metrics_value(m, (double)digest->now.versions[i].last, "scope", scope, "resource",
		    resource, "bound", "last", NULL);
	}
}
