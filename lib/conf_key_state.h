/*
 * The state of one key of a configuration: whether its present content is in force or was refused,
 * and why. A refused key keeps its last good value, which is the caller's; each content is reported
 * once, and so is the first good one after it.
 */
#ifndef LIB_CONF_KEY_STATE_H
#define LIB_CONF_KEY_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conf_key {
	bool present;
	bool had_good;       /* a content is in force: the present one, or the last good one */
	char *error;         /* why the present content is not in force; NULL: it is */
	int64_t error_since; /* Unix time, seconds */
	uint64_t refused;    /* contents refused since the start */
	uint64_t hash;       /* of the content last judged, and of its error */
};

/*
 * Takes the verdict on a content of `len` bytes (`text` NULL: the key is absent): `error` (taken)
 * or NULL. A new one is logged as "conf SUBJECT: NAME: ERROR; keeping previous", or "...; ignored,
 * as there is no good value before it".
 */
void conf_key_judge(struct conf_key *key, const char *subject, const char *name, const char *text,
    size_t len, char *error);

void conf_key_clear(struct conf_key *key);

#endif
