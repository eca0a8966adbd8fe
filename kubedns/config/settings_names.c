#include "kubedns/config/settings_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/config/options.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/rcu.h"
#include "lib/xalloc.h"

void
settings_names_init(struct settings_names *names)
{
	if (getrandom(&names->seed, sizeof names->seed, 0) != sizeof names->seed)
		log_fatal("getrandom");
}

/* Puts a block in place of a source's last one; true if it is another. */
static bool
take_block(struct settings_names *names, struct own_names **source, struct own_names *block)
{
	struct own_names *before = *source;
	bool same = before == NULL || block == NULL
			? before == block
			: before->size == block->size && memcmp(before, block, before->size) == 0;

	*source = block;
	free(before);
	names->stale |= !same;
	return !same;
}

/* Logs which lines are passed over, once for each content. */
static void
warn_passed(struct settings_names *names, const struct conf_hosts *hosts, const char *subject)
{
	const char *first = hosts->passed_first == NULL ? "" : hosts->passed_first;
	uint64_t hash = hash64(HASH_START, first, strlen(first)) + hosts->passed;

	if (hosts->passed > 0 && hash != names->passed_hash)
		log_warnx("conf %s: hosts: %s: passed over (%zu such line%s)", subject, first,
		    hosts->passed, hosts->passed == 1 ? "" : "s");
	names->passed_hash = hash;
}

bool
settings_names_hosts(struct settings_names *names, const struct conf_hosts *hosts, uint32_t ttl_s,
    const char *subject)
{
	warn_passed(names, hosts, subject);
	struct own_names *block = own_names_of_hosts(hosts, true, ttl_s, names->seed);
	return take_block(names, &names->hosts, block);
}

/* Why a record in a zone whose names come from objects has no effect; NULL: it has. */
static const char *
idle_reason(const struct conf_record *record, const struct dname *zone)
{
	if (memcmp(record->name, "\1*", 2) == 0)
		return "a wildcard there stands for no name; write the names";
	if (record->type == TYPE_NS && dname_equal(record->name, zone->wire))
		return "the zone keeps its own NS records; take it out";
	if (record->type != TYPE_SOA)
		return NULL;
	return dname_equal(record->name, zone->wire)
		   ? "the zone keeps its own SOA record; take it out"
		   : "a SOA record there makes no zone; take it out";
}

/* Logs the first line without effect, and how many there are. */
static void
warn_idle(const struct conf_records *records, const struct options *o, const char *subject)
{
	const struct conf_record *first = NULL;
	const char *flag = NULL, *reason = NULL;
	size_t zones = o->external_zone_count + o->has_clusterset, idle = 0;
	char text[DNAME_TEXT_MAX];

	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *record = &records->items[i];
		const char *why = NULL;
		size_t z = 0;

		for (; z < zones && why == NULL; z++)
			if (dname_in_zone(record->name, o->external_zones[z].wire) >= 0)
				why = idle_reason(record, &o->external_zones[z]);
		idle += why != NULL;
		if (why == NULL || (first != NULL && first->line < record->line))
			continue;
		first = record;
		reason = why;
		flag = z > o->external_zone_count ? "clusterset-domain" : "external-zones";
	}
	if (first != NULL)
		log_warnx("conf %s: records: line %u: \"%s\": is in --%s, whose names come from "
			  "objects: %s (%zu such record%s)",
		    subject, first->line, dname_to_text(first->name, text), flag, reason, idle,
		    idle == 1 ? "" : "s");
}

bool
settings_names_records(struct settings_names *names, const struct conf_records *records,
    const struct options *options, const char *subject)
{
	struct own_names *block =
	    own_names_of_records(records, options->answers.ttl_s, names->seed);
	bool changed = take_block(names, &names->records, block);

	if (changed)
		warn_idle(records, options, subject);
	return changed;
}

bool
settings_names_settle(struct settings_names *names, const uint8_t *stubs, size_t stubs_len,
    struct hosts_maps *maps, int64_t now_ms)
{
	enum { TRUSTED = 2, MAX = TRUSTED + HOSTS_MAPS_MAX };
	const struct own_names *blocks[MAX] = { names->hosts, names->records };
	const char *texts[MAX] = { "the ConfigMap's key hosts", "the ConfigMap's key records" };
	uint64_t stubs_hash = stubs_len == 0 ? 0 : hash64(HASH_START, stubs, stubs_len);

	if (!names->stale && stubs_hash == names->stubs_hash &&
	    hosts_maps_wait_ms(maps, now_ms) != 0)
		return false;
	names->stale = false;
	names->stubs_hash = stubs_hash;
	struct own_names *before = names->in_force;
	const struct hosts_maps_round round = { now_ms, before, TRUSTED, stubs, stubs_len };
	size_t count = hosts_maps_take(maps, &round, blocks + TRUSTED, texts + TRUSTED);
	const struct own_sources sources = { blocks, texts, TRUSTED + count, TRUSTED, stubs,
		stubs_len, hosts_maps_claim, maps };
	names->in_force = own_names_merge(&sources);
	hosts_maps_judge(maps, names->in_force);
	free(before);
	if (names->in_force != NULL && names->in_force->crowded)
		log_warnx("hosts, records: more than %d empty names between zones or wildcards and "
			  "the names below them: the others are as if they were not there",
		    OWN_EMPTY_MAX);
	return true;
}

bool
settings_names_rewrites(struct settings_names *names, const struct conf_rewrites *conf, char **why)
{
	struct rewrites *rewrites = NULL;
	int rc = rewrites_new(conf, names->seed, &rewrites, why);

	if (rc < 0 || rewrites_equal(names->rewrites, rewrites)) {
		rewrites_free(rewrites);
		return false;
	}
	rewrites_retire(&names->retired, names->rewrites);
	names->rewrites = rewrites;
	return true;
}

void
settings_names_period(struct settings_names *names)
{
	if (names->expired != NULL)
		rcu_wait();
	rewrites_free(names->expired);
	names->expired = names->retired;
	names->retired = NULL;
}

struct answer_context *
settings_names_context(const struct settings_names *names, size_t size)
{
	const struct own_names *own = names->in_force;
	size_t names_at = (size + 7) & ~(size_t)7; /* its words are of 64 bits */
	struct answer_context *context = xcalloc(1, names_at + (own == NULL ? 0 : own->size));

	if (own != NULL)
		context->names = memcpy((char *)context + names_at, own, own->size);
	context->rewrites = names->rewrites;
	context->own = own != NULL || names->rewrites != NULL;
	return context;
}

void
settings_names_metrics(const struct settings_names *names, struct metrics *m)
{
	metrics_family(m, "kubedns_own_names", METRIC_GAUGE,
	    "Names of one's own, reverse names among them, by the ConfigMap's key.");
	metrics_value(m, names->hosts == NULL ? 0 : names->hosts->count, "key", "hosts", NULL);
	metrics_value(
	    m, names->records == NULL ? 0 : names->records->count, "key", "records", NULL);
	metrics_family(m, "kubedns_rewrites", METRIC_GAUGE, "Rewrites in force.");
	metrics_value(m, (double)rewrites_count(names->rewrites), NULL);
}

void
settings_names_free(struct settings_names *names)
{
	free(names->hosts);
	free(names->records);
	free(names->in_force);
	rewrites_free(names->rewrites);
	rewrites_free(names->retired);
	rewrites_free(names->expired);
}
