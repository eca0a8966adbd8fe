/* The flags for zone transfers. */
#include <errno.h>

#include "kubedns/options_internal.h"

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

int
options_read_transfer(struct options *o)
{
	int rc = 0;

	for (size_t i = 0; i < o->transfer_to.count && rc == 0; i++)
		rc = read_prefix(o, o->transfer_to.items[i]);
	o->answers.transfer = o->transfer.to_count > 0;
	return rc;
}
