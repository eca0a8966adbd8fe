/* sidecar: asks dnsmasq and kubedns real questions, and shows what it sees. See sidecar.8. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/http.h"
#include "lib/log.h"
#include "lib/sandbox.h"
#include "lib/wire.h"
#include "sidecar/loop.h"

/* --check: the command line was read whole; what would be asked. */
static void
print_plan(const struct sidecar_options *options)
{
	char server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX], type[12];

	for (size_t i = 0; i < options->spec_count; i++) {
		const struct probe_spec *spec = &options->specs[i];
		printf("probe %s: ask %s for %s %s every %u s\n", spec->label,
		    server_format(&spec->server, server), dname_to_text(spec->name.wire, name),
		    type_name(spec->type, type), spec->interval_s);
	}
	printf("statistics: ask %s every %ld ms\n", server_format(&options->dnsmasq, server),
	    options->poll_interval_ms);
}

/* It opens no file, and connects to those that its flags name. */
static struct sandbox *
needs(const struct sidecar_options *options)
{
	struct sandbox *s = sandbox_new(options->common.sandbox);

	sandbox_connect(s, options->dnsmasq.port);
	for (size_t i = 0; i < options->spec_count; i++)
		sandbox_connect(s, options->specs[i].server.port);
	if (options->has_kubedns)
		sandbox_connect(s, options->kubedns.server.port);
	if (options->has_nanny)
		sandbox_connect(s, options->nanny.server.port);
	return s;
}

static int
serve(struct sidecar *sidecar)
{
	if (sidecar_http_start(sidecar) < 0)
		return 1;
	log_info("started: %zu probes, metrics, health and page on port %u", sidecar->probe_count,
	    http_port(sidecar->http));
	if (sidecar->probe_count == 0)
		log_warnx("no --probe: nothing is asked but dnsmasq's statistics");
	sandbox_enter(needs(sidecar->options), 0);
	sidecar_loop(sidecar);
	sidecar_http_stop(sidecar);
	return 0;
}

int
main(int argc, char **argv)
{
	struct sidecar_options options;
	struct sidecar sidecar;
	int status = 0;

	if (sidecar_options_read(&options, argc, argv) < 0) {
		sidecar_options_free(&options);
		return 2;
	}
	if (options.common.check) {
		print_plan(&options);
		sandbox_check(options.common.sandbox);
	} else {
		sidecar_init(&sidecar, &options);
		status = options.once ? sidecar_once(&sidecar) : serve(&sidecar);
		sidecar_free(&sidecar);
	}
	sidecar_options_free(&options);
	return status;
}
