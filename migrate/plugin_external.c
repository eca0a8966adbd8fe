/* k8s_external and k8s_gateway: zones for clients outside the cluster. */
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"

#define ALL_BUT_IGNORED(KIND)                                                                      \
	"all " KIND                                                                                \
	" with an address have names, but those labelled k8s-gateway.dns/ignore: \"true\""

static const struct report_option options[] = {
	{ "apex", VERDICT_CHANGES,
	    "the name server is ns.dns.ZONE; --external-ns sets its addresses, or other names" },
	{ "ttl", VERDICT_CHANGES,
	    "kubedns's --ttl applies to these names too; external-dns's annotation sets a "
	    "Service's TTL" },
	{ "secondary", VERDICT_CHANGES, "--external-ns accepts several names" },
	{ "resources", VERDICT_CHANGES,
	    "Services, and the other kinds that the ClusterRole allows kubedns to read" },
	{ "kubeconfig", VERDICT_CHANGES, "--kubecfg-file of kubedns" },
	{ "fallthrough", VERDICT_NONE, "a name that does not exist gets NXDOMAIN" },
	{ "ingressClasses", VERDICT_NONE, ALL_BUT_IGNORED("Ingresses") },
	{ "gatewayClasses", VERDICT_NONE, ALL_BUT_IGNORED("Gateways") },
	{ "ingressLabelSelectors", VERDICT_NONE, ALL_BUT_IGNORED("Ingresses") },
	{ "serviceLabelSelectors", VERDICT_NONE, ALL_BUT_IGNORED("Services") },
	{ "gatewayLabelSelectors", VERDICT_NONE, ALL_BUT_IGNORED("Gateways") },
};

/* k8s_external [ZONE...] { ... }. If the directive has no zones, the block's zones apply. */
void
plugin_external(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	struct report *r = scope->report;
	size_t count = line->count > 1 ? line->count - 1 : scope->count, taken = 0;
	bool reverse = false;

	for (size_t i = 0; i < count; i++) {
		char *zone = zone_parse(line->count > 1 ? line->words[i + 1] : scope->zones[i]);

		/* A reverse zone of the block may be meant for other plugins. */
		reverse = reverse || (line->count > 1 && zone != NULL && zone_is_reverse(zone));
		if (zone != NULL && strcmp(zone, ".") != 0 && !zone_is_reverse(zone) &&
		    zone_is_hosts(zone) && !report_in_cluster(r, zone)) {
			report_flag(r, PROGRAM_KUBEDNS, "--external-zones=%s", zone);
			if (report_topology(r) == TOPOLOGY_CLASSIC)
				report_flag(
				    r, PROGRAM_DNSMASQ, "--server=/%s/127.0.0.1#10053", zone);
			taken++;
		}
		free(zone);
	}
	if (taken == 0)
		report_line(r, line, VERDICT_NONE,
		    "--external-zones needs a zone of its own, such as apps.example.com");
	else
		report_line(r, line, VERDICT_CHANGES,
		    "--external-zones; the zone's name server is ns.dns.ZONE, where CoreDNS has "
		    "ns1.dns.ZONE; Ingresses and the Gateway API's objects need the component "
		    "external-names, and --external-ns sets the address at which external clients "
		    "reach this server%s",
		    reverse ? "; addresses of load balancers have no PTR records: add them to the "
			      "ConfigMap's key hosts if you need them"
			    : "");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *option = &d->body[i];

		if (strcmp(option->words[0], "headless") == 0 && taken > 0) {
			report_flag(r, PROGRAM_KUBEDNS, "--external-headless");
			report_line(r, option, VERDICT_CARRIED, "--external-headless");
		} else if (!report_option(r, option, options, sizeof options / sizeof *options)) {
			report_line(r, option, VERDICT_NONE, "unknown option; see %s's manual",
			    line->words[0]);
		}
	}
}
