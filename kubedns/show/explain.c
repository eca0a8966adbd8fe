#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "kubedns/answer/filter.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/reply.h"
#include "kubedns/show/explain.h"
#include "lib/log.h"
#include "lib/percent.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

struct explanation {
	FILE *out;
	const struct explain_config *config;
	struct name name;
	unsigned below;
	char text[DNAME_TEXT_MAX];
};

/* A label of the name as text, escaped: it is a stranger's. */
static const char *
label_text(const uint8_t *label, char text[DNAME_TEXT_MAX])
{
	uint8_t wire[1 + DNAME_LABEL_MAX + 1] = { 0 };

	memcpy(wire, label, 1u + *label);
	dname_to_text(wire, text);
	text[strlen(text) - 1] = '\0'; /* the root's dot */
	return text;
}

static void
say_source(const struct explanation *e, const struct store_source *source)
{
	static const char *const kinds[OBJECT_KIND_COUNT] = { [OBJECT_SERVICE] = "Service",
		[OBJECT_SLICES] = "EndpointSlice",
		[OBJECT_NAMESPACE] = "Namespace" };

	fprintf(e->out, "%s %s%s%s", source->from_endpoints ? "Endpoints" : kinds[source->kind],
	    source->namespace, *source->namespace == '\0' ? "" : "/", source->name);
	if (source->resource_version != 0)
		fprintf(e->out, " (resourceVersion %llu)",
		    (unsigned long long)source->resource_version);
}

/* --- the nearest name --- */

struct nearest {
	const char *wanted;
	char best[DNAME_LABEL_MAX + 1];
	size_t best_distance;
};

static void
consider(struct nearest *nearest, const uint8_t *label)
{
	char text[DNAME_LABEL_MAX + 1];

	memcpy(text, label + 1, *label);
	text[*label] = '\0';
	size_t d = spelling_distance(nearest->wanted, strlen(nearest->wanted), text, *label);
	if (d < nearest->best_distance ||
	    (d == nearest->best_distance && strcmp(text, nearest->best) < 0)) {
		nearest->best_distance = d;
		strcpy(nearest->best, text);
	}
}

static void
consider_node(void *arg, const struct node *node)
{
	consider(arg, node->label);
}

static void
say_nearest(const struct explanation *e, const struct node *parent, const uint8_t *label)
{
	char wanted[DNAME_LABEL_MAX + 1];
	struct nearest nearest = { .wanted = wanted, .best_distance = DNAME_LABEL_MAX };

	memcpy(wanted, label + 1, *label);
	wanted[*label] = '\0';
	tree_children(parent, consider_node, &nearest);
	for (unsigned c = 0; parent->endpoints != NULL && c < parent->endpoints->count; c++)
		for (unsigned i = 0; i < parent->endpoints->slices[c].slice->published; i++) {
			const uint8_t *host = slice_name(parent->endpoints->slices[c].slice, i);
			if (host != NULL)
				consider(&nearest, host);
		}
	if (nearest.best[0] != '\0')
		fprintf(e->out, "Nearest there: %s\n", nearest.best);
}

/* --- what does not exist --- */

static void
say_hidden(const struct explanation *e, const struct node *node)
{
	const struct endpoint_set *endpoints = node->endpoints;
	unsigned total = 0;

	for (unsigned c = 0; c < endpoints->count; c++)
		total += endpoints->slices[c].slice->count;
	if (total == 0)
		fprintf(e->out, "It has no endpoints at all: does its selector match any pod, "
				"and are they running?\n");
	else
		fprintf(e->out,
		    "None of its %u endpoints is ready: look at the pods' readiness probes.\n",
		    total);
}

static void
say_pod_missing(const struct explanation *e)
{
	const struct answer_config *answers = e->config->answers;
	struct addr addr;
	char text[DNAME_TEXT_MAX];

	if (answers->pods == PODS_DISABLED)
		fprintf(e->out, "Pod names are off (--pods=disabled).\n");
	else if (e->below > 3)
		fprintf(e->out, "Nothing is below the name of a pod.\n");
	else if (e->below == 3 && tree_label_addr(e->name.wire, &addr) < 0)
		fprintf(e->out, "\"%s\" is no address with dashes, such as 10-1-2-3.\n",
		    label_text(e->name.wire, text));
	else
		fprintf(e->out, "%s\n",
		    answers->pods == PODS_VERIFIED
			? "There is no such namespace, or no running pod in it has this address."
			: "There is no such namespace.");
}

/* Where the missing label was looked for: the namespace or Service above it. */
static void
say_where(const struct explanation *e, unsigned depth)
{
	static const char *const where[] = { "in the zone", "", "in the namespace",
		"below the Service" };
	char text[DNAME_TEXT_MAX];

	if (depth == 0 || depth == 1)
		fprintf(e->out, "%s%s.\n", depth == 0 ? " " : "", where[depth]);
	else
		fprintf(e->out, " %s %s.\n", where[depth < 3 ? depth : 3],
		    label_text(
			e->name.wire + e->name.offsets[e->below - (depth < 3 ? 2 : 3)], text));
}

/* Walks down the tree along the name, and says which label is missing. */
static void
say_missing(const struct explanation *e)
{
	const struct tree *tree = e->config->tree;
	const struct node *node = tree->root;
	static const char *const levels[] = { "name", "namespace", "Service", "name" };
	char text[DNAME_TEXT_MAX];
	unsigned depth = 0;

	fprintf(e->out, "NXDOMAIN: %s does not exist.\n", e->text);
	if (e->name.wire[e->name.offsets[e->below - 1]] == 3 &&
	    memcmp(e->name.wire + e->name.offsets[e->below - 1] + 1, "pod", 3) == 0) {
		say_pod_missing(e);
		return;
	}
	for (; depth < e->below; depth++) {
		const uint8_t *label = e->name.wire + e->name.offsets[e->below - 1 - depth];
		const struct node *child = tree_child(tree, node, label);
		if (child == NULL) {
			fprintf(e->out, "There is no %s \"%s\"", levels[depth < 3 ? depth : 3],
			    label_text(label, text));
			say_where(e, depth);
			if (depth == 1 && store_leaves_namespace_out(e->config->store, text))
				fprintf(e->out, "It is in the cluster, but its labels are not "
						"those of --namespace-labels.\n");
			say_nearest(e, node, label);
			return;
		}
		node = child;
		if (service_without_ready_endpoints(e->config->answers, node)) {
			fprintf(e->out, "The Service is there, but it counts as absent.\n");
			say_hidden(e, node);
			return;
		}
	}
}

/* --- what exists --- */

static void
say_service(const struct explanation *e)
{
	struct store_source source;
	char namespace[DNAME_TEXT_MAX], service[DNAME_TEXT_MAX];

	if (e->below < 2)
		return;
	label_text(e->name.wire + e->name.offsets[e->below - 2], namespace);
	if (store_find_namespace(e->config->store, namespace, &source)) {
		fprintf(e->out, "  from ");
		say_source(e, &source);
		fprintf(e->out, "\n");
	}
	if (e->below < 3)
		return;
	label_text(e->name.wire + e->name.offsets[e->below - 3], service);
	if (store_find_service(e->config->store, namespace, service, &source)) {
		fprintf(e->out, "  from ");
		say_source(e, &source);
		fprintf(e->out, "\n");
	}
}

static void
say_slice(const struct explanation *e, const struct slice_endpoints *slice)
{
	struct store_source source;

	fprintf(e->out, "  from ");
	if (store_find_slice(e->config->store, slice->slot, &source))
		say_source(e, &source);
	fprintf(e->out, ": %u published of %u endpoints", slice->published, slice->count);
	if (slice->unique != slice->published)
		fprintf(e->out, ", %u of them counted elsewhere", slice->published - slice->unique);
	fprintf(e->out, "\n");
}

static void
say_slices(const struct explanation *e, const struct resolved *resolved)
{
	struct resolved_walk walk;
	struct endpoint_ref ref;

	if (resolved->kind == RESOLVED_HEADLESS || resolved->kind == RESOLVED_PORT) {
		for (unsigned c = 0; c < resolved->endpoints->count; c++)
			say_slice(e, resolved->endpoints->slices[c].slice);
	} else if (resolved->kind == RESOLVED_ENDPOINT) {
		resolved_endpoints(&walk, e->config->tree, resolved);
		while (resolved_next(&walk, &ref))
			say_slice(e, ref.slice);
	}
}

/* --- the records, as a client would get them --- */

static void
say_record(
    const struct explanation *e, const uint8_t *wire, size_t len, const struct record *record)
{
	char type[12], name[DNAME_TEXT_MAX], owner[DNAME_TEXT_MAX];
	struct addr addr = { .family = record->type == TYPE_A ? AF_INET : AF_INET6 };
	struct dname target;
	size_t at = (size_t)(record->rdata - wire) + (record->type == TYPE_SRV ? 6 : 0);

	fprintf(e->out, "  %s %u %s ", dname_to_text(record->owner.wire, owner), record->ttl_s,
	    type_name(record->type, type));
	if (record->type == TYPE_A || record->type == TYPE_AAAA) {
		memcpy(addr.bytes, record->rdata, record->rdata_len);
		fprintf(e->out, "%s\n", addr_format(&addr, name));
	} else if (record->type == TYPE_TXT) {
		fprintf(e->out, "\"%.*s\"\n", record->rdata[0], (const char *)record->rdata + 1);
	} else if (wire_read_name(wire, len, &at, &target) == 0) {
		if (record->type == TYPE_SRV)
			fprintf(e->out, "%u %u %u ", wire_get16(record->rdata),
			    wire_get16(record->rdata + 2), wire_get16(record->rdata + 4));
		fprintf(e->out, "%s\n", dname_to_text(target.wire, name));
	}
}

/* Answers a query of this type as for a client, and prints the records. Returns the rcode, -1 for a
 * name that is not ours. */
static int
explain_query(const struct explanation *e, const uint8_t *qname, uint16_t type, unsigned *records)
{
	enum { SHOWN_MAX = 20 };
	uint8_t query[512], *out = xmalloc(DNS_TCP_MAX);
	struct answer_info *info = xmalloc(sizeof *info);
	struct record record;
	size_t len = query_write(query, sizeof query, 1, qname, type, CLASS_IN, 0), at = len;
	const struct answer_request request = { .config = e->config->answers,
		.tree = e->config->tree,
		.query = query,
		.query_len = len,
		.out = out,
		.max = DNS_TCP_MAX,
		.tcp = true };
	enum answer_outcome outcome = answer(&request, info);
	int rcode = outcome == ANSWER_FORWARD ? -1 : info->rcode;
	unsigned count = outcome == ANSWER_FORWARD ? 0 : wire_get16(out + 6);

	for (unsigned i = 0; i < count && wire_read_record(out, info->len, &at, &record) == 0;
	     i++) {
		if (i < SHOWN_MAX)
			say_record(e, out, info->len, &record);
		++*records;
	}
	if (count > SHOWN_MAX)
		fprintf(e->out, "  and %u more\n", count - SHOWN_MAX);
	if (outcome == ANSWER_CHASE)
		fprintf(e->out, "  the rest of the chain is asked of the upstream servers\n");
	free(info);
	free(out);
	return rcode;
}

static void
say_answers(const struct explanation *e, const uint8_t *qname)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_TXT, TYPE_NS,
		TYPE_PTR };
	unsigned records = 0;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		unsigned before = records;
		explain_query(e, qname, types[i], &records);
		/* A CNAME answers every type; once is enough. */
		if (e->below > 0 && records > before && types[i] == TYPE_A) {
			struct resolved resolved;
			resolve(e->config->answers, e->config->tree, &e->name, e->below, NULL,
			    &resolved);
			if (resolved.kind == RESOLVED_CNAME ||
			    (resolved.kind == RESOLVED_NODE &&
				node_rrset(resolved.node, TYPE_CNAME) != NULL))
				return;
		}
	}
	if (records == 0)
		fprintf(e->out, "  no records of its own (NODATA): only names below it\n");
}

static void
explain_ours(struct explanation *e, const uint8_t *qname)
{
	struct resolved resolved = { .kind = RESOLVED_NODE };

	if (!e->config->synced) {
		fprintf(e->out, "SERVFAIL: not synced yet; /readiness says what is missing.\n");
		return;
	}
	if (e->below > 0)
		resolve(e->config->answers, e->config->tree, &e->name, e->below, NULL, &resolved);
	if (resolved.kind == RESOLVED_NOTHING) {
		say_missing(e);
		if (answer_falls_through(e->config->answers, &e->name))
			fprintf(e->out, "So it is asked of the upstream servers "
					"(--fallthrough).\n");
		return;
	}
	fprintf(e->out, "%s exists.\n", e->text);
	say_answers(e, qname);
	if (resolved.kind == RESOLVED_POD)
		fprintf(e->out, "  the name spells its address (--pods)\n");
	else if (resolved.kind == RESOLVED_CNAME)
		fprintf(e->out, "  a federation's name\n");
	else
		say_service(e);
	say_slices(e, &resolved);
}

static void
explain_reverse(struct explanation *e, const uint8_t *qname, const struct addr *addr)
{
	struct reverse_walk walk;
	struct reverse_ref ref;
	unsigned records = 0;
	int rcode = explain_query(e, qname, TYPE_PTR, &records);

	if (rcode < 0)
		fprintf(e->out,
		    "Nothing here has this address, and its zone is not in --reverse-cidrs: "
		    "it is asked of the upstream servers.\n");
	else if (records == 0)
		fprintf(e->out,
		    "Nothing here has this address, in a zone of --reverse-cidrs: NXDOMAIN.\n");
	reverse_find(&walk, e->config->tree, addr);
	while (reverse_next(&walk, &ref))
		if (ref.slice != NULL)
			say_slice(e, ref.slice);
}

static void
explain_outside(const struct explanation *e, const struct dname *qname)
{
	const struct answer_context *context = e->config->tree->context;

	fprintf(e->out,
	    "%s is outside of the zones of this server: it is asked of the upstream servers.\n",
	    e->text);
	if (context == NULL)
		return;
	if (filter_holds(e->config->answers, context, TYPE_AAAA, qname->wire))
		fprintf(e->out, "  but for AAAA: NODATA at once with EDE 17 (--filter-aaaa)\n");
	if (filter_holds(e->config->answers, context, TYPE_A, qname->wire))
		fprintf(e->out, "  but for A: NODATA at once with EDE 17 (--filter-a)\n");
}

/* A name of one's own, which comes before all others; false: it is none. */
static bool
explain_own(struct explanation *e, const struct dname *name)
{
	const struct answer_context *context = e->config->tree->context;
	struct explanation own = *e;

	if (context == NULL || context->hosts == NULL ||
	    own_names_find(context->hosts, name->wire, name->len) == NULL)
		return false;
	fprintf(e->out, "%s is in the ConfigMap's key hosts.\n", e->text);
	own.below = 0; /* whatever the cluster has of this name */
	say_answers(&own, name->wire);
	return true;
}

static void
explain(struct explanation *e, const char *text)
{
	struct dname qname;
	uint8_t padded[DNAME_MAX + 8] = { 0 }, offsets[DNAME_LABELS_MAX];
	struct addr addr;

	if (dname_from_text(&qname, text) < 0) {
		fprintf(e->out, "That is not a DNS name: labels of 1 to 63 bytes, 255 in all.\n");
		return;
	}
	dname_lower(qname.wire, qname.len);
	memcpy(padded, qname.wire, qname.len);
	dname_to_text(qname.wire, e->text);
	e->name = name_cut(padded, qname.len, offsets);
	int below = name_below(&e->name, &e->config->answers->zone);
	int bits = resolve_reverse_name(&e->name, &addr);
	e->below = below < 0 ? 0 : (unsigned)below;
	if (explain_own(e, &qname))
		return;
	if (below >= 0)
		explain_ours(e, qname.wire);
	else if (bits == 32 || bits == 128)
		explain_reverse(e, qname.wire, &addr);
	else
		explain_outside(e, &qname);
}

char *
explain_text(const struct explain_config *config, const char *name, size_t *len)
{
	char *text = NULL;
	struct explanation e = { .out = open_memstream(&text, len), .config = config };

	if (e.out == NULL)
		abort(); /* only for want of memory */
	explain(&e, name);
	fclose(e.out);
	return text;
}

/* --- --explain --- */

int
explain_ask(const char *name, const char *address, long port)
{
	CURL *curl = curl_easy_init();
	bool any = strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
	long status = 0;

	if (curl == NULL)
		return -ENOMEM;
	char *escaped = percent_encode(name);
	char *url =
	    xasprintf("http://%s:%ld/explain?name=%s", any ? "127.0.0.1" : address, port, escaped);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 5000L);
	CURLcode code = curl_easy_perform(curl); /* prints on stdout */
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK)
		log_errorx("--explain: %s: %s; is kubedns running, with --healthz-port=%ld?", url,
		    curl_easy_strerror(code), port);
	else if (status != 200)
		log_errorx("--explain: %s answered %ld", url, status);
	free(url);
	free(escaped);
	curl_easy_cleanup(curl);
	return code == CURLE_OK && status == 200 ? 0 : -EIO;
}
