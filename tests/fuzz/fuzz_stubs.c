/*
 * stubDomains: what is accepted must give a servers file that dnsmasq reads as it was meant:
 * one domain and one address a line, no byte with a meaning of its own in it; what is refused must
 * have a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "nanny/servers/servers_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_text(const char *text, size_t len)
{
	size_t line = 0;

	if (strlen(text) != len || (len && text[len - 1] != '\n'))
		abort();
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n') {
			line = 0;
			continue;
		}
		line++;
		if (line >= 1024 ||
		    strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.:/#=", text[i]) == NULL)
			abort();
		if (line == 7 && strncmp(text + i - 6, "server=", 7) != 0)
			abort();
	}
}

static void
check_file(const struct conf_stubs *stubs)
{
	static const struct servers_file nothing;
	struct domain_table wanted = { 0 }, fixed = { 0 };

	for (size_t i = 0; i < stubs->count; i++)
		for (size_t k = 0; k < stubs->items[i].count; k++)
			if (!stubs->items[i].servers[k].host[0])
				domain_servers_add_server(
				    domain_table_add(&wanted, stubs->items[i].domain),
				    &stubs->items[i].servers[k].server);
	struct servers_input input = { .wanted = &wanted,
		.fixed = &fixed,
		.before = &nothing,
		.nobody.addr.family = AF_INET,
		.now = 1 };
	size_t dropped, len;
	struct servers_file file = servers_plan(&input, &dropped);
	char *text = servers_render(&file, SERVERS_GENERATION_MIN, 1, &len);
	check_text(text, len);
	free(text);
	servers_free(&file);
	domain_table_free(&wanted);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_stubs stubs;
	char *why;

	if (conf_stubs_parse((const char *)data, size, "cluster.local.", &stubs, &why) < 0) {
		if (why == NULL || stubs.count)
			abort();
		free(why);
		return 0;
	}
	for (size_t i = 0; i < stubs.count; i++)
		if (conf_name_under(stubs.items[i].domain, "svc.cluster.local") ||
		    strcmp(stubs.items[i].domain, "cluster.local") == 0)
			abort();
	check_file(&stubs);
	conf_stubs_free(&stubs);
	return 0;
}
