/* The flags about zones: the cluster's zone and reverse zones, namespaces, external and clusterset
 * zones. */
#include "kubedns/config/zone_options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/zone_lookup.h"
#include "kubedns/config/options.h"
#include "lib/log.h"
#include "lib/xalloc.h"

static int
read_domain(struct options *o)
{
	struct dname *zone = &o->answers.zone;

	if (dname_from_text(zone, o->zone.domain) < 0 || zone->len == 1)
		return flags_refuse(
		    "domain", o->zone.domain, "not a DNS name, such as cluster.local");
	for (const uint8_t *label = zone->wire; *label != 0; label += 1u + *label)
		if (!dname_label_ok((const char *)label + 1, *label))
			return flags_refuse(
			    "domain", o->zone.domain, "labels must be letters, digits and '-'");
	/* Leaves space for the labels of an endpoint, a Service, a namespace and a port. */
	if (zone->len > 128)
		return flags_refuse("domain", o->zone.domain, "too long: 127 bytes at most");
	dname_lower(zone->wire, zone->len);
	return 0;
}

/* --- --reverse-cidrs: each prefix becomes zones on octet or nibble boundaries --- */

static void
add_reverse_zones(struct reverse_config *reverse, const struct addr *prefix, unsigned bits)
{
	unsigned width = prefix->family == AF_INET ? 8 : 4;
	unsigned border = (bits + width - 1) / width * width, spare = border - bits;

	for (unsigned i = 0; i < 1u << spare; i++) {
		struct reverse_zone zone = { .prefix = *prefix, .bits = border };
		/* The bits between the prefix and the boundary take every value. The bits after the
		 * boundary are 0. */
		unsigned last = (border - 1) / 8, shift = (8 - border % 8) % 8;
		uint8_t mask = (uint8_t)(0xff << (shift + spare));

		zone.prefix.bytes[last] = (uint8_t)((zone.prefix.bytes[last] & mask) | i << shift);
		memset(zone.prefix.bytes + last + 1, 0, sizeof zone.prefix.bytes - last - 1);
		reverse_name_prefix(&zone.prefix, border, &zone.name);
		reverse->zones =
		    xreallocarray(reverse->zones, reverse->zone_count + 1, sizeof zone);
		reverse->zones[reverse->zone_count++] = zone;
	}
}

static int
read_reverse_cidrs(struct options *o)
{
	struct addr prefix;
	unsigned bits;

	for (size_t i = 0; i < o->reverse.cidrs.count; i++) {
		if (addr_parse_prefix(o->reverse.cidrs.items[i], &prefix, &bits) < 0)
			return flags_refuse("reverse-cidrs", o->reverse.cidrs.items[i],
			    "not a prefix such as 10.96.0.0/12 or fd00:10:96::/108");
		add_reverse_zones(&o->reverse.stage, &prefix, bits);
	}
	return 0;
}

/* --- which namespaces exist --- */

bool
zone_options_is_namespace(const char *name)
{
	size_t len = strlen(name);

	return dname_label_ok(name, len) &&
	       name[strcspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] == '\0';
}

static int
read_namespaces(struct options *o)
{
	if (o->source.namespaces.count == 0)
		return 0;
	o->source.wanted_namespaces =
	    xcalloc(o->source.namespaces.count + 1, sizeof *o->source.wanted_namespaces);
	for (size_t i = 0; i < o->source.namespaces.count; i++) {
		if (!zone_options_is_namespace(o->source.namespaces.items[i]))
			return flags_refuse("namespaces", o->source.namespaces.items[i],
			    "not the name of a namespace: small letters, digits and '-'");
		o->source.wanted_namespaces[i] = o->source.namespaces.items[i];
	}
	return 0;
}

static int
read_namespace_labels(struct options *o)
{
	char *why = NULL;

	if (*o->source.namespace_labels == '\0')
		return 0;
	int rc =
	    label_selector_parse(o->source.namespace_labels, &o->source.namespace_selector, &why);
	if (rc < 0)
		flags_refuse("namespace-labels", o->source.namespace_labels, why);
	free(why);
	return rc;
}

/* --- --fallthrough, after the zones are known --- */

/* Whether one of the zones is below the other, or both are the same. */
static bool
related(const struct dname *a, const struct dname *b)
{
	const struct dname *longer = a->len > b->len ? a : b, *shorter = longer == a ? b : a;
	struct name_buf buf;

	struct name name = name_copy(&buf, longer->wire, longer->len);
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
	       (o->clusterset.wanted && related(zone, &o->clusterset.zone));
}

static int
read_fallthrough_zone(struct options *o, const char *text)
{
	struct upstream_config *upstream = &o->upstream.stage;
	struct dname zone;

	if (dname_from_text(&zone, text) < 0)
		return flags_refuse("fallthrough", text, "not a DNS name, such as cluster.local");
	dname_lower(zone.wire, zone.len);
	if (!is_of_our_zones(o, &zone))
		return flags_refuse("fallthrough", text,
		    "not in --domain, --clusterset-domain or a reverse zone: queries for its names "
		    "are sent to the upstream servers anyway");
	upstream->fallthrough =
	    xreallocarray(upstream->fallthrough, upstream->fallthrough_count + 1, sizeof zone);
	upstream->fallthrough[upstream->fallthrough_count++] = zone;
	return 0;
}

static int
read_fallthrough(struct options *o, bool given)
{
	/* Without a value, the flag means the cluster's zone and the reverse zones. */
	char *text = *o->upstream.fallthrough_text == '\0'
			 ? xasprintf("%s,in-addr.arpa,ip6.arpa", o->zone.domain)
			 : xstrdup(o->upstream.fallthrough_text);
	char *item;
	int rc = 0;

	for (char *rest = text; given && rc == 0 && (item = strsep(&rest, ",")) != NULL;)
		rc = read_fallthrough_zone(o, item);
	free(text);
	return rc;
}

/* --- --external-zones, --external-ns, --external-address, --clusterset-domain --- */

enum {
	/* Leaves space for the labels of a Service, a namespace and a port, as for --domain. */
	ZONE_MAX = 128,
};

static bool
is_reverse(const struct dname *zone)
{
	struct dname arpa;

	return dname_from_text(&arpa, "arpa.") == 0 && dname_in_zone(zone->wire, arpa.wire) >= 0;
}

/* Returns the reason why a name cannot be one of our zones, or NULL. */
static const char *
name_fault(const struct dname *zone)
{
	for (const uint8_t *label = zone->wire; *label != 0; label += 1u + *label)
		if (!dname_label_ok((const char *)label + 1, *label))
			return "labels must be letters, digits and '-'";
	if (zone->len > ZONE_MAX)
		return "too long: 127 bytes at most";
	return is_reverse(zone) ? "reverse zones are --reverse-cidrs" : NULL;
}

static const char *
zone_fault(const struct options *o, const struct dname *zone)
{
	const char *why = name_fault(zone);

	if (why != NULL)
		return why;
	if (dname_in_zone(zone->wire, o->answers.zone.wire) >= 0)
		return "it is in --domain, where only the cluster's objects have names: choose "
		       "another, such as apps.example.com";
	for (size_t i = 0; i < o->external.zone_count; i++)
		if (dname_equal(zone->wire, o->external.zones[i].wire))
			return "comes twice";
	return o->external.zone_count == EXTERNAL_ZONES_MAX ? "at most 16 zones" : NULL;
}

static int
read_zones(struct options *o)
{
	for (size_t i = 0; i < o->external.zones_text.count; i++) {
		const char *text = o->external.zones_text.items[i], *why;
		struct dname zone;

		if (dname_from_text(&zone, text) < 0 || zone.len == 1)
			return flags_refuse(
			    "external-zones", text, "not a DNS name, such as apps.example.com");
		dname_lower(zone.wire, zone.len);
		if ((why = zone_fault(o, &zone)) != NULL)
			return flags_refuse("external-zones", text, why);
		o->external.zones[o->external.zone_count++] = zone;
	}
	return 0;
}

/* --- --clusterset-domain --- */

static int
read_clusterset(struct options *o)
{
	const char *text = o->clusterset.text, *why;

	if (*text == '\0')
		return 0;
	if (dname_from_text(&o->clusterset.zone, text) < 0 || o->clusterset.zone.len == 1)
		return flags_refuse(
		    "clusterset-domain", text, "not a DNS name, such as clusterset.local");
	dname_lower(o->clusterset.zone.wire, o->clusterset.zone.len);
	if ((why = name_fault(&o->clusterset.zone)) != NULL)
		return flags_refuse("clusterset-domain", text, why);
	o->clusterset.wanted = true;
	return 0;
}

static bool
is_in_other(const struct dname *a, const struct dname *b)
{
	return dname_in_zone(a->wire, b->wire) >= 0 || dname_in_zone(b->wire, a->wire) >= 0;
}

/* Puts the zone after the external zones. */
static int
place_clusterset(struct options *o)
{
	if (!o->clusterset.wanted)
		return 0;
	if (is_in_other(&o->clusterset.zone, &o->answers.zone))
		return flags_refuse("clusterset-domain", o->clusterset.text,
		    "this zone and --domain must not be inside each other");
	for (size_t i = 0; i < o->external.zone_count; i++)
		if (is_in_other(&o->clusterset.zone, &o->external.zones[i]))
			return flags_refuse("clusterset-domain", o->clusterset.text,
			    "this zone and --external-zones must not be inside each other");
	o->external.zones[o->external.zone_count] = o->clusterset.zone;
	return 0;
}

/* --- --external-ns and --external-address --- */

/* Whether the name is in an external zone but is not a name that a Service can have. Such a name
 * would never have an address. */
static bool
has_no_address(const struct options *o, const struct dname *name)
{
	enum { SERVICE_AND_NAMESPACE = 2 };
	/* Number of labels of the name above the innermost zone that contains the name. */
	unsigned nearest = UINT_MAX;

	if (dname_in_zone(name->wire, o->answers.zone.wire) >= 0)
		return false;
	for (size_t i = 0; i < o->external.zone_count; i++) {
		const struct dname *zone = &o->external.zones[i];
		unsigned above = dname_labels(name->wire) - dname_labels(zone->wire);

		if (dname_in_zone(name->wire, zone->wire) >= 0 && above < nearest)
			nearest = above;
	}
	return nearest != UINT_MAX && nearest != SERVICE_AND_NAMESPACE;
}

/* Each item is the name of a name server, or an address of `ns.dns.ZONE`. */
static int
read_ns(struct options *o)
{
	size_t count = o->external.ns_text.count;

	o->external.ns = xcalloc(count + 1, sizeof *o->external.ns);
	o->external.ns_addrs = xcalloc(count + 1, sizeof *o->external.ns_addrs);
	for (size_t i = 0; i < count; i++) {
		const char *text = o->external.ns_text.items[i];
		struct dname *name = &o->external.ns[o->external.ns_count];

		if (addr_parse(text, &o->external.ns_addrs[o->external.ns_addr_count]) == 0) {
			o->external.ns_addr_count++;
			continue;
		}
		if (dname_from_text(name, text) < 0 || dname_labels(name->wire) < 2)
			return flags_refuse("external-ns", text,
			    "neither an address nor a name server's full name, such as "
			    "dns.kube-system.apps.example.com");
		dname_lower(name->wire, name->len);
		if (has_no_address(o, name))
			return flags_refuse("external-ns", text,
			    "in a zone of --external-zones only the Service of that name has it: "
			    "give SERVICE.NAMESPACE.ZONE, or an address");
		o->external.ns_count++;
	}
	return 0;
}

static bool
is_any(const struct addr *addr)
{
	const struct addr none = { .family = addr->family };

	return addr_equal(addr, &none);
}

/* Whether --dns-bind-address already uses the socket. */
static bool
is_taken(const struct options *o, const struct server *server)
{
	bool taken = false;

	if (server->port != o->listen.port)
		return false;
	for (size_t i = 0; i < o->listen.count; i++)
		taken = taken || is_any(&server->addr) || is_any(&o->listen.addrs[i]) ||
			addr_equal(&server->addr, &o->listen.addrs[i]);
	return taken;
}

static int
read_address(struct options *o)
{
	const char *text = o->external.address_text, *why = NULL;
	struct server *server = &o->external.address;

	if (*text == '\0')
		return 0;
	if (server_parse(text, 53, server, &why) < 0)
		return flags_refuse("external-address", text, why);
	if (is_taken(o, server))
		return flags_refuse("external-address", text,
		    "--dns-bind-address has this address and port: choose another port, and give "
		    "it to the external Service");
	addr_format(&server->addr, o->external.address_only);
	return 0;
}

static int
read_refuse(struct options *o)
{
	const struct {
		const char *word;
		bool *refuse;
	} words[] = { { "wildcards", &o->external.refuse_wildcards },
		{ "apex", &o->external.refuse_apex },
		{ "external-ips", &o->external.refuse_external_ips } };

	enum { COUNT = sizeof words / sizeof words[0] };

	for (size_t i = 0; i < o->external.refuse_text.count; i++) {
		size_t k = 0;

		while (k < COUNT && strcmp(o->external.refuse_text.items[i], words[k].word) != 0)
			k++;
		if (k == COUNT)
			return flags_refuse("external-refuse", o->external.refuse_text.items[i],
			    "must be wildcards, apex or external-ips");
		*words[k].refuse = true;
	}
	return 0;
}

static int
read_external(struct options *o)
{
	const int results[] = { read_zones(o), read_ns(o), read_address(o), read_refuse(o),
		place_clusterset(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}

int
zone_options_read(struct options *o, const struct flags_common *common)
{
	/* Calls all functions, so that one run reports all mistakes. */
	const int results[] = { read_domain(o), read_reverse_cidrs(o), read_namespaces(o),
		read_namespace_labels(o), read_clusterset(o),
		read_fallthrough(o, flags_given(common, "fallthrough")), read_external(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}

void
zone_options_free(struct options *o)
{
	free(o->source.wanted_namespaces);
	free(o->external.ns);
	free(o->external.ns_addrs);
	free(o->reverse.stage.zones);
	free(o->upstream.stage.fallthrough);
	label_selector_free(o->source.namespace_selector);
}
