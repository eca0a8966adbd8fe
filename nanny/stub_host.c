#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanny/stub_host.h"

void
name_init(struct name *name, const char *host, int64_t now_ms)
{
	*name = (struct name){ 0 };
	snprintf(name->host, sizeof name->host, "%s", host);
	for (int i = 0; i < NAME_FAMILIES; i++)
		name->family[i].due_ms = now_ms;
}

static int
addr_order(const void *a, const void *b)
{
	const struct addr *x = &((const struct name_addr *)a)->addr,
			  *y = &((const struct name_addr *)b)->addr;
	int order = (x->family == AF_INET6) - (y->family == AF_INET6);
	return order ? order : memcmp(x->bytes, y->bytes, addr_len(x));
}

static struct name_addr *
find(struct name *name, const struct addr *addr)
{
	for (size_t i = 0; i < name->known_count; i++)
		if (addr_equal(&name->known[i].addr, addr))
			return &name->known[i];
	return NULL;
}

static void
forget(struct name *name, size_t i)
{
	memmove(
	    &name->known[i], &name->known[i + 1], (--name->known_count - i) * sizeof *name->known);
}

/* Room for another: the vanished address that would go first goes now. */
static bool
make_room(struct name *name)
{
	if (name->known_count < NAME_KNOWN_MAX)
		return true;
	size_t first = NAME_KNOWN_MAX;
	for (size_t i = 0; i < name->known_count; i++)
		if (!name->known[i].current &&
		    (first == NAME_KNOWN_MAX ||
			name->known[i].keep_until_ms < name->known[first].keep_until_ms))
			first = i;
	if (first == NAME_KNOWN_MAX)
		return false;
	forget(name, first);
	return true;
}

static int64_t
clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* Marks what has vanished from `family`'s answers, to be kept from now on. */
static void
mark_vanished(struct name *name, int family, unsigned ttl_s, int64_t now_ms)
{
	int64_t keep = clamp((int64_t)ttl_s * 5000, NAME_KEEP_MIN_MS, NAME_KEEP_MAX_MS);
	for (size_t i = 0; i < name->known_count; i++) {
		struct name_addr *known = &name->known[i];
		if (!known->current || (known->addr.family == AF_INET) != (family == NAME_V4))
			continue;
		known->current = false;
		known->keep_until_ms = now_ms + keep;
	}
}

static bool
any_current(const struct name *name)
{
	for (size_t i = 0; i < name->known_count; i++)
		if (name->known[i].current)
			return true;
	return false;
}

enum name_change
name_answer(struct name *name, int family, const struct addr *addrs, size_t count, unsigned ttl_s,
    int64_t now_ms, unsigned jitter)
{
	struct name_family *f = &name->family[family];
	ttl_s = (unsigned)clamp(ttl_s, NAME_TTL_MIN_S, NAME_TTL_MAX_S);
	f->pending = false;
	f->failures = 0;
	f->error[0] = '\0';
	f->answered = true;
	f->ttl_s = ttl_s;
	f->until_ms = now_ms + (int64_t)ttl_s * 1000;
	f->due_ms =
	    f->until_ms - (int64_t)ttl_s * 1000 * (int64_t)jitter / 2560; /* up to a tenth early */
	mark_vanished(name, family, ttl_s, now_ms);
	bool added = false, had_current = any_current(name);
	for (size_t i = 0; i < count; i++) {
		struct name_addr *known = find(name, &addrs[i]);
		if (known) {
			had_current = true;
			known->current = true;
		} else if (make_room(name)) {
			name->known[name->known_count++] =
			    (struct name_addr){ .addr = addrs[i], .current = true };
			added = true;
		}
	}
	qsort(name->known, name->known_count, sizeof *name->known, addr_order);
	return !added ? NAME_SAME : had_current ? NAME_LATER : NAME_NOW;
}

void
name_failure(struct name *name, int family, const char *error, int64_t now_ms, unsigned jitter)
{
	struct name_family *f = &name->family[family];
	int64_t wait = NAME_RETRY_MIN_MS;
	for (unsigned i = 0; i < f->failures && wait < NAME_RETRY_MAX_MS; i++)
		wait *= 2;
	wait = clamp(wait, NAME_RETRY_MIN_MS, NAME_RETRY_MAX_MS);
	f->pending = false;
	f->failures++;
	snprintf(f->error, sizeof f->error, "%s", error);
	f->due_ms = now_ms + wait + wait * (int64_t)jitter / 2560;
}

enum name_change
name_expire(struct name *name, int64_t now_ms)
{
	bool gone = false;
	if (!any_current(name))
		return NAME_SAME;
	for (size_t i = name->known_count; i-- > 0;)
		if (!name->known[i].current && name->known[i].keep_until_ms <= now_ms) {
			forget(name, i);
			gone = true;
		}
	return gone ? NAME_LATER : NAME_SAME;
}

int64_t
name_next_ms(const struct name *name)
{
	int64_t next = INT64_MAX;
	for (int i = 0; i < NAME_FAMILIES; i++)
		if (!name->family[i].pending && name->family[i].due_ms < next)
			next = name->family[i].due_ms;
	if (!any_current(name))
		return next;
	for (size_t i = 0; i < name->known_count; i++)
		if (!name->known[i].current && name->known[i].keep_until_ms < next)
			next = name->known[i].keep_until_ms;
	return next;
}
