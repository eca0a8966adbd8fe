/* nanny: starts dnsmasq, keeps it running, and reconfigures it while it answers. See nanny.8. */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/http_ready.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/confine.h"
#include "nanny/nanny.h"
#include "nanny/privileges.h"

enum { EXIT_OK = 0, EXIT_SYSTEM = 1, EXIT_MISTAKE = 2 };

static const struct engine *const engines[ENGINE_COUNT] = {
	[ENGINE_DNSMASQ] = &dnsmasq_engine, [ENGINE_UNBOUND] = &unbound_engine
};

static const double confirm_bounds[] = { 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128,
	0.256, 0.512, 1, 2, 4, 8, 16, 32 };

static void
block_signals(struct nanny *nanny)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	nanny->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (nanny->signal_fd < 0)
		log_fatal("signalfd");
}

/* Opens the ConfigMap and resolv.conf. The nanny watches both in the same way, and treats
 * resolv.conf as one key of its directory. */
static void
open_inputs(struct nanny *nanny)
{
	const struct options *o = nanny->options;
	char *a = xstrdup(o->resolv_conf), *b = xstrdup(o->resolv_conf);

	const char *const names[] = { basename(b), NULL };
	nanny->resolvdir = confdir_new(dirname(a), names);
	const char *keys[CONF_KEYS + 1];
	conf_key_names(CONF_NANNY, keys);
	nanny->confdir = confdir_new(o->config_dir, keys);
	free(a);
	free(b);
}

static int
build_args(struct nanny *nanny, const char *file)
{
	const struct options *o = nanny->options;
	char *why;

	if (args_parse(&nanny->args, nanny->engine->exec(o), o->dnsmasq_args, o->dnsmasq_arg_count,
		&why) < 0) {
		log_errorx("%s", why);
		free(why);
		return EXIT_MISTAKE;
	}
	int rc = nanny->engine->prepare(nanny, file);
	if (rc != EXIT_OK)
		return rc;
	for (size_t i = 0; i < nanny->args.warning_count; i++)
		log_warnx("%s", nanny->args.warnings[i]);
	forwarding_loop_init(&nanny->forwarding_loop, nanny->engine->name, nanny->args.port,
	    nanny->args.listen, nanny->args.listen_count);
	forwarding_loop_set_service(&nanny->forwarding_loop, getenv("KUBE_DNS_SERVICE_HOST"),
	    getenv("KUBE_DNS_SERVICE_PORT"));
	if (!args_asked_first(&nanny->args, o->domain, &o->kubedns))
		forwarding_loop_set_asker(&nanny->forwarding_loop, &o->kubedns);
	forwarding_loop_refresh(&nanny->forwarding_loop);
	return EXIT_OK;
}

static int
start_http(struct nanny *nanny)
{
	const struct options *o = nanny->options;
	struct http_config config = { .address = o->metrics_host,
		.port = o->metrics_port,
		.routes = nanny_routes,
		.changes = nanny_changes,
		.arg = nanny,
		.debug_remote = o->debug_remote };

	if (o->metrics_host[0] == '\0')
		return EXIT_OK;
	if (http_start(&nanny->http, &config) < 0)
		return EXIT_SYSTEM;
	log_info("http: listening on port %u", http_port(nanny->http));
	return EXIT_OK;
}

/* Performs the steps before the child starts. Each step can fail. */
static int
start(struct nanny *nanny)
{
	const struct options *o = nanny->options;

	if (servers_file_dir_open(&nanny->file, o->run_dir) < 0)
		return EXIT_SYSTEM;
	int rc = build_args(nanny, nanny->file.path);
	if (rc != EXIT_OK)
		return rc;
	struct server child = args_probe_server(&nanny->args);
	if ((nanny->child_probe = child_probe_new(&child)) == NULL)
		return EXIT_SYSTEM;
	node_guard_begin(&nanny->node_guard, &child);
	nanny->names = stub_hosts_new(o->domain, &o->kubedns);
	open_inputs(nanny);
	nanny_read_config(nanny, true);
	return start_http(nanny);
}

/* Prints the closed names as comments. Their server exists only while the nanny runs. */
static void
check_closed(const struct config *config)
{
	for (size_t i = 0; i < config->stubs.count; i++)
		if (config->stubs.items[i].closed)
			printf("# %s: SERVFAIL, because stubDomains is refused\n",
			    config->stubs.items[i].domain);
	if (config_closes_all(config))
		printf("# all other names: SERVFAIL, because %s is refused\n",
		    config->upstreams.closed ? "upstreamNameservers" : "stubDomains");
}

/* Implements --check: prints the servers file that the nanny would write. Errors have been logged
 * by then. Host names are not resolved, but listed as comments. */
static int
check(struct nanny *nanny, const struct flags_common *common)
{
	const struct engine *engine = nanny->engine;
	int rc = build_args(nanny, "servers.conf");

	if (rc != EXIT_OK)
		return rc;
	nanny->names = stub_hosts_new(nanny->options->domain, &nanny->options->kubedns);
	open_inputs(nanny);
	nanny_read_config(nanny, true);
	for (size_t i = 0; i < nanny->config.stubs.count; i++)
		for (size_t k = 0; k < nanny->config.stubs.items[i].count; k++) {
			const struct conf_server *s = &nanny->config.stubs.items[i].servers[k];

			if (s->host[0])
				printf("# %s: %s port %u, resolved while running\n",
				    nanny->config.stubs.items[i].domain, s->host, s->server.port);
		}
	check_closed(&nanny->config);
	size_t len;
	struct servers_file file = nanny_plan(nanny, true);
	char *text = engine->render(nanny, &file, 0, 0, &len);
	fwrite(text, 1, len, stdout);
	free(text);
	servers_free(&file);
	sandbox_check(nanny->sandbox);
	const char *exec = engine->exec(nanny->options);
	bool wrong = nanny->config.loop != NULL || access(exec, X_OK) != 0;
	if (access(exec, X_OK) != 0)
		log_errorx("%s: %s: %s: install package %s or set %s", engine->name, exec,
		    strerror(errno), engine->package, engine->exec_flag);
	wrong |= conf_keys_mistakes(&nanny->config.keys) > 0;
	char *empty = conf_stubs_empty(&nanny->config.stubs);
	if (empty != NULL)
		log_errorx("conf %s: stubDomains: %s", nanny->options->config_dir, empty);
	wrong |= empty != NULL;
	free(empty);
	const char *name;
	const struct conf_key *own =
	    engine->file_key != NULL ? engine->file_key(nanny, &name) : NULL;
	wrong |= own != NULL && own->error != NULL;
	/* Without the flag, the directory may be missing. */
	wrong |= flags_given(common, "configDir") &&
		 !confdir_check("-configDir", nanny->options->config_dir);
	return fflush(stdout) == 0 && !wrong ? EXIT_OK : EXIT_MISTAKE;
}

static void
finish(struct nanny *nanny)
{
	node_guard_stop(&nanny->node_guard);
	http_stop(nanny->http);
	confdir_free(nanny->confdir);
	confdir_free(nanny->resolvdir);
	stub_hosts_free(nanny->names);
	child_probe_free(nanny->child_probe);
	process_close(&nanny->process);
	sandbox_free(nanny->confined);
	nanny->engine->finish(nanny);
	servers_file_dir_close(&nanny->file);
	config_free(&nanny->config);
	servers_free(&nanny->written);
	args_free(&nanny->args);
}

static uid_t
user(const struct options *options)
{
	return options->node_address_count > 0 ? PRIVILEGES_NODE : PRIVILEGES_NOBODY;
}

int
main(int argc, char **argv)
{
	static struct nanny nanny;
	struct options options;
	struct flags_common common;

	if (options_parse(&options, &common, argc, argv) < 0) {
		options_free(&options, &common);
		return EXIT_MISTAKE;
	}
	if (options.ready) {
		int ready = http_ready_ask(options.metrics_port);

		options_free(&options, &common);
		return ready == 0 ? EXIT_OK : EXIT_SYSTEM;
	}
	nanny.options = &options;
	nanny.engine = engines[options.engine];
	nanny.sandbox = common.sandbox;
	nanny.file.dir_fd = -1;
	nanny.confirm_s = (struct histogram){ .bounds = confirm_bounds,
		.count = sizeof confirm_bounds / sizeof *confirm_bounds };
	nanny.node_guard = (struct node_guard){ .pidfd = -1, .pipe = -1 };
	process_init(&nanny.process, nanny.engine);
	child_init(&nanny.child, options.drain_ms);
	int rc;
	if (common.check)
		rc = check(&nanny, &common);
	else {
		rc = node_guard_start(&nanny.node_guard, &options, common.sandbox) < 0;
		if (nanny.sandbox != SANDBOX_OFF)
			sandbox_empty_bounding_set(confine_keep(nanny.engine));
		rc = rc != 0 || privileges_drop(user(&options)) < 0 ? EXIT_SYSTEM : EXIT_OK;
		block_signals(&nanny);
		process_adopt_orphans();
		if (rc == EXIT_OK)
			rc = start(&nanny);
		if (rc == EXIT_OK) {
			sandbox_enter(confine_nanny(&nanny), confine_keep(nanny.engine));
			rc = nanny_loop(&nanny);
		}
	}
	finish(&nanny);
	options_free(&options, &common);
	return rc;
}
