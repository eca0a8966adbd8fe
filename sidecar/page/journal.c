#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/utf8.h"
#include "sidecar/page/journal.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"
#include "sidecar/view.h"

static void add_event(struct journal *journal, const struct view *view, enum level level,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

void
journal_copy(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text);
	to[utf8_whole(to, strlen(to))] = '\0';
}

void
journal_put(struct journal *journal, const struct journal_event *event)
{
	journal->events[journal->next] = *event;
	journal->next = (journal->next + 1) % JOURNAL_MAX;
	if (journal->count < JOURNAL_MAX)
		journal->count++;
	journal->changes++;
}

static void
add_event(struct journal *journal, const struct view *view, enum level level, const char *fmt, ...)
{
	struct journal_event event = { .wall_s = view->now_s, .level = level };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(event.text, sizeof event.text, fmt, ap);
	va_end(ap);
	journal_put(journal, &event);
}

const struct journal_event *
journal_get(const struct journal *journal, size_t i, double now_s)
{
	if (i >= journal->count)
		return NULL;
	const struct journal_event *event =
	    &journal->events[(journal->next + JOURNAL_MAX - 1 - i) % JOURNAL_MAX];
	return now_s - event->wall_s <= JOURNAL_S ? event : NULL;
}

/* Whether this is the first finding about a server. Each change of this finding is an event, because one failing server of two differs from
 * two failing servers. */
static bool
is_first_of_servers(const struct verdict *verdict, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (verdict->findings[k].cause == VERDICT_SERVER)
			return false;
	return verdict->findings[i].cause == VERDICT_SERVER;
}

static void
look_at_causes(struct journal *journal, const struct view *view, const struct verdict *verdict)
{
	char text[FORMAT_MAX];

	for (size_t i = 0; i < verdict->count; i++) {
		const struct finding *finding = &verdict->findings[i];
		enum verdict_cause cause = finding->cause;

		if (cause == VERDICT_CAUSES || finding->past)
			continue;
		const char *what = finding->brief[0] != '\0' ? finding->brief : finding->what;
		bool changed = is_first_of_servers(verdict, i) && journal->servers[0] != '\0' &&
			       strncmp(journal->servers, what, sizeof journal->servers - 1) != 0;
		if (is_first_of_servers(verdict, i))
			snprintf(journal->servers, sizeof journal->servers, "%s", what);
		journal->restored[cause] = false;
		if (journal->holds[cause] && !changed)
			continue;
		if (!journal->holds[cause])
			journal->began_s[cause] = view->now_s;
		journal->holds[cause] = true;
		add_event(journal, view, finding->level, "%s", what);
	}
	bool dead = verdict->holds[VERDICT_DNSMASQ] || verdict->holds[VERDICT_KUBEDNS];
	for (int cause = 0; cause < VERDICT_CAUSES; cause++) {
		if (!journal->holds[cause] || verdict->holds[cause])
			continue;
		/* While dnsmasq or kubedns is dead, causes that it reported last may still hold, so they are not over. */
		if (dead && cause != VERDICT_DNSMASQ && cause != VERDICT_KUBEDNS)
			continue;
		/* The previous sidecar process found this cause. The cause can be over only after this process has had enough time to find
		 * it. */
		if (journal->restored[cause] &&
		    view->now_ns - view->started_ns < JOURNAL_SETTLE_S * NS_PER_S)
			continue;
		journal->holds[cause] = journal->restored[cause] = false;
		if (cause == VERDICT_SERVER)
			journal->servers[0] = '\0';
		add_event(journal, view, LEVEL_WELL, "%s: recovered after %s",
		    verdict_cause_name((enum verdict_cause)cause),
		    format_duration(view->now_s - journal->began_s[cause], text));
	}
}

static void
look_at_probes(struct journal *journal, const struct view *view)
{
	for (size_t i = 0; i < view->probe_count && i < PROBES_MAX; i++) {
		const struct probe *probe = &view->probes[i];
		bool failing = !cause_is_alive(probe->cause);

		if (!probe->asked || failing == journal->failing[i])
			continue;
		journal->failing[i] = failing;
		add_event(journal, view, failing ? LEVEL_DEGRADED : LEVEL_WELL, "probe %s: %s",
		    probe->spec.label, failing ? probe->error : "answered again");
	}
}

/* Adds restarts and new configurations. The first look adds none, because there is no earlier state to compare with. */
static void
look_at_changes(struct journal *journal, const struct view *view)
{
	if (view->nanny != NULL && view->nanny->up) {
		char hash[sizeof journal->hash];

		journal_copy(
		    hash, sizeof hash, config_string(view->nanny->config, "confirmedHash"));
		if (journal->hash[0] != '\0' && hash[0] != '\0' && strcmp(journal->hash, hash) != 0)
			add_event(
			    journal, view, LEVEL_NOTE, "dnsmasq has configuration %.16s", hash);
		if (hash[0] != '\0' && strcmp(journal->hash, hash) != 0) {
			memcpy(journal->hash, hash, sizeof hash);
			journal->changes++;
		}
	}
	if (view->kubedns != NULL && view->kubedns->up) {
		double start_s = view->kubedns->start_s, before_s = journal->kubedns_start_s;

		if (before_s > 0 && (start_s > before_s + 1 || start_s < before_s - 1))
			add_event(journal, view, LEVEL_NOTE, "kubedns restarted");
		journal->changes += start_s > before_s || start_s < before_s;
		journal->kubedns_start_s = start_s;
	}
	if (view->cache->restarts > journal->dnsmasq_restarts)
		add_event(journal, view, LEVEL_NOTE, "dnsmasq restarted");
	journal->dnsmasq_restarts = view->cache->restarts;
}

void
journal_look(struct journal *journal, const struct view *view)
{
	struct view public = *view;
	struct verdict verdict;

	public.may_ask = false; /* findings then contain no addresses */
	verdict_make(&verdict, &public);
	if (!journal->looked)
		add_event(journal, view, LEVEL_NOTE, "the sidecar %s",
		    journal->count > 0 ? "restarted" : "started");
	journal->looked = true;
	look_at_changes(journal, view);
	look_at_causes(journal, view, &verdict);
	look_at_probes(journal, view);
}
