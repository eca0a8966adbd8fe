/* The module transfer, as the core sees it. transfer.h describes what it does. */
#include "kubedns/module.h"

#include "kubedns/modules/transfer/transfer.h"
#include "lib/sandbox.h"

enum { DNS_PORT = 53, JOURNAL_LEAST = 64 * 1024, JOURNAL_MOST = 4 * 1024 * 1024 };

struct transfer_options {
	struct flag_list to, notify;
	char *key;
	struct transfer_rules rules;
};

static const struct flag flags[] = {
	{ "transfer-to", FLAG_LIST, offsetof(struct transfer_options, to), NULL, "CIDR,...",
	    .help = "allow zone transfers (AXFR, IXFR) to these prefixes",
	    RULES(HAS(SHOWS_EVERYTHING, "transfers give these servers the names of all namespaces: "
					"run a separate kubedns for transfers")) },
	{ "transfer-key", FLAG_STRING, offsetof(struct transfer_options, key), "", "FILE",
	    .help = "require a TSIG key from this file for transfers",
	    RULES(NEEDS("transfer-to", "without it, no server may transfer a zone")) },
	{ "transfer-notify", FLAG_LIST, offsetof(struct transfer_options, notify), NULL,
	    "IP[:PORT],...", .help = "send NOTIFY to these servers, at most 16",
	    RULES(NEEDS("transfer-to", "without it, no server may transfer a zone")) },
	{ "transfer-journal", FLAG_SIZE, offsetof(struct transfer_options, rules.journal_bytes),
	    "1M", "SIZE|off", .help = "memory for the changes that IXFR sends",
	    .min = JOURNAL_LEAST, .max = JOURNAL_MOST },
	{ .name = NULL },
};

static int
read_prefix(struct transfer_rules *rules, const char *text)
{
	struct addr addr;
	unsigned bits;

	if (addr_parse(text, &addr) == 0)
		bits = (unsigned)addr_len(&addr) * 8;
	else if (addr_parse_prefix(text, &addr, &bits) < 0)
		return flags_refuse("transfer-to", text,
		    "not an address or a prefix, such as 192.0.2.53 or 10.0.0.0/24");
	if (rules->to_count == TRANSFER_PREFIXES_MAX)
		return flags_refuse("transfer-to", text, "at most 64 prefixes");
	rules->to[rules->to_count].addr = addr;
	rules->to[rules->to_count++].bits = bits;
	return 0;
}

static int
read_notify(struct transfer_rules *rules, const char *text)
{
	const char *why = "at most 16 servers";

	if (rules->notify_count == TRANSFER_NOTIFY_MAX ||
	    server_parse(text, DNS_PORT, &rules->notify[rules->notify_count], &why) < 0)
		return flags_refuse("transfer-notify", text, why);
	rules->notify_count++;
	return 0;
}

static int
read_keys(struct transfer_rules *rules, const char *file)
{
	char why[TSIG_WHY_MAX];

	if (*file == '\0')
		return 0;
	if (tsig_keys_read(&rules->keys, file, why) < 0)
		return flags_refuse("transfer-key", file, why);
	rules->key_file = file;
	return 0;
}

static int
check(void *options, const struct module_given *given, struct module_wants *wants)
{
	struct transfer_options *o = options;
	int rc = 0;

	(void)given;
	for (size_t i = 0; i < o->notify.count && rc == 0; i++)
		rc = read_notify(&o->rules, o->notify.items[i]);
	if (rc == 0)
		rc = read_keys(&o->rules, o->key);
	for (size_t i = 0; i < o->to.count && rc == 0; i++)
		rc = read_prefix(&o->rules, o->to.items[i]);
	wants->enabled = o->rules.to_count > 0;
	return rc;
}

static bool
takes(const void *state, const struct answer_config *answers, const struct query *query,
    bool has_tsig)
{
	return transfer_takes(state, answers, query, has_tsig);
}

static size_t
answer_message(void *state, const struct module_message *message)
{
	return transfer_answer(state, message);
}

static const struct message_handler messages = { .takes = takes, .answer = answer_message };

static void *
open_transfer(const void *options, struct module_core *core)
{
	return transfer_new(&((const struct transfer_options *)options)->rules, core);
}

/* The file may be replaced while kubedns runs. */
static unsigned
confine(void *state, struct sandbox *sandbox)
{
	const char *key_file = transfer_key_file(state);

	if (key_file != NULL)
		sandbox_read_replaced(sandbox, key_file);
	return 0;
}

static void
start(void *state, const struct module_core *core)
{
	(void)core;
	transfer_start(state);
}

static void
snapshot_complete(void *state)
{
	transfer_snapshot(state);
}

static void
period(void *state)
{
	transfer_read_keys(state);
}

static void
metrics(void *state, const uint64_t *counters, struct metrics *m)
{
	(void)counters;
	transfer_metrics(state, m);
}

static void
stop(void *state)
{
	transfer_stop(state);
}

static void
stopped(void *state)
{
	transfer_free(state);
}

const struct module module_transfer = { .name = "transfer",
	.flags = flags,
	.options_size = sizeof(struct transfer_options),
	.check = check,
	.messages = &messages,
	.open = open_transfer,
	.confine = confine,
	.start = start,
	.snapshot_complete = snapshot_complete,
	.period = period,
	.metrics = metrics,
	.stop = stop,
	.stopped = stopped };
