/* sidecar: sends real queries to dnsmasq and kubedns, and shows the results. See sidecar.8. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/http.h"
#include "lib/log.h"
#include "lib/sandbox.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/page/journal_file.h"
#include "sidecar/loop.h"

/* Returns the directory that contains the journal. Caller frees. */
static char *
journal_dir(const struct sidecar_options *options)
{
	size_t len = (size_t)(strrchr(options->journal, '/') - options->journal);

	return xstrndup(options->journal, len > 0 ? len : 1);
}

static void
print_journal(const struct sidecar_options *options)
{
	char *dir = journal_dir(options);

	if (access(dir, W_OK) < 0)
		printf("journal: %s cannot be written: directory %s: %s\n", options->journal, dir,
		    strerror(errno));
	else
		printf("journal: %s\n", options->journal);
	free(dir);
}

/* Implements --check: prints the queries that the sidecar would send. The command line is already validated. */
static void
print_plan(const struct sidecar_options *options)
{
	char server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX], type[12];

	for (size_t i = 0; i < options->spec_count; i++) {
		const struct probe_spec *spec = &options->specs[i];

		printf("probe %s: query %s for %s %s every %u s\n", spec->label,
		    server_format(&spec->server, server), dname_to_text(spec->name.wire, name),
		    type_name(spec->type, type), spec->interval_s);
	}
	printf("statistics: query %s every %ld ms\n", server_format(&options->dnsmasq, server),
	    options->poll_interval_ms);
	if (options->journal[0] != '\0')
		print_journal(options);
}

enum { DNS_OVER_TLS_PORT = 853 };

/* Returns a sandbox that allows no files except the journal and the CA certificates, and connections only to the ports that the flags name. */
static struct sandbox *
needs(const struct sidecar_options *options)
{
	struct sandbox *s = sandbox_new(options->common.sandbox);

	sandbox_connect(s, options->dnsmasq.port);
	for (size_t i = 0; i < options->spec_count; i++)
		sandbox_connect(s, options->specs[i].server.port);
	if (options->has_kubedns)
		sandbox_connect(s, options->kubedns.server.port);
	if (options->has_nanny) {
		sandbox_connect(s, options->nanny.server.port);
		sandbox_connect(s, DNS_OVER_TLS_PORT);
		for (size_t i = 0; i < options->upstream_ports_text.count; i++)
			sandbox_connect(s, options->upstream_ports[i]);
		sandbox_read_replaced(s, options->upstream_ca);
	}
	if (options->journal[0] != '\0') {
		char *dir = journal_dir(options);

		sandbox_write(s, dir);
		free(dir);
	}
	return s;
}

static void
load_journal(struct sidecar *sidecar)
{
	struct view view;

	if (sidecar->options->journal[0] == '\0')
		return;
	sidecar_view(sidecar, &view);
	journal_load(&sidecar->journal, &view, sidecar->options->journal);
}

static int
serve(struct sidecar *sidecar)
{
	sidecar_take_signals(sidecar);
	if (sidecar_http_start(sidecar) < 0)
		return 1;
	log_info("started: %zu probes, metrics, health and page on port %u", sidecar->probe_count,
	    http_port(sidecar->http));
	if (sidecar->probe_count == 0)
		log_warnx("no --probe: the sidecar queries only dnsmasq's statistics");
	load_journal(sidecar);
	sandbox_enter(needs(sidecar->options),
	    sidecar->options->journal[0] != '\0' ? SANDBOX_KEEP_WRITES : 0);
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
		status = options.dedup ? sidecar_once(&sidecar) : serve(&sidecar);
		sidecar_free(&sidecar);
	}
	sidecar_options_free(&options);
	return status;
}
