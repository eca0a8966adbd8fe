/*
 * The journal of changes, in the order in which they were seen: causes of trouble that began and
 * ended, probes that failed and recovered, configurations, restarts. It has the newest JOURNAL_MAX
 * of the last day, in memory, and with --journal in a file with which the next process continues
 * (journal_file.h). It contains no address, since every peer may read it.
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
	JOURNAL_INTERVAL_MS = 1000, /* between looks */
	JOURNAL_SETTLE_S = 15,      /* after the start; then every cause that holds has been seen */
};

struct journal_event {
	double wall_s;
	enum level level;
	char text[JOURNAL_TEXT_MAX];
};

struct journal {
	struct journal_event events[JOURNAL_MAX]; /* a ring */
	size_t count, next;
	bool kept;               /* in a file */
	bool save_failing;       /* the newest attempt to write it */
	uint64_t changes, saved; /* of anything in here; as it was when the file was written */
	/* As last seen. */
	bool looked;
	bool holds[VERDICT_CAUSES];
	bool restored[VERDICT_CAUSES]; /* from the file, and not seen since */
	double began_s[VERDICT_CAUSES];
	char servers[JOURNAL_TEXT_MAX]; /* what was told last of VERDICT_SERVER, while it holds */
	bool failing[PROBES_MAX];
	char hash[40]; /* of the configuration that dnsmasq has confirmed */
	double kubedns_start_s;
	uint64_t dnsmasq_restarts;
};

/* Notes what has changed since the last look; at the first look only trouble is noted. */
void journal_look(struct journal *journal, const struct view *view);

/* Copies as much of a text as fits and is whole UTF-8 characters, so that the file gives back what was put in. */
void journal_copy(char *to, size_t size, const char *text);

/* Adds an event, which takes the oldest's place when there is no more room. */
void journal_put(struct journal *journal, const struct journal_event *event);

/* The `i`th event from the newest that is not older than a day at `now_s`; NULL past the last. */
const struct journal_event *journal_get(const struct journal *journal, size_t i, double now_s);

#endif
