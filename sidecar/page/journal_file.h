/*
 * The journal's file, by which the journal survives a restart of the sidecar:
 *
 *	{"events": [{"at": 1763800000.0, "level": "degraded", "what": "kubedns is not running"}],
 *	 "holds": {"kubedns": 1763800000.0}, "failing": ["kubedns"],
 *	 "hash": "1f3a", "kubednsStart": 1763790000.0}
 *
 * Events are oldest first; the rest is what the next look is compared with. The whole file (128
 * events, some 20 KB) is written aside and renamed after each look that found something. It is read
 * as untrusted input: unknown parts are left out, and an invalid file is logged once.
 */
#ifndef SIDECAR_PAGE_JOURNAL_FILE_H
#define SIDECAR_PAGE_JOURNAL_FILE_H

#include <stddef.h>

#include "sidecar/page/journal.h"

enum { JOURNAL_FILE_MAX = 256 * 1024 };

/* The file's text; its length in `len`; caller frees. */
char *journal_text(const struct journal *journal, const struct view *view, size_t *len);

/* Restores a journal that has not looked yet from `text`; 0, or -EBADMSG when that is no JSON
 * object. Events that are not of the last day at view->now_s are left out. */
int journal_read(struct journal *journal, const struct view *view, const char *text, size_t len);

/* Reads the file at the start. A missing file is no error; after any other one, which is logged,
 * the journal begins empty. */
void journal_load(struct journal *journal, const struct view *view, const char *path);

/* Writes the file if something changed since it was written last. A failure is logged once, until
 * it works again. */
void journal_save(struct journal *journal, const struct view *view, const char *path);

#endif
