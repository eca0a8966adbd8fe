#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/percent.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/question_box.h"
#include "lib/clock.h"

enum {
	ASK_TIMEOUT_MS =
	    5000 /* what a stub resolver waits: kubedns may need 4 s to give up on its upstreams */
};

void
ask_init(struct ask *ask, const struct server *dns, const struct url *kubedns)
{
	*ask = (struct ask){ .dns = *dns, .kubedns = kubedns };
	for (int i = 0; i < ASK_MAX; i++) {
		net_init(&ask->entries[i].net);
		fetch_init(&ask->entries[i].fetch);
	}
}

/* in-addr.arpa and ip6.arpa (RFC 1035 section 3.5, RFC 3596 section 2.5). */
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

enum ask_result
ask_parse(const char *text, const char *type, struct dname *name, uint16_t *number)
{
	struct addr addr;

	*number = TYPE_A;
	if (type != NULL && type[0] != '\0' && (*number = type_number(type)) == 0)
		return ASK_BAD_TYPE;
	if (*number == TYPE_OPT || *number == TYPE_AXFR || *number == TYPE_IXFR)
		return ASK_BAD_TYPE;
	if (addr_parse(text, &addr) == 0) {
		reverse_name(&addr, name);
		*number = TYPE_PTR;
		return ASK_STARTED;
	}
	if (text[0] == '\0' || strlen(text) >= ASK_TEXT_MAX || dname_from_text(name, text) < 0)
		return ASK_BAD_NAME;
	return ASK_STARTED;
}

static void
forget(struct ask_entry *entry)
{
	net_close(&entry->net);
	fetch_close(&entry->fetch);
	free(entry->answer);
	free(entry->explain);
	entry->answer = entry->explain = NULL;
	entry->used = entry->done = false;
}

static void
end_dns(struct ask_entry *entry)
{
	const struct net *net = &entry->net;

	entry->answer = net->message != NULL
			    ? probe_reply_text(net->message, net->message_len, ASK_RECORDS_MAX)
			    : xstrdup("");
}

static void
end_explain(struct ask_entry *entry)
{
	const struct fetch *fetch = &entry->fetch;

	if (fetch->status == 404)
		snprintf(entry->explain_error, sizeof entry->explain_error, "it has no /explain");
	else if (fetch->status != 0)
		entry->explain = xstrndup(fetch->body, fetch->body_len);
	else
		snprintf(entry->explain_error, sizeof entry->explain_error, "%s", fetch->error);
	fetch_close(&entry->fetch);
}

static void
finish(struct ask_entry *entry, int64_t now_ns)
{
	if (entry->used && !entry->done && !net_busy(&entry->net) && !entry->fetch.busy) {
		entry->done = true;
		entry->done_ns = now_ns;
	}
}

static void
start(struct ask *ask, struct ask_entry *entry)
{
	char name[DNAME_TEXT_MAX];

	entry->used = true;
	entry->asked_ns = clock_mono_ns();
	entry->explain_error[0] = '\0';
	if (net_ask(&entry->net, &ask->dns, &entry->name, entry->type, CLASS_IN, ASK_TIMEOUT_MS))
		end_dns(entry);
	if (ask->kubedns != NULL) {
		char *escaped = percent_encode(dname_to_text(entry->name.wire, name));
		char *target = xasprintf("/explain?name=%s", escaped);
		if (fetch_start(&entry->fetch, ask->kubedns, target, ASK_EXPLAIN_MAX))
			end_explain(entry);
		free(target);
		free(escaped);
	}
	finish(entry, entry->asked_ns);
}

static bool
expired(const struct ask_entry *entry, int64_t now_ns)
{
	return entry->done && now_ns - entry->done_ns > ASK_KEEP_MS * NS_PER_MS;
}

enum ask_result
ask_question(struct ask *ask, const char *text, const char *type, struct ask_entry **entry)
{
	struct ask_entry *free_entry = NULL;
	struct dname name;
	uint16_t number;
	enum ask_result result = ask_parse(text, type, &name, &number);

	if (result != ASK_STARTED)
		return result;
	for (int i = 0; i < ASK_MAX; i++) {
		struct ask_entry *e = &ask->entries[i];
		if (e->used && e->type == number && dname_equal(e->name.wire, name.wire)) {
			*entry = e;
			return ASK_SAME;
		}
		if (!e->used)
			free_entry = e;
	}
	if (free_entry == NULL)
		return ASK_BUSY;
	*entry = free_entry;
	free_entry->name = name;
	free_entry->type = number;
	snprintf(free_entry->text, sizeof free_entry->text, "%s", text);
	start(ask, free_entry);
	return ASK_STARTED;
}

void
ask_run(struct ask *ask, const short *revents, int64_t now_ns)
{
	for (int i = 0; i < ASK_MAX; i++) {
		struct ask_entry *entry = &ask->entries[i];
		if (net_run(&entry->net, revents[2 * i]))
			end_dns(entry);
		if (fetch_run(&entry->fetch, revents[2 * i + 1]))
			end_explain(entry);
		finish(entry, now_ns);
		if (entry->used && expired(entry, now_ns))
			forget(entry);
	}
}

int64_t
ask_deadline(const struct ask *ask)
{
	int64_t nearest = CLOCK_NEVER;

	for (int i = 0; i < ASK_MAX; i++) {
		const struct ask_entry *entry = &ask->entries[i];
		int64_t deadlines[] = { entry->net.deadline_ns, entry->fetch.deadline_ns,
			entry->done ? entry->done_ns + (ASK_KEEP_MS + 1) * NS_PER_MS
				    : CLOCK_NEVER };
		for (size_t j = 0; j < 3; j++)
			if (entry->used && deadlines[j] < nearest)
				nearest = deadlines[j];
	}
	return nearest;
}

void
ask_close(struct ask *ask)
{
	for (int i = 0; i < ASK_MAX; i++)
		forget(&ask->entries[i]);
}
