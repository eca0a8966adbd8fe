/*
 * The ConfigMap key stubDomains. From an accepted value, the nanny must make a servers file that
 * dnsmasq or unbound reads as intended. Each line has one domain or one address, and no bytes with a
 * special meaning. A refused value must have a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/conf_closed.h"
#include "nanny/dnsmasq/servers_plan.h"
#include "nanny/unbound/conf.h"

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

/* unbound: each line is a clause, a quoted name or an address. */
static void
check_zones(const struct domain_table *wanted, const struct domain_table *fixed)
{
	static const char *const lines[] = { "server:\n", "forward-zone:\n", "\tname: \"",
		"\tforward-addr: ", "\tlocal-zone: \"", "\ttcp-auth-query-timeout: 700\n",
		"\tunknown-server-time-limit: 20\n" };
	enum { LINES = sizeof lines / sizeof *lines };
	size_t merged, len;
	struct servers_file file = unbound_plan(wanted, fixed, &merged);
	char *text = unbound_servers_render(&file,
	    &(struct unbound_servers_conf){
		.nobody.addr.family = AF_INET, .generation = SERVERS_GENERATION_MIN, .port = 1 },
	    &len);

	if (strlen(text) != len || merged != 0)
		abort();
	for (char *at = text; *at != '\0';) {
		size_t known = 0, line = strcspn(at, "\n") + 1;

		while (known < LINES && strncmp(at, lines[known], strlen(lines[known])) != 0)
			known++;
		if (known == LINES)
			abort();
		at += strlen(lines[known]);
		size_t left = line - strlen(lines[known]);
		if (known == 4 &&
		    strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strcspn(at, "\""))
			abort();
		if (known == 2 && (left < 3 || strcspn(at, "\"\\#\t ") != left - 2))
			abort();
		if (known == 3 && strspn(at, "0123456789abcdef:.@") != left - 1)
			abort();
		at += left;
	}
	free(text);
	servers_free(&file);
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
	size_t len;
	struct servers_file file = servers_plan(&input);
	char *text = servers_render(&file, SERVERS_GENERATION_MIN, 1, &len);
	check_text(text, len);
	free(text);
	check_zones(&wanted, &fixed);
	servers_free(&file);
	domain_table_free(&wanted);
}

/* A closed value either closes everything or has closed, valid domains. */
static void
check_closed(const char *text, size_t len)
{
	char name[CONF_HOST_MAX];
	struct conf_stubs stubs;
	const char *why;

	if (!conf_stubs_close(text, len, &stubs))
		return;
	if (stubs.closed_all != (stubs.count == 0))
		abort();
	for (size_t i = 0; i < stubs.count; i++)
		if (!stubs.items[i].closed ||
		    conf_name_parse(stubs.items[i].domain, name, &why) < 0)
			abort();
	free(conf_stubs_closed_names(&stubs));
	conf_stubs_free(&stubs);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct conf_stubs none = { 0 };
	struct conf_stubs stubs;
	char *why;

	check_closed((const char *)data, size);
	if (conf_stubs_parse((const char *)data, size, "cluster.local.", &stubs, &why) < 0) {
		if (why == NULL || stubs.count)
			abort();
		free(why);
		return 0;
	}
	for (size_t i = 0; i < stubs.count; i++)
		if (conf_stub_reserved(stubs.items[i].domain, "cluster.local") != NULL ||
		    (i > 0 && strcmp(stubs.items[i - 1].domain, stubs.items[i].domain) >= 0) ||
		    (stubs.items[i].refused && why == NULL))
			abort();
	free(why);
	conf_stubs_settle(&stubs, &none);
	for (size_t i = 0; i < stubs.count; i++)
		if (stubs.items[i].closed != (stubs.items[i].refused && stubs.items[i].count == 0))
			abort();
	check_file(&stubs);
	conf_stubs_free(&stubs);
	return 0;
}
