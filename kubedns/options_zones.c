/* The flags for our zones, the namespaces in them, and the names asked of other servers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/options_internal.h"
#include "lib/xalloc.h"

static int
read_domain(struct options *o)
{
	struct dname *zone = &o->answers.zone;

	if (dname_from_text(zone, o->domain) < 0 || zone->len == 1)
		return options_refuse("domain", o->domain, "not a DNS name, such as cluster.local");
	for (const uint8_t *label = zone->wire; *label != 0; label += 1u + *label)
		if (!dname_label_ok((const char *)label + 1, *label))
			return options_refuse(
			    "domain", o->domain, "labels must be letters, digits and '-'");
	if (zone->len >
	    128) /* room for an endpoint, a Service, a namespace and a port in front of it */
		return options_refuse("domain", o->domain, "too long: 127 bytes at most");
	dname_lower(zone->wire, zone->len);
	return 0;
}

/* --- --reverse-cidrs: each prefix becomes zones on octet or nibble borders --- */

int
options_cidr(const char *text, struct addr *addr, unsigned *bits)
{
	char *copy = xstrdup(text), *slash = strchr(copy, '/'), *end = NULL;
	int rc = -EINVAL;

	if (slash != NULL) {
		*slash = '\0';
		unsigned long n =
		    slash[1] >= '0' && slash[1] <= '9' ? strtoul(slash + 1, &end, 10) : 0;
		if (end != NULL && *end == '\0' && addr_parse(copy, addr) == 0 && n > 0 &&
		    n <= 8 * addr_len(addr)) {
			*bits = (unsigned)n;
			rc = 0;
		}
	}
	free(copy);
	return rc;
}

static void
add_reverse_zones(struct answer_config *answers, const struct addr *prefix, unsigned bits)
{
	unsigned width = prefix->family == AF_INET ? 8 : 4;
	unsigned border = (bits + width - 1) / width * width, spare = border - bits;

	for (unsigned i = 0; i < 1u << spare; i++) {
		struct reverse_zone zone = { .prefix = *prefix, .bits = border };
		/* The bits between the prefix and the border take every value; those after the
		 * border are 0. */
		unsigned last = (border - 1) / 8, shift = (8 - border % 8) % 8;
		uint8_t mask = (uint8_t)(0xff << (shift + spare));
		zone.prefix.bytes[last] = (uint8_t)((zone.prefix.bytes[last] & mask) | i << shift);
		memset(zone.prefix.bytes + last + 1, 0, sizeof zone.prefix.bytes - last - 1);
		reverse_name_prefix(&zone.prefix, border, &zone.name);
		answers->reverse_zones = xreallocarray(
		    answers->reverse_zones, answers->reverse_zone_count + 1, sizeof zone);
		answers->reverse_zones[answers->reverse_zone_count++] = zone;
	}
}

static int
read_reverse_cidrs(struct options *o)
{
	struct addr prefix;
	unsigned bits;

	for (size_t i = 0; i < o->reverse_cidrs.count; i++) {
		if (options_cidr(o->reverse_cidrs.items[i], &prefix, &bits) < 0)
			return options_refuse("reverse-cidrs", o->reverse_cidrs.items[i],
			    "not a prefix such as 10.96.0.0/12 or fd00:10:96::/108");
		add_reverse_zones(&o->answers, &prefix, bits);
	}
	o->answers.ptr_in_cidrs = strcmp(o->ptr_text, "cidrs") == 0;
	if (!o->answers.ptr_in_cidrs && strcmp(o->ptr_text, "all") != 0)
		return options_refuse("ptr", o->ptr_text, "must be all or cidrs");
	if (o->answers.ptr_in_cidrs && o->reverse_cidrs.count == 0)
		return options_refuse("ptr", o->ptr_text,
		    "which prefixes? --reverse-cidrs is missing: give those of Services and pods");
	return 0;
}

/* --- which namespaces exist --- */

bool
options_is_namespace(const char *name)
{
	size_t len = strlen(name);
	return dname_label_ok(name, len) &&
	       name[strcspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] == '\0';
}

static int
read_namespaces(struct options *o)
{
	if (o->namespaces.count == 0)
		return 0;
	o->wanted_namespaces = xcalloc(o->namespaces.count + 1, sizeof *o->wanted_namespaces);
	for (size_t i = 0; i < o->namespaces.count; i++) {
		if (!options_is_namespace(o->namespaces.items[i]))
			return options_refuse("namespaces", o->namespaces.items[i],
			    "not the name of a namespace: small letters, digits and '-'");
		o->wanted_namespaces[i] = o->namespaces.items[i];
	}
	return 0;
}

static int
read_namespace_labels(struct options *o)
{
	char *why = NULL;

	if (*o->namespace_labels == '\0')
		return 0;
	int rc = label_selector_parse(o->namespace_labels, &o->namespace_selector, &why);
	if (rc < 0)
		options_refuse("namespace-labels", o->namespace_labels, why);
	free(why);
	return rc;
}

/* --- --fallthrough, after the zones are known --- */

/* Whether one of the zones is below the other, or both are the same. */
static bool
related(const struct dname *a, const struct dname *b)
{
	const struct dname *longer = a->len > b->len ? a : b, *shorter = longer == a ? b : a;
	uint8_t offsets[DNAME_LABELS_MAX], padded[DNAME_MAX + 8] = { 0 };

	memcpy(padded, longer->wire, longer->len);
	struct name name = name_cut(padded, longer->len, offsets);
	return name_below(&name, shorter) >= 0;
}

static bool
is_of_our_zones(const struct options *o, const struct dname *zone)
{
	static const char *const reverse[] = { "in-addr.arpa.", "ip6.arpa." };
	struct dname name;

	for (size_t i = 0; i < 2; i++)
		if (dname_from_text(&name, reverse[i]) == 0 && related(zone, &name))
			return true;
	return related(zone, &o->answers.zone) ||
	       (o->has_clusterset && related(zone, &o->clusterset));
}

static int
read_fallthrough_zone(struct options *o, const char *text)
{
	struct answer_config *answers = &o->answers;
	struct dname zone;

	if (dname_from_text(&zone, text) < 0)
		return options_refuse("fallthrough", text, "not a DNS name, such as cluster.local");
	dname_lower(zone.wire, zone.len);
	if (!is_of_our_zones(o, &zone))
		return options_refuse("fallthrough", text,
		    "neither in --domain nor a reverse zone, nor --clusterset-domain: names there "
		    "are asked of the upstream servers anyway");
	answers->fallthrough =
	    xreallocarray(answers->fallthrough, answers->fallthrough_count + 1, sizeof zone);
	answers->fallthrough[answers->fallthrough_count++] = zone;
	return 0;
}

static int
read_fallthrough(struct options *o, bool given)
{
	/* Without a value: the cluster's zone and the reverse zones. */
	char *text = *o->fallthrough_text == '\0' ? xasprintf("%s,in-addr.arpa,ip6.arpa", o->domain)
						  : xstrdup(o->fallthrough_text);
	char *item;
	int rc = 0;

	for (char *rest = text; given && rc == 0 && (item = strsep(&rest, ",")) != NULL;)
		rc = read_fallthrough_zone(o, item);
	free(text);
	return rc;
}

int
options_read_zones(struct options *o, const struct flags_common *common)
{
	/* All of them, so that one run shows all mistakes. */
	const int results[] = { read_domain(o), read_reverse_cidrs(o), read_namespaces(o),
		read_namespace_labels(o), options_read_clusterset(o),
		read_fallthrough(o, flags_given(common, "fallthrough")) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}
