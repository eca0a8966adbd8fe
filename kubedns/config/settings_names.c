#include "kubedns/config/settings_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/local_names.h"
#include "kubedns/answer/rewrites.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/config/options.h"
#include "lib/conf.h"
#include "lib/conf_hosts.h"
#include "lib/conf_records.h"
#include "lib/conf_rewrites.h"
#include "lib/dname.h"
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

/* Replaces the block of a source. Returns true if the new block differs. */
static bool
take_block(struct settings_names *names, struct local_names **source, struct local_names *block)
{
	struct local_names *before = *source;
	bool same = before == NULL || block == NULL
			? before == block
			: before->size == block->size && memcmp(before, block, before->size) == 0;

	*source = block;
	free(before);
	names->stale |= !same;
	return !same;
}

/* Logs which lines are skipped, once for each content. */
static void
warn_passed(struct settings_names *names, const struct conf_hosts *hosts, const char *subject)
{
	const char *first = hosts->passed_first == NULL ? "" : hosts->passed_first;
	uint64_t hash = hash64(HASH_START, first, strlen(first)) + hosts->passed;

	if (hosts->passed > 0 && hash != names->passed_hash)
		log_warnx("conf %s: hosts: %s: ignored (%zu such line%s)", subject, first,
		    hosts->passed, hosts->passed == 1 ? "" : "s");
	names->passed_hash = hash;
}

bool
settings_names_hosts(struct settings_names *names, const struct conf_hosts *hosts, uint32_t ttl_s,
    const char *subject)
{
	warn_passed(names, hosts, subject);
	struct local_names *block = local_names_of_hosts(hosts, true, ttl_s, names->seed);
	return take_block(names, &names->hosts, block);
}

/* Returns the reason why a record has no effect in a zone whose names come from objects, or NULL. */
static const char *
idle_reason(const struct conf_record *record, const struct dname *zone)
{
	if (memcmp(record->name, "\1*", 2) == 0)
		return "a wildcard has no effect there; write the names";
	if (record->type == TYPE_NS && dname_equal(record->name, zone->wire))
		return "the zone has its own NS records; remove this one";
	if (record->type != TYPE_SOA)
		return NULL;
	return dname_equal(record->name, zone->wire)
		   ? "the zone has its own SOA record; remove this one"
		   : "a SOA record does not make a zone there; remove it";
}

/* Logs the first line without effect, and the number of such lines. */
static void
warn_idle(const struct conf_records *records, const struct options *o, const char *subject)
{
	const struct conf_record *first = NULL;
	const char *flag = NULL, *reason = NULL;
	size_t zones = o->external.zone_count + o->clusterset.wanted, idle = 0;
	char text[DNAME_TEXT_MAX];

	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *record = &records->items[i];
		const char *why = NULL;
		size_t z = 0;

		for (; z < zones && why == NULL; z++)
			if (dname_in_zone(record->name, o->external.zones[z].wire) >= 0)
				why = idle_reason(record, &o->external.zones[z]);
		idle += why != NULL;
		if (why == NULL || (first != NULL && first->line < record->line))
			continue;
		first = record;
		reason = why;
		flag = z > o->external.zone_count ? "clusterset-domain" : "external-zones";
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
	struct local_names *block =
	    local_names_of_records(records, options->answers.ttl_s, names->seed);
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
	const struct local_names *blocks[MAX] = { names->hosts, names->records };
	const char *texts[MAX] = { "the ConfigMap's key hosts", "the ConfigMap's key records" };
	uint64_t stubs_hash = stubs_len == 0 ? 0 : hash64(HASH_START, stubs, stubs_len);

	if (!names->stale && stubs_hash == names->stubs_hash && now_ms < hosts_maps_due_ms(maps))
		return false;
	names->stale = false;
	names->stubs_hash = stubs_hash;
	struct local_names *before = names->in_force;
	const struct hosts_maps_round round = { now_ms, before, TRUSTED, stubs, stubs_len };
	size_t count = hosts_maps_take(maps, &round, blocks + TRUSTED, texts + TRUSTED);
	const struct own_sources sources = { blocks, texts, TRUSTED + count, TRUSTED, stubs,
		stubs_len, hosts_maps_claim, maps };
	names->in_force = local_names_merge(&sources);
	hosts_maps_judge(maps, names->in_force);
	free(before);
	if (names->in_force != NULL && names->in_force->crowded)
		log_warnx("hosts, records: more than %d empty names between zones or wildcards and "
			  "the names below them: the others are treated as missing",
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
	const struct local_names *own = names->in_force;
	size_t names_at = (size + 7) & ~(size_t)7; /* aligned to 64-bit words */
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
	    "Local names, including reverse names, by the ConfigMap's key.");
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

/* --- stub domains --- */

enum stub_kind { STUB_CLOSED, STUB_ENCRYPTED, STUB_PLAIN };

static enum stub_kind
stub_kind(const struct conf_stub *stub)
{
	if (stub->closed)
		return STUB_CLOSED;
	return stub->count > 0 && stub->servers[0].tls_name[0] != '\0' ? STUB_ENCRYPTED
								       : STUB_PLAIN;
}

/* Appends the names of the domains of one kind. */
static void
add_wires(struct stub_names *names, const struct conf_stubs *stubs, enum stub_kind kind)
{
	struct dname name;

	for (size_t i = 0; i < stubs->count; i++)
		if (conf_stub_has_effect(&stubs->items[i]) && stub_kind(&stubs->items[i]) == kind &&
		    dname_from_text(&name, stubs->items[i].domain) == 0) {
			names->order[names->count++] = (uint32_t)names->len;
			memcpy(names->wires + names->len, name.wire, name.len);
			names->len += name.len;
		}
}

static int
by_wire(const void *a, const void *b, void *wires)
{
	return strcmp(
	    (const char *)wires + *(const uint32_t *)a, (const char *)wires + *(const uint32_t *)b);
}

/* Adds the reasons of the closed domains, in the order in which add_wires() has added their names. `refusal` is for domains without a
 * reason of their own. */
static void
add_refusals(struct stub_names *names, const struct conf_stubs *stubs, const char *refusal)
{
	FILE *out = open_memstream(&names->texts, &names->texts_len);
	uint32_t stub = 0;

	if (out == NULL)
		abort();
	fprintf(out, "%s%c", refusal != NULL ? refusal : "", '\0');
	names->refusals = xcalloc(stubs->count + 1, sizeof *names->refusals);
	for (size_t i = 0; i < stubs->count && stub < names->closed_len; i++) {
		if (!stubs->items[i].closed)
			continue;
		const char *why = stubs->items[i].why;
		uint32_t text = why != NULL ? (uint32_t)ftello(out) : 0;

		if (why != NULL)
			fprintf(out, "%s%c", why, '\0');
		names->refusals[names->closed_count++] = (struct stub_refusal){ stub, text };
		stub += (uint32_t)dname_length(names->wires + stub, DNAME_MAX);
	}
	fclose(out);
}

static bool
same_refusals(const struct stub_names *a, const struct stub_names *b)
{
	return a->closed_count == b->closed_count && a->texts_len == b->texts_len &&
	       (a->closed_count == 0 ||
		   (memcmp(a->refusals, b->refusals, a->closed_count * sizeof *a->refusals) == 0 &&
		       memcmp(a->texts, b->texts, a->texts_len) == 0));
}

void
stub_names_free(struct stub_names *names)
{
	free(names->wires);
	free(names->order);
	free(names->refusals);
	free(names->texts);
	free(names->empty);
}

bool
stub_names_take(struct stub_names *names, const struct conf_stubs *stubs, const char *refusal)
{
	struct stub_names now = { .closed_all = stubs->closed_all,
		.empty = conf_stubs_empty(stubs) };

	for (size_t i = 0; i < stubs->count; i++)
		now.len +=
		    conf_stub_has_effect(&stubs->items[i]) ? strlen(stubs->items[i].domain) + 2 : 0;
	/* Allocated even if there are no stub domains. NULL means that the key was never read. */
	now.wires = xmalloc(now.len + 1);
	now.order = xcalloc(stubs->count + 1, sizeof *now.order);
	now.len = 0;
	add_wires(&now, stubs, STUB_CLOSED);
	now.closed_len = now.len;
	if (now.closed_len > 0)
		add_refusals(&now, stubs, refusal);
	add_wires(&now, stubs, STUB_ENCRYPTED);
	now.encrypted_len = now.len;
	add_wires(&now, stubs, STUB_PLAIN);
	qsort_r(now.order, now.count, sizeof *now.order, by_wire, now.wires);
	bool changed =
	    now.len != names->len || now.encrypted_len != names->encrypted_len ||
	    now.closed_len != names->closed_len || now.closed_all != names->closed_all ||
	    !same_refusals(&now, names) ||
	    (now.len > 0 && names->wires != NULL && memcmp(now.wires, names->wires, now.len) != 0);
	stub_names_free(names);
	*names = now;
	return changed;
}
