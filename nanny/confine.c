#include "nanny/confine.h"

#include <libgen.h>
#include <stdlib.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/child_probe.h"
#include "nanny/privileges.h"

/*
 * Common ports of DNS servers: 53 and its usual alternatives (853 for TLS, 8600 for Consul, 10053 for kube-dns).
 * The sandbox always permits TCP to these ports, so a stub server added later works at once.
 */
static const uint16_t usual_ports[] = { 53, 853, 1053, 5053, 5300, 5335, 5353, 8053, 8600, 10053 };

unsigned
confine_keep(const struct engine *engine)
{
	unsigned keep =
	    SANDBOX_KEEP_CHILD | SANDBOX_KEEP_WRITES | SANDBOX_KEEP_LOW_PORTS | engine->keep;

	return privileges_stay_root() ? keep | SANDBOX_KEEP_GROUPS : keep;
}

/* Permits the files and the listening port that dnsmasq's arguments name. */
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
	sandbox_bind(s, 0); /* source port of outgoing connections */
}

struct sandbox *
confine_nanny(const struct nanny *nanny)
{
	const struct options *o = nanny->options;
	struct sandbox *s = sandbox_new(nanny->sandbox);
	char *dir = xstrdup(nanny->file.dir);

	sandbox_read_replaced(s, o->config_dir);
	sandbox_read_replaced(s, o->resolv_conf);
	sandbox_read(s, "/proc"); /* dnsmasq's processes and sockets */
	sandbox_write(s, nanny->file.dir);
	sandbox_remove_dirs(s, dirname(dir)); /* to remove the run directory at exit */
	sandbox_write(s, o->termination_log);
	/* any port, because the next dnsmasq may need servers that are configured later */
	sandbox_connect_any(s);
	add_arguments(s, nanny);
	if (nanny->engine->sandbox != NULL)
		nanny->engine->sandbox(nanny, s, false);
	free(dir);
	return s;
}

struct sandbox *
confine_child(const struct nanny *nanny)
{
	struct sandbox *s = sandbox_new(nanny->sandbox);
	const struct domain_table *fixed = &nanny->args.fixed;
	const struct servers_file *file = &nanny->written;

	sandbox_read(s, nanny->file.dir);
	add_arguments(s, nanny);
	if (nanny->engine->sandbox != NULL)
		nanny->engine->sandbox(nanny, s, true);
	for (size_t i = 0; i < sizeof usual_ports / sizeof *usual_ports; i++)
		sandbox_connect(s, usual_ports[i]);
	/* A later configuration may send names to the nanny, which answers them with an error. */
	sandbox_connect(s, child_probe_port(nanny->child_probe));
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
	log_warnx("%s: TCP port %u: the sandbox does not allow it: responses of servers on this "
		  "port that are too long for UDP fail until %s restarts",
	    nanny->engine->name, port, nanny->engine->name);
	/* Records the port, so that the warning is logged once. The active sandbox does not change. */
	sandbox_connect(nanny->confined, port);
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
