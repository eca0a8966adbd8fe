#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/conf_key_state.h"
#include "lib/hash.h"
#include "lib/log.h"

void
conf_key_judge(struct conf_key *key, const char *subject, const char *name, const char *text,
    size_t len, char *error)
{
	uint64_t hash = text ? hash64(HASH_START, text, len) : 0;
	if (error)
		hash = hash64(hash, error, strlen(error));
	bool news = hash != key->hash || (error == NULL) != (key->error == NULL);
	if (error && news) {
		log_errorx("conf %s: %s: %s; %s", subject, name, error,
		    key->had_good ? "keeping previous"
				  : "ignored, as there is no good value before it");
		key->refused++;
		key->error_since = time(NULL);
	} else if (!error && key->error) {
		log_info("conf %s: %s: good again", subject, name);
	}
	if (error == NULL)
		key->had_good = text != NULL;
	key->present = text != NULL;
	key->hash = hash;
	free(key->error);
	key->error = error;
}

void
conf_key_clear(struct conf_key *key)
{
	free(key->error);
	*key = (struct conf_key){ 0 };
}
