/*
 * Events in any order: Services, slices and namespaces are added, changed, deleted and listed
 * again, with and without a publish in between. After each publish, the records of every zone must
 * equal the records of a new store that gets the current objects once, in one order. The snapshot
 * from the previous publish must not have changed, and zone_diff() must lead from that snapshot to
 * the new one. No record may be duplicated. With pods, nodes and the lists of --visibility, each
 * client must get the same answers from both stores, with the same number of near endpoints.
 *
 * input: options, then operations. An operation is one byte, then the bytes of its arguments. After
 * the end of the input, all bytes are 0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/view.h"
#include "kubedns/answer/zone_diff.h"
#include "kubedns/answer/zone_lookup.h"
#include "tests/answer_parts.h"
#include "kubedns/cluster/label_selector.h"
#include "kubedns/cluster/store.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/rcu.h"
#include "tests/fuzz/cluster_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	OPTION_REVERSE_ALL = 1,
	OPTION_POD_NAMES = 2,
	OPTION_PLACES = 4,
	OPTION_LABELS = 8,
	OPTION_IGNORE_EMPTY = 16,
	OPTION_CLIENTS = 32,
	OPTION_UNKNOWN_SEES_ALL = 64,
	OPTION_NEAREST_ONLY = 128,
};
enum { ZONES = 3, OPERATIONS_MAX = 48, PUBLISHES_MAX = 16, RECORDS_MAX = 60000 };

/* --- a cluster --- */

struct cluster {
	struct treecache *cache;
	struct store *store;
	struct visibility *visibility;
	struct node_places *places;
};

static struct answer_config config;
static struct answer_parts parts;
static struct reverse_zone zones[2];
static struct label_selector *volatile selector;

static struct cluster
cluster_new(unsigned options)
{
	const struct store_config store_config = {
		.records = { .zone = config.zone, .ttl_s = 30 },
		.reverse_all_endpoints = options & OPTION_REVERSE_ALL,
		.endpoint_pod_names = options & OPTION_POD_NAMES,
		.nearest = options & OPTION_PLACES,
		.zonal = options & OPTION_PLACES,
		.namespace_labels = options & OPTION_LABELS ? selector : NULL,
		.visibility = options & OPTION_CLIENTS,
		.client_pods = options & OPTION_CLIENTS,
		.pod_places = options & OPTION_CLIENTS && options & OPTION_PLACES,
	};
	struct cluster made = { .cache = treecache_new(7) };

	made.store = store_new(made.cache, &store_config);
	return made;
}

/* Publishes the cluster in the same way as publish_iteration(). */
static void
cluster_publish(struct cluster *cluster, uint32_t serial, unsigned options)
{
	struct visibility *visibility =
	    options & OPTION_CLIENTS ? store_visibility(cluster->store) : NULL;
	struct node_places *places = options & OPTION_CLIENTS && options & OPTION_PLACES
					 ? store_node_places(cluster->store)
					 : NULL;

	if (visibility != NULL) {
		treecache_retire(cluster->cache, cluster->visibility);
		cluster->visibility = visibility;
		visibility->serial = 7; /* time in seconds at which the store was created */
	}
	if (places != NULL) {
		treecache_retire(cluster->cache, cluster->places);
		cluster->places = places;
	}
	if (visibility != NULL || places != NULL) {
		struct answer_context *context = calloc(1, sizeof *context);

		if (context == NULL)
			abort();
		context->visibility = cluster->visibility;
		context->places = cluster->places;
		treecache_context(cluster->cache, context);
	}
	treecache_publish(cluster->cache, serial, true);
}

static void
cluster_free(struct cluster *cluster)
{
	store_free(cluster->store);
	treecache_free(cluster->cache);
	free(cluster->visibility);
	free(cluster->places);
}

/* --- records --- */

/* The sorted hashes of the records of a zone. */
struct records {
	size_t count;
	uint64_t hash[RECORDS_MAX];
};

static void
add_record(struct records *records, const struct zone_record *record)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	const uint8_t head[] = { (uint8_t)(record->type >> 8), (uint8_t)record->type,
		(uint8_t)record->ttl_s };

	for (size_t i = 0; i < record->owner->len; i++)
		h = (h ^ record->owner->wire[i]) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < sizeof head; i++)
		h = (h ^ head[i]) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < record->len; i++)
		h = (h ^ record->rdata[i]) * UINT64_C(0x100000001b3);
	if (records->count == RECORDS_MAX)
		abort();
	records->hash[records->count++] = h;
}

static bool
take(void *arg, const struct zone_record *record)
{
	if (record->type != TYPE_SOA)
		add_record(arg, record);
	return true;
}

static int
by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void
sort(struct records *records)
{
	qsort(records->hash, records->count, sizeof records->hash[0], by_number);
}

static void
expect_same(const struct records *a, const struct records *b)
{
	if (a->count != b->count || memcmp(a->hash, b->hash, a->count * sizeof a->hash[0]) != 0)
		abort();
}

static void
read_zone(const struct tree *tree, size_t zone, struct records *records)
{
	struct zone_walk walk = {
		.config = &config, .trees = { tree, NULL }, .take = take, .arg = records
	};

	records->count = 0;
	zone_walk_begin(&walk);
	if (!zone_walk_zone(&walk, zone))
		abort();
	zone_walk_end(&walk);
	sort(records);
	for (size_t i = 1; i < records->count; i++)
		if (records->hash[i] == records->hash[i - 1])
			abort();
}

/* --- answers to clients --- */

static const char *const asked[] = { "web.one.svc.cluster.local.", "db.one.svc.cluster.local.",
	"a.two.svc.cluster.local.", "*.two.svc.cluster.local.", "one.svc.cluster.local.",
	"two.svc.cluster.local.", "10-0-0-1.web.one.svc.cluster.local.",
	"a.db.two.svc.cluster.local.", "_p0._tcp.db.one.svc.cluster.local.",
	"_zone.web.one.svc.cluster.local.", "pin._zone.db.one.svc.cluster.local.",
	"10-0-0-1.one.pod.cluster.local.", "10-0-0-1.two.pod.cluster.local.",
	"10-0-0-2.one.pod.cluster.local.", "0.0.0.10.in-addr.arpa.", "1.0.0.10.in-addr.arpa.",
	"2.0.0.10.in-addr.arpa.", "0.0.96.10.in-addr.arpa.", "1.0.96.10.in-addr.arpa." };
enum { ASKED = sizeof asked / sizeof asked[0] };

/* Reads the rcode of a reply, and its records without their order. */
static void
read_reply(uint8_t *reply, size_t len, struct records *records)
{
	unsigned count =
	    0u + wire_get16(reply + 6) + wire_get16(reply + 8) + wire_get16(reply + 10);
	size_t at = DNS_HEADER;
	struct record record;
	struct dname name;

	records->count = 0;
	if (wire_read_name(reply, len, &at, &name) != 0)
		abort();
	at += 4;
	for (unsigned i = 0; i < count; i++) {
		if (wire_read_record(reply, len, &at, &record) != 0)
			abort();
		struct zone_record taken = { &record.owner, record.ttl_s, record.type,
			record.rdata_len, record.rdata };
		uint8_t text[2 * DNAME_MAX];
		size_t behind = (size_t)(record.rdata - reply);
		if (record.type == TYPE_SOA) /* the two clusters have different serials */
			taken.len = 0;
		if (record.type == TYPE_CNAME || record.type == TYPE_PTR) {
			if (wire_read_name(reply, len, &behind, &name) != 0)
				abort();
			memcpy(text, name.wire, name.len);
			taken.rdata = text;
			taken.len = name.len;
		}
		add_record(records, &taken);
	}
	sort(records);
}

/* Sends a query and returns the length of the reply. Adds the class of the reply's endpoints to
 * `near`. */
static size_t
ask(const struct tree *tree, const struct addr *client, const char *what, uint16_t type,
    uint8_t *out, uint64_t *near)
{
	static const int64_t now_ns = 1;
	uint8_t query[DNS_UDP_PAYLOAD];
	uint64_t zonal[2] = { 0 };
	struct answer_thread thread = { .now_ns = &now_ns, .nearest = near, .zonal = zonal };
	enum view_client kind;
	struct view view;
	struct answer_info info;
	struct dname name;

	if (dname_from_text(&name, what) != 0)
		abort();
	struct answer_request request = { .config = &config,
		.tree = view_of(&view, config.view, tree, client, &kind),
		.query = query,
		.query_len = query_write(query, sizeof query, 1, name.wire, type, CLASS_IN, 0),
		.out = out,
		.max = DNS_TCP_MAX,
		.tcp = true,
		.thread = &thread };
	enum answer_outcome outcome = answer(&request, &info);
	if (outcome != ANSWER_REPLY)
		abort();
	return info.len;
}

/* Checks that both trees return the same answer to any query of a client. */
static void
compare_answers(const struct tree *one, const struct tree *other, bool placed)
{
	static uint8_t out[2][DNS_TCP_MAX];
	static struct records records[2];

	for (uint8_t c = 0; c <= 4; c++)
		for (size_t i = 0; i < ASKED && !(placed && c < 4 && model.shared[c]); i++) {
			const struct addr client = { AF_INET, { 10, 0, 0, c } };
			uint64_t near[2][NEAR_COUNT] = { 0 };
			uint16_t type = strstr(asked[i], "arpa") != NULL ? TYPE_PTR
					: *asked[i] == '_'               ? TYPE_SRV
									 : TYPE_A;
			size_t len = ask(one, &client, asked[i], type, out[0], near[0]);

			read_reply(out[0], len, &records[0]);
			len = ask(other, &client, asked[i], type, out[1], near[1]);
			read_reply(out[1], len, &records[1]);
			expect_same(&records[0], &records[1]);
			if (memcmp(out[0], out[1], 6) != 0 ||
			    memcmp(near[0], near[1], sizeof near[0]) != 0)
				abort();
		}
}

/* --- the comparison --- */

static struct records now[ZONES], told_once, went[ZONES], came[ZONES];
static struct records before[ZONES];

static bool
take_change(void *arg, size_t zone, bool added, const struct zone_record *record)
{
	(void)arg;
	if (record->type == TYPE_SOA)
		abort();
	add_record(added ? &came[zone] : &went[zone], record);
	return true;
}

static void
compare_with_one_that_was_told_once(
    const struct cluster *cluster, uint32_t serial, unsigned options)
{
	struct cluster fresh = cluster_new(options);

	for (unsigned n = 0; n < NAMESPACES; n++) {
		if (model.namespaces[n].there)
			tell_namespace(fresh.store, n);
		for (unsigned s = 0; s < SERVICES; s++)
			if (model.services[n][s].there)
				tell_service(fresh.store, n, s);
		for (unsigned s = 0; s < SLICES; s++)
			if (model.slices[n][s].there)
				tell_slice(fresh.store, n, s);
		for (unsigned p = 0; p < PODS; p++)
			if (model.pods[n][p].there)
				tell_pod(fresh.store, n, p);
	}
	for (unsigned which = 0; which < NODES; which++)
		if (model.nodes[which].there)
			tell_node(fresh.store, 0, which);
	cluster_publish(&fresh, serial, options);
	rcu_enter();
	for (size_t zone = 0; zone < ZONES; zone++) {
		read_zone(tree_current(fresh.cache), zone, &told_once);
		read_zone(tree_current(cluster->cache), zone, &now[zone]);
		expect_same(&told_once, &now[zone]);
	}
	if (options & OPTION_CLIENTS)
		compare_answers(tree_current(cluster->cache), tree_current(fresh.cache),
		    options & OPTION_PLACES);
	rcu_leave();
	cluster_free(&fresh);
}

static void
add_all(struct records *to, const struct records *from)
{
	if (from->count > RECORDS_MAX - to->count)
		abort();
	memcpy(to->hash + to->count, from->hash, from->count * sizeof from->hash[0]);
	to->count += from->count;
	sort(to);
}

/* Publishes, and checks two facts: the snapshot from the previous publish is unchanged, and the
 * difference leads from it to the new snapshot. */
static void
publish(struct cluster *cluster, struct tree_hold **hold, uint32_t serial, unsigned options)
{
	cluster_publish(cluster, serial, options);
	compare_with_one_that_was_told_once(cluster, serial, options);
	const struct zone_snapshots snapshots = { .before = { tree_held(*hold), NULL },
		.after = { tree_current(cluster->cache), NULL } };
	for (size_t zone = 0; zone < ZONES; zone++) {
		went[zone].count = came[zone].count = 0;
		read_zone(snapshots.before.tree, zone, &told_once);
		expect_same(&told_once, &before[zone]);
	}
	if (!zone_diff(&config, &snapshots, take_change, NULL))
		abort();
	for (size_t zone = 0; zone < ZONES; zone++) {
		add_all(&before[zone], &came[zone]);
		add_all(&went[zone], &now[zone]);
		expect_same(&before[zone], &went[zone]);
		before[zone].count = 0;
		add_all(&before[zone], &now[zone]);
	}
	tree_hold_drop(*hold);
	*hold = treecache_hold(cluster->cache);
	treecache_reclaim(cluster->cache);
}

/* --- operations --- */

struct input {
	const uint8_t *at, *end;
};

static uint8_t
byte(struct input *input)
{
	return input->at == input->end ? 0 : *input->at++;
}

static void
change_slice(struct store *store, struct input *input, unsigned n)
{
	unsigned which = byte(input), shape = byte(input);
	struct model_slice *slice = &model.slices[n][which % SLICES];

	slice->there = which < 200;
	slice->service = (uint8_t)(which / SLICES % (SERVICES + 1));
	slice->ports = shape % 8;
	slice->count = (uint8_t)(shape / 8 % (ENDPOINTS + 1));
	for (unsigned i = 0; i < slice->count; i++)
		slice->endpoints[i] = byte(input);
	tell_slice(store, n, which % SLICES);
}

static void
change_service(struct store *store, struct input *input, unsigned n)
{
	unsigned which = byte(input);

	model.services[n][which % SERVICES].there = which < 200;
	model.services[n][which % SERVICES].addr = (uint8_t)(which / SERVICES);
	model.services[n][which % SERVICES].kind = byte(input);
	tell_service(store, n, which % SERVICES);
}

/*
 * Notes addresses that two pods share. The address belongs to the running pod, or else to the later
 * pod. When this pod is deleted, the address has no pod until the other pod is reported again
 * (client_pods.h). Answers to such a client therefore depend on the order.
 */
static void
note_shared(unsigned last)
{
	unsigned count = 0;

	for (unsigned n = 0; n < NAMESPACES; n++)
		for (unsigned p = 0; p < PODS; p++)
			count += model.pods[n][p].there && model.pods[n][p].addr % 4 == last;
	model.shared[last] |= count > 1;
}

static void
change_pod(struct store *store, struct input *input, unsigned n)
{
	unsigned which = byte(input);

	model.pods[n][which % PODS].there = which < 200;
	model.pods[n][which % PODS].addr = (uint8_t)(which / PODS);
	model.pods[n][which % PODS].state = byte(input);
	note_shared(model.pods[n][which % PODS].addr % 4);
	tell_pod(store, n, which % PODS);
}

static void
change_node(struct store *store, struct input *input)
{
	unsigned which = byte(input);

	model.nodes[which % NODES].there = which < 200;
	model.nodes[which % NODES].zone = (uint8_t)(which / NODES);
	tell_node(store, 0, which % NODES);
}

static void
change_namespace(struct store *store, struct input *input, unsigned operation, unsigned n)
{
	model.namespaces[n].there = operation & 128;
	model.namespaces[n].labelled = operation & 64;
	if (operation & 16) {
		unsigned said = byte(input);

		model.namespaces[n].sees = said & 3;
		model.namespaces[n].visible_to = said >> 2 & 3;
	}
	tell_namespace(store, n);
}

/* Lists all objects of a kind. The bits of `gone` select objects that were deleted without an
 * event. */
static void
list(struct store *store, enum object_kind kind, unsigned gone)
{
	const struct {
		bool *there;
		size_t stride, namespaces, count;
		void (*tell)(struct store *store, unsigned n, unsigned i);
	} kinds[OBJECT_KIND_COUNT] = {
		[OBJECT_SERVICE] = { &model.services[0][0].there, sizeof model.services[0][0],
		    NAMESPACES, SERVICES, tell_service },
		[OBJECT_SLICES] = { &model.slices[0][0].there, sizeof model.slices[0][0],
		    NAMESPACES, SLICES, tell_slice },
		[OBJECT_POD] = { &model.pods[0][0].there, sizeof model.pods[0][0], NAMESPACES, PODS,
		    tell_pod },
		[OBJECT_NODE] = { &model.nodes[0].there, sizeof model.nodes[0], 1, NODES,
		    tell_node },
	};
	char *there = (char *)kinds[kind].there;

	store_event(store, kind, EVENT_LISTING, NULL);
	for (unsigned n = 0; n < kinds[kind].namespaces; n++)
		for (unsigned i = 0; i < kinds[kind].count; i++, there += kinds[kind].stride) {
			bool *is = (bool *)there;

			*is = *is && !(gone >> (n * 4 + i % 4) & 1);
			if (*is)
				kinds[kind].tell(store, n, i);
		}
	store_event(store, kind, EVENT_SYNCED, NULL);
}

static void
prepare(void)
{
	static char port_names[PORTS][8];

	rcu_join();
	if (dname_from_text(&config.zone, "cluster.local.") != 0)
		abort();
	config.ttl_s = 30;
	parts.choice.zonal = true;
	parts.zone.wildcards = true;
	parts.zone.pods = PODS_VERIFIED;
	parts.reverse.zones = zones;
	parts.reverse.zone_count = 2;
	answer_parts_use(&config, &parts);
	for (unsigned i = 0; i < 2; i++) {
		zones[i].prefix = (struct addr){ AF_INET, { 10, i == 0 ? 0 : 96 } };
		zones[i].bits = 16;
		reverse_name_prefix(&zones[i].prefix, 16, &zones[i].name);
	}
	for (unsigned i = 0; i < PORTS; i++) {
		if (i != 1) /* one port is unnamed */
			snprintf(port_names[i], sizeof port_names[i], "p%u", i);
		ports[i] = (struct object_port){ port_names[i], i % 2 ? "udp" : "tcp",
			(uint16_t)(80 + i / 3) };
	}
	char *why;
	struct label_selector *parsed;
	if (label_selector_parse("dns=on", &parsed, &why) != 0)
		abort();
	selector = parsed;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, data + size };
	uint32_t serial = 1;

	if (selector == NULL)
		prepare();
	unsigned options = byte(&input);
	parts.zone.ignore_empty_service = options & OPTION_IGNORE_EMPTY;
	parts.view.visibility = options & OPTION_CLIENTS;
	parts.choice.nearest = options & OPTION_PLACES;
	parts.view.pod_places = parts.view.visibility && parts.choice.nearest;
	parts.view.unknown_sees_all = options & OPTION_UNKNOWN_SEES_ALL;
	parts.choice.nearest_only = options & OPTION_NEAREST_ONLY;
	memset(&model, 0, sizeof model);
	struct cluster cluster = cluster_new(options);
	cluster_publish(&cluster, serial++, options);
	struct tree_hold *hold = treecache_hold(cluster.cache);
	for (size_t zone = 0; zone < ZONES; zone++)
		read_zone(tree_held(hold), zone, &before[zone]);
	for (unsigned i = 0; i < OPERATIONS_MAX && input.at < input.end; i++) {
		unsigned operation = byte(&input), n = operation / 8 % NAMESPACES;
		bool clients = options & OPTION_CLIENTS && operation & 32;

		switch (operation % 8) {
		case 0:
			change_namespace(cluster.store, &input, operation, n);
			break;
		case 1:
		case 2:
			if (!clients)
				change_service(cluster.store, &input, n);
			else if (operation & 16)
				change_node(cluster.store, &input);
			else
				change_pod(cluster.store, &input, n);
			break;
		case 3:
			if (serial < PUBLISHES_MAX)
				publish(&cluster, &hold, serial++, options);
			break;
		case 4:
			list(cluster.store,
			    !clients         ? n ? OBJECT_SERVICE : OBJECT_SLICES
			    : operation & 16 ? OBJECT_NODE
					     : OBJECT_POD,
			    byte(&input));
			break;
		default:
			change_slice(cluster.store, &input, n);
		}
	}
	publish(&cluster, &hold, serial, options);
	tree_hold_drop(hold);
	cluster_free(&cluster);
	return 0;
}
