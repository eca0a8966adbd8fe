/* The module dnstap, as the core sees it. dnstap.h describes what it does. */
#include "kubedns/module.h"

#include "kubedns/answer/answer.h"
#include "kubedns/modules/dnstap/dnstap.h"
#include "kubedns/serve/worker.h"
#include "lib/sandbox.h"

struct dnstap_options {
	char *text;
	struct dnstap_target target;
};

static const struct flag flags[] = {
	{ "dnstap", FLAG_STRING, offsetof(struct dnstap_options, text), "", "unix:PATH|tcp:IP:PORT",
	    .help = "send a copy of each DNS message to this collector" },
	{ .name = NULL },
};

static int
check(void *options, const struct module_given *given, struct module_wants *wants)
{
	struct dnstap_options *o = options;
	const char *why;

	if (flags_given(given->flags, "dnstap") &&
	    dnstap_target_parse(o->text, &o->target, &why) < 0)
		return flags_refuse("dnstap", o->text, why);
	wants->enabled = *o->text != '\0';
	wants->messages = true;
	return 0;
}

static void *
open_dnstap(const void *options, struct module_core *core)
{
	const struct dnstap_options *o = options;
	const struct dnstap_config config = { .target = o->target,
		.identity = core->answers->hostname,
		.version = core->answers->version };
	struct dnstap *dnstap = dnstap_new(&config);

	core->listener = dnstap_listener(dnstap);
	return dnstap;
}

static unsigned
confine(void *state, struct sandbox *sandbox)
{
	const struct dnstap_target *target = dnstap_target(state);

	if (*target->path != '\0')
		return SANDBOX_KEEP_UNIX;
	sandbox_connect(sandbox, target->server.port);
	return 0;
}

static void
start(void *state, const struct module_core *core)
{
	for (unsigned w = 0; w < workers_count(core->workers); w++)
		dnstap_add_ring(state, workers_ring(core->workers, w));
	dnstap_start(state);
}

static void
metrics(void *state, const uint64_t *counters, struct metrics *m)
{
	(void)counters;
	dnstap_metrics(state, m);
}

static void
stopped(void *state)
{
	dnstap_free(state);
}

const struct module module_dnstap = { .name = "dnstap",
	.flags = flags,
	.options_size = sizeof(struct dnstap_options),
	.check = check,
	.open = open_dnstap,
	.confine = confine,
	.start = start,
	.metrics = metrics,
	.stopped = stopped };
