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

/* The first questions go out at once, a little apart, so that health is known when the first
 * livenessProbe comes. */
#define STAGGER_NS (20 * NS_PER_MS)

/* Whom clients ask: dnsmasq, or in a topology in which no probe asks it the server of the first probe. */
static const struct server *
clients_server(const struct sidecar_options *options)
{
	for (size_t i = 0; i < options->spec_count; i++)
		if (server_equal(&options->specs[i].server, &options->dnsmasq))
			return &options->dnsmasq;
	return options->spec_count > 0 ? &options->specs[0].server : &options->dnsmasq;
}

/* The name by which the way to kubedns is checked: that of the first probe that asks dnsmasq. */
static void
init_checks(struct sidecar *sidecar, int64_t now_ns)
{
	const struct sidecar_options *options = sidecar->options;
	const struct dname *cluster = NULL;

	for (size_t i = 0; i < options->spec_count && cluster == NULL; i++)
		if (server_equal(&options->specs[i].server, &options->dnsmasq))
			cluster = &options->specs[i].name;
	server_checks_init(&sidecar->checks, &options->dnsmasq,
	    options->has_outside ? &options->outside : NULL, cluster, now_ns);
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
	sidecar->exchanges = xcalloc(options->spec_count, sizeof *sidecar->exchanges);
	for (size_t i = 0; i < options->spec_count; i++) {
		probe_init(&sidecar->probes[i], &options->specs[i], now, (int64_t)i * STAGGER_NS);
		dns_exchange_init(&sidecar->exchanges[i]);
	}
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
	for (size_t i = 0; i < sidecar->probe_count; i++) {
		dns_exchange_close(&sidecar->exchanges[i]);
		probe_close(&sidecar->probes[i]);
	}
	free(sidecar->exchanges);
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
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t
probes_deadline(const struct sidecar *sidecar)
{
	int64_t deadline = CLOCK_NEVER;

	for (size_t i = 0; i < sidecar->probe_count; i++)
		deadline = earlier(deadline, dns_exchange_busy(&sidecar->exchanges[i])
						 ? sidecar->exchanges[i].deadline_ns
						 : sidecar->probes[i].due_ns);
	return deadline;
}

static int64_t
next_deadline(const struct sidecar *sidecar)
{
	int64_t deadline = earlier(probes_deadline(sidecar), sidecar->stop_ns);

	deadline = earlier(deadline, dnsmasq_stats_poller_deadline(&sidecar->poller));
	deadline = earlier(deadline, server_checks_deadline(&sidecar->checks));
	deadline = earlier(deadline, peer_deadline(&sidecar->kubedns));
	deadline = earlier(deadline, peer_deadline(&sidecar->nanny));
	deadline = earlier(deadline, sidecar->journal_ns);
	return earlier(deadline, question_box_deadline(&sidecar->question_box));
}

/* Milliseconds for poll(), rounded up so that it never wakes just before the time; -1 for ever. */
static int
poll_timeout_ms(int64_t deadline_ns, int http_ms)
{
	int ms = -1;

	if (deadline_ns != CLOCK_NEVER) {
		int64_t left = (deadline_ns - clock_mono_ns() + NS_PER_MS - 1) / NS_PER_MS;

		ms = left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
	}
	return http_ms >= 0 && (ms < 0 || http_ms < ms) ? http_ms : ms;
}

static void
set(struct pollfd *slot, int fd, short events)
{
	*slot = (struct pollfd){ .fd = fd, .events = events };
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
		if (i < sidecar->probe_count)
			set(&slots[FD_PROBES + i], sidecar->exchanges[i].fd,
			    sidecar->exchanges[i].events);
		else
			set(&slots[FD_PROBES + i], -1, 0);
	for (size_t i = 0; i < sidecar->checks.count; i++)
		set(&slots[FD_CHECKS + i], sidecar->checks.items[i]->exchange.fd,
		    sidecar->checks.items[i]->exchange.events);
}

/* The first signal begins the drain, a second one ends it. False when it is time to go. */
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

/* Sends the probe's query if it is due, or goes on with the one in flight, whose socket has
 * `revents`, and records its result. */
static void
run_probe(struct probe *probe, struct dns_exchange *exchange, short revents, int64_t now_ns)
{
	bool ended;

	if (dns_exchange_busy(exchange)) {
		ended = dns_exchange_run(exchange, revents);
	} else {
		if (now_ns < probe->due_ns)
			return;
		probe_schedule(probe, now_ns);
		ended = dns_exchange_ask(exchange, &probe->spec.server, &probe->spec.name,
		    probe->spec.type, CLASS_IN, probe_timeout_ms(probe));
	}
	if (!ended)
		return;
	struct probe_result result = { .cause = exchange->reply.cause,
		.rcode = exchange->reply.rcode,
		.error = exchange->error,
		.over_tcp = exchange->over_tcp,
		.sent_ns = exchange->sent_ns,
		.latency_ns = exchange->latency_ns };
	probe_record(probe, &result, now_ns, clock_wall_s());
	dns_exchange_close(exchange);
}

static void
run_slots(struct sidecar *sidecar, const struct pollfd *slots)
{
	int64_t now = clock_mono_ns();
	short ask[QUESTION_BOX_SLOTS];

	/* DNS before HTTP: what arrived for a probe is not kept waiting by a page. */
	for (size_t i = 0; i < sidecar->probe_count; i++)
		run_probe(
		    &sidecar->probes[i], &sidecar->exchanges[i], slots[FD_PROBES + i].revents, now);
	uint64_t forwarded = sidecar->checks.forwarded;
	for (size_t i = 0; i < sidecar->checks.count; i++)
		server_checks_run(&sidecar->checks, i, slots[FD_CHECKS + i].revents, now);
	sidecar->cache.own_misses += sidecar->checks.forwarded - forwarded;
	dnsmasq_stats_poller_run(&sidecar->poller, &sidecar->cache, slots[FD_CACHE].revents, now);
	peer_run(&sidecar->kubedns, slots[FD_KUBEDNS].revents, now);
	peer_run(&sidecar->nanny, slots[FD_NANNY].revents, now);
	if (sidecar->nanny_view.reads != sidecar->configured) {
		sidecar->configured = sidecar->nanny_view.reads;
		server_checks_configure(&sidecar->checks, sidecar->nanny_view.config, now);
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
		int timeout =
		    poll_timeout_ms(next_deadline(sidecar), http_timeout_ms(sidecar->http));
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
		for (size_t i = 0; i < sidecar->probe_count; i++)
			set(&slots[i], sidecar->exchanges[i].fd, sidecar->exchanges[i].events);
		if (poll(slots, sidecar->probe_count,
			poll_timeout_ms(probes_deadline(sidecar), -1)) < 0)
			continue;
		int64_t now = clock_mono_ns();
		for (size_t i = 0; i < sidecar->probe_count; i++) {
			struct probe *probe = &sidecar->probes[i];

			if (probe->asked)
				continue;
			run_probe(probe, &sidecar->exchanges[i], slots[i].revents, now);
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

/* By how much the wall clock is off what it was at the start, in seconds: set, not slewed. */
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
