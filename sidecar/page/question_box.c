#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/percent.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/page/question_box.h"
#include "lib/clock.h"

enum {
	QUESTION_BOX_TIMEOUT_MS =
	    5000 /* like a stub resolver; kubedns gives up on its upstreams after at most 4 s */
};

void
question_box_init(struct question_box *box, const struct server *dns, const struct url *kubedns)
{
	*box = (struct question_box){ .dns = *dns, .kubedns = kubedns };
	for (int i = 0; i < QUESTION_BOX_MAX; i++) {
		dns_exchange_init(&box->entries[i].exchange);
		fetch_init(&box->entries[i].fetch);
	}
}

/* Makes a name under in-addr.arpa or ip6.arpa (RFC 1035 section 3.5, RFC 3596 section 2.5). */
static void
reverse_name(const struct addr *addr, struct dname *name)
{
	char text[128], *p = text;
	size_t len = addr_len(addr);

	for (size_t i = len; i-- > 0;)
		if (addr->family == AF_INET)
			p += sprintf(p, "%u.", addr->bytes[i]);
		else
			p += sprintf(p, "%x.%x.", addr->bytes[i] & 15, addr->bytes[i] >> 4);
	strcpy(p, addr->family == AF_INET ? "in-addr.arpa." : "ip6.arpa.");
	dname_from_text(name, text);
}

enum question_box_result
question_box_parse(const char *text, const char *type, struct dname *name, uint16_t *number)
{
	struct addr addr;

	*number = TYPE_A;
	if (type != NULL && type[0] != '\0' && (*number = type_number(type)) == 0)
		return QUESTION_BOX_BAD_TYPE;
	if (*number == TYPE_OPT || *number == TYPE_AXFR || *number == TYPE_IXFR)
		return QUESTION_BOX_BAD_TYPE;
	if (addr_parse(text, &addr) == 0) {
		reverse_name(&addr, name);
		*number = TYPE_PTR;
		return QUESTION_BOX_STARTED;
	}
	if (text[0] == '\0' || strlen(text) >= QUESTION_BOX_TEXT_MAX ||
	    dname_from_text(name, text) < 0)
		return QUESTION_BOX_BAD_NAME;
	return QUESTION_BOX_STARTED;
}

static void
forget(struct boxed_question *entry)
{
	dns_exchange_close(&entry->exchange);
	fetch_close(&entry->fetch);
	free(entry->answer);
	free(entry->explain);
	entry->answer = entry->explain = NULL;
	entry->used = entry->done = false;
}

static void
end_dns(struct boxed_question *entry)
{
	const struct dns_exchange *exchange = &entry->exchange;

	entry->answer =
	    exchange->message != NULL
		? dns_reply_text(exchange->message, exchange->message_len, QUESTION_BOX_RECORDS_MAX)
		: xstrdup("");
}

static void
end_explain(struct boxed_question *entry)
{
	const struct fetch *fetch = &entry->fetch;

	if (fetch->status == 404)
		snprintf(
		    entry->explain_error, sizeof entry->explain_error, "it has no page /explain");
	else if (fetch->status != 0)
		entry->explain = xstrndup(fetch->body, fetch->body_len);
	else
		snprintf(entry->explain_error, sizeof entry->explain_error, "%s", fetch->error);
	fetch_close(&entry->fetch);
}

static void
finish(struct boxed_question *entry, int64_t now_ns)
{
	if (entry->used && !entry->done && !dns_exchange_busy(&entry->exchange) &&
	    !entry->fetch.busy) {
		entry->done = true;
		entry->done_ns = now_ns;
	}
}

static void
start(struct question_box *box, struct boxed_question *entry)
{
	char name[DNAME_TEXT_MAX];

	entry->used = true;
	entry->explain_error[0] = '\0';
	entry->server = box->dns;
	if (dns_exchange_ask(&entry->exchange, &box->dns, &entry->name, entry->type, CLASS_IN,
		QUESTION_BOX_TIMEOUT_MS))
		end_dns(entry);
	if (box->kubedns != NULL) {
		char *escaped = percent_encode(dname_to_text(entry->name.wire, name));
		char *target = xasprintf("/explain?name=%s", escaped);

		if (fetch_start(&entry->fetch, box->kubedns, target, QUESTION_BOX_EXPLAIN_MAX))
			end_explain(entry);
		free(target);
		free(escaped);
	}
	finish(entry, clock_mono_ns());
}

static bool
expired(const struct boxed_question *entry, int64_t now_ns)
{
	return entry->done && now_ns - entry->done_ns > QUESTION_BOX_KEEP_MS * NS_PER_MS;
}

enum question_box_result
question_box_ask(
    struct question_box *box, const char *text, const char *type, struct boxed_question **entry)
{
	struct boxed_question *free_entry = NULL;
	struct dname name;
	uint16_t number;
	enum question_box_result result = question_box_parse(text, type, &name, &number);

	if (result != QUESTION_BOX_STARTED)
		return result;
	for (int i = 0; i < QUESTION_BOX_MAX; i++) {
		struct boxed_question *e = &box->entries[i];

		if (e->used && e->type == number && dname_equal(e->name.wire, name.wire)) {
			*entry = e;
			return QUESTION_BOX_SAME;
		}
		if (!e->used)
			free_entry = e;
	}
	if (free_entry == NULL)
		return QUESTION_BOX_BUSY;
	*entry = free_entry;
	free_entry->name = name;
	free_entry->type = number;
	start(box, free_entry);
	return QUESTION_BOX_STARTED;
}

void
question_box_run(struct question_box *box, const short *revents, int64_t now_ns)
{
	for (int i = 0; i < QUESTION_BOX_MAX; i++) {
		struct boxed_question *entry = &box->entries[i];

		if (dns_exchange_run(&entry->exchange, revents[2 * i]))
			end_dns(entry);
		if (fetch_run(&entry->fetch, revents[2 * i + 1]))
			end_explain(entry);
		finish(entry, now_ns);
		if (entry->used && expired(entry, now_ns))
			forget(entry);
	}
}

int64_t
question_box_deadline(const struct question_box *box)
{
	int64_t nearest = CLOCK_NEVER;

	for (int i = 0; i < QUESTION_BOX_MAX; i++) {
		const struct boxed_question *entry = &box->entries[i];
		int64_t deadlines[] = { entry->exchange.deadline_ns, entry->fetch.deadline_ns,
			entry->done ? entry->done_ns + (QUESTION_BOX_KEEP_MS + 1) * NS_PER_MS
				    : CLOCK_NEVER };

		for (size_t j = 0; j < 3; j++)
			if (entry->used && deadlines[j] < nearest)
				nearest = deadlines[j];
	}
	return nearest;
}

void
question_box_close(struct question_box *box)
{
	for (int i = 0; i < QUESTION_BOX_MAX; i++)
		forget(&box->entries[i]);
}
