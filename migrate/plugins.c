#include <stdlib.h>
#include <stdint.h>
#include <string.h>

#include "migrate/module_flags.h"
#include "migrate/plugins.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

/* A plugin. `read` is set if the verdict depends on the plugin's arguments. Otherwise, one verdict
 * applies to all lines of the plugin. */
struct plugin {
	const char *name;
	void (*read)(struct scope *scope, const struct corefile_directive *d);
	enum verdict verdict;
	const char *sentence;
	const char *flag; /* the flag that it becomes, if it belongs to a module; otherwise NULL */
};

#define CARRIED .verdict = VERDICT_CARRIED, .sentence
#define CHANGES .verdict = VERDICT_CHANGES, .sentence
#define NONE    .verdict = VERDICT_NONE, .sentence
#define OTHER_ZONE                                                                                 \
	"no zones of this kind: run a name server for them, and add a stub domain with its "       \
	"address"
#define OTHER_TRANSPORT                                                                            \
	"only UDP and TCP: keep a CoreDNS or a proxy in front for clients that use this"
#define NOTHING_TO_SET "nothing to set"
/* The discard port of the pod. No server listens there, so a query fails at once. */
#define NO_SERVER "127.0.0.1:9"

/* The plugins in CoreDNS 1.15's default build, in alphabetical order, and some older ones. */
static const struct plugin table[] = {
	{ "acl",
	    NONE = "until you act, every client that reaches the Service gets answers for all "
		   "names, also external ones. In kubedns, a NetworkPolicy decides which clients "
		   "may send queries, for all names or none: it cannot allow one zone and refuse "
		   "another. components/tenants (--visibility=labels) hides cluster names by the "
		   "client's namespace. For clients that may query only some zones, run a CoreDNS "
		   "with these lines, and set their dnsConfig to its address" },
	{ "any", CHANGES =
		     "CoreDNS answered every ANY query with one HINFO record. kubedns does this "
		     "for names that it answers itself; ANY queries for external names go to "
		     "the upstream servers" },
	{ "auto", NONE = OTHER_ZONE },
	{ "autopath", .read = plugin_autopath, .flag = "search-completion" },
	{ "azure", NONE = OTHER_ZONE },
	{ "bind", CHANGES = "kubedns's --dns-bind-address, the nanny's --listen-address; in a pod "
			    "all addresses belong to the pod" },
	{ "bufsize",
	    CHANGES = "always 1232 bytes (DNS flag day 2020), or less if the client accepts less" },
	{ "cache", .read = plugin_cache },
	{ "cancel", CARRIED = "kubedns and the nanny's engine have their own timeouts" },
	{ "chaos", CHANGES =
		       "always enabled: dig ch txt hostname.bind for the pod's name. version.bind "
		       "has kubedns's own version, not the text of this line, and authors.bind has "
		       "no record" },
	{ "clouddns", NONE = OTHER_ZONE },
	{ "debug", CARRIED = "crashes are never hidden; -v=3 logs more" },
	{ "dns64", .read = plugin_dns64 },
	{ "dnssec", NONE = "the cluster's zone is not signed; dnsmasq's --dnssec, or "
			   "-dnssec=validate of a nanny "
			   "with --engine=unbound, validates other zones" },
	{ "dnstap", .read = plugin_dnstap, .flag = "dnstap" },
	{ "dynupdate", NONE = OTHER_ZONE },
	{ "erratic", NONE = "a plugin for tests" },
	{ "errors", CARRIED = "errors are always logged" },
	{ "etcd", NONE = OTHER_ZONE },
	{ "federation", .read = plugin_federation },
	{ "file", .read = plugin_file },
	{ "forward", .read = plugin_forward },
	{ "geoip", NONE = NOTHING_TO_SET ": answers do not depend on the client's location" },
	{ "grpc", NONE = OTHER_TRANSPORT },
	{ "grpc_server", NONE = OTHER_TRANSPORT },
	{ "header", NONE = "answers have the flags that the DNS specification requires" },
	{ "health",
	    CARRIED = "each container's /healthz; lameduck is --drain, which the manifest sets" },
	{ "hosts", .read = plugin_hosts },
	{ "https", NONE = OTHER_TRANSPORT },
	{ "https3", NONE = OTHER_TRANSPORT },
	{ "k8s_external", .read = plugin_external },
	{ "k8s_gateway", .read = plugin_external },
	{ "kubernetes", .read = plugin_kubernetes },
	{ "loadbalance", .read = plugin_loadbalance },
	{ "local", .read = plugin_local },
	{ "log", .read = plugin_log },
	{ "loop", CARRIED = "--dns-loop-detect is in the manifest; an upstream that is this pod "
			    "itself is refused with a message" },
	{ "metadata", CARRIED = NOTHING_TO_SET },
	{ "minimal", CHANGES = "answers to SRV, MX and NS queries also have the addresses of the "
			       "targets; CoreDNS removed them" },
	{ "multisocket",
	    CARRIED = "one socket for each of --threads, whose default is the pod's CPUs" },
	{ "nomad", NONE = OTHER_ZONE },
	{ "nsid", .read = plugin_nsid },
	{ "on", NONE = "commands on events are not supported" },
	{ "pprof", CARRIED = NOTHING_TO_SET ": /metrics shows memory and CPU" },
	{ "prometheus", CHANGES = "ports 10055, 10056 and 10054 instead of 9153; for CoreDNS "
				  "dashboards add --coredns-metrics to kubedns" },
	{ "proxy", .read = plugin_forward },
	{ "proxyproto", NONE = "clients are identified by their packets' source address" },
	{ "quic", NONE = OTHER_TRANSPORT },
	{ "ready",
	    CARRIED = "/readiness of kubedns and of the nanny, which the manifest's probes use" },
	{ "reload",
	    CARRIED = "changes of the ConfigMap always take effect; flags change with a rollout" },
	{ "rewrite", .read = plugin_rewrite },
	{ "root", CARRIED = NOTHING_TO_SET },
	{ "route53", NONE = OTHER_ZONE },
	{ "secondary", NONE = OTHER_ZONE },
	{ "shed", CARRIED = "queries beyond its capacity are always dropped and counted" },
	{ "sign", NONE = OTHER_ZONE },
	{ "siit", NONE = "no A records from AAAA records: " KEEP_COREDNS },
	{ "template", .read = plugin_template },
	{ "timeouts", CARRIED = "the number and duration of TCP connections are always limited" },
	{ "tls", NONE = OTHER_TRANSPORT },
	{ "trace", NONE = "no tracing; the histograms in /metrics show how long answers take" },
	{ "transfer", .read = plugin_transfer, .flag = "transfer-to" },
	{ "tsig", .read = plugin_tsig, .flag = "transfer-key" },
	{ "view", NONE =
		      "all clients get the same answer: run a second Deployment (overlay beside) "
		      "with other settings, and set the dnsConfig of the view's clients to the "
		      "address of its Service" },
	{ "whoami", NONE = "a plugin for tests" },
};

/* Reports a plugin whose flag belongs to a module that is not in this build. */
static void
report_without_module(struct report *report, const struct corefile_directive *d, const char *flag)
{
	const char *name = d->head.words[0];

	report_line(report, &d->head, VERDICT_NONE, NO_MODULE, flag);
	for (size_t k = 0; k < d->body_count; k++)
		report_line(report, &d->body[k], VERDICT_NONE, "part of %s above", name);
}

static void
read_directive(struct scope *scope, const struct corefile_directive *d)
{
	const struct corefile_line *line = &d->head;
	struct spelling known = spelling_of(line->words[0], strlen(line->words[0]));

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const struct plugin *p = &table[i];

		if (strcmp(p->name, line->words[0]) != 0) {
			spelling_try(&known, p->name);
			continue;
		}
		if (p->flag != NULL && !module_has_flag(p->flag)) {
			report_without_module(scope->report, d, p->flag);
			return;
		}
		if (p->read != NULL) {
			p->read(scope, d);
			return;
		}
		report_line(scope->report, line, p->verdict, "%s", p->sentence);
		for (size_t k = 0; k < d->body_count; k++)
			report_line(
			    scope->report, &d->body[k], p->verdict, "part of %s above", p->name);
		return;
	}
	bool near = known.word != NULL;
	report_unknown(scope->report, line,
	    "not a plugin of CoreDNS's default build%s%s%s: " KEEP_COREDNS,
	    near ? " (did you mean " : "", near ? known.word : "", near ? "?)" : "");
	for (size_t k = 0; k < d->body_count; k++)
		report_unknown(scope->report, &d->body[k], "part of %s above", line->words[0]);
}

static void
read_node_cache(struct report *report, const struct corefile_block *block)
{
	static const char *const stays = "stays in NodeLocal DNSCache";

	report_line(report, &block->keys, VERDICT_STAYS, "%s", stays);
	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_directive *d = &block->directives[i];

		report_line(report, &d->head, VERDICT_STAYS, "%s", stays);
		for (size_t k = 0; k < d->body_count; k++)
			report_line(report, &d->body[k], VERDICT_STAYS, "%s", stays);
	}
}

#define LEFT_OUT "left out with its server block"

static void
report_left_out(struct report *report, const struct corefile_block *block)
{
	for (size_t i = 0; i < block->count; i++) {
		const struct corefile_directive *d = &block->directives[i];

		report_line(report, &d->head, VERDICT_NONE, LEFT_OUT);
		for (size_t k = 0; k < d->body_count; k++)
			report_line(report, &d->body[k], VERDICT_NONE, LEFT_OUT);
	}
}

/* Whether the key has a port other than 53. */
static bool
has_port(const char *word)
{
	const char *slash = strrchr(word, '/');
	const char *port = strrchr(slash != NULL ? slash : word, ':');

	return port != NULL && port[1] != '/' && strcmp(port, ":53") != 0;
}

/* Reports a block that does not answer the cluster's clients. kubedns never mixes it with other
 * blocks. */
static void
read_left_out(struct report *report, const struct blocks *blocks,
    const struct corefile_block *block, enum block_fate fate)
{
	const struct corefile_line *other = &blocks_main(blocks)->keys;

	if (fate == BLOCK_PORT)
		report_line(report, &block->keys, VERDICT_NONE,
		    "left out: CoreDNS uses this server block only for its own port or transport. "
		    "kubedns has one port, here the port of the server block at %s:%u. Run a "
		    "second "
		    "Deployment (overlay beside) for these clients, or " KEEP_COREDNS,
		    other->file, other->line);
	else if (fate == BLOCK_BIND)
		report_line(report, &block->keys, VERDICT_NONE,
		    "left out: it listens on other addresses than the server block at %s:%u, so it "
		    "has other clients. Run a second Deployment (overlay beside) for them, and "
		    "give them the address of its Service",
		    other->file, other->line);
	else if (fate == BLOCK_VIEW)
		report_line(report, &block->keys, VERDICT_NONE,
		    "left out: only for the clients of its view. kubedns gives all clients the "
		    "same answers, here those of the server block for all clients. Run a second "
		    "Deployment (overlay beside) for the clients of the view, and set their "
		    "dnsConfig to the address of its Service");
	else
		report_line(report, &block->keys, VERDICT_NONE,
		    "left out: an earlier server block has the same zones. CoreDNS does not start "
		    "with such a Corefile (already defined)");
	report_left_out(report, block);
}

/* Reads the keys of a block. Reports keys that are not plain zones of this block. */
static void
read_keys(struct scope *scope, size_t number, const struct corefile_line *keys)
{
	enum verdict verdict = VERDICT_CARRIED;
	const char *sentence = "a server block; its zones are below";

	for (size_t i = 0; i < keys->count; i++) {
		const char *word = keys->words[i];
		char *zone = zone_parse(word);
		bool here = blocks_key_is_here(scope->blocks, word);

		if (zone == NULL && zone_is_placeholder(word)) {
			verdict = VERDICT_NONE;
			sentence = "a placeholder, which another program replaces: run "
				   "kubedns-migrate on the output of that program. Until then its "
				   "names go to the servers of all other names";
		} else if (zone == NULL) {
			verdict = VERDICT_NONE;
			sentence = "not a name, or a network whose length is not a multiple of 8 "
				   "(IPv6: 4): "
				   "write the reverse zones instead";
		} else if (here && !blocks_has_zone(scope->blocks, number, zone)) {
			verdict = VERDICT_NONE;
			sentence = "one of these zones belongs to another server block: it is left "
				   "out here";
		} else if (here) {
			scope->zones[scope->count++] = xstrdup(zone);
		} else {
			verdict = VERDICT_NONE;
			sentence = "kubedns has one port: zones with another port or transport are "
				   "left out";
		}
		if (here && strstr(word, "://") != NULL && strncmp(word, "dns://", 6) != 0) {
			verdict = VERDICT_NONE;
			sentence = OTHER_TRANSPORT;
		} else if (here && verdict == VERDICT_CARRIED && has_port(word)) {
			verdict = VERDICT_CHANGES;
			sentence = "the pods have port 53: step 3 sets the Service's targetPort. A "
				   "NetworkPolicy that allows only the old port must allow 53 too";
			report_old_port(scope->report, strrchr(word, ':') + 1);
		}
		free(zone);
	}
	report_line(scope->report, keys, verdict, "%s", sentence);
}

/* Finds the cluster's domain, on which other verdicts depend: the first zone of the first directive
 * `kubernetes`. If this directive has no zone, the domain is the first zone of its block. */
static void
find_domain(struct report *report, const struct corefile *corefile, const struct blocks *blocks)
{
	for (size_t i = 0; i < corefile->count; i++) {
		const struct corefile_block *block = &corefile->blocks[i];

		for (size_t k = 0; k < block->count && blocks_fate(blocks, i) == BLOCK_SERVES; k++)
			if (strcmp(block->directives[k].head.words[0], "kubernetes") == 0)
				plugin_kubernetes_domain(report, block, &block->directives[k]);
	}
}

/* --- verdicts on missing directives --- */

/* Finds a plugin of the block that may resolve names from another source. If there is such a
 * plugin, CoreDNS's answers are unknown. */
static const struct corefile_directive *
find_other_source(const struct corefile_block *block)
{
	for (size_t i = 0; i < block->count; i++) {
		const char *name = block->directives[i].head.words[0];
		bool known = false;

		for (size_t k = 0; k < sizeof table / sizeof *table && !known; k++)
			known = strcmp(table[k].name, name) == 0;
		if (!known || strcmp(name, "grpc") == 0 || strcmp(name, "view") == 0)
			return &block->directives[i];
	}
	return NULL;
}

/* Whether this is the Corefile of a whole cluster, not only a part of a Corefile. */
static bool
has_kubernetes(const struct corefile *corefile)
{
	for (size_t i = 0; i < corefile->count; i++)
		if (corefile_find(&corefile->blocks[i], "kubernetes") != NULL)
			return true;
	return false;
}

/* Reports that CoreDNS resolves no external names, because no block forwards the root. */
static void
report_closed(struct report *report, const struct corefile *corefile, const struct blocks *blocks)
{
	const struct corefile_block *root = blocks_of_name(blocks, ".");
	const struct corefile_line *keys = root != NULL ? &root->keys : &blocks_main(blocks)->keys;
	const struct corefile_directive *other = root != NULL ? find_other_source(root) : NULL;

	if (root != NULL && block_forwards(root))
		return;
	if (other != NULL) {
		report_line(report, keys, VERDICT_NONE,
		    "no forward: external names go to the servers of the node's resolv.conf; "
		    "CoreDNS had %.60s",
		    other->head.words[0]);
		return;
	}
	if (!has_kubernetes(corefile)) {
		report_line(report, keys, VERDICT_CHANGES,
		    "names %s go to the servers of the node's resolv.conf; CoreDNS with only this "
		    "Corefile %s them",
		    root != NULL ? "that no line forwards" : "outside these zones",
		    root != NULL ? "returns SERVFAIL for" : "refuses");
		return;
	}
	report_flag(report, PROGRAM_NANNY, "-resolvConf=/dev/null");
	if (report_topology(report) == TOPOLOGY_CLASSIC)
		report_flag(report, PROGRAM_KUBEDNS, "--nameservers=" NO_SERVER);
	report_line(report, keys, VERDICT_CHANGES,
	    "no line forwards names outside these zones: the nanny's -resolvConf=/dev/null does "
	    "the same (REFUSED; CoreDNS returns SERVFAIL, or REFUSED after file)%s. An "
	    "ExternalName Service with such a "
	    "target gets %s too; CoreDNS returns NOERROR with the CNAME. Without %s they go "
	    "to the servers of "
	    "the node's resolv.conf",
	    report_topology(report) == TOPOLOGY_CLASSIC
		? ". kubedns's --nameservers=" NO_SERVER ", where no server listens, does it for "
		  "reverse names and for names below those of hosts and records (SERVFAIL)"
		: "",
	    report_topology(report) == TOPOLOGY_CLASSIC ? "REFUSED or SERVFAIL" : "REFUSED",
	    report_topology(report) == TOPOLOGY_CLASSIC ? "both flags" : "the flag");
}

/* Whether the directive answers all names of the block's zones, or passes them on. */
static bool
takes_all(const struct scope *scope, const struct corefile_directive *d)
{
	static const struct {
		const char *name;
		size_t zones; /* index of the first word that is a zone */
	} sources[] = { { "file", 2 }, { "secondary", 1 }, { "kubernetes", 1 },
		{ "k8s_external", 1 }, { "k8s_gateway", 1 }, { "auto", SIZE_MAX }, { "etcd", 1 } };
	bool all = false;

	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		if (strcmp(d->head.words[0], sources[i].name) != 0)
			continue;
		struct zone_set *zones = scope_zones(scope, &d->head, sources[i].zones);
		all = true;
		for (size_t k = 0; k < scope->count && all; k++)
			all = zone_set_covers(zones, scope->zones[k]);
		zone_set_free(zones);
	}
	return all;
}

/* Reports a block of a zone that answers only some names of the zone and forwards none. */
static void
report_dead_end(struct scope *scope)
{
	const struct corefile_block *block = scope->block;
	bool forwarded = true;

	if (scope_serves_root(scope) || scope->count == 0 || find_other_source(block) != NULL)
		return;
	for (size_t k = 0; k < scope->count && forwarded; k++)
		forwarded = plugin_forward_covers(scope->forwards, scope->zones[k]);
	for (size_t i = 0; i < block->count && !forwarded; i++)
		forwarded = takes_all(scope, &block->directives[i]);
	if (!forwarded)
		report_line(scope->report, &block->keys, VERDICT_CHANGES,
		    "no line of this block forwards its names: CoreDNS returns SERVFAIL, or "
		    "REFUSED "
		    "after file, for names that the block does not have. Here they are looked up "
		    "like any other name");
}

/* Reports if CoreDNS does not serve the cluster's names, because kubedns always serves these names. */
static void
report_no_cluster(
    struct report *report, const struct corefile *corefile, const struct blocks *blocks)
{
	if (!has_kubernetes(corefile))
		report_line(report, &blocks_main(blocks)->keys, VERDICT_CHANGES,
		    "kubedns also answers the cluster's names and reverse names: CoreDNS with only "
		    "this Corefile does not");
}

static void
read_block(struct report *report, const struct corefile *corefile, const struct blocks *blocks,
    size_t number, struct plugin_files *files)
{
	const struct corefile_block *block = &corefile->blocks[number];
	struct scope scope = { .report = report,
		.files = files,
		.blocks = blocks,
		.block = block,
		.set = zone_set_new(),
		.templates = zone_set_new(),
		.above_templates = zone_set_new(),
		.denied = zone_set_new(),
		.forwards = plugin_forward_plan(report, block),
		.zones = xcalloc(block->keys.count + 1, sizeof(char *)) };

	read_keys(&scope, number, &block->keys);
	for (size_t k = 0; k < scope.count; k++)
		zone_set_add(scope.set, scope.zones[k]);
	for (size_t k = 0; k < block->count; k++)
		if (strcmp(block->directives[k].head.words[0], "template") == 0)
			plugin_template_plan(&scope, &block->directives[k]);
	if (scope.count == 0 && block->keys.count > 0) {
		report_left_out(report, block);
	} else {
		for (size_t k = 0; k < block->count; k++)
			read_directive(&scope, &block->directives[k]);
		report_dead_end(&scope);
	}
	for (size_t k = 0; k < scope.count; k++)
		free(scope.zones[k]);
	free(scope.zones);
	zone_set_free(scope.set);
	zone_set_free(scope.templates);
	zone_set_free(scope.above_templates);
	zone_set_free(scope.denied);
	plugin_forward_plan_free(scope.forwards);
}

static void
plan_log(struct log_wish *wish, const struct corefile *corefile, const struct blocks *blocks)
{
	*wish = (struct log_wish){ 0 };
	for (size_t i = 0; i < corefile->count; i++) {
		const struct corefile_block *block = &corefile->blocks[i];

		for (size_t k = 0; k < block->count && blocks_fate(blocks, i) == BLOCK_SERVES; k++)
			if (strcmp(block->directives[k].head.words[0], "log") == 0)
				plugin_log_plan(wish, block, &block->directives[k]);
	}
}

/* Selects the engine, on which the verdicts on `forward` and `cache` depend. DNS64 needs unbound. */
static void
choose_engine(struct report *report, const struct corefile *corefile, const struct blocks *blocks)
{
	for (size_t i = 0; i < corefile->count; i++) {
		const struct corefile_block *block = &corefile->blocks[i];

		for (size_t k = 0; k < block->count && blocks_fate(blocks, i) == BLOCK_SERVES;
		     k++) {
			const struct corefile_directive *d = &block->directives[k];
			bool dns64 = strcmp(d->head.words[0], "dns64") == 0 &&
				     report_topology(report) == TOPOLOGY_FRONT &&
				     block == blocks_of_name(blocks, ".") &&
				     plugin_dns64_is_possible(d);

			if (dns64 || (strcmp(d->head.words[0], "forward") == 0 &&
					 plugin_forward_uses_tls(d)))
				report_need_unbound(report);
		}
	}
}

static void
report_notes(struct report *report, const struct corefile *corefile, bool custom)
{
	for (size_t i = 0; i < corefile->note_count; i++) {
		const struct corefile_note *note = &corefile->notes[i];
		struct corefile_line what = { note->file, note->line, (char *[]){ note->what }, 1 };

		if (note->harmless && custom)
			report_line(report, &what, VERDICT_CARRIED,
			    "nothing to import: no key of the ConfigMaps in the input matches");
		else
			report_line(report, &what, note->harmless ? VERDICT_CHANGES : VERDICT_NONE,
			    "%s", note->sentence);
	}
}

/* Collects the names that plugins of all blocks answer with wildcards or zones. */
static void
plan_names(struct plugin_files *files, const struct corefile *corefile, const struct blocks *blocks)
{
	files->wildcards = zone_set_new();
	files->zone_files = zone_set_new();
	for (size_t i = 0; i < corefile->count; i++) {
		const struct corefile_block *block = &corefile->blocks[i];

		for (size_t k = 0; k < block->count && blocks_fate(blocks, i) == BLOCK_SERVES;
		     k++) {
			const struct corefile_directive *d = &block->directives[k];

			if (strcmp(d->head.words[0], "template") == 0)
				plugin_template_plan_wildcards(files->wildcards, blocks, block, d);
			else if (strcmp(d->head.words[0], "file") == 0 && d->head.count > 1 &&
				 plugin_files_have(files, &d->head, d->head.words[1]))
				scope_plan_zones(files->zone_files, blocks, block, &d->head, 2);
		}
	}
}

void
plugins_read(struct report *report, const struct corefile *corefile, struct plugin_files *files)
{
	struct blocks *blocks = blocks_new(corefile);
	bool node_cache = false;

	find_domain(report, corefile, blocks);
	choose_engine(report, corefile, blocks);
	report_notes(report, corefile, files->custom);
	plan_log(&files->log, corefile, blocks);
	files->kubernetes = plugin_kubernetes_plan(report, corefile, blocks);
	const struct corefile_block *root = blocks_of_name(blocks, ".");
	files->root_others = plugin_forward_root_others(root);
	for (size_t i = 0; root != NULL && i < root->count; i++)
		if (strcmp(root->directives[i].head.words[0], "template") == 0)
			plugin_template_plan_denied(
			    files->root_others, blocks, root, &root->directives[i]);
	plan_names(files, corefile, blocks);
	files->root_is_plain = root != NULL && plugin_forward_is_plain(root);
	for (size_t i = 0; i < corefile->count; i++) {
		enum block_fate fate = blocks_fate(blocks, i);

		node_cache = node_cache || fate == BLOCK_NODE_CACHE;
		if (fate == BLOCK_NODE_CACHE)
			read_node_cache(report, &corefile->blocks[i]);
		else if (fate == BLOCK_SERVES)
			read_block(report, corefile, blocks, i, files);
		else
			read_left_out(report, blocks, &corefile->blocks[i], fate);
	}
	if (blocks_main(blocks) != NULL && !node_cache && !files->partial)
		report_closed(report, corefile, blocks);
	if (blocks_main(blocks) != NULL && !node_cache && !files->partial)
		report_no_cluster(report, corefile, blocks);
	zone_set_free(files->root_others);
	zone_set_free(files->wildcards);
	zone_set_free(files->zone_files);
	files->root_others = files->wildcards = files->zone_files = NULL;
	plugin_kubernetes_plan_free(files->kubernetes);
	files->kubernetes = NULL;
	blocks_free(blocks);
}
