/*
 * Pages of the other containers: the head of a response, kubedns's metrics, the nanny's
 * configuration. What is made of them goes into the page, where no markup of theirs may survive.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/xalloc.h"
#include "sidecar/page/page.h"
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
	for (size_t i = 0; i < checks.count; i++)
		checks.items[i]->failures = CHECK_FAILURES;
	view.ask_text = text;
	char *page = page_html(&view, &len);
	if (strlen(page) != len || strstr(page, "<x") != NULL || strstr(page, "<script>") != NULL)
		abort();
	free(page);
	free(status_json(&view, &len));
	server_checks_close(&checks);
	nanny_view_free(&nanny);
	free(text);
	return 0;
}
