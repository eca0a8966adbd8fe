/* The journal's file. For any content, the page's document must be valid UTF-8. The journal must be
 * the same after it is written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"
#include "lib/xalloc.h"
#include "sidecar/page/journal_file.h"
#include "sidecar/page/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dnsmasq_stats cache;
	static struct server_checks checks;
	static struct journal journal, again;
	struct view view = { .now_s = 1.7e9,
		.host = "pod",
		.metrics_path = "/metrics",
		.cache = &cache,
		.checks = &checks,
		.journal = &journal };
	char *text = xstrndup((const char *)data, size);
	size_t len, len_again;

	journal = again = (struct journal){ 0 };
	if (journal_read(&journal, &view, text, strlen(text)) == 0) {
		char *json = status_json(&view, &len);

		if (strlen(json) != len || utf8_whole(json, len) != len)
			abort();
		free(json);
		char *written = journal_text(&journal, &view, &len);
		if (len >= JOURNAL_FILE_MAX || journal_read(&again, &view, written, len) < 0)
			abort();
		char *rewritten = journal_text(&again, &view, &len_again);
		if (len != len_again || memcmp(written, rewritten, len) != 0)
			abort();
		free(written);
		free(rewritten);
	}
	free(text);
	return 0;
}
