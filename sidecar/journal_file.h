/*
 * The journal's file, so that what changed is not forgotten when the sidecar is started again:
 *
 *	{"events": [{"at": 1763800000.0, "level": "degraded", "what": "kubedns is not running"}],
 *	 "holds": {"kubedns": 1763800000.0}, "failing": ["kubedns"],
 *	 "hash": "1f3a", "kubednsStart": 1763790000.0}
 *
 * Events are oldest first; the rest is what the next look is compared with. Written aside and
 * renamed, whole, after each look that found something: 128 events, some 20 KB. What is read back
 * is anybody's bytes: what is not understood is left out, and a file that is none is said once.
 */
#ifndef SIDECAR_JOURNAL_FILE_H
#define SIDECAR_JOURNAL_FILE_H

#include <stddef.h>

#include "sidecar/journal.h"

enum { JOURNAL_FILE_MAX = 256 * 1024 };

/* The file's text; its length in `len`; caller frees. */
char *journal_text(const struct journal *journal, const struct view *view, size_t *len);

/* Takes over what `text` tells, for a journal that has not looked yet; 0, or -EBADMSG when it is no
 * JSON object. Events that are not of the last day at view->now_s are left out. */
int journal_read(struct journal *journal, const struct view *view, const char *text, size_t len);

/* Reads the file at the start; one that is not there yet is no mistake. What else goes wrong is
 * logged, and the journal begins empty. */
void journal_load(struct journal *journal, const struct view *view, const char *path);

/* Writes the file if something changed since it was written last. A failure is logged once, until
 * it works again. */
void journal_save(struct journal *journal, const struct view *view, const char *path);

#endif
