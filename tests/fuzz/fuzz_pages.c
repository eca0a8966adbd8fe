/*
 * Pages of the other containers: the head of a response, kubedns's metrics, the nanny's
 * configuration. For any content, /status.json must be valid JSON in valid UTF-8, and the sidecar
 * must be able to write /status.txt.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/clock.h"
#include "lib/utf8.h"
#include "lib/xalloc.h"
#include "sidecar/page/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dnsmasq_stats cache;
	static struct server_checks checks;
	struct fetch_head head;
	struct kubedns_view kubedns = { .seen = true, .up = true };
	struct nanny_view nanny = { .seen = true, .up = true };
	struct view view = { .now_s = 1.7e9,
		.host = "pod",
		.metrics_path = "/metrics",
		.cache = &cache,
		.checks = &checks,
		.kubedns = &kubedns,
		.nanny = &nanny,
		.may_ask = true };
	char *text = xstrndup((const char *)data, size);
	size_t len, text_len = strlen(text);

	if (fetch_head_read(&head, text, text_len) == HEAD_OK && head.body > text_len)
		abort();
	kubedns_read_readiness(&kubedns, 503, text, text_len);
	for (int64_t at_s = 1; at_s < 8; at_s += 3)
		kubedns_read_top(&kubedns, text, text_len, at_s * NS_PER_S);
	kubedns_read_neighbours(&kubedns, text, text_len);
	kubedns_read_metrics(&kubedns, text, text_len, 0);
	if (nanny_view_read(&nanny, text, text_len) < 0)
		nanny.seen = nanny.up = false;
	else
		server_checks_configure(&checks, nanny.config, 0);
	for (size_t i = 0; i < checks.count; i++) {
		checks.items[i]->failures = CHECK_FAILURES;
		checks.items[i]->cause = CAUSE_TIMEOUT;
	}
	char *json = status_json(&view, &len);
	struct json_object *parsed = json_tokener_parse(json);
	if (strlen(json) != len || parsed == NULL || utf8_whole(json, len) != len)
		abort();
	json_object_put(parsed);
	free(json);
	char *plain = status_text(&view, &len);
	if (strlen(plain) != len || utf8_whole(plain, len) != len || strchr(plain, '\x1b') != NULL)
		abort();
	free(plain);
	server_checks_close(&checks);
	nanny_view_free(&nanny);
	free(text);
	return 0;
}
