/*
 * The journal of changes: causes of trouble that started and ended, probes that failed and recovered, new configurations, restarts. The
 * journal keeps the newest JOURNAL_MAX events of the last day in memory. With --journal, the sidecar also writes the events to a file,
 * which the next sidecar process reads (journal_file.h). The journal contains no address, because every HTTP client may read it.
 */
#ifndef SIDECAR_PAGE_JOURNAL_H
#define SIDECAR_PAGE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "sidecar/options.h"
#include "sidecar/verdict/verdict.h"

struct view;

enum {
	JOURNAL_MAX = 128,
	JOURNAL_TEXT_MAX = 160,
	JOURNAL_S = 86400,
	JOURNAL_INTERVAL_MS = 1000, /* interval between looks */
	/* Time after the start by which the sidecar has found every cause that holds. */
	JOURNAL_SETTLE_S = 15,
};

struct journal_event {
	double wall_s;
	enum level level;
	char text[JOURNAL_TEXT_MAX];
};

struct journal {
	struct journal_event events[JOURNAL_MAX]; /* a ring */
	size_t count, next;
	bool kept;               /* the events are also in a file (--journal) */
	bool save_failing;       /* the newest write failed */
	uint64_t changes, saved; /* number of changes now, and at the last write */
	/* The state at the last look. */
	bool looked;
	bool holds[VERDICT_CAUSES];
	bool restored[VERDICT_CAUSES]; /* causes that were read from the file and not found since */
	double began_s[VERDICT_CAUSES];
	/* text of the last event of VERDICT_SERVER while this cause holds */
	char servers[JOURNAL_TEXT_MAX];
	bool failing[PROBES_MAX];
	char hash[40]; /* hash of the newest configuration that dnsmasq has confirmed */
	double kubedns_start_s;
	uint64_t dnsmasq_restarts;
};

/* Adds an event for each change since the last look. The first look only adds causes of trouble. */
void journal_look(struct journal *journal, const struct view *view);

/* Copies a text. A text that is too long is truncated between two UTF-8 characters, so that the file can contain it unchanged. */
void journal_copy(char *to, size_t size, const char *text);

/* Adds an event. If the ring is full, it replaces the oldest one. */
void journal_put(struct journal *journal, const struct journal_event *event);

/* Returns the `i`th event, newest first. Returns NULL after the last event, or if the event is more than a day old at `now_s`. */
const struct journal_event *journal_get(const struct journal *journal, size_t i, double now_s);

#endif
