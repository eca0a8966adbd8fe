/*
 * All that the servers file is made of, in one place: the ConfigMap, resolv.conf, names whose
 * addresses were looked up, forwarding loops, the addresses of dnsmasq's probe, and the file that
 * dnsmasq has.
 */
#include "lib/log.h"
#include "nanny/nanny.h"

struct servers_file
nanny_plan(struct nanny *nanny, bool fresh)
{
	static const struct servers_file nothing;
	struct server nobody = { 0 }, unresolved = { 0 };
	size_t dropped;
	if (nanny->dnsmasq_probe) {
		nobody = dnsmasq_probe_refused(nanny->dnsmasq_probe);
		unresolved = dnsmasq_probe_servfail(nanny->dnsmasq_probe);
	}
	struct domain_table table = config_domain_table(
	    &nanny->config, &nanny->resolv, nanny->names, &nanny->forwarding_loop, &unresolved);
	struct servers_input input = { .wanted = &table,
		.fixed = &nanny->args.fixed,
		.nobody = nobody,
		.before = fresh ? &nothing : &nanny->written,
		.strict_order = nanny->args.strict_order,
		.now = ++nanny->plans };
	struct servers_file file = servers_plan(&input, &dropped);
	domain_table_free(&table);
	nanny->stats.dropped_lines += dropped;
	if (dropped)
		log_warnx("servers file: %zu lines of domains long gone dropped", dropped);
	return file;
}
