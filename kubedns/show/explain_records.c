/* Prints the records of a name, as a client would get them. */
#include <stdlib.h>
#include <string.h>

#include "kubedns/show/explain_internal.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

const char *
explain_label(const uint8_t *label, char text[DNAME_TEXT_MAX])
{
	uint8_t wire[1 + DNAME_LABEL_MAX + 1] = { 0 };

	memcpy(wire, label, 1u + *label);
	dname_to_text(wire, text);
	text[strlen(text) - 1] = '\0'; /* removes the final dot */
	return text;
}

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

int
explain_query(const struct explanation *e, const uint8_t *qname, uint16_t type, unsigned *records)
{
	enum { SHOWN_MAX = 20, SHOWN_BRIEFLY = 4, BRIEF_MAX = 4096 };
	size_t max = explain_is_brief(e) ? BRIEF_MAX : DNS_TCP_MAX;
	unsigned shown = explain_is_brief(e) ? SHOWN_BRIEFLY : SHOWN_MAX;
	uint8_t query[512], *out = xmalloc(max);
	struct answer_info *info = xmalloc(sizeof *info);
	struct record record;
	size_t len = query_write(query, sizeof query, 1, qname, type, CLASS_IN, 0), at = len;
	const struct answer_request request = { .config = e->config->answers,
		.tree = e->config->tree,
		.query = query,
		.query_len = len,
		.out = out,
		.max = max,
		.tcp = true };
	enum answer_outcome outcome = answer(&request, info);
	int rcode = outcome == ANSWER_FORWARD ? -1 : info->rcode;
	unsigned count = outcome == ANSWER_FORWARD ? 0 : wire_get16(out + 6);

	for (unsigned i = 0; i < count && wire_read_record(out, info->len, &at, &record) == 0;
	     i++) {
		if (i < shown)
			say_record(e, out, info->len, &record);
		++*records;
	}
	if (count > shown)
		fprintf(e->out, "  and %u more%s\n", count - shown,
		    info->truncated ? ", or many more" : "");
	if (outcome == ANSWER_CHASE)
		fprintf(
		    e->out, "  kubedns sends the query for the target to the upstream servers\n");
	free(info);
	free(out);
	return rcode;
}

void
explain_set_name(struct explanation *e, const struct dname *name)
{
	dname_to_text(name->wire, e->text);
	e->name = name_copy(&e->buf, name->wire, name->len);
	int below = name_below(&e->name, &e->config->answers->zone);
	e->below = below < 0 ? 0 : (unsigned)below;
}
