#include "nanny/confine.h"

#include <libgen.h>
#include <stdlib.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/privileges.h"

/*
 * Where DNS servers listen: 53, and common choices where that is taken (Consul uses 8600, kube-dns
 * 10053). TCP to a stub server at one of these works at once, whenever it is configured.
 */
static const uint16_t usual_ports[] = { 53, 1053, 5053, 5300, 5335, 5353, 8053, 8600, 10053 };

unsigned
confine_keep(void)
{
	unsigned keep = SANDBOX_KEEP_CHILD | SANDBOX_KEEP_WRITES | SANDBOX_KEEP_LOW_PORTS;

	return privileges_stay_root() ? keep | SANDBOX_KEEP_GROUPS : keep;
}

/* The files of dnsmasq's arguments, and where it listens. */
static void
add_arguments(struct sandbox *s, const struct nanny *nanny)
{
	const struct args *args = &nanny->args;

	for (size_t i = 0; i < args->read_count; i++)
		sandbox_read_replaced(s, args->reads[i]);
	for (size_t i = 0; i < args->write_count; i++) {
		char *copy = xstrdup(args->writes[i]);

		sandbox_write(s, dirname(copy));
		free(copy);
	}
	sandbox_execute(s, nanny->args.argv[0]);
	sandbox_bind(s, args->port);
	sandbox_bind(s, 0); /* of the connections that it makes */
}

struct sandbox *
confine_nanny(const struct nanny *nanny)
{
	const struct options *o = nanny->options;
	struct sandbox *s = sandbox_new(nanny->sandbox);
	char *dir = xstrdup(nanny->file.dir);

	sandbox_read_replaced(s, o->config_dir);
	sandbox_read_replaced(s, o->resolv_conf);
	sandbox_read(s, "/proc"); /* of dnsmasq's processes and sockets */
	sandbox_write(s, nanny->file.dir);
	sandbox_remove_dirs(s, dirname(dir)); /* that directory, at the end */
	sandbox_write(s, o->termination_log);
	sandbox_connect_any(s); /* what is configured later counts for the next dnsmasq */
	add_arguments(s, nanny);
	free(dir);
	return s;
}

struct sandbox *
confine_dnsmasq(const struct nanny *nanny)
{
	struct sandbox *s = sandbox_new(nanny->sandbox);
	const struct domain_table *fixed = &nanny->args.fixed;
	const struct servers_file *file = &nanny->written;

	sandbox_read(s, nanny->file.dir);
	add_arguments(s, nanny);
	for (size_t i = 0; i < sizeof usual_ports / sizeof *usual_ports; i++)
		sandbox_connect(s, usual_ports[i]);
	for (size_t i = 0; i < fixed->count; i++)
		for (size_t k = 0; k < fixed->items[i].count; k++)
			sandbox_connect(s, fixed->items[i].servers[k].port);
	for (size_t i = 0; i < file->count; i++)
		for (size_t k = 0; k < file->items[i].count; k++)
			sandbox_connect(s, file->items[i].lines[k].port);
	return s;
}

static void
check_port(struct nanny *nanny, uint16_t port)
{
	if (sandbox_connects(nanny->confined, port))
		return;
	log_warnx(
	    "dnsmasq: the sandbox was entered without TCP port %u: answers too long for UDP of "
	    "servers there fail until dnsmasq is started again",
	    port);
	sandbox_connect(nanny->confined, port); /* said once; what is in force stays as it is */
}

void
confine_check_ports(struct nanny *nanny)
{
	const struct servers_file *file = &nanny->written;

	if (nanny->confined == NULL || (nanny->process.layers & 1u << SANDBOX_TCP) == 0)
		return;
	for (size_t i = 0; i < file->count; i++)
		for (size_t k = 0; k < file->items[i].count; k++)
			check_port(nanny, file->items[i].lines[k].port);
}
