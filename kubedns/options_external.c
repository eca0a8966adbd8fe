/* The flags for the zones beside the cluster's: --external-zones, --external-ns and
 * --external-address; --clusterset-domain. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/options_internal.h"
#include "lib/xalloc.h"

enum {
	ZONE_MAX = 128, /* room for a Service, a namespace and a port in front of it, as --domain */
};

static bool
is_reverse(const struct dname *zone)
{
	struct dname arpa;

	return dname_from_text(&arpa, "arpa.") == 0 && dname_in_zone(zone->wire, arpa.wire) >= 0;
}

/* What any zone of ours must be. */
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
		return "it is in --domain, whose names are the cluster's own: choose another, such "
		       "as apps.example.com";
	for (size_t i = 0; i < o->external_zone_count; i++)
		if (dname_equal(zone->wire, o->external_zones[i].wire))
			return "comes twice";
	return o->external_zone_count == EXTERNAL_ZONES_MAX ? "at most 16 zones" : NULL;
}

static int
read_zones(struct options *o)
{
	for (size_t i = 0; i < o->external_zones_text.count; i++) {
		const char *text = o->external_zones_text.items[i], *why;
		struct dname zone;
		if (dname_from_text(&zone, text) < 0 || zone.len == 1)
			return options_refuse(
			    "external-zones", text, "not a DNS name, such as apps.example.com");
		dname_lower(zone.wire, zone.len);
		if ((why = zone_fault(o, &zone)) != NULL)
			return options_refuse("external-zones", text, why);
		o->external_zones[o->external_zone_count++] = zone;
	}
	return 0;
}

/* --- --clusterset-domain --- */

int
options_read_clusterset(struct options *o)
{
	const char *text = o->clusterset_text, *why;

	if (*text == '\0')
		return 0;
	if (dname_from_text(&o->clusterset, text) < 0 || o->clusterset.len == 1)
		return options_refuse(
		    "clusterset-domain", text, "not a DNS name, such as clusterset.local");
	dname_lower(o->clusterset.wire, o->clusterset.len);
	if ((why = name_fault(&o->clusterset)) != NULL)
		return options_refuse("clusterset-domain", text, why);
	o->has_clusterset = true;
	return 0;
}

static bool
is_in_other(const struct dname *a, const struct dname *b)
{
	return dname_in_zone(a->wire, b->wire) >= 0 || dname_in_zone(b->wire, a->wire) >= 0;
}

/* Puts the zone behind the external ones. */
static int
place_clusterset(struct options *o)
{
	if (!o->has_clusterset)
		return 0;
	if (is_in_other(&o->clusterset, &o->answers.zone))
		return options_refuse("clusterset-domain", o->clusterset_text,
		    "neither may lie in the other of this and --domain");
	for (size_t i = 0; i < o->external_zone_count; i++)
		if (is_in_other(&o->clusterset, &o->external_zones[i]))
			return options_refuse("clusterset-domain", o->clusterset_text,
			    "neither may lie in the other of this and --external-zones");
	o->external_zones[o->external_zone_count] = o->clusterset;
	return 0;
}

/* --- --external-ns and --external-address --- */

/* Whether the name is in an external zone, but none that a Service can have: it would have no address. */
static bool
has_no_address(const struct options *o, const struct dname *name)
{
	enum { SERVICE_AND_NAMESPACE = 2 };
	unsigned nearest = UINT_MAX; /* labels before the innermost zone that it is in */

	if (dname_in_zone(name->wire, o->answers.zone.wire) >= 0)
		return false;
	for (size_t i = 0; i < o->external_zone_count; i++) {
		const struct dname *zone = &o->external_zones[i];
		unsigned above = dname_labels(name->wire) - dname_labels(zone->wire);
		if (dname_in_zone(name->wire, zone->wire) >= 0 && above < nearest)
			nearest = above;
	}
	return nearest != UINT_MAX && nearest != SERVICE_AND_NAMESPACE;
}

/* Each item is a name server's name, or an address of `ns.dns.ZONE`. */
static int
read_ns(struct options *o)
{
	size_t count = o->external_ns_text.count;

	o->external_ns = xcalloc(count + 1, sizeof *o->external_ns);
	o->external_ns_addrs = xcalloc(count + 1, sizeof *o->external_ns_addrs);
	for (size_t i = 0; i < count; i++) {
		const char *text = o->external_ns_text.items[i];
		struct dname *name = &o->external_ns[o->external_ns_count];
		if (addr_parse(text, &o->external_ns_addrs[o->external_ns_addr_count]) == 0) {
			o->external_ns_addr_count++;
			continue;
		}
		if (dname_from_text(name, text) < 0 || dname_labels(name->wire) < 2)
			return options_refuse("external-ns", text,
			    "neither an address nor a name server's full name, such as "
			    "dns.kube-system.apps.example.com");
		dname_lower(name->wire, name->len);
		if (has_no_address(o, name))
			return options_refuse("external-ns", text,
			    "in a zone of --external-zones only the Service of that name has it: "
			    "give SERVICE.NAMESPACE.ZONE, or an address");
		o->external_ns_count++;
	}
	return 0;
}

static bool
is_any(const struct addr *addr)
{
	const struct addr none = { .family = addr->family };

	return addr_equal(addr, &none);
}

/* Whether --dns-bind-address has the socket already. */
static bool
is_taken(const struct options *o, const struct server *server)
{
	bool taken = false;

	if (server->port != o->port)
		return false;
	for (size_t i = 0; i < o->listen_count; i++)
		taken = taken || is_any(&server->addr) || is_any(&o->listen[i]) ||
			addr_equal(&server->addr, &o->listen[i]);
	return taken;
}

static int
read_address(struct options *o)
{
	const char *text = o->external_address_text, *why = NULL;
	struct server *server = &o->external_address;

	if (*text == '\0')
		return 0;
	if (server_parse(text, 53, server, &why) < 0)
		return options_refuse("external-address", text, why);
	if (is_taken(o, server))
		return options_refuse("external-address", text,
		    "--dns-bind-address has it with this port: choose another port, which the "
		    "Service for the outside leads to");
	if (o->share_port)
		return options_refuse(
		    "external-address", text, "cannot be shared: leave out --share-port");
	addr_format(&server->addr, o->external_address_only);
	return 0;
}

static int
read_refuse(struct options *o)
{
	const struct {
		const char *word;
		bool *refuse;
	} words[] = { { "wildcards", &o->refuse_wildcards }, { "apex", &o->refuse_apex },
		{ "external-ips", &o->refuse_external_ips } };
	enum { COUNT = sizeof words / sizeof words[0] };

	for (size_t i = 0; i < o->external_refuse_text.count; i++) {
		size_t k = 0;
		while (k < COUNT && strcmp(o->external_refuse_text.items[i], words[k].word) != 0)
			k++;
		if (k == COUNT)
			return options_refuse("external-refuse", o->external_refuse_text.items[i],
			    "must be wildcards, apex or external-ips");
		*words[k].refuse = true;
	}
	return 0;
}

static int
read_external(struct options *o)
{
	static const char missing[] = "of which zones? --external-zones is missing";

	if (o->external_zones_text.count == 0 && o->external_ns_text.count > 0)
		return options_refuse("external-ns", o->external_ns_text.items[0], missing);
	if (o->external_zones_text.count == 0 && o->external_refuse_text.count > 0)
		return options_refuse("external-refuse", o->external_refuse_text.items[0], missing);
	if (o->external_zones_text.count == 0 && *o->external_address_text != '\0')
		return options_refuse("external-address", o->external_address_text, missing);
	if (o->external_zones_text.count == 0 && o->external_headless)
		return options_refuse("external-headless", "true", missing);
	if (o->external_zones_text.count == 0)
		return 0;
	const int results[] = { read_zones(o), read_ns(o), read_address(o), read_refuse(o) };
	int rc = 0;

	for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
		rc = results[i] < 0 ? results[i] : rc;
	return rc;
}

int
options_read_external(struct options *o)
{
	int external = read_external(o), clusterset = place_clusterset(o);

	return external < 0 ? external : clusterset;
}
