/* The file of --transfer-key. The parser must return keys within the limits, or a reason of one
 * line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/modules/transfer/tsig_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[TSIG_FILE_MAX + 1];
	static struct tsig_keys keys;
	char why[TSIG_WHY_MAX] = "";

	if (size > TSIG_FILE_MAX)
		return 0;
	memcpy(text, data, size);
	if (tsig_keys_parse(&keys, text, size, why) < 0) {
		if (*why == '\0')
			abort();
		return 0;
	}
	if (keys.count == 0 || keys.count > TSIG_KEYS_MAX)
		abort();
	for (size_t i = 0; i < keys.count; i++)
		if (keys.items[i].key.secret_len < TSIG_SECRET_MIN ||
		    keys.items[i].key.secret_len > TSIG_SECRET_MAX ||
		    keys.items[i].notify_count > TSIG_KEY_NOTIFY_MAX ||
		    dname_length(keys.items[i].key.name.wire, DNAME_MAX) !=
			keys.items[i].key.name.len)
			abort();
	return 0;
}
