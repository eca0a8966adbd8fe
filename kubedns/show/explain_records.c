/* Gets the answers to a name, as a client would get them, and prints them. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/upstream_stage.h"
#include "kubedns/show/explain_internal.h"
#include "lib/rdata_text.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

enum { BRIEF_MAX = 4096 /* bytes of an answer in a brief explanation */ };

const char *
explain_label(const uint8_t *label, char text[DNAME_TEXT_MAX])
{
	uint8_t wire[1 + DNAME_LABEL_MAX + 1] = { 0 };

	memcpy(wire, label, 1u + *label);
	dname_to_text(wire, text);
	text[strlen(text) - 1] = '\0'; /* removes the final dot */
	return text;
}

/* The query is written to `query`, which has 512 bytes. */
static struct answer_request
request_of(const struct explain_config *config, const uint8_t *qname, struct explained *answered,
    uint8_t *query)
{
	static const struct sockaddr_in6 client = { .sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };

	answered->reason.stage = STAGE_COUNT;
	answered->reason.denial.kind = REASON_NONE;
	return (struct answer_request){ .config = config->answers,
		.tree = config->tree,
		.query = query,
		.query_len = query_write(query, 512, 1, qname, answered->type, CLASS_IN, 0),
		.out = answered->wire,
		.max = config->store == NULL ? BRIEF_MAX : DNS_TCP_MAX,
		.tcp = true,
		.client = (const struct sockaddr *)&client,
		.reason = &answered->reason };
}

struct explained *
explain_query(const struct explain_config *config, const uint8_t *qname, uint16_t type)
{
	struct explained *answered =
	    xmalloc(sizeof *answered + (config->store == NULL ? BRIEF_MAX : DNS_TCP_MAX));
	uint8_t query[512];

	answered->type = type;
	const struct answer_request request = request_of(config, qname, answered, query);
	answered->outcome = answer(&request, &answered->info);
	return answered;
}

void
explain_query_denied(const struct explanation *e, struct explained *answered)
{
	uint8_t query[512], wire[512];
	const struct answer_request request =
	    request_of(e->config, e->qname->wire, answered, query);
	struct upstream_reply upstream = { .wire = wire };

	do {
		upstream.len = query_write(
		    wire, sizeof wire, 1, answered->info.target.wire, answered->type, CLASS_IN, 0);
		wire_put16(wire + 2, FLAG_QR | RCODE_NXDOMAIN);
		answered->reason.stage = STAGE_COUNT;
		answered->reason.denial.kind = REASON_NONE;
	} while (answer_chases_on(&request, &upstream, &answered->info));
}

bool
explain_exists(const struct explained *answer)
{
	const struct answer_reason *reason = &answer->reason;

	return (reason->stage == STAGE_zone || reason->stage == STAGE_local_names) &&
	       (reason->kind == REASON_EXISTS || reason->kind == REASON_WILDCARD ||
		   reason->kind == REASON_EMPTY);
}

bool
explain_waits(const struct explained *answer)
{
	return answer->outcome == ANSWER_CHASE && answer->info.claim.candidate;
}

/* --- records --- */

/* The lines that were printed. The answers of several types may begin with the same aliases. */
struct lines {
	char *text;
	size_t len;
};

static void
print_record(FILE *out, const struct explained *answer, const struct record *record)
{
	char type[12], name[DNAME_TEXT_MAX], owner[DNAME_TEXT_MAX];
	struct dname target;
	size_t at = (size_t)(record->rdata - answer->wire) + (record->type == TYPE_SRV ? 6 : 0);

	fprintf(out, "  %s %u %s ", dname_to_text(record->owner.wire, owner), record->ttl_s,
	    type_name(record->type, type));
	if (record->type == TYPE_A || record->type == TYPE_AAAA || record->type == TYPE_TXT) {
		rdata_print(out, record->type, record->rdata, record->rdata_len);
		fprintf(out, "\n");
	} else if (wire_read_name(answer->wire, answer->info.len, &at, &target) == 0) {
		if (record->type == TYPE_SRV)
			fprintf(out, "%u %u %u ", wire_get16(record->rdata),
			    wire_get16(record->rdata + 2), wire_get16(record->rdata + 4));
		fprintf(out, "%s\n", dname_to_text(target.wire, name));
	}
}

static void
say_record(const struct explanation *e, const struct explained *answer, const struct record *record,
    struct lines *lines)
{
	char *line = NULL;
	size_t len;
	FILE *out = open_memstream(&line, &len);

	if (out == NULL)
		abort(); /* fails only if memory runs out */
	print_record(out, answer, record);
	fclose(out);
	if (lines->text == NULL || strstr(lines->text, line) == NULL) {
		fputs(line, e->out);
		lines->text = xreallocarray(lines->text, lines->len + len + 1, 1);
		memcpy(lines->text + lines->len, line, len + 1);
		lines->len += len;
	}
	free(line);
}

/* Prints the records of one answer. Returns their number. */
static unsigned
say_answer(const struct explanation *e, const struct explained *answer, struct lines *lines)
{
	unsigned shown = explain_shown_max(e);
	const uint8_t *wire = answer->wire;
	struct record record;

	if (answer->outcome == ANSWER_FORWARD || explain_waits(answer))
		return 0;
	unsigned count = wire_get16(wire + 6);
	size_t at = DNS_HEADER + (size_t)answer->info.query.question_len;
	for (unsigned i = 0;
	     i < count && i < shown && wire_read_record(wire, answer->info.len, &at, &record) == 0;
	     i++)
		say_record(e, answer, &record, lines);
	if (count > shown)
		fprintf(e->out, "  and %u more%s\n", count - shown,
		    answer->info.truncated ? ", or many more" : "");
	return count;
}

/* --- reasons --- */

/* Why a type has no records. */
struct lack {
	uint16_t type;
	bool alias; /* the answer has aliases, whose target has no such records */
	unsigned rcode;
	enum reason_kind kind;
	char text[REASON_TEXT_MAX];
};

static void
lack_of(struct lack *lack, const struct explained *answer)
{
	const struct reason *reason = &answer->reason.denial;

	lack->type = answer->type;
	lack->rcode = answer->info.rcode;
	lack->kind = answer->outcome == ANSWER_REPLY ? reason->kind : REASON_NONE;
	lack->alias = answer->outcome == ANSWER_REPLY && wire_get16(answer->wire + 6) > 0;
	reason_text(reason, lack->text);
}

static void
say_lack(const struct explanation *e, const struct lack *lack, bool any)
{
	bool zonal = lack->kind == REASON_ZONE || lack->kind == REASON_ZONE_UNKNOWN;
	char type[12];

	type_name(lack->type, type);
	if (lack->kind == REASON_FILTERED)
		fprintf(e->out, "  %s queries get NODATA with EDE 17 instead: %s (--filter-%s)\n",
		    type, lack->text, lack->type == TYPE_A ? "a" : "aaaa");
	else if (lack->alias && lack->rcode == RCODE_NXDOMAIN)
		fprintf(e->out, "NXDOMAIN: the target of the alias does not exist%s%s.\n",
		    lack->kind == REASON_NONE ? "" : ": ", lack->text);
	else if (lack->kind != REASON_NONE && any)
		fprintf(e->out, "  no %s records: %s\n", type, lack->text);
	else if (lack->kind != REASON_NONE)
		fprintf(
		    e->out, "  no records (NODATA): %s%s\n", lack->text, zonal ? " (--zonal)" : "");
}

/* Prints why A and AAAA have no records. Most names have the same reason for both. */
static void
say_lacks(const struct explanation *e, const struct lack lacks[2], bool any, const char *empty)
{
	bool same = strcmp(lacks[0].text, lacks[1].text) == 0 && (!any || lacks[0].alias);

	say_lack(e, &lacks[0], any);
	if (!same)
		say_lack(e, &lacks[1], any);
	if (!any && lacks[0].kind == REASON_NONE && lacks[1].kind == REASON_NONE && empty != NULL)
		fprintf(e->out, "  no records (NODATA)%s%s\n", *empty == '\0' ? "" : ": ", empty);
}

void
explain_filtered(const struct explanation *e)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA };

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		struct explained *answer = explain_query(e->config, e->qname->wire, types[i]);
		struct lack lack;

		lack_of(&lack, answer);
		if (lack.kind == REASON_FILTERED)
			say_lack(e, &lack, false);
		free(answer);
	}
}

void
explain_sent(const struct explanation *e, const uint8_t *name, bool direct)
{
	const struct answer_context *context = e->config->tree->context;
	const uint8_t *stub = direct ? NULL : answer_stub_domain(context, name);
	struct reason closed = { .kind = REASON_NONE };
	char text[DNAME_TEXT_MAX], sentence[REASON_TEXT_MAX];

	if (context != NULL)
		closed = answer_closed_reason(context, name);
	reason_text(&closed, sentence);
	if (closed.kind != REASON_NONE)
		fprintf(e->out, "SERVFAIL: %s.\n", sentence);
	else if (stub != NULL)
		fprintf(e->out,
		    "it is in the stub domain %s, so dnsmasq or unbound sends the query to that "
		    "domain's servers (ConfigMap key stubDomains).\n",
		    dname_to_text(stub, text));
	else
		fprintf(e->out, "the query is sent to the upstream servers.\n");
}

/* Prints which servers get the query for the target of an alias. */
static void
say_target(const struct explanation *e, const struct explained *answer)
{
	char target[DNAME_TEXT_MAX];

	fprintf(e->out, "  The target is %s: ", dname_to_text(answer->info.target.wire, target));
	explain_sent(e, answer->info.target.wire, answer->info.direct);
}

void
explain_records(const struct explanation *e, const char *empty)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_TXT, TYPE_NS,
		TYPE_PTR };
	enum { TYPES = sizeof types / sizeof types[0] };
	struct explained *chased = NULL;
	struct lack lacks[2];
	struct lines lines = { 0 };
	unsigned records = 0;

	for (size_t i = 0; i < TYPES; i++) {
		struct explained *answer = explain_query(e->config, e->qname->wire, types[i]);

		records += say_answer(e, answer, &lines);
		if (i < 2)
			lack_of(&lacks[i], answer);
		if (chased == NULL && answer->outcome == ANSWER_CHASE && !explain_waits(answer))
			chased = answer;
		else
			free(answer);
	}
	free(lines.text);
	say_lacks(e, lacks, records > 0, empty);
	if (chased != NULL)
		say_target(e, chased);
	free(chased);
}
