#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/http.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "lib/clock.h"
#include "sidecar/page/journal_file.h"
#include "sidecar/loop.h"
#include "sidecar/format.h"

enum {
	FD_SIGNAL,
	FD_HTTP,
	FD_CACHE,
	FD_KUBEDNS,
	FD_NANNY,
	FD_ASK,
	FD_PROBES = FD_ASK + QUESTION_BOX_SLOTS,
	FD_CHECKS = FD_PROBES + PROBES_MAX,
	FD_COUNT = FD_CHECKS + CHECKS_MAX,
};

/* The delay between the first queries of the probes. The sidecar sends these queries at its start, so that it knows the health when the
 * first livenessProbe arrives. */
#define STAGGER_NS (20 * NS_PER_MS)

/* Returns the server that clients query: dnsmasq or, if no probe queries dnsmasq, the server of the first probe. */
static const struct server *
clients_server(const struct sidecar_options *options)
{
	for (size_t i = 0; i < options->spec_count; i++)
		if (server_equal(&options->specs[i].server, &options->dnsmasq))
			return &options->dnsmasq;
	return options->spec_count > 0 ? &options->specs[0].server : &options->dnsmasq;
}

/* Initialises the sidecar's own checks. The check of the path through dnsmasq to kubedns uses the name of the first probe that queries
 * dnsmasq. */
static void
init_checks(struct sidecar *sidecar, int64_t now_ns)
{
	const struct sidecar_options *options = sidecar->options;
	const struct dname *cluster = NULL;

	for (size_t i = 0; i < options->spec_count && cluster == NULL; i++)
		if (server_equal(&options->specs[i].server, &options->dnsmasq))
			cluster = &options->specs[i].name;
	server_checks_init(&sidecar->checks, &options->dnsmasq,
	    options->has_outside ? &options->outside : NULL, cluster, options->upstream_ca, now_ns);
}

void
sidecar_init(struct sidecar *sidecar, const struct sidecar_options *options)
{
	int64_t now = clock_mono_ns();

	*sidecar = (struct sidecar){ .options = options,
		.probe_count = options->spec_count,
		.signal_fd = -1,
		.started_ns = now,
		.clock_offset_s = clock_wall_s() - (double)now / 1e9,
		.surroundings = surroundings_find(),
		.stop_ns = CLOCK_NEVER };
	sidecar->probes = xcalloc(options->spec_count, sizeof *sidecar->probes);
	for (size_t i = 0; i < options->spec_count; i++)
		probe_init(&sidecar->probes[i], &options->specs[i], now, (int64_t)i * STAGGER_NS);
	dnsmasq_stats_poller_init(
	    &sidecar->poller, &options->dnsmasq, options->poll_interval_ms, now);
	peer_init(&sidecar->kubedns, options->has_kubedns ? &options->kubedns : NULL,
	    kubedns_targets, PEER_METRICS_MAX, kubedns_page, &sidecar->kubedns_view, now);
	peer_init(&sidecar->nanny, options->has_nanny ? &options->nanny : NULL, nanny_targets,
	    PEER_CONFIG_MAX, nanny_page, &sidecar->nanny_view, now);
	init_checks(sidecar, now);
	question_box_init(&sidecar->question_box, clients_server(options),
	    options->has_kubedns ? &options->kubedns : NULL);
	if (gethostname(sidecar->host, sizeof sidecar->host - 1) < 0)
		sidecar->host[0] = '\0';
}

void
sidecar_free(struct sidecar *sidecar)
{
	for (size_t i = 0; i < sidecar->probe_count; i++)
		probe_close(&sidecar->probes[i]);
	free(sidecar->probes);
	dnsmasq_stats_poller_close(&sidecar->poller);
	peer_close(&sidecar->kubedns);
	peer_close(&sidecar->nanny);
	nanny_view_free(&sidecar->nanny_view);
	server_checks_close(&sidecar->checks);
	question_box_close(&sidecar->question_box);
	if (sidecar->signal_fd >= 0)
		close(sidecar->signal_fd);
}

static int64_t
probes_deadline(const struct sidecar *sidecar)
{
	int64_t deadline = CLOCK_NEVER;

	for (size_t i = 0; i < sidecar->probe_count; i++)
		deadline = clock_earlier(deadline, probe_deadline(&sidecar->probes[i]));
	return deadline;
}

static int64_t
http_deadline(const struct sidecar *sidecar)
{
	int64_t due_ms = http_due_ms(sidecar->http);

	return due_ms == CLOCK_NEVER ? CLOCK_NEVER : due_ms * NS_PER_MS;
}

static int64_t
next_deadline(const struct sidecar *sidecar)
{
	int64_t deadline = clock_earlier(probes_deadline(sidecar), sidecar->stop_ns);

	deadline = clock_earlier(deadline, dnsmasq_stats_poller_deadline(&sidecar->poller));
	deadline = clock_earlier(deadline, server_checks_deadline(&sidecar->checks));
	deadline = clock_earlier(deadline, peer_deadline(&sidecar->kubedns));
	deadline = clock_earlier(deadline, peer_deadline(&sidecar->nanny));
	deadline = clock_earlier(deadline, sidecar->journal_ns);
	deadline = clock_earlier(deadline, http_deadline(sidecar));
	return clock_earlier(deadline, question_box_deadline(&sidecar->question_box));
}

static void
set(struct pollfd *slot, int fd, short events)
{
	*slot = (struct pollfd){ .fd = fd, .events = events };
}

static void
fill_probes(const struct sidecar *sidecar, struct pollfd *slots)
{
	for (size_t i = 0; i < sidecar->probe_count; i++)
		set(&slots[i], sidecar->probes[i].exchange.fd, sidecar->probes[i].exchange.events);
}

static void
fill_slots(const struct sidecar *sidecar, struct pollfd *slots)
{
	set(&slots[FD_SIGNAL], sidecar->signal_fd, POLLIN);
	set(&slots[FD_HTTP], http_fd(sidecar->http), POLLIN);
	set(&slots[FD_CACHE], sidecar->poller.exchange.fd, sidecar->poller.exchange.events);
	set(&slots[FD_KUBEDNS], sidecar->kubedns.fetch.fd, sidecar->kubedns.fetch.events);
	set(&slots[FD_NANNY], sidecar->nanny.fetch.fd, sidecar->nanny.fetch.events);
	for (size_t i = 0; i < QUESTION_BOX_MAX; i++) {
		const struct boxed_question *entry = &sidecar->question_box.entries[i];

		set(&slots[FD_ASK + 2 * i], entry->exchange.fd, entry->exchange.events);
		set(&slots[FD_ASK + 2 * i + 1], entry->fetch.fd, entry->fetch.events);
	}
	for (size_t i = 0; i < PROBES_MAX; i++)
		set(&slots[FD_PROBES + i], -1, 0);
	fill_probes(sidecar, slots + FD_PROBES);
	for (size_t i = 0; i < sidecar->checks.count; i++)
		set(&slots[FD_CHECKS + i], sidecar->checks.items[i]->exchange.fd,
		    sidecar->checks.items[i]->exchange.events);
}

/* Handles a signal. The first signal starts the drain, and a second signal ends the drain. Returns false if the sidecar must exit. */
static bool
take_signal(struct sidecar *sidecar)
{
	struct signalfd_siginfo info;

	if (read(sidecar->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
		return true;
	if (sidecar->stop_ns != CLOCK_NEVER) {
		log_info("stopping: second signal");
		return false;
	}
	sidecar->stop_ns = clock_mono_ns() + sidecar->options->drain_ms * NS_PER_MS;
	log_info("stopping: draining for %lld ms", (long long)sidecar->options->drain_ms);
	return true;
}

static void
look_for_changes(struct sidecar *sidecar, int64_t now_ns)
{
	struct view view;

	sidecar_view(sidecar, &view);
	journal_look(&sidecar->journal, &view);
	if (sidecar->options->journal[0] != '\0')
		journal_save(&sidecar->journal, &view, sidecar->options->journal);
	sidecar->journal_ns = now_ns + JOURNAL_INTERVAL_MS * NS_PER_MS;
}

static void
run_slots(struct sidecar *sidecar, const struct pollfd *slots)
{
	int64_t now = clock_mono_ns();
	short ask[QUESTION_BOX_SLOTS];

	/* Handle DNS before HTTP, so that answers to probes do not wait for a page. */
	for (size_t i = 0; i < sidecar->probe_count; i++)
		probe_run(&sidecar->probes[i], slots[FD_PROBES + i].revents, now);
	uint64_t forwarded = sidecar->checks.forwarded;
	for (size_t i = 0; i < sidecar->checks.count; i++)
		server_checks_run(&sidecar->checks, i, slots[FD_CHECKS + i].revents, now);
	sidecar->cache.own_misses += sidecar->checks.forwarded - forwarded;
	if (sidecar->checks.recovered) /* the nanny's engine may avoid the server until it knows */
		peer_put(&sidecar->nanny, "/recovered");
	sidecar->checks.recovered = false;
	dnsmasq_stats_poller_run(&sidecar->poller, &sidecar->cache, slots[FD_CACHE].revents, now);
	peer_run(&sidecar->kubedns, slots[FD_KUBEDNS].revents, now);
	peer_run(&sidecar->nanny, slots[FD_NANNY].revents, now);
	if (sidecar->nanny_view.reads != sidecar->configured) {
		sidecar->configured = sidecar->nanny_view.reads;
		server_checks_configure(&sidecar->checks, sidecar->nanny_view.config, now);
		dnsmasq_stats_nanny(&sidecar->cache, (uint64_t)sidecar->nanny_view.own_hits, now);
	}
	if (now >= sidecar->journal_ns)
		look_for_changes(sidecar, now);
	for (int i = 0; i < QUESTION_BOX_SLOTS; i++)
		ask[i] = slots[FD_ASK + i].revents;
	question_box_run(&sidecar->question_box, ask, now);
	http_run(sidecar->http);
}

void
sidecar_take_signals(struct sidecar *sidecar)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	sidecar->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (sidecar->signal_fd < 0)
		log_fatal("signalfd");
}

void
sidecar_loop(struct sidecar *sidecar)
{
	struct pollfd slots[FD_COUNT];

	for (;;) {
		fill_slots(sidecar, slots);
		int timeout = clock_wait_ns(next_deadline(sidecar), clock_mono_ns());
		if (poll(slots, FD_CHECKS + sidecar->checks.count, timeout) < 0) {
			if (errno != EINTR)
				log_fatal("poll");
			continue;
		}
		run_slots(sidecar, slots);
		if (slots[FD_SIGNAL].revents != 0 && !take_signal(sidecar))
			return;
		if (clock_mono_ns() >= sidecar->stop_ns)
			return;
	}
}

static void
print_probe(const struct probe *probe)
{
	char server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX], type[12], ms[FORMAT_MAX];

	printf("%-12s %-21s %-5s %-44s %s\n", probe->spec.label,
	    server_format(&probe->spec.server, server), type_name(probe->spec.type, type),
	    dname_to_text(probe->spec.name.wire, name),
	    probe->cause == CAUSE_OK ? format_ms(probe->latency_s * 1e3, ms) : probe->error);
}

int
sidecar_once(struct sidecar *sidecar)
{
	struct pollfd slots[PROBES_MAX];
	size_t asked = 0, ok = 0;

	while (asked < sidecar->probe_count) {
		fill_probes(sidecar, slots);
		if (poll(slots, sidecar->probe_count,
			clock_wait_ns(probes_deadline(sidecar), clock_mono_ns())) < 0)
			continue;
		int64_t now = clock_mono_ns();
		for (size_t i = 0; i < sidecar->probe_count; i++) {
			struct probe *probe = &sidecar->probes[i];

			if (probe->asked)
				continue;
			probe_run(probe, slots[i].revents, now);
			if (!probe->asked)
				continue;
			probe->due_ns = CLOCK_NEVER;
			asked++;
			ok += probe->cause == CAUSE_OK;
		}
	}
	if (sidecar->probe_count > 0)
		printf("%-12s %-21s %-5s %-44s %s\n", "PROBE", "SERVER", "TYPE", "NAME", "ANSWER");
	for (size_t i = 0; i < sidecar->probe_count; i++)
		print_probe(&sidecar->probes[i]);
	printf("%zu of %zu answered\n", ok, asked);
	return ok == asked ? 0 : 1;
}

/* Returns by how many seconds the wall clock was set since the start. Returns 0 for a small difference, because clock slewing causes such
 * differences. */
static double
clock_step_s(const struct sidecar *sidecar)
{
	enum { STEP_MIN_S = 5 };
	double step_s = clock_wall_s() - (double)clock_mono_ns() / 1e9 - sidecar->clock_offset_s;

	return step_s > STEP_MIN_S || step_s < -STEP_MIN_S ? step_s : 0;
}

void
sidecar_view(struct sidecar *sidecar, struct view *view)
{
	const struct sidecar_options *options = sidecar->options;

	*view = (struct view){
		.now_ns = clock_mono_ns(),
		.now_s = clock_wall_s(),
		.started_ns = sidecar->started_ns,
		.draining = sidecar->stop_ns != CLOCK_NEVER,
		.http_dropped = sidecar->http != NULL ? http_dropped(sidecar->http) : 0,
		.surroundings = sidecar->surroundings,
		.host = sidecar->host,
		.port = sidecar->http != NULL ? http_port(sidecar->http) : 0,
		.prometheus_namespace = options->prometheus_namespace,
		.coredns_metrics = options->coredns_metrics,
		.metrics_path = options->prometheus_path,
		.dnsmasq = options->dnsmasq,
		.probes = sidecar->probes,
		.probe_count = sidecar->probe_count,
		.cache = &sidecar->cache,
		.kubedns = options->has_kubedns ? &sidecar->kubedns_view : NULL,
		.nanny = options->has_nanny ? &sidecar->nanny_view : NULL,
		.checks = &sidecar->checks,
		.journal = &sidecar->journal,
		.clock_step_s = clock_step_s(sidecar),
	};
	process_container_memory(&view->memory, &view->memory_limit);
}
