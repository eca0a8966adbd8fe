#include "kubedns/pages/answer_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kubedns/cluster/store.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum { RCODE_MOST = 23 };

const char *const recorded_filter_parts[] = { "client", "name", "type", "rcode", NULL };

static const char *const made_names[MADE_COUNT] = { [MADE_CLUSTER] = "cluster",
	[MADE_REVERSE] = "reverse",
	[MADE_OUTSIDE] = "outside",
	[MADE_FORWARDED] = "forwarded",
	[MADE_RELAYED] = "relayed",
	[MADE_CHASED] = "chased",
	[MADE_REFUSED] = "refused",
	[MADE_CACHED] = "cached" };

static int
set_client(struct recorded_filter *filter, const char *text, const char **why)
{
	char *copy = xstrdup(text), *slash = strchr(copy, '/'), *end = NULL;
	unsigned long bits = 0;
	int rc = -EINVAL;

	*why = "an address, or a prefix such as 10.1.0.0/16";
	if (slash != NULL) {
		*slash = '\0';
		bits = slash[1] >= '0' && slash[1] <= '9' ? strtoul(slash + 1, &end, 10) : 0;
	}
	if (addr_parse(copy, &filter->client) == 0 &&
	    (slash == NULL ||
		(end != NULL && *end == '\0' && bits <= 8 * addr_len(&filter->client)))) {
		filter->client_bits =
		    slash == NULL ? (unsigned)(8 * addr_len(&filter->client)) : (unsigned)bits;
		rc = 0;
	}
	free(copy);
	return rc;
}

static int
set_rcode(struct recorded_filter *filter, const char *text, const char **why)
{
	char name[12];

	*why = "an rcode such as NXDOMAIN or SERVFAIL";
	for (unsigned rcode = 0; rcode <= RCODE_MOST; rcode++)
		if (strcasecmp(text, rcode_name(rcode, name)) == 0) {
			filter->rcode = (int)rcode;
			return 0;
		}
	return -EINVAL;
}

int
recorded_filter_set(
    struct recorded_filter *filter, const char *part, const char *text, const char **why)
{
	if (strcmp(part, "client") == 0)
		return set_client(filter, text, why);
	if (strcmp(part, "rcode") == 0)
		return set_rcode(filter, text, why);
	if (strcmp(part, "type") == 0) {
		*why = "a type such as AAAA or TYPE65";
		filter->type = type_number(text);
		return filter->type == 0 ? -EINVAL : 0;
	}
	*why = "a DNS name: it and the names below it are shown";
	if (dname_from_text(&filter->name, text) < 0)
		return -EINVAL;
	dname_lower(filter->name.wire, filter->name.len);
	return 0;
}

/* Whether `name` is `parent` or below it. Both names are in lower case. */
static bool
is_below(const struct dname *name, const struct dname *parent)
{
	const uint8_t *p = name->wire, *end = name->wire + name->len;

	while (end - p > parent->len)
		p += 1u + *p;
	return end - p == parent->len && memcmp(p, parent->wire, parent->len) == 0;
}

bool
recorded_filter_matches(const struct recorded_filter *filter, const struct ring_record *record)
{
	const struct addr *client = &record->peer.addr;

	if (filter->rcode >= 0 && record->rcode != filter->rcode)
		return false;
	if (filter->type != 0 && record->type != filter->type)
		return false;
	if (filter->client.family != 0 &&
	    (client->family != filter->client.family ||
		!addr_in_prefix(client, &filter->client, filter->client_bits)))
		return false;
	return filter->name.len == 0 || is_below(&record->name, &filter->name);
}

/* Escapes a name for JSON. A name in text form contains no quotes and no control bytes, only the
 * backslashes of its own escapes. */
static void
double_backslashes(const char *text, char *out, size_t max)
{
	size_t len = 0;

	for (; *text != '\0' && len + 2 < max; text++) {
		if (*text == '\\' || *text == '"')
			out[len++] = '\\';
		out[len++] = *text;
	}
	out[len] = '\0';
}

size_t
recorded_answer_line(const struct ring_record *record, const struct store *store, bool json,
    char line[ANSWER_LINE_MAX])
{
	char pod[CLIENT_TEXT_MAX];
	char client[SERVER_TEXT_MAX], address[ADDR_TEXT_MAX], type[12], rcode[12];
	char name[DNAME_TEXT_MAX] = "-", escaped[1136];
	const char *proto = record->tcp ? "tcp" : "udp";
	const char *made = record->filtered ? "filtered" : made_names[record->made];
	int n;

	server_format(&record->peer, client);
	type_name(record->type, type);
	rcode_name(record->rcode, rcode);
	client_text(store, &record->peer.addr, json, pod);
	if (record->name.len > 0)
		dname_to_text(record->name.wire, name);
	if (!json) {
		n = snprintf(line, ANSWER_LINE_MAX, "%s %s %s %s %s%s %u %s %.3fms%s", client,
		    proto, record->name.len > 0 ? type : "-", name, rcode,
		    record->truncated ? "+TC" : "", record->size, made, record->took_ns / 1e6, pod);
		return (size_t)n < ANSWER_LINE_MAX ? (size_t)n : ANSWER_LINE_MAX - 1;
	}
	double_backslashes(record->name.len > 0 ? name : "", escaped, sizeof escaped);
	n = snprintf(line, ANSWER_LINE_MAX,
	    "\"client\":\"%s\",\"port\":%u,\"proto\":\"%s\",\"type\":\"%s\",\"name\":\"%s\","
	    "\"rcode\":\"%s\",\"truncated\":%s,\"size\":%u,\"made\":\"%s\",\"took_ms\":%.3f%s",
	    addr_format(&record->peer.addr, address), record->peer.port, proto, type, escaped,
	    rcode, record->truncated ? "true" : "false", record->size, made, record->took_ns / 1e6,
	    pod);
	return (size_t)n < ANSWER_LINE_MAX ? (size_t)n : ANSWER_LINE_MAX - 1;
}

/* --- clients --- */

/* The names need no escaping in JSON, because Kubernetes allows no such characters and object.c
 * rejects them. */
static void
as_members(const struct store_pod *pod, char text[CLIENT_TEXT_MAX])
{
	int len = snprintf(text, CLIENT_TEXT_MAX, ",\"namespace\":\"%s\"", pod->namespace);

	if (pod->name == NULL)
		return;
	len += snprintf(text + len, CLIENT_TEXT_MAX - (size_t)len, ",\"pod\":\"%s\"", pod->name);
	if (*pod->node != '\0')
		snprintf(text + len, CLIENT_TEXT_MAX - (size_t)len, ",\"node\":\"%s\"", pod->node);
}

void
client_text(
    const struct store *store, const struct addr *addr, bool json, char text[CLIENT_TEXT_MAX])
{
	struct store_pod pod;

	*text = '\0';
	if (!store_find_pod(store, addr, &pod))
		return;
	if (json)
		as_members(&pod, text);
	else if (pod.name == NULL)
		snprintf(text, CLIENT_TEXT_MAX, " namespace %s", pod.namespace);
	else
		snprintf(text, CLIENT_TEXT_MAX, " pod %s/%s%s%s", pod.namespace, pod.name,
		    *pod.node == '\0' ? "" : " on ", pod.node);
}
