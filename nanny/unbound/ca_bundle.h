/*
 * The CA certificates of tls:// servers. The nanny copies their file into the run directory, under a name
 * with the hash of its certificates, because unbound reads the file again only if its name changes. The same
 * certificates in another order are no change.
 *
 *	FILE of -upstream-ca --> copy --> unbound starts with it? --yes--> the copy is in force
 *	                                                          --no---> the former copy stays in force
 *
 * unbound refuses a whole file because of one damaged certificate. It then ends, or it refuses every other
 * change of its configuration too. So an unbound of its own, which serves no client, starts with each new
 * content first.
 */
#ifndef NANNY_UNBOUND_CA_BUNDLE_H
#define NANNY_UNBOUND_CA_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/conf_keys.h"

#define CA_BUNDLE_KEY "upstream-ca" /* the name of `key` in messages, metrics and /config */

struct ca_bundle {
	const char *source, *exec; /* the file, and the program unbound */
	int check_ms;              /* longest time of a check; the nanny waits for its end */
	const char *dir;           /* the run directory; NULL: nothing is copied, for --check */
	char *path;                /* the copy in force; NULL: there is none */
	char *former;              /* the copy before it, until unbound has confirmed the change */
	uint64_t hash;             /* hash of its certificates; 0: there is none */
	uint64_t judged;           /* hash of the content that was judged last */
	/* After a check that did not end in time: the content's hash, the earliest time of its next
	 * check, and the pause before it (CLOCK_MONOTONIC). */
	uint64_t unchecked;
	int64_t again_ms, pause_ms;
	struct conf_key key; /* whether the newest content was refused, and why */
};

/* Removes copies that a killed nanny has left in this directory. */
void ca_bundle_sweep(const char *dir);

/* Reads the file. Checks a new content, for at most `check_ms`. Puts it in force, or logs why it is refused.
 * A content whose check did not end in time is checked again after a minute, and later after longer
 * pauses. Returns true if another copy is in force than before. */
bool ca_bundle_take(struct ca_bundle *bundle);

/* Call it when unbound uses the copy in force. Removes the former copy. */
void ca_bundle_confirmed(struct ca_bundle *bundle);

/* Frees the members, and removes the copies. */
void ca_bundle_clear(struct ca_bundle *bundle);

#endif
