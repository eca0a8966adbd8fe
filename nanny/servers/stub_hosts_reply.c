/* Parses a response to a lookup of a stub server's host name. Follows the CNAMEs of the name and
 * copies the addresses. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/wire.h"
#include "nanny/servers/stub_hosts.h"

enum { CHAIN_MAX = 16, RECORDS_MAX = 512 };

static void
take_addr(const struct record *record, struct addr *addrs, int *count)
{
	size_t want = record->type == TYPE_A ? 4 : 16;

	if (record->rdata_len != want || *count == STUB_HOST_ADDRS_MAX)
		return;
	struct addr addr = { .family = record->type == TYPE_A ? AF_INET : AF_INET6 };
	const char *why;
	memcpy(addr.bytes, record->rdata, want);
	if (conf_addr_useless(&addr, &why))
		return;
	for (int i = 0; i < *count; i++)
		if (addr_equal(&addrs[i], &addr))
			return;
	addrs[(*count)++] = addr;
}

static void
least(unsigned *ttl_s, uint32_t ttl)
{
	if (ttl > INT32_MAX)
		ttl = 0; /* RFC 2181 section 8: treat a TTL with the top bit set as 0 */
	if (ttl < *ttl_s)
		*ttl_s = ttl;
}

/* Scans the answer section once for records of `owner`, and copies the addresses. If `owner` has a
 * CNAME, sets `owner` to the target. */
static int
follow(struct reply_walk walk, int family, struct dname *owner, struct addr *addrs, int *count,
    unsigned *ttl_s)
{
	unsigned type = family == STUB_HOST_V4 ? TYPE_A : TYPE_AAAA;
	const struct record *record = &walk.record;
	struct dname target = { 0 };

	for (int i = 0; i < RECORDS_MAX && walk.left[WALK_ANSWER] > 0; i++) {
		if (reply_walk_next(&walk) < 0)
			return -EBADMSG;
		if (record->class != CLASS_IN || !dname_equal(record->owner.wire, owner->wire))
			continue;
		if (record->type == type) {
			take_addr(record, addrs, count);
			least(ttl_s, record->ttl_s);
		} else if (record->type == TYPE_CNAME && target.len == 0) {
			if (reply_walk_target(&walk, 0, &target) < 0)
				return -EBADMSG;
			least(ttl_s, record->ttl_s);
		}
	}
	if (*count > 0 || target.len == 0)
		return 0;
	*owner = target;
	return 1;
}

int
stub_hosts_parse_reply(const uint8_t *wire, size_t len, const char *host, int family,
    struct addr *addrs, unsigned *ttl_s)
{
	struct dname owner;
	struct reply_walk walk;
	int count = 0, more = 1;

	if (!reply_walk_begin(&walk, wire, len) || dname_from_text(&owner, host) < 0)
		return -EBADMSG;
	*ttl_s = STUB_HOST_TTL_MAX_S;
	for (int i = 0; i < CHAIN_MAX && more > 0; i++)
		more = follow(walk, family, &owner, addrs, &count, ttl_s);
	return more < 0 ? more : count;
}
