#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/show/cachedump.h"
#include "kubedns/answer/reply.h"
#include "lib/xalloc.h"

/*
 * The page is written in pieces. At the start, the labels of all namespaces are listed. Each namespace is looked up when it is written.
 * 10,000 labels need 720 KB. The whole page would need many megabytes.
 */
struct dump {
	const struct answer_config *config;
	const struct treecache *cache;
	uint8_t (*names)[1 + DNAME_LABEL_MAX + 8]; /* labels of the namespaces */
	struct dname one;                          /* the requested name */
	size_t count, at;
	char *text; /* text that was written here and not sent yet */
	size_t len, sent;
	bool whole, opened, any, ended;
};

static const uint8_t svc[] = "\3svc";

struct json {
	FILE *out;
	const struct answer_config *config;
	unsigned depth;
	bool first; /* no member of the current object has been written */
};

/* --- JSON as Go's MarshalIndent writes it --- */

static void
json_line(struct json *j)
{
	fputs(j->first ? "\n" : ",\n", j->out);
	j->first = false;
	for (unsigned i = 0; i < j->depth; i++)
		fputc('\t', j->out);
}

static void
json_string(struct json *j, const char *text, size_t len)
{
	fputc('"', j->out);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			fprintf(j->out, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(j->out, "\\u%04x", c);
		else
			fputc(c, j->out);
	}
	fputc('"', j->out);
}

static void
json_open(struct json *j, const char *key, size_t len)
{
	json_line(j);
	json_string(j, key, len);
	fputs(": {", j->out);
	j->depth++;
	j->first = true;
}

static void
json_close(struct json *j)
{
	j->depth--;
	if (!j->first) {
		j->first = true;
		json_line(j);
	}
	fputc('}', j->out);
	j->first = false;
}

/* --- entries --- */

/* Writes an entry with the fields of kube-dns's skymsg. Fields with a zero value are omitted. */
static void
entry(struct json *j, const char *key, const char *host, unsigned port, unsigned priority,
    unsigned weight, uint32_t ttl_s)
{
	const struct {
		const char *name;
		unsigned value;
	} numbers[] = { { "port", port }, { "priority", priority }, { "weight", weight },
		{ "ttl", ttl_s } };

	json_open(j, key, strlen(key));
	json_line(j);
	fputs("\"host\": ", j->out);
	json_string(j, host, strlen(host));
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		if (numbers[i].value == 0)
			continue;
		json_line(j);
		fprintf(j->out, "\"%s\": %u", numbers[i].name, numbers[i].value);
	}
	json_close(j);
}

static void
record_entry(struct json *j, const uint8_t *record, unsigned number)
{
	uint16_t type = wire_get16(record + 2);
	const uint8_t *rdata = record + 12;
	struct addr addr = { .family = type == TYPE_A ? AF_INET : AF_INET6 };
	char key[32], type_text[12], host[DNAME_TEXT_MAX];
	bool srv = type == TYPE_SRV;

	snprintf(key, sizeof key, "%s-%u", type_name(type, type_text), number);
	if (type == TYPE_A || type == TYPE_AAAA) {
		memcpy(addr.bytes, rdata, addr_len(&addr));
		addr_format(&addr, host);
	} else if (type == TYPE_TXT) {
		snprintf(host, sizeof host, "%.*s", rdata[0], (const char *)rdata + 1);
	} else {
		dname_to_text(rdata + (srv ? 6 : 0), host);
	}
	entry(j, key, host, srv ? wire_get16(rdata + 4) : 0, srv ? wire_get16(rdata) : 0,
	    srv ? wire_get16(rdata + 2) : 0, wire_get32(record + 6));
}

static void
node_entries(struct json *j, const struct node *node)
{
	const struct rrset *set = NULL;

	while ((set = node_rrset_next(node, set)) != NULL) {
		const uint8_t *record = set->data;

		for (unsigned i = 0; i < set->count; i++) {
			record_entry(j, record, i);
			record += 12 + wire_get16(record + 10);
		}
	}
}

/* Writes endpoints, each under its full name. */
static void
endpoint_set_entries(struct json *j, const struct endpoint_set *endpoints)
{
	struct dname name;
	char key[DNAME_TEXT_MAX], host[ADDR_TEXT_MAX];

	for (unsigned c = 0; c < endpoints->count; c++) {
		const struct slice_endpoints *slice = endpoints->slices[c].slice;

		for (unsigned i = 0; i < slice->unique; i++) {
			struct addr addr = { .family = slice->family };
			unsigned port = slice->ports->count > 0 ? slice->ports->items[0].number : 0;

			memcpy(addr.bytes, slice_addr(slice, i), addr_len(&addr));
			if (endpoint_name(&name, j->config, slice, i) < 0)
				continue;
			dname_to_text(name.wire, key);
			entry(j, key, addr_format(&addr, host), port, 0,
			    endpoint_set_weight(endpoints), j->config->ttl_s);
		}
	}
}

static void dump_node(void *arg, const struct node *node);

static void
node_body(struct json *j, const struct node *node)
{
	if (node->children != NULL) {
		json_open(j, "ChildNodes", 10);
		tree_children(node, dump_node, j);
		json_close(j);
	}
	if (node->records != NULL || node->endpoints != NULL) {
		json_open(j, "Entries", 7);
		node_entries(j, node);
		if (node->endpoints != NULL)
			endpoint_set_entries(j, node->endpoints);
		json_close(j);
	}
}

static void
dump_node(void *arg, const struct node *node)
{
	struct json *j = arg;

	json_open(j, (const char *)node->label + 1, node->label[0]);
	node_body(j, node);
	json_close(j);
}

/* --- writing the page in pieces --- */

/* Opens an object for each label from the root to the zone, such as "local" and "cluster". */
static void
open_zone(struct json *j)
{
	const uint8_t *labels[DNAME_LABELS_MAX], *label = j->config->zone.wire;
	unsigned count = 0;

	for (; *label != 0; label += 1u + *label)
		labels[count++] = label;
	fputc('{', j->out);
	while (count-- > 0) {
		json_open(j, "ChildNodes", 10);
		json_open(j, (const char *)labels[count] + 1, *labels[count]);
	}
	json_open(j, "ChildNodes", 10);
	json_open(j, "svc", 3);
	json_open(j, "ChildNodes", 10);
}

static unsigned
open_depth(const struct answer_config *config)
{
	return 1 + 2 * dname_labels(config->zone.wire) + 3;
}

static void
close_zone(struct json *j)
{
	json_close(j); /* the children of svc */
	json_close(j); /* svc */
	while (j->depth > 1)
		json_close(j);
	fputs("\n}\n", j->out);
}

/* Writes the next part of the page into dump->text. */
static void
next_piece(struct dump *d)
{
	struct json j = { .config = d->config, .depth = open_depth(d->config), .first = !d->any };
	const struct tree *tree = treecache_next(d->cache);

	free(d->text);
	d->text = NULL;
	d->sent = 0;
	j.out = open_memstream(&d->text, &d->len);
	if (j.out == NULL)
		abort(); /* fails only if memory runs out */
	if (!d->whole) {
		const struct node *node = tree_find(tree, d->one.wire);

		j.depth = 1;
		j.first = true;
		fputc('{', j.out);
		if (node != NULL)
			node_body(&j, node);
		fputs("\n}\n", j.out);
		d->ended = true;
	} else if (!d->opened) {
		j.depth = 1;
		j.first = d->opened = true;
		open_zone(&j);
	} else if (d->at < d->count) {
		const struct node *node = tree_child(tree, tree_find(tree, svc), d->names[d->at++]);

		if (node != NULL) {
			dump_node(&j, node);
			d->any = true;
		}
	} else {
		close_zone(&j);
		d->ended = true;
	}
	fclose(j.out);
}

static ssize_t
stream(void *arg, char *buf, size_t max)
{
	struct dump *d = arg;

	while (d->sent == d->len) {
		if (d->ended)
			return 0;
		next_piece(d);
	}
	size_t len = d->len - d->sent < max ? d->len - d->sent : max;
	memcpy(buf, d->text + d->sent, len);
	d->sent += len;
	return (ssize_t)len;
}

static void
dump_free(void *arg)
{
	struct dump *d = arg;

	free(d->names);
	free(d->text);
	free(d);
}

static void
add_name(void *arg, const struct node *node)
{
	struct dump *d = arg;

	if ((d->count & (d->count - 1)) == 0)
		d->names =
		    xreallocarray(d->names, d->count == 0 ? 1 : d->count * 2, sizeof *d->names);
	memcpy(d->names[d->count++], node->label, 1u + node->label[0]);
}

static int
one_name(struct dump *d, const char *text)
{
	struct dname name;

	if (dname_from_text(&name, text) < 0)
		return -ENOENT;
	dname_lower(name.wire, name.len);
	int zone = dname_in_zone(name.wire, d->config->zone.wire);
	if (zone < 0)
		return -ENOENT;
	name.wire[zone] = 0;
	name.len = (uint8_t)(zone + 1);
	if (tree_find(treecache_next(d->cache), name.wire) == NULL)
		return -ENOENT;
	d->one = name;
	return 0;
}

int
cachedump_begin(struct http_response *response, const struct answer_config *config,
    const struct treecache *cache, const char *name)
{
	struct dump *d = xcalloc(1, sizeof *d);
	const struct node *services = tree_find(treecache_next(cache), svc);
	int rc = 0;

	d->config = config;
	d->cache = cache;
	d->whole = name == NULL || *name == '\0';
	if (!d->whole)
		rc = one_name(d, name);
	else if (services != NULL)
		tree_children(services, add_name, d);
	if (rc < 0) {
		dump_free(d);
		return rc;
	}
	response->content_type = "application/json";
	response->stream = stream;
	response->stream_free = dump_free;
	response->stream_arg = d;
	return 0;
}
