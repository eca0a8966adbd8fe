/*
 * The journal's file, so that the journal survives a restart of the sidecar:
 *
 *	{"events": [{"at": 1763800000.0, "level": "degraded", "what": "kubedns is not running"}],
 *	 "holds": {"kubedns": 1763800000.0}, "failing": ["kubedns"],
 *	 "hash": "1f3a", "kubednsStart": 1763790000.0}
 *
 * Events are oldest first. The other members are the state with which the next look is compared. If a look adds an event or changes the
 * state, the sidecar writes the file under another name and renames it. The file has at most 128 events, about 20 KB. The file is untrusted
 * input: unknown members are ignored, and an invalid file is logged once.
 */
#ifndef SIDECAR_PAGE_JOURNAL_FILE_H
#define SIDECAR_PAGE_JOURNAL_FILE_H

#include <stddef.h>

#include "sidecar/page/journal.h"

enum { JOURNAL_FILE_MAX = 256 * 1024 };

/* Returns the text of the file, and sets `len` to its length. Caller frees. */
char *journal_text(const struct journal *journal, const struct view *view, size_t *len);

/* Restores a new journal from `text`. Ignores events that are more than a day before or after view->now_s. Returns 0, or -EBADMSG if `text`
 * is not a JSON object. */
int journal_read(struct journal *journal, const struct view *view, const char *text, size_t len);

/* Reads the file at the start. A missing file is not an error. Any other error is logged, and the journal is then empty. */
void journal_load(struct journal *journal, const struct view *view, const char *path);

/* Writes the file if the journal changed since the last write. A failure is logged once, until a write succeeds again. */
void journal_save(struct journal *journal, const struct view *view, const char *path);

#endif
