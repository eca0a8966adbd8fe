#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanny/servers/stub_host_addrs.h"

#include "lib/clock.h"

void
stub_host_init(struct stub_host *name, const char *host, int64_t now_ms)
{
	*name = (struct stub_host){ 0 };
	snprintf(name->host, sizeof name->host, "%s", host);
	for (int i = 0; i < STUB_HOST_FAMILIES; i++)
		name->family[i].due_ms = now_ms;
}

static int
addr_order(const void *a, const void *b)
{
	const struct addr *x = &((const struct stub_host_addr *)a)->addr,
			  *y = &((const struct stub_host_addr *)b)->addr;
	int order = (x->family == AF_INET6) - (y->family == AF_INET6);

	return order ? order : memcmp(x->bytes, y->bytes, addr_len(x));
}

static struct stub_host_addr *
find(struct stub_host *name, const struct addr *addr)
{
	for (size_t i = 0; i < name->known_count; i++)
		if (addr_equal(&name->known[i].addr, addr))
			return &name->known[i];
	return NULL;
}

static void
forget(struct stub_host *name, size_t i)
{
	memmove(
	    &name->known[i], &name->known[i + 1], (--name->known_count - i) * sizeof *name->known);
}

/* Makes space for another address, if necessary by dropping the vanished address that expires
 * first. */
static bool
make_room(struct stub_host *name)
{
	if (name->known_count < STUB_HOST_KNOWN_MAX)
		return true;
	size_t first = STUB_HOST_KNOWN_MAX;
	for (size_t i = 0; i < name->known_count; i++)
		if (!name->known[i].current &&
		    (first == STUB_HOST_KNOWN_MAX ||
			name->known[i].keep_until_ms < name->known[first].keep_until_ms))
			first = i;
	if (first == STUB_HOST_KNOWN_MAX)
		return false;
	forget(name, first);
	return true;
}

static int64_t
clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* Marks the addresses of `family` as vanished until the new answer confirms them. Vanished
 * addresses are kept for a limited time. */
static void
mark_vanished(struct stub_host *name, int family, unsigned ttl_s, int64_t now_ms)
{
	int64_t keep = clamp((int64_t)ttl_s * 5000, STUB_HOST_KEEP_MIN_MS, STUB_HOST_KEEP_MAX_MS);

	for (size_t i = 0; i < name->known_count; i++) {
		struct stub_host_addr *known = &name->known[i];

		if (!known->current || (known->addr.family == AF_INET) != (family == STUB_HOST_V4))
			continue;
		known->current = false;
		known->keep_until_ms = now_ms + keep;
	}
}

static bool
any_current(const struct stub_host *name)
{
	for (size_t i = 0; i < name->known_count; i++)
		if (name->known[i].current)
			return true;
	return false;
}

enum stub_host_change
stub_host_answer(struct stub_host *name, int family, const struct addr *addrs, size_t count,
    unsigned ttl_s, int64_t now_ms, unsigned jitter)
{
	struct stub_host_family *f = &name->family[family];

	ttl_s = (unsigned)clamp(ttl_s, STUB_HOST_TTL_MIN_S, STUB_HOST_TTL_MAX_S);
	f->pending = false;
	f->failures = 0;
	f->error[0] = '\0';
	f->answered = true;
	f->ttl_s = ttl_s;
	f->until_ms = now_ms + (int64_t)ttl_s * 1000;
	/* refresh up to a tenth of the TTL early */
	f->due_ms = f->until_ms - (int64_t)ttl_s * 1000 * (int64_t)jitter / 2560;
	mark_vanished(name, family, ttl_s, now_ms);
	bool added = false, had_current = any_current(name);
	for (size_t i = 0; i < count; i++) {
		struct stub_host_addr *known = find(name, &addrs[i]);

		if (known != NULL) {
			had_current = true;
			known->current = true;
		} else if (make_room(name)) {
			name->known[name->known_count++] =
			    (struct stub_host_addr){ .addr = addrs[i], .current = true };
			added = true;
		}
	}
	qsort(name->known, name->known_count, sizeof *name->known, addr_order);
	return !added ? STUB_HOST_SAME : had_current ? STUB_HOST_LATER : STUB_HOST_NOW;
}

void
stub_host_failure(
    struct stub_host *name, int family, const char *error, int64_t now_ms, unsigned jitter)
{
	struct stub_host_family *f = &name->family[family];
	int64_t wait = STUB_HOST_RETRY_MIN_MS;

	for (unsigned i = 0; i < f->failures && wait < STUB_HOST_RETRY_MAX_MS; i++)
		wait *= 2;
	wait = clamp(wait, STUB_HOST_RETRY_MIN_MS, STUB_HOST_RETRY_MAX_MS);
	f->pending = false;
	f->failures++;
	snprintf(f->error, sizeof f->error, "%s", error);
	f->due_ms = now_ms + wait + wait * (int64_t)jitter / 2560;
}

enum stub_host_change
stub_host_expire(struct stub_host *name, int64_t now_ms)
{
	bool gone = false;

	if (!any_current(name))
		return STUB_HOST_SAME;
	for (size_t i = name->known_count; i-- > 0;)
		if (!name->known[i].current && name->known[i].keep_until_ms <= now_ms) {
			forget(name, i);
			gone = true;
		}
	return gone ? STUB_HOST_LATER : STUB_HOST_SAME;
}

int64_t
stub_host_next_ms(const struct stub_host *name)
{
	int64_t next = CLOCK_NEVER;

	for (int i = 0; i < STUB_HOST_FAMILIES; i++)
		if (!name->family[i].pending && name->family[i].due_ms < next)
			next = name->family[i].due_ms;
	if (!any_current(name))
		return next;
	for (size_t i = 0; i < name->known_count; i++)
		if (!name->known[i].current && name->known[i].keep_until_ms < next)
			next = name->known[i].keep_until_ms;
	return next;
}
