/* The flags for zone transfers. */
#include <errno.h>
#include <string.h>

#include "kubedns/options_internal.h"

enum { DNS_PORT = 53 };

static int
read_prefix(struct options *o, const char *text)
{
	struct transfer_rules *rules = &o->transfer;
	struct addr addr;
	unsigned bits;

	if (addr_parse(text, &addr) == 0)
		bits = (unsigned)addr_len(&addr) * 8;
	else if (options_cidr(text, &addr, &bits) < 0)
		return options_refuse("transfer-to", text,
		    "not an address or a prefix, such as 192.0.2.53 or 10.0.0.0/24");
	if (rules->to_count == TRANSFER_PREFIXES_MAX)
		return options_refuse("transfer-to", text, "at most 64 prefixes");
	rules->to[rules->to_count].addr = addr;
	rules->to[rules->to_count++].bits = bits;
	return 0;
}

static int
read_notify(struct options *o, const char *text)
{
	struct transfer_rules *rules = &o->transfer;
	const char *why = "at most 16 servers";

	if (rules->notify_count == TRANSFER_NOTIFY_MAX ||
	    server_parse(text, DNS_PORT, &rules->notify[rules->notify_count], &why) < 0)
		return options_refuse("transfer-notify", text, why);
	rules->notify_count++;
	return 0;
}

/* NOTIFY comes from where secondaries know us, if that is one address of the family. */
static void
choose_sources(struct options *o)
{
	static const struct addr any4 = { .family = AF_INET }, any6 = { .family = AF_INET6 };

	for (size_t i = 0; i < o->listen_count; i++) {
		const struct addr *addr = &o->listen[i];
		struct addr *source = &o->transfer.sources[addr->family == AF_INET6];
		if (source->family == AF_UNSPEC && !addr_equal(addr, &any4) &&
		    !addr_equal(addr, &any6))
			*source = *addr;
	}
}

static int
read_keys(struct options *o)
{
	struct transfer_rules *rules = &o->transfer;
	char why[TSIG_WHY_MAX];

	if (*o->transfer_key == '\0')
		return 0;
	if (o->transfer_to.count == 0)
		return options_refuse(
		    "transfer-key", o->transfer_key, "nobody gets a zone: needs --transfer-to");
	if (tsig_keys_read(&rules->keys, o->transfer_key, why) < 0)
		return options_refuse("transfer-key", o->transfer_key, why);
	rules->key_file = o->transfer_key;
	o->answers.transfer_keys = true;
	return 0;
}

int
options_read_transfer(struct options *o)
{
	int rc = 0;

	for (size_t i = 0; i < o->transfer_notify.count && rc == 0; i++)
		rc = read_notify(o, o->transfer_notify.items[i]);
	if (o->transfer_notify.count > 0 && o->transfer_to.count == 0)
		rc = options_refuse("transfer-notify", o->transfer_notify.items[0],
		    "nobody gets a zone: needs --transfer-to");
	if (o->transfer_to.count > 0 && strcmp(o->visibility_text, "off") != 0)
		rc = options_refuse("transfer-to", o->transfer_to.items[0],
		    "a secondary would show every namespace to everybody: leave out "
		    "--visibility, or this");
	choose_sources(o);
	if (rc == 0)
		rc = read_keys(o);
	for (size_t i = 0; i < o->transfer_to.count && rc == 0; i++)
		rc = read_prefix(o, o->transfer_to.items[i]);
	o->answers.transfer = o->transfer.to_count > 0;
	return rc;
}
